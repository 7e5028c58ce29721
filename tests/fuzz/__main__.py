"""Survey: the shortest statement of each function that differs from NumPy: `python -m tests.fuzz --examples 100`."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time

from jmars.tensor.buffers import SmallValues
from jmars.tensor.engine import set_engine
from jmars.tensor.small_values import small_values
from tests.fuzz import statements, values
from tests.fuzz.comparing import LAST, Tally, differences
from tests.tensor.engine import OneByOne

MEMORY = 8 * 2**30  # bytes of a child's address space


def main() -> None:
    """Print what differs, and counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=100, help="statements of each function")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bytes", type=int, help="per cent of arrays with the other byte order")
    parser.add_argument("--small", type=int, default=0, help="bytes of values that NumPy computes at once, as in cells")
    parser.add_argument("--each", action="store_true", help="print every statement that differs, not the shortest")
    parser.add_argument("names", nargs="*", help="functions, or write, method, expression; all by default")
    args = parser.parse_args()
    if args.bytes is not None:
        values.OTHER_BYTE_ORDER = args.bytes
    if args.small:
        set_small(args.small)
    started = time.perf_counter()
    for name in args.names or (*statements.functions(), *statements.OTHERS):
        sys.stdout.flush()
        if not (child := os.fork()):  # a crash of NumPy or jmars ends the child alone
            survey(name, args.examples * (30 if name in statements.OTHERS else 1), args.seed, args.each)
            sys.stdout.flush()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            print(f"== {name}: the process ended with {status}; its last statement:\n{LAST.read_text()}\n", flush=True)
    print(f"{time.perf_counter() - started:.0f} s")


def set_small(limit: int) -> None:
    """Compute values of at most `limit` bytes at once, for the rest of the process."""
    small_values().__enter__()
    SmallValues.choose(limit)


def survey(name: str, examples: int, seed: int, each: bool) -> None:
    """Try statements of one sort, and print what differs."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    engine, tally = OneByOne(), Tally()
    set_engine(engine)
    found = differences(name, examples, seed, engine, tally)
    for text, difference in found if each else found[:1]:
        print(f"== {name}: {len(found)} of {examples}\n{text}\n   {difference[:600]}\n")
    refused, values = sum(tally.refused.values()), tally.counts["values"]
    print(f"-- {name}: {len(found)} of {examples} differ; {values} values, {refused} refused by jmars alone")


if __name__ == "__main__":
    main()
