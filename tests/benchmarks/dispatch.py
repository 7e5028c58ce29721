"""What one trivial operand costs, beside dask.distributed: python -m tests.benchmarks dispatch [--check].

The work: an array of one-element chunks, plus one, summed by a tree of fours, nothing fused, so that every operand is
dispatched by itself. Printed: jmars' CPU per operand at 100,000 chunks (client, control process, executors and helpers;
from the first NumPy call to the value), and the wall time per operand of both at 10,000, in interleaved rounds.
Goals: at most 25 µs of CPU, at least 10 times less wall time than dask.distributed. `--check` fails when missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from dataclasses import dataclass

import dask
import dask.array as da
import distributed

import jmars
import jmars.tensor as mt
from jmars.config import config
from tests.benchmarks.machine import cpu_between, cpu_by_process, describe, this_machine

CPU_GOAL = 25e-6  # seconds per operand
WALL_GOAL = 10.0  # times less than dask.distributed


@dataclass(frozen=True)
class Round:
    """One run: its operands and what they took, in seconds."""

    operands: int
    wall: float
    cpu: float


def run_jmars(cluster: jmars.Cluster, chunks: int) -> Round:
    """The work on jmars, unfused."""
    info = cluster.info()
    roots = [os.getpid(), info["scheduler"]["pid"]]
    before, start = cpu_by_process(roots), time.perf_counter()
    with config.using(task=config.task | {"fuse_enabled": False}, combine_size=4):
        job = cluster.submit((mt.ones(chunks, chunk_size=1) + 1).sum())
        value = job.result()
    wall, after = time.perf_counter() - start, cpu_by_process(roots)
    value = value[0] if isinstance(value, list | tuple) else value
    assert float(value) == 2 * chunks, value
    built = next(event for event in job.events() if event[2] == "GraphBuilt")
    return Round(int(built[4]["n_after"]), wall, cpu_between(before, after))


def run_dask(client: distributed.Client, chunks: int) -> Round:
    """The same work on dask.distributed, its own fusion off as well."""
    before, start = cpu_by_process([os.getpid()]), time.perf_counter()
    graph = (da.ones(chunks, chunks=1) + 1).sum(split_every=4)
    value = client.compute(graph, optimize_graph=False).result()
    wall, after = time.perf_counter() - start, cpu_by_process([os.getpid()])
    assert float(value) == 2 * chunks, value
    return Round(len(dict(graph.__dask_graph__())), wall, cpu_between(before, after))


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunks", type=int, default=100_000, help="for the CPU per operand")
    parser.add_argument("--beside", type=int, default=10_000, help="chunks of the comparison")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")

    large: list[Round] = []
    ours: list[Round] = []
    theirs: list[Round] = []
    dask.config.set({"distributed.worker.profile.enabled": False, "distributed.logging.distributed": "error"})
    settings = {"n_workers": given.workers, "threads_per_worker": 1, "dashboard_address": None, "processes": True}
    with (
        distributed.LocalCluster(**settings) as local,
        distributed.Client(local) as client,
        jmars.Cluster(n_workers=given.workers, threads_per_worker=1, memory_limit="2GiB") as cluster,
    ):
        run_dask(client, 100)
        run_jmars(cluster, 100)
        for number in range(given.rounds):
            theirs.append(run_dask(client, given.beside))
            ours.append(run_jmars(cluster, given.beside))
            large.append(run_jmars(cluster, given.chunks))
            print(
                f"round {number + 1}: dask {theirs[-1].wall:.2f} s for {theirs[-1].operands} operands, "
                f"jmars {ours[-1].wall:.2f} s for {ours[-1].operands}, "
                f"and {large[-1].cpu:.2f} s of CPU, {large[-1].wall:.2f} s for {large[-1].operands}",
                flush=True,
            )

    cpu = [one.cpu / one.operands for one in large]
    ratio = [dask_.wall / dask_.operands / (own.wall / own.operands) for dask_, own in zip(theirs, ours, strict=True)]
    print(f"jmars, {given.chunks} chunks: CPU per operand  {describe([1e6 * value for value in cpu], 'µs')}")
    for name, rounds in (("jmars", ours), ("dask", theirs)):
        wall = [1e6 * one.wall / one.operands for one in rounds]
        print(f"{name}, {given.beside} chunks: wall per operand  {describe(wall, 'µs')}")
    print(f"dask / jmars, wall per operand  {describe(ratio, 'times')}")
    met = statistics.median(cpu) <= CPU_GOAL and statistics.median(ratio) >= WALL_GOAL
    print(f"goals (CPU at most {1e6 * CPU_GOAL:g} µs, at least {WALL_GOAL:g} times less): {'met' if met else 'MISSED'}")
    return 1 if given.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
