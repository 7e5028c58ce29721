"""Simulates the batches that a host's dispatcher sends ahead, for the memory that a run holds at most.

An operand holds its slot and its scratch from the time when it is sent, and its inputs until its end is reported. An
executor has two batches; a batch is filled until its predicted time reaches BATCH_SECONDS, and takes a share of what is
ready. So an executor with short operands holds memory of many, which `simulate` knows nothing of. Memory is taken to be
enough. Runs in Python, some 10 µs an operand.
Source: docs/explanation/seeds.md, "Ordering operands".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from jmars.model.limits import BATCH_OPERANDS, BATCH_SECONDS, REPORT_SECONDS, WAITS_BEHIND, WINDOW
from jmars.plan.assign.initial import assign_initial
from jmars.plan.plan_graph import PlanGraph

__all__ = ["WindowedRun", "peak_of_windows"]

COLD = 0.01  # seconds that the first operand of a program takes longer, to be compiled
LEARNT = 0.1  # weight of a measured time in the dispatcher's estimate


@dataclass(frozen=True, eq=False)
class WindowedRun:
    """What is the same in all simulated runs of a graph on a host.

    Attributes
    ----------
    graph
        Costs in seconds; its sizes are not used.
    rank
        Order of ready operands, shape (n,).
    executors
        Processes that compute.
    stored
        Whether each chunk is stored before the run, shape (n,).
    outputs, work
        Bytes that each output and the scratch take in memory, shape (n,).
    asks
        Whether an operand's output has an unknown size, so that no operand is sent behind it, shape (n,).
    """

    graph: PlanGraph
    rank: NDArray[np.int64]
    executors: int
    stored: NDArray[np.bool_]
    outputs: NDArray[np.int64]
    work: NDArray[np.int64]
    asks: NDArray[np.bool_]
    planned: list[int] = field(init=False)

    def __post_init__(self) -> None:
        dag = self.graph.dag
        first = dag.sources()
        planned = assign_initial(dag, first[~self.stored[first]], [1] * self.executors)
        object.__setattr__(self, "planned", planned.tolist())


def peak_of_windows(
    run: WindowedRun, noise: float = 0.0, seed: int = 0, believed: float | None = 1.0, slower: float = 1.0
) -> int:
    """Most bytes held in a simulated run.

    Parameters
    ----------
    run
        The run.
    noise, seed
        Sigma of the logarithm of costs around the predicted costs, and the seed of the draw.
    believed
        Times that the dispatcher fills batches by, as a multiple of the predicted times. None: it learns them, as
        `jmars.dispatch.estimate`, from the first end of a program on, and until then an operand is a batch of its own.
    slower
        How many times as long as predicted all operands take, as on a loaded machine.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> graph = PlanGraph.build(Dag.from_edges(8, [], []), 0.001, 100)  # nobody reads or keeps the chunks
    >>> each = np.full(8, 128)
    >>> run = WindowedRun(graph, np.arange(8), 1, each < 0, each, 0 * each, each < 0)
    >>> [peak_of_windows(run, believed=believed) // 128 for believed in (None, 1.0, 0.0)]
    [8, 8, 8]
    """
    return _Run(run, noise, seed, believed, slower).peak()


@dataclass(eq=False)
class _Batch:
    operands: deque[int]
    seconds: float  # as predicted
    asks: bool = False


class _Run:
    """One simulated run."""

    def __init__(self, run: WindowedRun, noise: float, seed: int, believed: float | None, slower: float) -> None:
        graph, dag = run.graph, run.graph.dag
        n = graph.n
        self.run, self.succ_ptr, self.succ_idx = run, dag.succ_ptr.tolist(), dag.succ_idx.tolist()
        self.pred_ptr, self.pred_idx = dag.pred_ptr.tolist(), dag.pred_idx.tolist()
        cost = graph.cost * slower
        self.expected = None if believed is None else (cost * believed).tolist()
        self.learnt: dict[int, float] = {}  # seconds by program
        self.cost = (cost * np.random.default_rng(seed).lognormal(0.0, noise, n) if noise else cost).tolist()
        self.waiting = dag.in_degree.tolist()
        self.readers = dag.out_degree.tolist()
        self.kept = (graph.result | run.stored).tolist()
        self.outputs, self.work, self.asks = run.outputs.tolist(), run.work.tolist(), run.asks.tolist()
        self.rank, self.owner, self.op = run.rank.tolist(), run.planned.copy(), graph.op.tolist()
        self.heaps: list[list[tuple[int, int]]] = [[] for _ in range(run.executors)]
        self.batches: list[deque[_Batch]] = [deque() for _ in range(run.executors)]
        self.since = [0.0] * run.executors  # of the last report, or when a batch came to an idle executor
        self.done: list[list[int]] = [[] for _ in range(run.executors)]  # ended and not reported
        self.events: list[tuple[float, int]] = []  # (end of an operand, executor)
        self.held = self.most = int(run.outputs[run.stored].sum())

    def peak(self) -> int:
        """Run to the end."""
        stored = np.flatnonzero(self.run.stored).tolist()
        for operand in np.flatnonzero((self.run.graph.dag.in_degree == 0) & ~self.run.stored).tolist():
            self._ready(operand)
        for operand in stored:
            self._finished(operand)
        self._dispatch(0.0)
        while self.events:
            now, executor = heappop(self.events)
            batch = self.batches[executor][0]
            self.done[executor].append(batch.operands.popleft())
            if batch.operands:
                if now - self.since[executor] > REPORT_SECONDS:
                    self._report(executor, now)
                    self._dispatch(now)
                heappush(self.events, (now + self.cost[batch.operands[0]], executor))
                continue
            self.batches[executor].popleft()
            self._report(executor, now)
            if self.batches[executor]:
                heappush(self.events, (now + self.cost[self.batches[executor][0].operands[0]], executor))
            self._dispatch(now)
        return self.most

    def _report(self, executor: int, now: float) -> None:
        """Free scratch and inputs of the operands that ended, and make their readers ready."""
        self.since[executor] = now
        for operand in self.done[executor]:
            if self.expected is None:
                self._learn(self.op[operand], self.cost[operand])
            self.held -= self.work[operand]
            self.owner[operand] = executor
            for k in range(self.pred_ptr[operand], self.pred_ptr[operand + 1]):
                one = self.pred_idx[k]
                self.readers[one] -= 1
                if not self.readers[one] and not self.kept[one]:
                    self.held -= self.outputs[one]
            self._finished(operand)
        self.done[executor].clear()

    def _learn(self, program: int, seconds: float) -> None:
        known = self.learnt.get(program)
        self.learnt[program] = COLD + seconds if known is None else known + LEARNT * (seconds - known)

    def _finished(self, operand: int) -> None:
        for k in range(self.succ_ptr[operand], self.succ_ptr[operand + 1]):
            reader = self.succ_idx[k]
            self.waiting[reader] -= 1
            if not self.waiting[reader]:
                self._ready(reader)

    def _ready(self, operand: int) -> None:
        """Queue an operand for the executor that it is planned for, or that made most bytes of its inputs."""
        executor = self.owner[operand]
        if executor < 0:
            size: dict[int, int] = {}
            for k in range(self.pred_ptr[operand], self.pred_ptr[operand + 1]):
                one = self.pred_idx[k]
                size[self.owner[one]] = size.get(self.owner[one], 0) + self.outputs[one]
            executor = max(0, max(size, key=lambda one: (size[one], -one)))
        heappush(self.heaps[executor], (self.rank[operand], operand))

    def _dispatch(self, now: float) -> None:
        """Fill the windows as `jmars.dispatch.dispatcher` does."""
        for depth in range(WINDOW):
            for executor, batches in enumerate(self.batches):
                if len(batches) > depth or not any(self.heaps):
                    continue
                if batches and (batches[-1].asks or self._runs_long(executor, now)):
                    continue
                batch = self._batch(executor)
                if not batches:
                    self.since[executor] = now
                    heappush(self.events, (now + self.cost[batch.operands[0]], executor))
                batches.append(batch)
        self.most = max(self.most, self.held)

    def _runs_long(self, executor: int, now: float) -> bool:
        return self.batches[executor][0].seconds >= WAITS_BEHIND or now - self.since[executor] >= WAITS_BEHIND

    def _batch(self, executor: int) -> _Batch:
        batch = _Batch(deque(), 0.0)
        limit = min(BATCH_OPERANDS, 1 + sum(map(len, self.heaps)) // (WINDOW * len(self.batches)))
        while len(batch.operands) < limit and batch.seconds < BATCH_SECONDS and any(self.heaps):
            heap = self.heaps[executor] or max(self.heaps, key=len)
            _, operand = heappop(heap)
            batch.operands.append(operand)
            if self.expected is None:
                batch.seconds += self.learnt.get(self.op[operand], BATCH_SECONDS)
            else:
                batch.seconds += self.expected[operand]
            self.held += self.outputs[operand] + self.work[operand]
            if self.asks[operand]:
                batch.asks = True
                break
        return batch
