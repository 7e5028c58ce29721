"""`python -m tests.sim --seeds N --from M --hosts K`: simulate runs; the first that breaks a promise is shown."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback

from tests.sim.hosts import run_hosts
from tests.sim.world import Failed, run


def main() -> int:
    """Run the seeds; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--hosts", type=int, default=1, help="how many hosts; one without network by default")
    parser.add_argument("--all", action="store_true", help="go on behind a failure, and count")
    parser.add_argument("--each", action="store_true", help="say how each went")
    asked = parser.parse_args()
    fetched = 0
    logging.disable()  # what goes wrong is meant to
    began, failed, virtual, steps, operands, spilled = time.perf_counter(), [], 0.0, 0, 0, 0
    for seed in range(asked.first, asked.first + asked.seeds):
        try:
            report = run(seed) if asked.hosts == 1 else run_hosts(seed, asked.hosts)
        except Failed as error:
            failed.append(seed)
            if asked.all:
                print(str(error).splitlines()[0])
                continue
            if error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            print(error)
            return 1
        if asked.each:
            print(report)
        fetched += bool(report.fetched)
        virtual, steps = virtual + report.seconds, steps + report.steps
        operands, spilled = operands + report.operands, spilled + bool(report.spilled)
    took = time.perf_counter() - began
    print(
        f"{asked.seeds} runs in {took:.1f} s, {len(failed)} broke a promise; {virtual:.0f} virtual seconds, "
        f"{steps} events, {operands} operands, {spilled} runs spilled, "
        f"{fetched} read from other hosts"
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
