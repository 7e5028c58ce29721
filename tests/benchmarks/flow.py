"""Seed 002's claim: a pooled instance and counters without a lock make fine grain cheap.

    python -m tests.benchmarks flow [VERTICES]

µs a vertex of one run of a wavefront of about VERTICES (1,000) vertices that do nothing, medians of interleaved rounds:
a pooled instance of `jmars.flow`; an instance built for the run; the whole graph built for the run; an engine that
takes one global lock for each change of a counter, otherwise as lean as can be; all of these in one thread, then pooled
instance and lock with four threads (a queue hand-over for each vertex, which is most of it). The counters alone are
what the scheduler runs on. Ratios are to the pooled instance.
"""

import queue
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from jmars.flow import Counters, FlowGraph, GraphBuilder, GraphPool, ThreadPoolExecutor
from jmars.graph import Dag
from tests.benchmarks.machine import describe, this_machine


def nothing(*values: Any) -> int:
    """What a vertex does."""
    return 1


def cells(vertices: int) -> list[tuple[str, list[str]]]:
    """The vertices of a square wavefront and what they read, in order."""
    n = max(2, round(vertices**0.5))
    return [(f"{i},{j}", [f"{i - 1},{j}"] * (i > 0) + [f"{i},{j - 1}"] * (j > 0)) for i in range(n) for j in range(n)]


def builder(wavefront: list[tuple[str, list[str]]]) -> GraphBuilder:
    """It as a graph of `jmars.flow`."""
    made = GraphBuilder("wavefront")
    for name, before in wavefront:
        made.function(nothing, before, name, name=name)
    return made.finish()


class Locked:
    """A small engine with a critical section: every change of a counter is made under one lock."""

    def __init__(self, wavefront: list[tuple[str, list[str]]]) -> None:
        number = {name: k for k, (name, _) in enumerate(wavefront)}
        self.before = [[number[name] for name in before] for _, before in wavefront]
        self.after: list[list[int]] = [[] for _ in wavefront]
        for k, before in enumerate(self.before):
            for b in before:
                self.after[b].append(k)
        self.lock = threading.Lock()

    def start(self) -> None:
        self.left = [len(before) for before in self.before]
        self.values: list[Any] = [None] * len(self.left)
        self.todo = len(self.left)
        self.ended = threading.Event()

    def work(self, vertex: int) -> list[int]:
        """Run one vertex; gives those that became ready."""
        with self.lock:
            inputs = [self.values[b] for b in self.before[vertex]]
        value = nothing(*inputs)
        ready = []
        with self.lock:
            self.values[vertex] = value
        for after in self.after[vertex]:
            with self.lock:
                self.left[after] -= 1
                if not self.left[after]:
                    ready.append(after)
        with self.lock:
            self.todo -= 1
            if not self.todo:
                self.ended.set()
        return ready

    def run(self) -> None:
        """In this thread."""
        self.start()
        todo = deque([0])
        while todo:
            todo.extend(self.work(todo.popleft()))
        assert self.ended.is_set()

    def run_on(self, jobs: "queue.SimpleQueue[Callable[[], None] | None]") -> None:
        """On threads that take jobs."""
        self.start()

        def job(vertex: int) -> None:
            for ready in self.work(vertex):
                jobs.put(partial(job, ready))

        jobs.put(partial(job, 0))
        assert self.ended.wait(60)


def measure(vertices: int = 1_000, rounds: int = 9) -> dict[str, list[float]]:
    """Seconds of each round of each way, the ways taking turns."""
    wavefront = cells(vertices)
    last = wavefront[-1][0]
    finished = builder(wavefront)
    pool, locked = GraphPool(finished, 1), Locked(wavefront)
    number = {name: k for k, (name, _) in enumerate(wavefront)}
    edges = [(number[b], number[name]) for name, before in wavefront for b in before]
    counters = Counters(FlowGraph(Dag.from_edges(len(wavefront), [a for a, _ in edges], [b for _, b in edges])))
    jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def takes_jobs() -> None:
        while (job := jobs.get()) is not None:
            job()

    def pooled(executor: ThreadPoolExecutor | None = None) -> None:
        with pool.lent() as graph:
            assert graph.run(last, executor=executor).result(60) == 1

    def only_counters() -> None:
        counters.reset()
        ready = [0]
        while ready:
            ready, _released = counters.finish(ready)
        assert counters.is_done

    helpers = [threading.Thread(target=takes_jobs) for _ in range(4)]
    for helper in helpers:
        helper.start()
    times: dict[str, list[float]] = {}
    with ThreadPoolExecutor(4) as threads:
        ways: dict[str, Callable[[], object]] = {
            "pooled": pooled,
            "new instance": lambda: finished.build().run(last).result(),
            "rebuilt": lambda: builder(wavefront).build().run(last).result(),
            "global lock": locked.run,
            "counters alone": only_counters,
            "pooled, 4 threads": lambda: pooled(threads),
            "global lock, 4 threads": lambda: locked.run_on(jobs),
        }
        for _ in range(rounds):
            for name, way in ways.items():
                start = time.perf_counter()
                way()
                times.setdefault(name, []).append(time.perf_counter() - start)
    for _ in helpers:
        jobs.put(None)
    for helper in helpers:
        helper.join()
    return times


def main() -> None:
    """Print all."""
    vertices = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    print(this_machine())
    n = len(cells(vertices))
    times = measure(vertices)
    pooled = statistics.median(times["pooled"])
    print(f"{n} vertices; a pooled instance: {1 / pooled:.0f} runs a second")
    for name, seconds in times.items():
        figure = describe([each / n * 1e6 for each in seconds], "µs a vertex")
        print(f"{name:24s} {figure:44s} {statistics.median(seconds) / pooled:6.2f} x")


if __name__ == "__main__":
    main()
