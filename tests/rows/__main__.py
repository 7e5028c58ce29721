"""Runs the tries of rows and prints row, verdict and figure; the exit status is 1 if a row fails.

A row that docs/explanation/sources.md calls weaker has the verdict "weaker" where its try runs well.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tests.rows import OPEN, TRIES, dataflow, execution, preparation, schedules
from tests.seeds.rows import ROWS

FILES = (preparation, dataflow, execution, schedules)  # their imports fill TRIES


def verdicts(names: list[str]) -> Iterator[tuple[str, str, str]]:
    """Row, verdict ("yes", "weaker", "no" or "not tried") and figure, or the reason of a "no"."""
    known: dict[Callable[[], Any], tuple[str, str]] = {}
    for name in names:
        attempt = TRIES.get(name)
        if attempt is None:
            yield name, "not tried", ""
            continue
        if attempt not in known:
            try:
                known[attempt] = "yes", str(attempt())
            except Exception as error:  # whatever it is, the row is not met
                known[attempt] = "no", f"{type(error).__name__}: {error}"[:300]
        verdict, figure = known[attempt]
        yield name, "weaker" if verdict == "yes" and ROWS[name].weaker else verdict, figure


def main() -> int:
    """Print the rows and their verdicts; 1 if one is "no"."""
    asked = sys.argv[1:] or list(ROWS)
    counts: dict[str, int] = {}
    with OPEN, contextlib.redirect_stderr(sys.stdout):
        for name, verdict, figure in verdicts(asked):
            counts[verdict] = counts.get(verdict, 0) + 1
            print(f"{name:6} {verdict:9} {ROWS[name].asks[:60]:60} {figure}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return int("no" in counts)


if __name__ == "__main__":
    sys.exit(main())
