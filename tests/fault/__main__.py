"""`python -m tests.fault --full [--rows 1,6] [--seed N]`: each row as often as the matrix says, at random points.

Prints what each row took beside its limit; a failing test's seed is in its name, and the same seed with `--rows` runs
it again. The exit status is pytest's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from tests.fault.rows import REPEATS, Full


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser("python -m tests.fault", description=__doc__)
    parser.add_argument("--full", action="store_true", help="repeat each row as often as the matrix says")
    parser.add_argument("--rows", default="", help="numbers of rows, such as 1,6; all by default")
    parser.add_argument("--seed", type=int, default=1, help="the first seed of each row")
    chosen = parser.parse_args()
    if not chosen.full:
        parser.error("say --full")
    rows = [int(row) for row in chosen.rows.split(",") if row]
    unknown = [row for row in rows if row not in REPEATS]
    if unknown:
        parser.error(f"there are no rows {unknown}; there are {sorted(REPEATS)}")
    only = " or ".join(f"test_row_{row:02}_" for row in rows)
    command = [str(Path(__file__).parent), "-q", "-p", "no:cacheprovider", *(["-k", only] if only else [])]
    return int(pytest.main(command, plugins=[Full(chosen.seed)]))


if __name__ == "__main__":
    sys.exit(main())
