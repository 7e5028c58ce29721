"""The public test suite of the array API standard, run on jmars and on NumPy under array-api-compat, side by side.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests
    python -m tests.array_api_suite array-api-tests [--examples N] [-k NAMES]

Prints what fails on jmars alone, what on both and what on NumPy alone; exits with 1 if something fails on jmars alone.
The suite is no package of an index, so this is no test of the everyday run; it needs `pip install array-api-compat
pytest-json-report ndindex pytest hypothesis` beside jmars. A cluster starts for it as for any user.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def failures(suite: Path, module: str, examples: int, names: str) -> set[str]:
    """Names of the suite's tests that fail on `module`."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--disable-deadline"]
        command += [f"--max-examples={examples}", "--json-report", f"--json-report-file={report.name}"]
        command += [*(["-k", names] if names else []), "array_api_tests"]
        env = {**os.environ, "ARRAY_API_TESTS_MODULE": module, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=suite, env=env, stdout=sys.stderr)
        found = json.loads(Path(report.name).read_text())
    print(f"{module}: {found['summary']}")
    return {test["nodeid"] for test in found["tests"] if test["outcome"] in ("failed", "error")}


def main() -> int:
    """Run both and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path, help="a checkout of data-apis/array-api-tests, with its submodule")
    parser.add_argument("--examples", type=int, default=5, help="Hypothesis examples for each test")
    parser.add_argument("-k", dest="names", default="", help="only tests with such names, as pytest's -k")
    given = parser.parse_args()
    ours, theirs = (
        failures(given.suite, module, given.examples, given.names)
        for module in ("jmars.array_api", "array_api_compat.numpy")
    )
    for what, names in (("jmars alone", ours - theirs), ("both", ours & theirs), ("NumPy alone", theirs - ours)):
        print(f"\n{len(names)} fail on {what}")
        for name in sorted(names):
            print("   ", name)
    return bool(ours - theirs)


if __name__ == "__main__":
    sys.exit(main())
