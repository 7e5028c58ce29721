"""Replans the rest of a run when a worker is slower than planned, is lost, or has joined.

`remaining` extracts the operands still to run; running operands stay on their workers, and stored chunks are read from
their holders. `replan` simulates plans that keep the operands' workers, keep them at a price, or ignore them, and takes
the best. Plans that ignore the current workers cause many transfers.

`drift` compares measured seconds of ended operands with planned seconds. A worker has drifted if the speed differs from
the other workers' by more than the tolerance and beyond chance, after some operands; if all workers are slower alike
the plan stays good. `replan` takes the measured speeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError, MemoryLimitError
from jmars.graph import Dag
from jmars.model.limits import TRAFFIC_WEIGHT
from jmars.plan.assign import assign_eft
from jmars.plan.choice import Candidate, Choice, Plan
from jmars.plan.order import rank_by
from jmars.plan.plan_graph import PlanGraph, Workers
from jmars.plan.simulation import lower_bound, simulate

WAITS, READY, RUNNING, DONE = range(4)  # as `Simulation.state`


@dataclass(frozen=True, eq=False)
class Remaining:
    """The rest of a graph: `graph` has the operands with numbers `operands` of the whole graph. Stored chunks have
    their worker in `placed`, running operands in `fixed`; -1 elsewhere, shape (k,).
    """

    graph: PlanGraph
    operands: NDArray[np.int64]
    placed: NDArray[np.int16]
    fixed: NDArray[np.int16]


def remaining(
    graph: PlanGraph,
    state: ArrayLike,
    placed: ArrayLike,
    running: ArrayLike | None = None,
    *,
    elapsed: ArrayLike | None = None,
) -> Remaining:
    """Extracts the part of a graph that is still to run.

    Parameters
    ----------
    graph
        All operands.
    state
        `WAITS`, `READY`, `RUNNING` or `DONE`, shape (n,).
    placed
        Worker that stores an operand's chunk now, -1: none, shape (n,). A finished operand without stored chunk runs
        again if a remaining operand reads the chunk.
    running
        Worker of each running operand, shape (n,); None: no operand runs. Their inputs count as present.
    elapsed
        Seconds that each running operand has run, on a core of speed 1, shape (n,); None: 0.

    Raises
    ------
    GraphError
        If an operand runs on no worker.
    """
    now, holder = np.asarray(state), np.asarray(placed, np.int64)
    at = np.full(graph.n, -1) if running is None else np.asarray(running, np.int64)
    runs = now == RUNNING
    if np.any(at[runs] < 0):
        raise GraphError(f"operand {np.flatnonzero(runs & (at < 0))[0]} runs on no worker; give one in `running`")
    src, dst = graph.dag.edges()
    left = now != DONE
    reads = left & ~runs
    while True:  # lost chunks with readers are computed again, and so are their lost inputs
        lost = np.zeros(graph.n, np.bool_)
        lost[src[reads[dst]]] = True
        lost &= ~left & (holder < 0)
        if not lost.any():
            break
        left, reads = left | lost, reads | lost
    used = reads[dst]
    there = np.zeros(graph.n, np.bool_)
    there[src[used]] = True
    there &= ~left & (holder >= 0)
    operands = np.flatnonzero(left | there)
    place = np.full(graph.n, -1, np.int64)
    place[operands] = np.arange(len(operands))
    cost = np.where(there, 0.0, graph.cost)
    if elapsed is not None:
        cost[runs] = np.maximum(cost[runs] - np.asarray(elapsed, np.float64)[runs], 0.0)
    pin = np.where(runs, at, graph.pin)
    part = PlanGraph.build(
        Dag.from_edges(len(operands), place[src[used]], place[dst[used]]),
        cost[operands],
        graph.nbytes[operands],
        work=graph.work[operands],
        result=graph.result[operands],
        device=graph.device[operands],
        pin=pin[operands],
        op=graph.op[operands],
    )
    home = np.where(there, holder, -1)[operands].astype(np.int16)
    return Remaining(part, operands, home, np.where(runs, at, -1)[operands].astype(np.int16))


def replan(
    graph: PlanGraph,
    workers: Workers,
    plan: Plan,
    state: ArrayLike,
    placed: ArrayLike,
    *,
    running: ArrayLike | None = None,
    elapsed: ArrayLike | None = None,
    available: ArrayLike | None = None,
    budget: float | None = 1.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Choice:
    """Makes a new plan for the remaining operands.

    Parameters
    ----------
    graph
        All operands.
    workers
        The workers now: workers of the old plan in the same order, with the speeds found by `drift`, then workers that
        have joined.
    plan
        The old plan; operands keep their worker where that is as good.
    state, placed, running, elapsed
        See `remaining`; `running` None: operands run on their worker in `plan`.
    available
        Whether each worker may be used, shape (P,); False: the worker is lost with its chunks. None: all may.
    budget
        Seconds after which no further plan is tried; None: all are tried. At least a single plan is made.
    clock
        Returns the time in seconds.

    Returns
    -------
    Choice
        `plan` is for the whole graph: `assign` is -1 for finished operands; running operands keep their worker and
        have the lowest ranks. `predicted`, `tried` and `lower_bound` are of the rest of the run only.

    Raises
    ------
    GraphError
        If no worker is left, or no worker may run an operand.
    MemoryLimitError
        If an operand alone does not fit.

    Examples
    --------
    Worker 1 turned out to be four times slower, so worker 0 takes over its operands:

    >>> graph = PlanGraph.build(Dag.from_edges(6, [], []), cost=1.0, nbytes=8)
    >>> old = Plan(graph.dag, np.array([0, 0, 0, 1, 1, 1], np.int16), np.arange(6))
    >>> now = replan(graph, Workers.build(2, speed=[1.0, 0.25]), old, [3, 3, 0, 3, 0, 0], [0, 0, -1, 1, -1, -1])
    >>> now.plan.assign.tolist(), now.predicted.makespan
    ([-1, -1, 0, -1, 0, 0], 3.0)
    """
    start = clock()
    usable = np.ones(len(workers), np.bool_) if available is None else np.asarray(available, np.bool_)
    if not usable.any():
        raise GraphError("no worker is left to plan for; start a worker first")
    state, holder = np.asarray(state).copy(), np.asarray(placed, np.int64)
    at = np.asarray(plan.assign if running is None else running, np.int64)
    state[(state == RUNNING) & (at >= 0) & ~usable[at]] = WAITS  # its worker is lost
    holder = np.where((holder >= 0) & usable[holder], holder, -1)
    rest = remaining(graph, state, holder, np.where(state == RUNNING, at, -1), elapsed=elapsed)
    part, here = _only(rest.graph, workers, usable)
    number = np.cumsum(usable) - 1  # number of each usable worker among the usable workers
    home = np.where(rest.placed >= 0, number[rest.placed], -1).astype(np.int16)
    owner = np.where(rest.fixed >= 0, rest.fixed, np.asarray(plan.assign, np.int64)[rest.operands])
    owner = np.where((owner >= 0) & usable[owner], number[owner], -1)
    kept = np.empty(part.n, np.int64)
    kept[np.argsort(plan.rank[rest.operands], kind="stable")] = np.arange(part.n)
    bound, total = lower_bound(part, here), max(int(part.nbytes.sum()), 1)
    tried: list[Candidate] = []
    failed: list[MemoryLimitError] = []
    for name, ordered, assign, rank in _candidates(part, here, home, owner, kept, rest.fixed >= 0):
        try:
            result = simulate(part, here, assign, rank, placed=home)
        except MemoryLimitError as error:
            failed.append(error)
            continue
        score = result.makespan / (bound or 1.0) + TRAFFIC_WEIGHT * result.moved / total
        tried.append(Candidate(name, ordered, assign, rank, result, score))
        if budget is not None and clock() - start >= budget:
            break
    if not tried:
        raise failed[0]
    best = min(tried, key=lambda one: one.score)
    whole = np.full(graph.n, -1, np.int16)
    back = np.flatnonzero(usable)
    runs = best.assign >= 0
    whole[rest.operands[runs]] = back[best.assign[runs]]
    # finished operands rank before remaining operands, in their old order
    order = np.argsort(plan.rank, kind="stable")
    gone = np.ones(graph.n, np.bool_)
    gone[rest.operands] = False
    rank = np.empty(graph.n, np.int64)
    rank[order[gone[order]]] = np.arange(graph.n - part.n)
    rank[rest.operands] = graph.n - part.n + best.rank
    return Choice(Plan(graph.dag, whole, rank), best.result, tuple(tried), bound)


def _only(part: PlanGraph, workers: Workers, usable: NDArray[np.bool_]) -> tuple[PlanGraph, Workers]:
    """The graph with pins renumbered, and the usable workers."""
    if usable.all():
        return part, workers
    here = Workers.build(
        int(usable.sum()),
        cores=workers.cores[usable],
        speed=workers.speed[usable],
        memory=workers.memory[usable],
        device=workers.device[usable],
        bandwidth=workers.bandwidth[np.ix_(usable, usable)],
        latency=workers.latency,
        disk=workers.disk[usable],
    )
    number = np.where(usable, np.cumsum(usable) - 1, -2)  # -2: no worker; `Workers.able` raises for it
    pin = np.where(part.pin >= 0, number[part.pin], -1)
    same = (part.cost, part.nbytes)
    given = {"work": part.work, "result": part.result, "device": part.device, "op": part.op}
    return PlanGraph.build(part.dag, *same, pin=pin, **given), here


def _candidates(
    part: PlanGraph,
    workers: Workers,
    home: NDArray[np.int16],
    owner: NDArray[np.int64],
    kept: NDArray[np.int64],
    runs: NDArray[np.bool_],
) -> Iterator[tuple[str, str, NDArray[np.int16], NDArray[np.int64]]]:
    """Yields candidate plans: the old plan, plans that keep workers at a price, plans that ignore old workers."""
    kept = _first(kept, runs)
    if not np.any((owner < 0) & (home < 0)):
        yield "as it was", "as it was", np.where(home >= 0, -1, owner).astype(np.int16), kept
    urgent = _first(rank_by("blevel", part, workers.seconds_per_byte), runs)
    mean = float(part.cost.sum()) / max(part.n, 1)

    def eft(pull: float, price: float) -> NDArray[np.int16]:
        return assign_eft(part, workers, urgent, price=price, affinity=owner, pull=pull, placed=home)

    for name, pull, price in (
        ("owners kept at a price", mean, 3.0),
        ("owners kept", np.inf, 3.0),
        ("owners kept at a low price", mean / 4, 3.0),
        ("eft 3", 0.0, 3.0),
        ("eft 1", 0.0, 1.0),
        ("owners kept at a high price", 8 * mean, 3.0),
    ):
        assign = eft(pull, price)
        yield name, "blevel", assign, urgent
        yield name, "as it was", assign, kept
    assign = eft(mean, 3.0)
    yield "owners kept at a price", "dfs", assign, _first(rank_by("dfs", part), runs)


def _first(rank: NDArray[np.int64], runs: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The rank with running operands first."""
    found = np.empty(len(rank), np.int64)
    found[np.lexsort((rank, ~runs))] = np.arange(len(rank))
    return found


