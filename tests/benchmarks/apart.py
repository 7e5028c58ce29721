"""What a scheduler in a process of its own costs: python -m tests.benchmarks apart [--check].

Printed: CPU per trivial operand (unfused, 20,000 chunks) on a cluster whose scheduler is part of the control process
and on a detached one, in interleaved rounds; µs of the journal per operand, noted and written in batches of 100; and
seconds from the death of a scheduler to the answer of the next one, at rest. Goals: the journal at most 1 µs an
operand, the next scheduler within 3 s. `--check` fails when missed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.deploy.control_process import ended_within
from jmars.scheduler.journal import Journal, read_journal
from tests.benchmarks.machine import cpu_between, cpu_by_process, describe, this_machine

JOURNAL_GOAL = 1e-6  # seconds an operand
AGAIN_GOAL = 3.0  # seconds


def cpu_per_operand(cluster: jmars.Cluster, chunks: int) -> float:
    """Seconds of CPU of all processes, from the first NumPy call to the value."""
    roots = [os.getpid(), cluster.info()["host"]["pid"]]
    before = cpu_by_process(roots)
    with config.using(task=config.task | {"fuse_enabled": False}, combine_size=4):
        job = cluster.submit((mt.ones(chunks, chunk_size=1) + 1).sum())
        value = job.result()
    after = cpu_by_process(roots)
    assert float(value) == 2 * chunks, value
    return cpu_between(before, after) / int(job.describe()["operands"])


def journal_per_operand(batches: int, batch: int = 100) -> tuple[float, float]:
    """Seconds of CPU for noting and writing an operand, and for reading one back."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "journal")
        journal = Journal(path, lambda call: None)
        ids = [bytes(range(100)) * (batch // 25), bytes(4 * batch)]
        start = time.process_time()
        for _ in range(batches):
            journal.note("finished", "job-1", ids[0], 0, None, ids[1])
            journal.flush()
        noted = time.process_time()
        found = sum(1 for _ in read_journal(path))
        read = time.process_time()
        journal.close()
    assert found == batches
    return (noted - start) / (batches * batch), (read - noted) / (batches * batch)


def seconds_to_the_next(cluster: jmars.Cluster) -> float:
    """From a scheduler's death to an answer of the next one."""
    pid = cluster.info()["scheduler"]["pid"]
    start = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    assert ended_within(pid, 5)
    cluster.jobs()
    return time.perf_counter() - start


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    together: list[float] = []
    apart: list[float] = []
    again: list[float] = []
    with (
        jmars.Cluster(n_workers=2, memory_limit="1GiB") as one,
        jmars.Cluster(n_workers=2, memory_limit="1GiB", detach=True) as other,
    ):
        try:
            for cluster in (one, other):
                cpu_per_operand(cluster, 100)
            for _ in range(given.rounds):
                together.append(cpu_per_operand(one, given.chunks))
                apart.append(cpu_per_operand(other, given.chunks))
            for _ in range(2):
                again.append(seconds_to_the_next(other))
        finally:
            other.stop()
    noted, read = zip(*(journal_per_operand(2000) for _ in range(given.rounds)), strict=True)
    print(f"scheduler in the control process, CPU per operand  {describe([1e6 * x for x in together], 'µs')}")
    print(f"scheduler apart, CPU per operand                   {describe([1e6 * x for x in apart], 'µs')}")
    print(f"journal, noted and written, CPU per operand        {describe([1e6 * x for x in noted], 'µs')}")
    print(f"journal, read back, CPU per operand                {describe([1e6 * x for x in read], 'µs')}")
    print(f"from a death to the next scheduler's answer        {describe([1e3 * x for x in again], 'ms')}")
    met = min(noted) <= JOURNAL_GOAL and min(again) <= AGAIN_GOAL
    goals = f"journal at most {1e6 * JOURNAL_GOAL:g} µs, the next within {AGAIN_GOAL:g} s"
    print(f"goals ({goals}): {'met' if met else 'MISSED'}")
    return 1 if given.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
