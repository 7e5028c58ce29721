"""Libraries on tensors: python -m tests.libraries WHAT, where WHAT says what is run; `--help` has the list.

python -m tests.libraries tests [-k NAMES]      # scikit-learn's tests, with jmars.array_api as the only namespace
python -m tests.libraries table                 # the tables of docs/reference/libraries.md
python -m tests.libraries estimators [NAME ...] --gigabytes 8 --limit 2GiB
python -m tests.libraries scipy [MODULE ...]    # SciPy's tests, beside those on Dask's arrays
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from jmars.units import parse_bytes
from tests.libraries.estimators import ESTIMATORS, run_estimators, run_one
from tests.libraries.scipy_suite import LIBRARIES, MODULES, run_module, run_suite
from tests.libraries.sklearn_tests import run_tests
from tests.libraries.table import print_table


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="what", required=True)
    part = parts.add_parser("tests", help="scikit-learn's array API tests")
    part.add_argument("-k", dest="names", default="", help="only tests with such names, as pytest's -k")
    parts.add_parser("table", help="what comes into this process, in Markdown")
    part = parts.add_parser("estimators", help="estimators on tensors larger than the memory limit")
    part.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ESTIMATORS))
    part.add_argument("--gigabytes", type=float, default=8)
    part.add_argument("--limit", type=parse_bytes, default=2**31, help="memory limit of the cluster, as 2GiB")
    part.add_argument("--file", action="store_true", help="read the table from a .npy file")
    part.add_argument("--folder", default=tempfile.gettempdir(), help="where the file and spilled chunks lie")
    part.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    part = parts.add_parser("scipy", help="SciPy's array API tests, beside those on Dask's arrays")
    part.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(MODULES))
    part.add_argument("-k", dest="names", default="", help="only tests with such names, as pytest's -k")
    part.add_argument("--minutes", type=float, default=15, help="that a module may take")
    part.add_argument("--seconds", type=float, default=60, help="that a test may take")
    part.add_argument("--on", choices=LIBRARIES, help="only on arrays of this library")
    part.add_argument("--log", help="a file for pytest's own output")
    part.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.what == "scipy":
        if given.into is not None:
            return run_module(given.on, given.modules[0], given.names, given.seconds, given.into)
        return run_suite(given)
    if given.what == "tests":
        return run_tests(given.names)
    if given.what == "table":
        return print_table()
    return run_one(given) if given.one else run_estimators(given)


if __name__ == "__main__":
    sys.exit(main())
