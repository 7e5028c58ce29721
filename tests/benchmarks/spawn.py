"""What functions cost, beside dask.distributed, Ray and Frisky: python -m tests.benchmarks spawn [--check] [WORK ...].

Works, of functions that only add numbers. "tree": 10,000 calls, whose results are added eight by eight until one is
left: 11,431 calls. "chain": 1,000 calls, each of the value before. "values": 5,000 calls, and all their values at once.
"map": the same by one call for all. "fetch": a value that is there, one by one. "delayed": a tree of 2,000
`dask.delayed` calls, built before; for jmars under `jmars.dask_scheduler()`. "flat": 10,000 calls and all their values.
"grid": rows of 100 calls, each of which adds five results of the row before.

All engines have two worker processes of one thread and run in interleaved rounds in this process; the first round of
jmars is not counted. Printed: wall microseconds per call from the first `spawn` to the values, and for jmars how much
of it is building, submitting, running and fetching, and the CPU of all its processes. `--check` fails when a goal is
missed or another engine is faster. Frisky, a scheduler for Dask in Rust, is measured where it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import dask
import distributed
import ray

import jmars
from jmars.remote import map as map_items
from jmars.remote import spawn
from tests.benchmarks.machine import cpu_between, cpu_by_process, this_machine

GOALS = {"tree": 60, "chain": 100, "values": 100, "map": 100, "fetch": 50, "delayed": 200, "flat": 150, "grid": 200}
WIDTH = 100  # tasks in a row of the grid
FAN = 8  # results that are added at once


def add_one(number: int) -> int:
    """The least that a function can do."""
    return number + 1


def add_all(*numbers: int) -> int:
    """The same with several inputs."""
    return sum(numbers)


def flat(call: Callable[..., Any], tasks: int) -> list[Any]:
    """Handles of independent calls; `call(function, *args)` makes one."""
    return [call(add_one, number) for number in range(tasks)]


def tree(call: Callable[..., Any], leaves: int) -> list[Any]:
    """Handle of the sum of the leaves."""
    row = flat(call, leaves)
    while len(row) > 1:
        row = [call(add_all, *row[first : first + FAN]) for first in range(0, len(row), FAN)]
    return row


def chain(call: Callable[..., Any], tasks: int) -> list[Any]:
    """Handle of the last of a row of calls."""
    last = call(add_one, 0)
    for _ in range(tasks - 1):
        last = call(add_one, last)
    return [last]


def grid(call: Callable[..., Any], tasks: int) -> list[Any]:
    """Handles of the last row of a grid."""
    row = flat(call, WIDTH)
    for _ in range(tasks // WIDTH):
        row = [call(add_all, *(row[(place + k) % WIDTH] for k in range(-2, 3))) for place in range(WIDTH)]
    return row


WORKS = {
    "tree": (tree, 10_000, 11_431),  # with its size, and the calls of it
    "chain": (chain, 1_000, 1_000),
    "values": (flat, 5_000, 5_000),
    "map": (flat, 5_000, 5_000),
    "fetch": (flat, 5_000, 5_000),
    "delayed": (tree, 2_000, 2_287),
    "flat": (flat, 10_000, 10_000),
    "grid": (grid, 30_000, 30_000),
}


class Engine:
    """What all engines have in common."""

    told = ""  # of the last run

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """A handle of a call."""
        raise NotImplementedError

    def values(self, handles: list[Any]) -> list[Any]:
        """All values together."""
        raise NotImplementedError

    def value(self, handle: Any) -> Any:
        """A single value."""
        raise NotImplementedError

    def map(self, size: int) -> list[Any]:
        """The values of `flat`, by one call for all where there is such a thing."""
        return self.values(flat(self.call, size))

    def delayed(self, result: Any) -> Any:
        """The value of a Dask collection; None where the engine runs none."""
        return result.compute()

    def run(self, work: str) -> tuple[float, list[Any]]:
        """Seconds a call of a work, and its values."""
        build, size, calls = WORKS[work]
        start = time.perf_counter()
        if work == "map":
            found = self.map(size)
        elif work == "delayed":
            (result,) = build(lambda function, *args: dask.delayed(function, pure=False)(*args), size)
            start = time.perf_counter()
            found = [self.delayed(result)]
        elif work == "fetch":
            handles = build(self.call, size)
            self.values(handles)
            start = time.perf_counter()
            found = [self.value(handle) for handle in handles]
        else:
            found = self.values(build(self.call, size))
        return (time.perf_counter() - start) / calls, found

    def close(self) -> None:
        """Stop it."""


class Jmars(Engine):
    """A cluster of jmars."""

    def __init__(self, workers: int) -> None:
        self._cluster = jmars.Cluster(n_workers=workers, memory_limit="1GiB")
        self._roots = [os.getpid(), self._cluster.info()["scheduler"]["pid"]]
        self._marks: list[float] = []

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """A handle of a call."""
        return spawn(function, args=args)

    def values(self, handles: list[Any]) -> list[Any]:
        """All values together."""
        self._marks.append(time.perf_counter())
        job = self._cluster.submit(*handles)
        self._marks.append(time.perf_counter())
        job.wait()
        self._marks.append(time.perf_counter())
        found = job.result()
        self._marks.append(time.perf_counter())
        return [found] if len(handles) == 1 else list(found)

    def value(self, handle: Any) -> Any:
        """A single value."""
        return handle.fetch()

    def map(self, size: int) -> list[Any]:
        """The values of `flat`, by one call for all."""
        calls = map_items(add_one, range(size))
        return list(self.values([calls])[0])

    def delayed(self, result: Any) -> Any:
        """The value of a Dask collection."""
        with jmars.dask_scheduler():
            return result.compute()

    def run(self, work: str) -> tuple[float, list[Any]]:
        """Seconds a call of a work, and its values."""
        calls = WORKS[work][2]
        before, self._marks = cpu_by_process(self._roots), [time.perf_counter()]
        found = super().run(work)
        cpu = cpu_between(before, cpu_by_process(self._roots)) / calls
        names = ("build", "submit", "run", "fetch")
        steps = [f"{name} {(b - a) / calls * 1e6:.0f}" for name, a, b in zip(names, self._marks, self._marks[1:])]
        self.told = f"{', '.join(steps)}; CPU {cpu * 1e6:.0f}"
        return found

    def close(self) -> None:
        """Stop it."""
        self._cluster.close()


class Dask(Engine):
    """A cluster of dask.distributed."""

    def __init__(self, workers: int) -> None:
        self._client = distributed.Client(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit="1GiB", set_as_default=False
        )

    def map(self, size: int) -> list[Any]:
        """The values of `flat`, by one call for all."""
        return self.values(self._client.map(add_one, range(size), pure=False))

    def delayed(self, result: Any) -> Any:
        """The value of a Dask collection."""
        return self._client.compute(result).result()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """A handle of a call."""
        return self._client.submit(function, *args, pure=False)

    def values(self, handles: list[Any]) -> list[Any]:
        """All values together."""
        return list(self._client.gather(handles))

    def value(self, handle: Any) -> Any:
        """A single value."""
        return handle.result()

    def close(self) -> None:
        """Stop it."""
        self._client.shutdown()


class Frisky(Dask):
    """A cluster of Frisky."""

    def __init__(self, workers: int) -> None:
        import frisky

        self._cluster = frisky.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True)
        self._client = self._cluster.get_client()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """A handle of a call."""
        return self._client.submit(function, *args)

    def map(self, size: int) -> list[Any]:
        """The values of `flat`, by one call for all."""
        return self.values(self._client.map(add_one, range(size)))

    def close(self) -> None:
        """Stop it."""
        self._client.close()
        self._cluster.close()


class Ray(Engine):
    """Ray on this machine."""

    def __init__(self, workers: int) -> None:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
        self._known = {function: ray.remote(function) for function in (add_one, add_all)}

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """A handle of a call."""
        return self._known[function].remote(*args)

    def values(self, handles: list[Any]) -> list[Any]:
        """All values together."""
        return list(ray.get(handles))

    def value(self, handle: Any) -> Any:
        """A single value."""
        return ray.get(handle)

    def delayed(self, result: Any) -> Any:
        """None: Ray runs no collections of Dask by itself."""

    def close(self) -> None:
        """Stop it."""
        ray.shutdown()


OTHERS: dict[str, Callable[[int], Engine]] = {"distributed": Dask, "ray": Ray, "frisky": Frisky}  # by module


def measured(engines: dict[str, Engine], work: str, rounds: int) -> dict[str, float]:
    """Seconds a call of each engine, in interleaved rounds: medians."""
    took: dict[str, list[float]] = {name: [] for name in engines}
    engines["jmars"].run(work)
    for _ in range(rounds):
        values = {}
        for name, engine in engines.items():
            if work == "delayed" and isinstance(engine, Ray):
                continue
            seconds, values[name] = engine.run(work)
            took[name].append(seconds)
            told = f" ({engine.told})" if engine.told else ""
            print(f"{work} {name:12} {seconds * 1e6:6.0f} µs a call{told}", flush=True)
        assert all(value == values["jmars"] for value in values.values())
    return {name: statistics.median(some) for name, some in took.items() if some}


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("works", nargs="*", help=f"{', '.join(WORKS)}; none for all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="without the others")
    parser.add_argument("--beside", nargs="*", default=list(OTHERS), help=f"some of {', '.join(OTHERS)}")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    others = [] if given.alone else [name for name in given.beside if importlib.util.find_spec(name)]
    engines = {"jmars": Jmars(given.workers)} | {name: OTHERS[name](given.workers) for name in others}
    missed = False
    try:
        for work in given.works or WORKS:
            seconds = measured(engines, work, given.rounds)
            ok = seconds["jmars"] * 1e6 <= GOALS[work] and min(seconds, key=lambda name: seconds[name]) == "jmars"
            missed |= not ok
            told = ", ".join(f"{name} {one * 1e6:.0f}" for name, one in seconds.items())
            print(f"{work}: {told} µs a call; goal {GOALS[work]} µs: {'met' if ok else 'MISSED'}")
    finally:
        for engine in engines.values():
            engine.close()
    return 1 if missed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
