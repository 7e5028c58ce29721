"""Faults at length: `--full [--rows 1,6] [--times N] [--seed N]` or `--soak [--minutes 15] [--seed N]`.

`--full` runs each row as often as the matrix says, at random points, and prints what it took beside its limit; a
failing test's seed is in its name, and the same seed with `--rows` runs it again. The exit status is pytest's.
`--full --hosts 2` runs the rows of clusters of several hosts instead: two machines with a cable between them (root).
`--soak` injects random faults beside one client; tests/fault/soak.py says more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from tests.fault.faults import FAULTS
from tests.fault.rows import REPEATS, Full


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser("python -m tests.fault", description=__doc__)
    parser.add_argument("--full", action="store_true", help="repeat each row as often as the matrix says")
    parser.add_argument("--rows", default="", help="numbers of rows, such as 1,6; all by default")
    parser.add_argument("--times", type=int, default=0, help="how often each row; as the matrix says by default")
    parser.add_argument("--hosts", type=int, default=1, choices=(1, 2), help="rows of one host, or of two")
    parser.add_argument("--seed", type=int, default=1, help="the first seed of each row")
    parser.add_argument("--soak", action="store_true", help="random faults beside one client")
    parser.add_argument("--minutes", type=float, default=15.0, help="how long a soak runs")
    parser.add_argument("--only", default="", help="names of faults that a soak draws from, separated by commas")
    parser.add_argument("--without", default="", help="names of faults that it does not draw")
    chosen = parser.parse_args()
    if chosen.soak:
        from tests.fault.soak import soak  # it takes the leak check's parts, which pytest wants to load first itself

        return soak(chosen.minutes, chosen.seed, *map(_names, (chosen.only, chosen.without)))
    if not chosen.full:
        parser.error("say --full or --soak")
    rows = [int(row) for row in chosen.rows.split(",") if row]
    unknown = [row for row in rows if row not in REPEATS]
    if unknown:
        parser.error(f"there are no rows {unknown}; there are {sorted(REPEATS)}")
    only = " or ".join(f"test_row_{row:02}_" for row in rows)
    here = Path(__file__).parent
    several = here / "test_hosts.py"
    where = [str(several)] if chosen.hosts == 2 else [str(here), f"--ignore={several}"]
    command = [*where, "--all", "-q", "-p", "no:cacheprovider", *(["-k", only] if only else [])]
    return int(pytest.main(command, plugins=[Full(chosen.seed, chosen.times)]))


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = set(names) - {fault.name for fault in FAULTS}
    if unknown:
        raise SystemExit(f"there are no faults {sorted(unknown)}; there are: {', '.join(one.name for one in FAULTS)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
