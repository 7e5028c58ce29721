"""What running on a Dask cluster costs and gains: python -m tests.benchmarks engines [--check].

First the engine's share of CPU: six programs of 500 to 20,000 operands on a Dask cluster of two workers, run four
times; the share is the median of the last three runs, whose plans and costs are there. **The share** is the CPU that
Dask and `jmars.engines` take, over the CPU of everything: Dask's scheduler and nannies; its workers without the
operands; its threads in this process; the port with its tasks, results and ends of operands; the division into groups.
Transfers between the workers are in it. Tensors, tiling, fusing, plans, the scheduler of jmars and its events are not:
they are the same on workers of jmars. engine_cpu.py reads all of them from the clocks of threads. What Dask takes in
the same time without a task, and what it takes more for each second of one long task (heartbeats, monitors, profiler:
no group size changes them), is subtracted, and what the readings take.
On a machine that does more than this, Dask takes less without a task than is subtracted, and parts may be negative.
With `JMARS_CACHE_DIR` of an empty folder no costs are known before.

Then ten array works with held inputs, each on jmars on Dask and on dask.array on a Dask cluster of the same kind, in
interleaved rounds, each run in a new process. Goals: a share of at most 5 %; 1.5 times the speed of dask.array, in
the median of the works. `--check` fails when a goal is missed.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import distributed
import numpy as np

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.engines.dask import DaskEngine
from jmars.engines.engine import GroupTask
from tests.benchmarks.arrays.races import one_run
from tests.benchmarks.arrays.works import WORKS
from tests.benchmarks.engine_cpu import ENGINE, cpu_by_use, time_port, time_workers
from tests.benchmarks.machine import this_machine

SHARE_GOAL, SPEED_GOAL = 0.05, 1.5
READINGS, BASE = 10, 8.0  # to know what a reading costs; seconds of a long task
# Dask's monitors read files of the system whatever runs. What they take is subtracted, and varies: so they run seldom.
SELDOM = {
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "30s",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__WORKER__MEMORY__MONITOR_INTERVAL": "1s",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
}


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
    return ((mt.random.default_rng(3).random(800_000_000, chunk_size=400_000) * 2 - 1) ** 2).mean()


PROGRAMS: dict[str, Callable[[], Any]] = {
    "tree": _tree, "layers": _layers, "matmul": _matmul, "columns": _columns, "unfused": _unfused, "many": _many
}  # fmt: skip


def spin(seconds: float) -> None:
    """A task that calculates for so long."""
    x = np.random.random(2_000_000)
    y, end = np.empty_like(x), time.perf_counter() + seconds
    while time.perf_counter() < end:
        np.sqrt(x, out=y)
        np.add(y, 1, out=y)


@contextmanager
def dask_cluster(limit: int | None = None) -> Iterator[distributed.Client]:
    """A client of a Dask scheduler and two workers of one thread, all by Dask's commands and in their own processes.

    With a memory limit of each worker, in bytes, the client also computes what is computed without naming one.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        file, env = f"{folder}/scheduler.json", os.environ | SELDOM | {"DASK_TEMPORARY_DIRECTORY": folder}

        def start(command: str, *args: str) -> None:
            words = [sys.executable, "-m", f"distributed.cli.dask_{command}", "--scheduler-file", file, *args]
            process = subprocess.Popen([*words, "--no-dashboard"], env=env, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        start("scheduler", "--host", "127.0.0.1", "--port", "0")
        while not os.path.exists(file):
            time.sleep(0.05)
        room = [] if limit is None else ["--memory-limit", str(limit)]
        start("worker", "--nworkers", "2", "--nthreads", "1", "--local-directory", folder, *room)
        with distributed.Client(scheduler_file=file, set_as_default=limit is not None) as client:
            client.wait_for_workers(2)
            yield client


class Share:
    """Measures the engine's share of CPU in programs on a Dask cluster.

    Attributes
    ----------
    tasks
        Groups that were submitted for the last program.
    """

    def __init__(self, client: distributed.Client) -> None:
        self._client, self.tasks = client, 0
        submit = DaskEngine.submit

        def counted(engine: DaskEngine, task: GroupTask) -> None:
            self.tasks += 1
            submit(engine, task)

        DaskEngine.submit = counted  # type: ignore[method-assign]
        time_port()

    def start(self) -> None:
        """Measure what readings cost, and what goes on while each worker runs one long task."""
        time_workers(self._client)
        first = cpu_by_use(self._client)
        for _ in range(READINGS):
            last = cpu_by_use(self._client)
        self._reading = {use: (last[use] - first[use]) / READINGS for use in last}
        start = time.perf_counter()
        time.sleep(BASE)
        idle, seconds = cpu_by_use(self._client), time.perf_counter() - start
        self._idle = {use: (idle[use] - last[use] - self._reading[use]) / seconds for use in idle}
        print("a second without a task: " + _told(self._idle))
        workers = list(self._client.scheduler_info(n_workers=-1)["workers"])
        start = time.perf_counter()
        self._client.gather([self._client.submit(spin, BASE, workers=[one], pure=False) for one in workers])
        busy, seconds = cpu_by_use(self._client), time.perf_counter() - start
        ran = busy["task"] - idle["task"]
        more = {use: busy[use] - idle[use] - self._reading[use] - self._idle[use] * seconds for use in busy}
        self._busy = {use: more[use] / ran for use in ENGINE if use != "task"}
        print("more in a second of a long task: " + _told(self._busy))

    def of(self, cluster: jmars.Cluster, name: str) -> float:
        """The engine's share in one run of a program; prints a line."""
        with config.using(task=config.task | {"fuse_enabled": name != "unfused"}):
            self.tasks, before, start = 0, cpu_by_use(self._client), time.perf_counter()
            job = cluster.submit(PROGRAMS[name]())
            while not job.wait(5):
                pass
            assert job.error is None, job.error
            seconds = time.perf_counter() - start
            time.sleep(0.2)  # releases of the last results
            after = cpu_by_use(self._client)
        length = time.perf_counter() - start
        used = {use: after[use] - before[use] - self._reading[use] - self._idle[use] * length for use in after}
        for use, more in self._busy.items():
            used[use] -= more * used["kernels"]
        engine, total = sum(used[use] for use in ENGINE), sum(used.values())
        size, cost = total / self.tasks * 1e3, engine / self.tasks * 1e3
        ran = f"{name:8} {seconds:5.2f} s, {self.tasks:4} tasks of {size:4.0f} ms, {total:6.2f} s of CPU"
        print(f"{ran}: {_told(used)}; share {engine / total:6.1%}, {cost:.1f} ms a task", flush=True)
        return engine / total


def _told(seconds: dict[str, float]) -> str:
    """Milliseconds by use."""
    uses = "kernels", "network", "jmars", *ENGINE
    return ", ".join(f"{use} {seconds.get(use, 0.0) * 1e3:.0f}" for use in uses) + " ms"


def races(given: argparse.Namespace) -> list[float]:
    """Speed of jmars on Dask relative to dask.array, by work."""
    ratios = []
    for work in [one for one in WORKS if one.name in given.works.split(",")]:
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
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="for the share")
    parser.add_argument("--works", default=",".join(work.name for work in WORKS), help="for the races")
    parser.add_argument("--runs", type=int, default=4, help="of each program; the first one knows no costs")
    parser.add_argument("--only", choices=["share", "races"])
    given = parser.parse_args()
    given.held, given.xorbits = True, None
    print(f"machine: {this_machine()}")
    met = True
    if given.only != "races":
        with dask_cluster() as client:
            share, shares = Share(client), []
            with jmars.Cluster.dask(client) as cluster:
                cluster.submit(PROGRAMS["tree"]()).wait(60)  # compiles and imports
                share.start()
                for name in given.programs.split(","):
                    first, *later = (share.of(cluster, name) for _ in range(given.runs))
                    shares.append(statistics.median(later))
                    print(f"{name:8} share of the first run {first:.1%}, of later runs {shares[-1]:.1%}", flush=True)
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
