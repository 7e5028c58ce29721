"""What a spawned function costs beside its own work: python -m tests.benchmarks spawn.

The work: calls of a function that adds one, each with a result of its own whose size nobody knows before, and one that
adds all results. Printed: CPU per call (client, control process, executors and helpers; from the first `spawn` to the
value), and the wall time per call, in rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import jmars
from jmars.remote import spawn
from tests.benchmarks.machine import cpu_between, cpu_by_process, this_machine


def add_one(number: int) -> int:
    """The least that a function can do."""
    return number + 1


def one_round(cluster: jmars.Cluster, calls: int) -> tuple[float, float]:
    """CPU and wall seconds per call."""
    roots = [os.getpid(), cluster.info()["scheduler"]["pid"]]
    before, start = cpu_by_process(roots), time.perf_counter()
    total = spawn(sum, args=([spawn(add_one, args=(number,)) for number in range(calls)],)).fetch()
    wall, after = time.perf_counter() - start, cpu_by_process(roots)
    assert total == calls * (calls + 1) // 2
    return cpu_between(before, after) / calls, wall / calls


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--calls", type=int, default=2000)
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    with jmars.Cluster(n_workers=given.workers, memory_limit="1GiB") as cluster:
        one_round(cluster, 100)
        rounds = [one_round(cluster, given.calls) for _ in range(given.rounds)]
    for name, values in zip(("CPU", "wall"), zip(*rounds, strict=True)):
        micro = sorted(value * 1e6 for value in values)
        print(
            f"{name} per call: {statistics.median(micro):.0f} µs ({micro[0]:.0f}–{micro[-1]:.0f}, {len(micro)} rounds)"
        )


if __name__ == "__main__":
    main()