_SURE = 3.0  # standard errors of a drift, beside the tolerance


@dataclass(frozen=True, eq=False)
class Observed:
    """Ended operands, the workers that ran them, and their seconds; arrays of shape (k,)."""

    operand: NDArray[np.int64]
    worker: NDArray[np.int64]
    seconds: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DriftReport:
    """Measured speeds of workers against the plan.

    Attributes
    ----------
    speed
        Measured speed of each worker, shape (P,), as `Workers.speed`: relative to the median worker, so that equally
        slow workers keep their speed. Workers with too few ended operands keep the planned speed.
    scale
        Measured seconds over planned seconds of all workers; 2.0: operands take twice as long.
    ran
        Number of ended operands of each worker that count, shape (P,).
    workers
        Workers that drifted.
    """

    speed: NDArray[np.float64]
    scale: float
    ran: NDArray[np.int64]
    workers: tuple[int, ...]

    @property
    def off(self) -> bool:
        """Whether a worker drifted, so that planning anew is worth the time."""
        return bool(self.workers)

    @property
    def why(self) -> str:
        """The speeds of drifted workers in a sentence, for the log and the view."""
        if not self.workers:
            return "every worker is about as fast as planned"
        found = [f"worker {w} runs at {self.speed[w]:.2f} (after {self.ran[w]} operands)" for w in self.workers]
        return ", ".join(found)


