"""Seed 002's claim: a pooled instance and counters without a lock make fine grain cheap.

    python -m tests.benchmarks flow [VERTICES]

µs a vertex of one run of a wavefront of about VERTICES (1,000) vertices, medians of interleaved rounds: a pooled
instance of `jmars.flow`; an instance built for the run; the whole graph built for the run; an engine that takes one
global lock for each change of a counter, otherwise as lean as can be. Pooled instance and lock also on threads, with
vertices that do nothing and with vertices that count for some 20 µs; a thread goes on with one of the vertices that it
made ready and queues the others, in both engines. Then the change of a counter alone, two a vertex, by each of several
threads: by tokens, and under one lock. The counters alone are what the scheduler runs on. Ratios are to the pooled
instance. Runs on a free-threaded Python too; the first line says whether there is a global interpreter lock.
"""

import platform
import queue
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from jmars.flow import Counters, FlowGraph, GraphBuilder, GraphPool, ThreadPoolExecutor
from jmars.graph import Dag
from tests.benchmarks.machine import describe, this_machine


def nothing(*values: Any) -> int:
    """What a vertex does."""
    return 1


def counting(*values: Any) -> int:
    """What a vertex with work does: some 20 µs of Python, on small numbers, whose references no threads contend for."""
    number = 1
    for _ in range(600):
        number = (number * 7 + 3) % 251
    return number + 1


def cells(vertices: int) -> list[tuple[str, list[str]]]:
    """The vertices of a square wavefront and what they read, in order."""
    n = max(2, round(vertices**0.5))
    return [(f"{i},{j}", [f"{i - 1},{j}"] * (i > 0) + [f"{i},{j - 1}"] * (j > 0)) for i in range(n) for j in range(n)]


def builder(wavefront: list[tuple[str, list[str]]], function: Callable[..., int] = nothing) -> GraphBuilder:
    """It as a graph of `jmars.flow`."""
    made = GraphBuilder("wavefront")
    for name, before in wavefront:
        made.function(function, before, name, name=name)
    return made.finish()


class Locked:
    """A small engine with a critical section: every change of a counter is made under one lock."""

    def __init__(self, wavefront: list[tuple[str, list[str]]], function: Callable[..., int] = nothing) -> None:
        self.function = function
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
        value = self.function(*inputs)
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

    def run_on(self, jobs: "Jobs") -> None:
        """On threads that take jobs."""
        self.start()

        def job(vertex: int) -> None:
            todo = deque([vertex])
            while todo:
                for ready in self.work(todo.popleft()):
                    if todo:
                        jobs.put(partial(job, ready))
                    else:
                        todo.append(ready)

        jobs.put(partial(job, 0))
        assert self.ended.wait(60)


def steps(threads: int, vertices: int, locked: bool) -> None:
    """Two changes of each of `vertices` counters, the counters divided among threads."""
    lock, start = threading.Lock(), threading.Barrier(threads)

    def some(mine: range) -> None:
        ready = 0
        start.wait()
        if locked:
            left = dict.fromkeys(mine, 2)
            for k in [*mine, *mine]:
                with lock:
                    left[k] -= 1
                    if not left[k]:
                        ready += 1
        else:
            tokens = {k: [0, 1] for k in mine}
            for k in [*mine, *mine]:
                if not tokens[k].pop():
                    ready += 1
        assert ready == len(mine)

    helpers = [threading.Thread(target=some, args=(range(k, vertices, threads),)) for k in range(threads)]
    for helper in helpers:
        helper.start()
    for helper in helpers:
        helper.join()


def measure(vertices: int = 1_000, rounds: int = 9) -> dict[str, list[float]]:
    """Seconds of each round of each way, the ways taking turns."""
    wavefront = cells(vertices)
    last = wavefront[-1][0]
    finished = builder(wavefront)
    pools = {name: GraphPool(builder(wavefront, what), 1) for name, what in WORK.items()}
    locks = {name: Locked(wavefront, what) for name, what in WORK.items()}
    number = {name: k for k, (name, _) in enumerate(wavefront)}
    edges = [(number[b], number[name]) for name, before in wavefront for b in before]
    counters = Counters(FlowGraph(Dag.from_edges(len(wavefront), [a for a, _ in edges], [b for _, b in edges])))

    def pooled(pool: GraphPool, executor: ThreadPoolExecutor | None = None) -> None:
        with pool.lent() as graph:
            assert graph.run(last, executor=executor).result(60) > 0

    def only_counters() -> None:
        counters.reset()
        ready = [0]
        while ready:
            ready, _released = counters.finish(ready)
        assert counters.is_done

    ways: dict[str, Callable[[], object]] = {
        "pooled": partial(pooled, pools["nothing"]),
        "new instance": lambda: finished.build().run(last).result(),
        "rebuilt": lambda: builder(wavefront).build().run(last).result(),
        "global lock": locks["nothing"].run,
        "counters alone": only_counters,
    }
    with ExitStack() as stack:
        for threads in (2, 4):
            executor, jobs = stack.enter_context(ThreadPoolExecutor(threads)), stack.enter_context(job_queue(threads))
            ways[f"pooled, {threads} threads"] = partial(pooled, pools["nothing"], executor)
            ways[f"global lock, {threads} threads"] = partial(locks["nothing"].run_on, jobs)
        executor, jobs = stack.enter_context(ThreadPoolExecutor(2)), stack.enter_context(job_queue(2))
        ways["pooled, work"] = partial(pooled, pools["work"])
        ways["global lock, work"] = locks["work"].run
        ways["pooled, work, 2 threads"] = partial(pooled, pools["work"], executor)
        ways["global lock, work, 2 threads"] = partial(locks["work"].run_on, jobs)
        for threads in (1, 2):
            ways[f"two tokens, {threads} threads"] = partial(steps, threads, len(wavefront), False)
            ways[f"two steps with a lock, {threads} threads"] = partial(steps, threads, len(wavefront), True)
        times: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, way in ways.items():
                start = time.perf_counter()
                way()
                times.setdefault(name, []).append(time.perf_counter() - start)
    return times


WORK = {"nothing": nothing, "work": counting}
Jobs = queue.SimpleQueue[Callable[[], None] | None]


@contextmanager
def job_queue(threads: int) -> Iterator[Jobs]:
    """A queue whose jobs are done by threads."""
    jobs: Jobs = queue.SimpleQueue()

    def takes_jobs() -> None:
        while (job := jobs.get()) is not None:
            job()

    helpers = [threading.Thread(target=takes_jobs) for _ in range(threads)]
    for helper in helpers:
        helper.start()
    try:
        yield jobs
    finally:
        for _ in helpers:
            jobs.put(None)
        for helper in helpers:
            helper.join()


def main() -> None:
    """Print all."""
    vertices = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    lock = "one interpreter lock" if has_lock else "no interpreter lock"
    print(f"{this_machine()}; Python {platform.python_version()}, {lock}")
    n = len(cells(vertices))
    times = measure(vertices)
    pooled = statistics.median(times["pooled"])
    print(f"{n} vertices; a pooled instance: {1 / pooled:.0f} runs a second")
    for name, seconds in times.items():
        figure = describe([each / n * 1e6 for each in seconds], "µs a vertex")
        print(f"{name:36s} {figure:44s} {statistics.median(seconds) / pooled:6.2f} x")


if __name__ == "__main__":
    main()
