"""What spawned functions cost, beside dask.distributed and Ray: python -m tests.benchmarks spawn [--check] [WORK ...].

Two works. "flat": 10,000 calls of a function that adds one, each with a value of its own, all of which come back to
this process. "grid": rows of 100 tasks; each task adds five results of the row before, and the last row's values come
back. All engines have two worker processes of one thread and run in interleaved rounds in this process; the first round
of jmars is not counted. Printed: wall microseconds per task from the first `spawn` to the values, and for jmars how
much of it is building, submitting, running and fetching, and the CPU of all its processes.
Goals: 150 µs a task flat, 200 µs a task in the grid, and less than the others. `--check` fails when one is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import distributed
import ray

import jmars
from jmars.remote import spawn
from tests.benchmarks.machine import cpu_between, cpu_by_process, this_machine

GOALS = {"flat": 150e-6, "grid": 200e-6}  # seconds a task
WIDTH = 100  # tasks in a row of the grid


def add_one(number: int) -> int:
    """The least that a function can do."""
    return number + 1


def add_five(a: int, b: int, c: int, d: int, e: int) -> int:
    """The same with five inputs."""
    return a + b + c + d + e


def flat(call: Callable[..., Any], tasks: int) -> list[Any]:
    """Handles of independent calls; `call(function, *args)` makes one."""
    return [call(add_one, number) for number in range(tasks)]


def grid(call: Callable[..., Any], tasks: int) -> list[Any]:
    """Handles of the last row of a grid."""
    row = flat(call, WIDTH)
    for _ in range(tasks // WIDTH):
        row = [call(add_five, *(row[(place + k) % WIDTH] for k in range(-2, 3))) for place in range(WIDTH)]
    return row


WORKS = {"flat": flat, "grid": grid}


class Jmars:
    """A cluster of jmars."""

    def __init__(self, workers: int) -> None:
        self._cluster = jmars.Cluster(n_workers=workers, memory_limit="1GiB")
        self._roots = [os.getpid(), self._cluster.info()["scheduler"]["pid"]]
        self.told = ""  # of the last run

    def run(self, work: str, tasks: int) -> list[int]:
        """Values of a work."""
        before, marks = cpu_by_process(self._roots), [time.perf_counter()]
        handles = WORKS[work](lambda function, *args: spawn(function, args=args), tasks)
        marks.append(time.perf_counter())
        job = self._cluster.submit(*handles)
        marks.append(time.perf_counter())
        job.wait()
        marks.append(time.perf_counter())
        values: list[int] = job.result()
        marks.append(time.perf_counter())
        cpu = cpu_between(before, cpu_by_process(self._roots)) / tasks
        names = ("build", "submit", "run", "fetch")
        steps = [f"{name} {(b - a) / tasks * 1e6:.0f}" for name, a, b in zip(names, marks, marks[1:])]
        self.told = f"{', '.join(steps)}; CPU {cpu * 1e6:.0f}"
        return values

    def close(self) -> None:
        """Stop it."""
        self._cluster.close()


class Dask:
    """A cluster of dask.distributed."""

    def __init__(self, workers: int) -> None:
        self._client = distributed.Client(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit="1GiB"
        )
        self.told = ""

    def run(self, work: str, tasks: int) -> list[int]:
        """Values of a work."""
        call = self._client.submit
        found = self._client.gather(WORKS[work](lambda function, *args: call(function, *args, pure=False), tasks))
        return list(found)

    def close(self) -> None:
        """Stop it."""
        self._client.shutdown()


class Ray:
    """Ray on this machine."""

    def __init__(self, workers: int) -> None:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
        self._known = {function: ray.remote(function) for function in (add_one, add_five)}
        self.told = ""

    def run(self, work: str, tasks: int) -> list[int]:
        """Values of a work."""
        known = self._known
        return list(ray.get(WORKS[work](lambda function, *args: known[function].remote(*args), tasks)))

    def close(self) -> None:
        """Stop it."""
        ray.shutdown()


def measured(engines: dict[str, Any], work: str, tasks: int, rounds: int) -> dict[str, float]:
    """Seconds a task of each engine, in interleaved rounds: medians."""
    took: dict[str, list[float]] = {name: [] for name in engines}
    engines["jmars"].run(work, max(WIDTH, tasks // 10))
    for _ in range(rounds):
        values = {}
        for name, engine in engines.items():
            start = time.perf_counter()
            values[name] = engine.run(work, tasks)
            took[name].append((time.perf_counter() - start) / tasks)
            told = f" ({engine.told})" if engine.told else ""
            print(f"{work} {name:12} {took[name][-1] * 1e6:6.0f} µs a task{told}", flush=True)
        assert all(value == values["jmars"] for value in values.values())
    return {name: statistics.median(some) for name, some in took.items()}


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("works", nargs="*", help="flat, grid; none for both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--flat", type=int, default=10_000, help="tasks of the first work")
    parser.add_argument("--grid", type=int, default=30_000, help="tasks of the second work")
    parser.add_argument("--alone", action="store_true", help="without the others")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    kinds: dict[str, Callable[[int], Any]] = {"jmars": Jmars}
    if not given.alone:
        kinds |= {"distributed": Dask, "ray": Ray}
    engines = {name: kind(given.workers) for name, kind in kinds.items()}
    missed = False
    try:
        for work in given.works or WORKS:
            seconds = measured(engines, work, getattr(given, work), given.rounds)
            ok = seconds["jmars"] <= GOALS[work] and min(seconds, key=lambda name: seconds[name]) == "jmars"
            missed |= not ok
            told = ", ".join(f"{name} {one * 1e6:.0f}" for name, one in seconds.items())
            print(f"{work}: {told} µs a task; goal {GOALS[work] * 1e6:.0f} µs: {'met' if ok else 'MISSED'}")
    finally:
        for engine in engines.values():
            engine.close()
    return 1 if missed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