def drift(
    graph: PlanGraph, workers: Workers, observed: Observed, *, tolerance: float = 0.25, after: int = 4
) -> DriftReport:
    """Compares a run with the plan.

    Parameters
    ----------
    graph, workers
        The arguments of the plan.
    observed
        Operands ended so far; operands without cost are left out.
    tolerance
        Part by which a worker's speed may differ from the planned speed.
    after
        Least number of ended operands of a worker to be judged.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> graph = PlanGraph.build(Dag.from_edges(12, [], []), cost=1.0, nbytes=8)
    >>> two = Workers.build(2)
    >>> ran = Observed(np.arange(12), np.arange(12) % 2, np.where(np.arange(12) % 2, 2.0, 1.0))
    >>> report = drift(graph, two, ran)
    >>> report.workers, report.speed.tolist(), report.why
    ((1,), [1.0, 0.5], 'worker 1 runs at 0.50 (after 6 operands)')
    """
    p = len(workers)
    operand, worker = np.asarray(observed.operand, np.int64), np.asarray(observed.worker, np.int64)
    planned = graph.cost[operand] / workers.speed[worker]
    took = np.asarray(observed.seconds, np.float64)
    counts = (planned > 0) & (took > 0)
    planned, took, worker = planned[counts], took[counts], worker[counts]
    ran = np.bincount(worker, minlength=p)
    judged = np.flatnonzero(ran >= after)
    if not len(judged):
        return DriftReport(workers.speed.copy(), 1.0, ran, ())
    ratio = np.bincount(worker, took, p) / np.maximum(np.bincount(worker, planned, p), 1e-300)
    # the reference is the median worker, weighted by cores
    order = judged[np.argsort(ratio[judged], kind="stable")]
    share = np.cumsum(workers.cores[order])
    middle = int(order[np.searchsorted(share, share[-1] / 2)])
    scale = float(ratio[middle])
    spread = np.log(took / planned) - np.log(ratio[worker])
    sigma = float(np.sqrt(np.mean(spread**2))) if len(spread) else 0.0
    speed, off = workers.speed.copy(), []
    for w in judged.tolist():
        relative = scale / ratio[w]
        far = abs(np.log(relative))
        if far > np.log1p(tolerance) and far > _SURE * sigma * np.sqrt(1 / ran[w] + 1 / ran[middle]):
            speed[w] *= relative
            off.append(w)
    return DriftReport(speed, scale, ran, tuple(off))


def with_speed(workers: Workers, speed: NDArray[np.float64]) -> Workers:
    """The same workers at other speeds."""
    return replace(workers, speed=np.array(speed, np.float64))
