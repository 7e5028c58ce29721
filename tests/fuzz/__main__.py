"""Survey: the shortest statement of each function that differs from NumPy: `python -m tests.fuzz --examples 100`."""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from jmars.tensor.engine import set_engine
from tests.fuzz import statements, values
from tests.fuzz.comparing import Tally, Tried
from tests.fuzz.values import Drawing
from tests.tensor.engine import OneByOne

Statement = Callable[[Drawing, Sequence[str]], str]


LAST = Path(tempfile.gettempdir(), f"jmars-fuzz-{os.getpid()}")  # the statement that runs


def main() -> None:
    """Print what differs, and counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=100, help="statements of each function")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--native", action="store_true", help="only the byte order of this machine")
    parser.add_argument("--each", action="store_true", help="print every statement that differs, not the shortest")
    parser.add_argument("names", nargs="*", help="functions, or write, method, expression; all by default")
    args = parser.parse_args()
    sorts: dict[str, Statement] = {name: partial(_call, name) for name in statements.functions()}
    sorts |= {"write": statements.write, "method": statements.method, "expression": statements.expression}
    if args.native:
        values.OTHER_BYTE_ORDER = 0
    started = time.perf_counter()
    for name in args.names or sorts:
        many = args.examples * (1 if name in statements.functions() else 30)
        sys.stdout.flush()
        if not (child := os.fork()):  # a crash of NumPy or jmars ends the child alone
            survey(name, sorts[name], many, args.seed, args.each)
            sys.stdout.flush()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            print(f"== {name}: the process ended with {status}; its last statement:\n{LAST.read_text()}\n", flush=True)
    print(f"{time.perf_counter() - started:.0f} s")


def survey(name: str, statement: Statement, many: int, seed: int, each: bool) -> None:
    """Try statements of one sort, and print what differs."""
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
    engine, tally, found = OneByOne(), Tally(), []
    set_engine(engine)
    for k in range(many):
        tried = Tried.drawn(
            Drawing(random.Random(f"{seed} {name} {k}").randint), statement, finite=name in statements.OF_FINITE
        )
        LAST.write_text(tried.text)
        try:
            difference = tried.difference(tally)
        except Exception:
            difference = traceback.format_exc()
        if difference:
            found.append((len(tried.text), tried.text, difference))
        engine.chunks.clear()
    for _, text, difference in sorted(found)[: None if each else 1]:
        print(f"== {name}: {len(found)} of {many}\n{text}\n   {difference[:600]}\n")
    refused, values = sum(tally.refused.values()), tally.counts["values"]
    print(f"-- {name}: {len(found)} of {many} differ; {values} values, {refused} refused by jmars alone")
    LAST.unlink()


def _call(name: str, d: Drawing, names: Sequence[str]) -> str:
    return statements.call(d, name, names)


if __name__ == "__main__":
    main()
