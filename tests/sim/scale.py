"""The real planner and scheduler at scale: 10⁶ operands on 1,000 simulated hosts.

    python -m tests.sim.scale [--operands 1000000] [--hosts 1000] [--workers 4] [--graph transposed|product] [--profile]

Hosts are rows without processes on a virtual clock; graph, plan, `SessionActor` and `Hosts` are the real ones, and
what is timed is their time alone. docs/explanation/scale.md has figures of it.
Source: docs/explanation/seeds.md, "Execution control"; MACHINES 7.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import cloudpickle

import jmars.tensor as mt
from jmars.config import config
from jmars.model.messages import (
    CloseJob,
    EnqueueGraph,
    Finished,
    FreeChunks,
    JobClosed,
    JobTable,
    KeepChunks,
    LocateChunks,
    OpenJob,
    OperandsReturned,
    Order,
    Report,
    Started,
    Submission,
    TakeBack,
)
from jmars.model.status import JobState
from jmars.plan import Profile, Workers
from jmars.scheduler import EventLog, Machine, SessionActor
from jmars.scheduler.hosts import Hosts
from jmars.tensor.engine import NoComputeEngine, current_engine, set_engine
from jmars.tensor.tensor_graph import LinkedGraph, TensorGraph

__all__ = ["Scale", "Told", "run"]

CHUNK = 1024  # elements of a side
SECONDS = 0.05  # of an operand
BALANCE_SECONDS = 0.2  # between two calls of `balance`, as the head has them
BATCH = 16  # operands that a worker takes at once at most


@dataclass
class Told:
    """What a run cost.

    Attributes
    ----------
    compile, rank, place, rows
        Seconds of the parts of preparing, by the wall clock.
    open
        CPU seconds of the opening on all hosts.
    schedule, balance
        CPU seconds within the scheduler for reports, and for moving work.
    orders, reports
        Messages, by class; what goes to a host in one call is one message.
    opening
        Bytes of the order that opens the job on a host.
    events, event_bytes
        Of the log, all that were ever written.
    peak
        Most bytes of this process.
    makespan, ideal
        Virtual seconds, and those with all workers busy.
    """

    operands: int = 0
    edges: int = 0
    compile: float = 0.0
    rank: float = 0.0
    place: float = 0.0
    rows: float = 0.0
    open: float = 0.0
    schedule: float = 0.0
    balance: float = 0.0
    balances: int = 0
    orders: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    reports: Counter[str] = field(default_factory=Counter)
    opening: int = 0
    events: int = 0
    event_bytes: int = 0
    peak: int = 0
    makespan: float = 0.0
    ideal: float = 0.0
    shifted: int = 0


class CountingLog(EventLog):
    """Counts what is written."""

    written, weighed = 0, 0

    def append(self, kind: str, job: str, data: dict[str, Any], size: int | None = None) -> None:
        """Append an event."""
        before = self._held
        super().append(kind, job, data, size)
        self.written += 1
        self.weighed += self._events[-1][1] if self._events else self._held - before


class SimHost:
    """A host on the virtual clock: workers that take the lowest rank first, as dispatch does."""

    def __init__(self, scale: Scale, number: int, workers: int) -> None:
        self.scale, self.number, self.free = scale, number, list(range(workers))
        self.queue: list[tuple[int, int]] = []
        self.queued: set[int] = set()
        self.closing = False

    def order(self, orders: Sequence[Order]) -> None:
        """Take orders; what follows is reported by the clock."""
        began = time.thread_time()
        told = self.scale.told
        told.messages += 1
        for order in orders:
            told.orders[type(order).__name__] += 1
            if isinstance(order, EnqueueGraph):
                rank = self.scale.table.rank
                for operand in order.operands:
                    heapq.heappush(self.queue, (rank[operand], operand))
                    self.queued.add(operand)
                self.scale.wake(self)
            elif isinstance(order, OpenJob):
                told.opening = len(order.table)
            elif isinstance(order, TakeBack):
                back = [one for one in order.operands if one in self.queued]
                self.queued.difference_update(back)
                told.shifted += len(back)
                self.scale.later(0.001, self, [OperandsReturned(order.job, back)])
            elif isinstance(order, CloseJob):
                self.scale.later(0.001, self, [JobClosed(order.job, {"makespan": self.scale.now})])
            else:
                assert isinstance(order, FreeChunks | KeepChunks | LocateChunks)
        self.scale.away += time.thread_time() - began

    def take(self) -> None:
        """Give free workers their next operands."""
        job = self.scale.table.job
        while self.free and self.queued:
            worker = self.free.pop()
            share = max(1, min(BATCH, len(self.queued) // (2 * len(self.free) + 2)))
            taken: list[int] = []
            while self.queue and len(taken) < share:
                _, operand = heapq.heappop(self.queue)
                if operand in self.queued:
                    self.queued.discard(operand)
                    taken.append(operand)
            seconds = len(taken) * SECONDS
            self.scale.later(0.001, self, [Started(job, taken, worker)])
            micro = [int(SECONDS * 1e6)] * len(taken)
            self.scale.later(0.002 + seconds, self, [Finished(job, taken, worker, None, micro)], worker)


class Scale:
    """One run."""

    def __init__(self, hosts: int, workers: int) -> None:
        self.told = Told()
        self.now, self.away = 0.0, 0.0
        self.table: JobTable
        self._clock: list[tuple[float, int, SimHost, list[Report], int]] = []
        self._count = 0
        self._woken: dict[int, SimHost] = {}
        self.hosts = Hosts()
        self.log = CountingLog(now=lambda: self.now)
        self.ended: list[dict[str, Any]] = []
        self.sims = [SimHost(self, number, workers) for number in range(hosts)]
        for sim in self.sims:
            self.hosts.add(sim.number, f"host-{sim.number}", sim.order, workers, 16 << 30, 64 << 30)
        self.session = SessionActor(self.hosts, self.hosts.names, self.log, self.ended.append)
        rows = Workers.build(hosts, cores=workers, memory=16 << 30, bandwidth=1e9, latency=1e-4)
        numbers = [row.first for row in self.hosts.here]
        machine = Machine(Profile(), int(rows.memory.sum()), rows=rows, numbers=numbers)
        self.session.context.machine = lambda: machine
        self.hosts.connect(self.session)

    # -- for the hosts
    def later(self, seconds: float, host: SimHost, reports: list[Report], worker: int = -1) -> None:
        """Reports of a host, so much later; the worker is free again then."""
        self._count += 1
        heapq.heappush(self._clock, (self.now + seconds, self._count, host, reports, worker))

    def wake(self, host: SimHost) -> None:
        """A host has operands to look at."""
        self._woken[host.number] = host

    # -- the run
    async def run(self, graph: TensorGraph) -> Told:
        """Submit a graph and run the clock until the job has ended."""
        submission = Submission(cloudpickle.dumps(graph), "scale", dict(config.task))
        opened = self.hosts.open_job

        def open_job(table: JobTable) -> None:
            self.table = table
            began = time.thread_time()
            opened(table)
            self.told.open = time.thread_time() - began

        self.hosts.open_job = open_job  # type: ignore[method-assign]
        job = await self.session.submit(submission)
        running = self.session.graph(job)
        while running.state is JobState.PREPARING:
            await asyncio.sleep(0.01)
        assert running.newest is not None, running.error
        prepared = running.newest.prepared
        for name, seconds in prepared.phases:
            setattr(self.told, name, seconds)
        self.told.operands = prepared.plan.dag.n
        self.told.edges = prepared.plan.dag.m
        self.told.ideal = self.told.operands * SECONDS / len(self.session.context.workers)
        await self._spin()
        assert self.ended and self.ended[0]["state"] == "succeeded", self.ended
        assert not self.hosts.places.have or len(self.hosts.places) <= len(prepared.table.results)
        self.told.makespan, self.told.events = self.now, self.log.written
        self.told.event_bytes = self.log.weighed
        self.told.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return self.told

    async def _spin(self) -> None:
        balanced = 0.0
        while not self.ended:
            woken, self._woken = self._woken, {}
            for host in woken.values():
                host.take()
            assert self._clock, "nothing will ever happen again"
            if self._clock[0][0] > balanced + BALANCE_SECONDS:
                balanced = self.now = max(self.now, balanced + BALANCE_SECONDS)
                self._timed("balance", self.hosts.balance, self.now)
                self.told.balances += 1
                await asyncio.sleep(0)  # a plan made anew is swapped in
                continue
            self.now, _, host, reports, worker = heapq.heappop(self._clock)
            if worker >= 0:
                host.free.append(worker)
                self.wake(host)
            for report in reports:
                self.told.reports[type(report).__name__] += 1
            self._timed("schedule", self.hosts.take, host.number, reports)

    def _timed(self, what: str, act: Any, *args: Any) -> None:
        began, self.away = time.thread_time(), 0.0
        act(*args)
        setattr(self.told, what, getattr(self.told, what) + time.thread_time() - began - self.away)


def graph_of(kind: str, operands: int) -> TensorGraph:
    """A graph of about so many operands after fusion."""
    if kind == "product":  # side³ products and as many sums of four
        side = max(2, round((operands * 3 / 4) ** (1 / 3)))
        a, b = (mt.random.default_rng(n).random((side * CHUNK,) * 2, chunk_size=CHUNK) for n in range(2))
        result = (a @ b).sum()
    else:  # side² chunks that two read, side² sums of two of them, and a tree
        side = max(2, round((operands / 2.4) ** 0.5))
        x = mt.random.default_rng(0).random((side * CHUNK,) * 2, chunk_size=CHUNK)
        y = mt.map_blocks(_same, x, dtype="f8")  # not drawn again by each reader
        result = (y + y.T).sum()
    linked = LinkedGraph.of([result.data], set())
    return TensorGraph.from_linked(linked, [node.key for node in linked.nodes])


def _same(block: Any) -> Any:
    return block


def run(operands: int, hosts: int, workers: int = 4, kind: str = "transposed") -> Told:
    """Plan and schedule a graph of about so many operands."""
    before = current_engine()
    set_engine(NoComputeEngine(hosts * (16 << 30), hosts * workers))
    try:
        scale = Scale(hosts, workers)
        return asyncio.run(scale.run(graph_of(kind, operands)))
    finally:
        set_engine(before)


def main() -> int:
    """Print what a run costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operands", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--graph", default="transposed", choices=("transposed", "product"))
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    asked = parser.parse_args()
    args = asked.operands, asked.hosts, asked.workers, asked.graph
    if asked.profile:
        import cProfile
        import pstats

        with cProfile.Profile() as profile:
            told = run(*args)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    else:
        told = run(*args)
    for one in fields(told):
        value = getattr(told, one.name)
        print(f"{one.name:12} {dict(value) if isinstance(value, Counter) else f'{value:,.6g}'}")
    n = told.operands
    print(f"per operand: prepare {1e6 * (told.compile + told.rank + told.place + told.rows) / n:.1f} µs, ", end="")
    print(f"schedule {1e6 * told.schedule / n:.1f} µs, balance {1e6 * told.balance / n:.1f} µs, ", end="")
    print(f"{told.messages / n:.2f} orders, {sum(told.reports.values()) / n:.2f} reports, ", end="")
    print(f"{told.event_bytes / n:.0f} bytes of events, {told.peak / n:.0f} bytes of memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
