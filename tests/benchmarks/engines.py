"""What running on a Dask cluster costs and gains: python -m tests.benchmarks engines [--check].

First the engine's share of CPU: six programs of 500 to 20,000 operands on a Dask cluster of two workers, run four
times; the share is the median of the last three runs, whose plan and costs are there. It is the CPU of this process
and of all of Dask's processes without that of the operands (their threads' CPU) and of reading events here, and
without what the same processes take in the same time when no task runs, which no group size changes (measured
first, 8 % of a core for two workers). With `JMARS_CACHE_DIR` of an empty folder no costs are known before. Then ten
array works with held inputs, each on jmars on Dask and on dask.array on a Dask cluster of the same kind, in
interleaved rounds, each run in a new process. Goals: a share of at most 5 %; 1.5 times the speed of dask.array, in
the median of the works. `--check` fails when a goal is missed.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import distributed
import numpy as np

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.engines import task
from tests.benchmarks.arrays.races import one_run
from tests.benchmarks.arrays.works import WORKS
from tests.benchmarks.machine import cpu_between, cpu_by_process, this_machine

SHARE_GOAL, SPEED_GOAL = 0.05, 1.5


def _drawn(chunks: int, elements: int) -> Any:
    return mt.random.default_rng(0).random(chunks * elements, chunk_size=elements)


def _tree() -> Any:
    return (_drawn(400, 2_000_000) + 1).sum()


def _layers() -> Any:
    x = _drawn(500, 1_000_000)
    return (mt.sqrt(x * x + 1) + mt.exp(-x)).max()


def _many() -> Any:
    return mt.sqrt(_drawn(15_000, 60_000) ** 2 + 1).sum()


def _matmul() -> Any:
    x = mt.random.default_rng(1).random((8000, 8000), chunk_size=500)
    return (x @ x).sum()


def _columns() -> Any:
    x = mt.random.default_rng(2).random((40_000, 10_000), chunk_size=(1000, 1000))
    return ((x - x.mean(axis=0)) ** 2).mean()


def _unfused() -> Any:
    return ((mt.random.default_rng(3).random(400_000_000, chunk_size=200_000) * 2 - 1) ** 2).mean()


PROGRAMS: dict[str, Callable[[], Any]] = {
    "tree": _tree, "layers": _layers, "matmul": _matmul, "columns": _columns, "unfused": _unfused, "many": _many
}  # fmt: skip


def _cpu_of_operands() -> None:
    """In a worker: operands are timed by their threads' CPU."""
    task.perf_counter = time.thread_time  # type: ignore[attr-defined]


def idle() -> float:
    """CPU seconds that all processes take in a second without a task."""
    before, start = cpu_by_process([os.getpid()]), time.perf_counter()
    time.sleep(5)
    return cpu_between(before, cpu_by_process([os.getpid()])) / (time.perf_counter() - start)


def share(cluster: jmars.Cluster, name: str, idling: float) -> float:
    """The engine's part of the CPU of one program; prints a line."""
    fuse = {"fuse_enabled": name != "unfused"}
    with config.using(task=config.task | fuse):
        kernels, operands, done, used, since = 0.0, 0, False, math.nan, 0
        while (earlier := cluster.events(since))[0]:  # events of earlier jobs
            since = earlier[1]
        before, start = cpu_by_process([os.getpid()]), time.perf_counter()
        job, reading = cluster.submit(PROGRAMS[name]()), 0.0
        while not done:
            done = job.wait(0.2)
            if done:
                used = cpu_between(before, cpu_by_process([os.getpid()]))
                used -= reading + idling * (time.perf_counter() - start)
                time.sleep(0.5)  # reports of the last operands
            read = time.thread_time()
            while found := cluster.events(since, job.id)[0]:  # read meanwhile, since the log is bounded
                since = found[-1][0]
                for event in found:
                    if event[2] == "OperandsTimed":
                        calculating = np.frombuffer(event[4]["microseconds"][2], "<u4")
                        kernels, operands = kernels + float(calculating.sum()) * 1e-6, operands + len(calculating)
            reading += time.thread_time() - read
        assert job.error is None, job.error
    part = 1 - kernels / used
    print(f"{name:9}{operands:7} operands  {used:6.2f} s of CPU, {kernels:6.2f} s of operands: {part:6.1%}", flush=True)
    return part


def races(given: argparse.Namespace) -> list[float]:
    """Speed of jmars on Dask relative to dask.array, by work."""
    ratios = []
    for work in WORKS:
        runs: dict[str, list[dict[str, Any]]] = {"jmars-dask": [], "distributed": []}
        for number in range(given.rounds):
            for engine in [*runs][:: 1 if number % 2 else -1]:
                runs[engine].append(one_run(engine, work, given))
        wrong = next((one["error"] for some in runs.values() for one in some if "error" in one), None)
        if wrong is not None:
            print(f"{work.name:10} does not run: {wrong}", flush=True)
            ratios.append(math.nan)
            continue
        ours, theirs = ([one["seconds"] for one in runs[engine]] for engine in runs)
        values = [runs[engine][0]["value"] for engine in runs]
        assert np.allclose(*values, rtol=work.tolerance), (work.name, values)
        own, other = statistics.median(ours), statistics.median(theirs)
        ratios.append(other / own)
        told = f"jmars on Dask {own:6.2f} s, dask.array {other:6.2f} s: {other / own:.2f} times the speed"
        print(f"{work.name:10} {told}", flush=True)
    return ratios


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the works, 1 is half a gigabyte")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--only", choices=["share", "races"])
    given = parser.parse_args()
    given.held, given.xorbits = True, None
    print(f"machine: {this_machine()}")
    met = True
    if given.only != "races":
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
            distributed.Client(local) as client,
            jmars.Cluster.dask(client) as cluster,
        ):
            share(cluster, "tree", 0.0)  # compiles and imports
            client.run(_cpu_of_operands)
            idling, shares = idle(), []
            print(f"idle: {idling:.1%} of a core")
            for name in PROGRAMS:
                first, *later = (share(cluster, name, idling) for _ in range(4))
                shares.append(statistics.median(later))
                print(f"{name:9} first run, with planning: {first:.1%}; next runs: {shares[-1]:.1%}", flush=True)
        met = max(shares) <= SHARE_GOAL
        print(f"largest share {max(shares):.1%}, goal {SHARE_GOAL:.0%}: {'met' if met else 'MISSED'}")
    if given.only != "share":
        ratios = races(given)
        median = statistics.median(ratio for ratio in ratios if not math.isnan(ratio))
        fast = median >= SPEED_GOAL and not any(map(math.isnan, ratios))
        print(f"median {median:.2f} times the speed of dask.array, goal {SPEED_GOAL}: {'met' if fast else 'MISSED'}")
        met = met and fast
    return 0 if met or not given.check else 1


if __name__ == "__main__":
    sys.exit(main())
