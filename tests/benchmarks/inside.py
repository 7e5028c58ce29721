"""What an operand costs on hosts inside Dask's workers: python -m tests.benchmarks inside [--check].

Two hosts with one worker each, both times on this machine: started by the head, and inside the two workers of a Dask
cluster. Programs of thousands of small operands run on both in turn, in interleaved rounds. The cost of an operand is
the CPU of the head and of all processes of the hosts, by operand; Dask's own processes, which take part in no operand,
are told beside it, and so is the time of the run. The least of the rounds counts: other load only adds.
Goal: inside costs at most 1.1 times as much. `--check` fails when the goal is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import dask
import distributed

import jmars
import jmars.tensor as mt
from jmars.config import config
from tests.benchmarks.machine import cpu_between, cpu_by_process, this_machine

GOAL = 1.1


def _drawn() -> Any:
    return mt.random.default_rng(0).random(400_000, chunk_size=100).sum()


def _layers() -> Any:
    x = mt.random.default_rng(1).random(200_000, chunk_size=100)
    return (mt.sqrt(x) + mt.exp(-x)).max()


def _pieces() -> Any:
    """Each piece moves to the host that needs it."""
    return mt.random.default_rng(2).random((1200, 1200), chunk_size=(4, 1200)).rechunk((1200, 4)).sum()


PROGRAMS: dict[str, Callable[[], Any]] = {"drawn": _drawn, "layers": _layers, "pieces": _pieces}


def _processes(cluster: jmars.Cluster) -> list[int]:
    """The head, and the control process and janitor of each host; others are below these."""
    info = cluster.info()
    return [info["host"]["pid"]] + [host[name] for host in info["hosts"] for name in ("pid", "janitor")]


def cost(cluster: jmars.Cluster, program: Callable[[], Any], pids: list[int]) -> tuple[float, float, int]:
    """Microseconds of CPU and of time by operand, and operands."""
    before, begun = cpu_by_process(pids), time.perf_counter()
    job = cluster.submit(program())
    job.result(300)
    took = time.perf_counter() - begun
    used = cpu_between(before, cpu_by_process(pids))
    operands = int(job.describe()["operands"])
    return used * 1e6 / operands, took * 1e6 / operands, operands


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="exit 1 when the goal is missed")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    with ExitStack() as stack:
        stack.enter_context(config.using(local_seconds=0, task=config.task | {"fuse_enabled": False}))
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        stack.enter_context(dask.config.set({"temporary-directory": folder}))
        local: Any = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=2**30, dashboard_address=None
        )
        stack.enter_context(local)
        client: Any = stack.enter_context(distributed.Client(local))
        native = stack.enter_context(jmars.Cluster.hosts(["local"] * 2, n_workers=1, memory_limit=int(0.8 * 2**30)))
        inside = stack.enter_context(jmars.Cluster.dask(client, mode="inside"))
        clusters = {"native": native, "inside": inside}
        pids = {name: _processes(cluster) for name, cluster in clusters.items()}
        workers = list(client.run(os.getpid).values())
        ours = set(cpu_by_process(pids["inside"]))
        ratios = []
        for name, program in PROGRAMS.items():
            cpu: dict[str, list[float]] = {where: [] for where in clusters}
            times: dict[str, list[float]] = {where: [] for where in clusters}
            operands = 0
            for number in range(given.rounds + 1):
                for where in [*clusters][:: 1 if number % 2 else -1]:
                    one, took, operands = cost(clusters[where], program, pids[where])
                    if number:  # the first round compiles and learns
                        cpu[where].append(one)
                        times[where].append(took)
            least = {where: min(found) for where, found in cpu.items()}
            ratios.append(least["inside"] / least["native"])
            told = ", ".join(
                f"{where} {least[where]:.0f} µs of CPU (median {statistics.median(cpu[where]):.0f}), "
                f"{min(times[where]):.0f} µs of time"
                for where in clusters
            )
            print(f"{name:8}{operands:6} operands  {told}: {ratios[-1]:.2f}", flush=True)
        before, begun = cpu_by_process(workers), time.perf_counter()
        time.sleep(3)
        used = cpu_between(before, {key: value for key, value in cpu_by_process(workers).items() if key not in ours})
        print(f"Dask's two workers beside them: {used / (time.perf_counter() - begun):.1%} of a core")
    met = max(ratios) <= GOAL
    print(f"largest {max(ratios):.2f} times the cost on hosts of our own, goal {GOAL}: {'met' if met else 'MISSED'}")
    return 0 if met or not given.check else 1


if __name__ == "__main__":
    sys.exit(main())
