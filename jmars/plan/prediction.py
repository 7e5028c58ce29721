"""Predicts a run on this host before the start: seconds, peak bytes, bytes spilled.

The costs come from the profile and the run from the simulator. Three effects that the simulator does not model are
added here: batches are sent to executors ahead, so outputs take memory before their operands run; slots are larger than
small chunks; and the first write to a page of memory costs time.

`WindowedRun` simulates the batches that a host's dispatcher sends ahead, for the peak memory of a run. An operand holds
slot and scratch from the time of the send, and inputs until the end is reported. An executor has two batches; a batch
is filled until the predicted time reaches BATCH_SECONDS, and takes a share of the ready operands. So an executor with
short operands holds memory of many; `simulate` does not know of that. Memory is taken to be enough. Runs in Python,
some 10 µs an operand.
Source: docs/explanation/seeds.md, "Graph optimization", "Ordering operands".
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from jmars.errors import MemoryLimitError
from jmars.graph import Dag
from jmars.model.limits import BATCH_OPERANDS, BATCH_SECONDS, PAGE, REPORT_SECONDS, SMALLEST_SLOT, WAITS_BEHIND, WINDOW
from jmars.plan.costs import Profile, annotate, one_host
from jmars.plan.initial import assign_initial
from jmars.plan.plan_graph import PlanGraph, Workers
from jmars.plan.simulation import SimResult, lower_bound, simulate
from jmars.tensor.chunk import ChunkGraph

FEW = 500  # operands; smaller graphs are simulated batch by batch


@dataclass(frozen=True)
class Prediction:
    """Predicted cost of a run.

    Attributes
    ----------
    makespan
        Seconds from the start of the first operand to the end of the last operand.
    peak
        Most bytes of chunks and scratch: if few batches are sent ahead, and if every executor has batches waiting.
    spilled
        Bytes written to disk.
    lower_bound
        Seconds that no plan beats.
    """

    makespan: float
    peak: tuple[int, int]
    spilled: int
    lower_bound: float


def predict(
    graph: ChunkGraph, dag: Dag, rank: NDArray[np.int64], profile: Profile, executors: int, memory: int
) -> Prediction:
    """Predicts a run of a compiled graph on this host, with operands in the order of `rank`.

    Parameters
    ----------
    graph, dag
        `Compiled.after` and `Compiled.dag`.
    rank
        Rank of each operand by the plan.
    profile
        Measured costs.
    executors, memory
        Processes that compute, and bytes for chunks and scratch.

    Raises
    ------
    MemoryLimitError
        If one operand alone does not fit.
    """
    seen = annotate(graph, dag, profile)
    placed = np.where(graph.program < 0, 0, -1)
    workers = one_host(profile, executors, memory)
    result = simulate(seen, workers, np.where(placed < 0, 0, -1), rank, placed=placed)
    return predict_from_simulation(seen, workers, rank, result, profile, placed)


def predict_from_simulation(
    graph: PlanGraph,
    workers: Workers,
    rank: NDArray[np.int64],
    result: SimResult,
    profile: Profile,
    placed: NDArray[np.int64],
    fresh: int = 0,
) -> Prediction:
    """Corrects a simulation of this host for batches sent ahead, slot sizes and untouched memory.

    Parameters
    ----------
    graph, workers, rank, placed
        Arguments of the simulation.
    result
        Result of the simulation.
    fresh
        Bytes of the arena that no job has written yet.
    """
    executors, count = int(workers.cores.sum()), int((placed < 0).sum())
    mean = float(graph.cost.sum()) / max(count, 1)
    batch = min(math.ceil(BATCH_SECONDS * profile.busy / mean), BATCH_OPERANDS) if mean else 1
    sent = WINDOW * min(batch, max(1, count // (WINDOW * executors)))
    # operands sent ahead hold memory while they wait for the operands before them; the total time stays
    ahead = Workers.build(1, cores=workers.cores * sent, speed=workers.speed, memory=workers.memory, disk=workers.disk)
    cost = np.where(placed < 0, graph.cost + (sent - 1) * mean, 0.0)
    one, taken = np.where(placed < 0, 0, -1), slots(graph.nbytes)
    in_slots, sent_ahead = (
        PlanGraph.build(graph.dag, seconds, taken, work=graph.work, result=graph.result)
        for seconds in (graph.cost, cost)
    )
    try:
        alone = simulate(in_slots, workers, one, rank, placed=placed).peak_total
        waiting = simulate(sent_ahead, ahead, one, rank, placed=placed)
        held, spilled = waiting.peak_total, (result.spilled + max(result.spilled, waiting.spilled)) // 2  # the mean
    except MemoryLimitError:  # fits to the byte but not in slots: memory will be full
        alone, held, spilled = result.peak_total, int(workers.memory[0]), result.spilled
    if graph.n <= FEW and held < workers.memory[0]:
        stored, work = placed >= 0, np.where(graph.work > 0, slots(graph.work), 0)
        windows = WindowedRun(graph, rank, executors, stored, taken, work, np.zeros(graph.n, np.bool_))
        found = [peak_of_windows(windows, believed=believed) for believed in (None, 1.0)]
        if max(found) <= workers.memory[0]:  # else operands wait for memory
            alone, held = found
    low, high = sorted((alone, held))
    late = (spilled - result.spilled) / float(workers.disk[0])  # write and read, half during other work
    touched = min(fresh, high) * profile.touch / executors
    return Prediction(result.makespan + late + touched, (low, high), spilled, lower_bound(graph, workers))


def slots(nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sizes of the arena slots of chunks of the given sizes, as `model.limits.slot_size`.

    Examples
    --------
    >>> slots(np.array([0, 8, 100, 5000])).tolist()
    [64, 64, 128, 8192]
    """
    small = 1 << np.ceil(np.log2(np.maximum(nbytes, SMALLEST_SLOT))).astype(np.int64)
    return np.where(nbytes <= PAGE // 2, small, -(-nbytes // PAGE) * PAGE)


COLD = 0.01  # seconds that the first operand of a program takes longer, to be compiled
LEARNT = 0.1  # weight of a measured time in the dispatcher's estimate


@dataclass(frozen=True, eq=False)
class WindowedRun:
    """The common part of all simulated runs of a graph on a host.

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
        `jmars.dispatch.ledger`, from the first end of a program on, and until then an operand is a batch of its own.
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
    seconds: float  # predicted
    asks: bool = False


class _Run:
    """A simulated run."""

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
        """Queue an operand for the planned executor, or the executor that made most bytes of the inputs."""
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
