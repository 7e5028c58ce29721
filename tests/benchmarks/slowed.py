"""A run of which one executor is slowed while it runs: python -m tests.benchmarks slowed [--check].

The executor is stopped and continued in turn (SIGSTOP, SIGCONT), so that it computes a third of the time. Compared are
runs that keep to their plan and runs that plan what is left anew, in interleaved rounds; values are checked. Goal: with
another plan no slower than without, in the median, and every slowed run planned anew. `--check` fails when missed.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import threading
import time
from typing import Any

import numpy as np

import jmars
import jmars.tensor as mt
from jmars.config import config
from tests.benchmarks.machine import describe, this_machine

PERIOD, SHARE = 0.06, 1 / 3  # seconds; of them that the slowed executor runs
TOLERANCE = 1.05


def work() -> Any:
    """Some thirty independent pieces of about a tenth of a second each, and a sum."""
    x = mt.random.default_rng(0).standard_normal((36, 300_000), chunk_size=(1, 300_000))
    for _ in range(12):
        x = mt.sin(x) + mt.cos(x)
    return x.sum(axis=1)


class Slowed:
    """Stops and continues a process in turn, inside a `with`."""

    def __init__(self, pid: int) -> None:
        self._pid, self._over = pid, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.wait(PERIOD * SHARE):
            os.kill(self._pid, signal.SIGSTOP)
            self._over.wait(PERIOD * (1 - SHARE))
            os.kill(self._pid, signal.SIGCONT)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        os.kill(self._pid, signal.SIGCONT)


def run(cluster: jmars.Cluster, replan: bool) -> tuple[float, int, np.ndarray[Any, Any]]:
    """Seconds, plans made anew, value."""
    with config.using(task=config.task | {"replan": replan}):
        pid = cluster.info()["workers"][1]["pid"]
        tensor = work()
        with Slowed(pid):
            start = time.perf_counter()
            job = cluster.submit(tensor)
            assert job.wait(300)
            took = time.perf_counter() - start
    plans = sum(event[2] == "Replanned" for event in job.events())
    return took, plans, job.result()


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    took: dict[bool, list[float]] = {False: [], True: []}
    found = []
    with jmars.Cluster(n_workers=2, memory_limit="2GiB") as cluster:
        expected = cluster.submit(work()).result()
        for _ in range(given.rounds):
            for replan in (False, True):
                seconds, plans, value = run(cluster, replan)
                assert np.array_equal(value, expected)
                took[replan].append(seconds)
                if replan:
                    found.append(plans)
    for replan, name in ((False, "as planned"), (True, "planned anew")):
        print(f"{name:12s} {describe(took[replan], 's')}")
    ratio = statistics.median(took[True]) / statistics.median(took[False])
    print(f"planned anew {found} times; takes {ratio:.2f} of the time")
    met = ratio <= TOLERANCE and all(found)
    print(f"goals (at most {TOLERANCE:g} of the time, every slowed run planned anew): {'met' if met else 'MISSED'}")
    return 1 if given.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
