"""The plan: of several assignments and orders the one that is simulated best.

No single way of planning wins everywhere, so `choose` tries several under the real memory limit, the cheapest to make
first, until its time is up; it keeps what each would have cost, for the notebook to show.
Source: PLANNING 0.1 and 4.2; seed 004, "Something to tweak, something to measure".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError, MemoryLimitError
from jmars.plan.bisect import assign_bisect
from jmars.plan.cluster import Workers
from jmars.plan.eft import assign_eft
from jmars.plan.graph import PlanGraph
from jmars.plan.justify import rank_justified
from jmars.plan.order import b_level, rank_by, sequential_peak
from jmars.plan.outcome import SimResult
from jmars.plan.plan import Plan
from jmars.plan.runs import assign_runs, source_runs
from jmars.plan.simulate import simulate

__all__ = ["PREFERENCES", "Candidate", "Choice", "choose", "lower_bound"]

PREFERENCES = ("fast", "lean", "memory")

_MOVED, _HELD = 0.3, 0.05  # "lean": what all bytes moved, and twice the bytes held, are worth beside the lower bound
_JUSTIFIED = 3  # plans whose order is tried again, learnt from their run
_SLACK = 1.1  # "memory": how much longer than the fastest it may take


@dataclass(frozen=True, eq=False)
class Candidate:
    """One plan that was tried: how it was made, and what it would cost."""

    assigned_by: str
    ranked_by: str
    assign: NDArray[np.int16]
    rank: NDArray[np.int64]
    result: SimResult
    score: float  # lower is better; for "memory" bytes, else multiples of the lower bound


@dataclass(frozen=True, eq=False)
class Choice:
    """The best plan, what it is predicted to cost, what was tried beside it, and the seconds that no plan beats."""

    plan: Plan
    predicted: SimResult
    tried: tuple[Candidate, ...]
    lower_bound: float

    @property
    def best(self) -> Candidate:
        """The candidate that `plan` was made from."""
        return next(one for one in self.tried if one.result is self.predicted)


def choose(
    graph: PlanGraph,
    workers: Workers,
    *,
    prefer: str = "lean",
    budget: float | None = 1.0,
    placed: ArrayLike | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Choice:
    """Make several plans, simulate each, and take the best.

    Parameters
    ----------
    graph, workers
        What is run where.
    prefer
        "fast": the shortest time; "lean": also few bytes moved and held; "memory": fewest bytes held among plans
        within a tenth of the fastest.
    budget
        Seconds after which nothing more is tried; None: everything is. One plan is always made.
    placed
        Worker that holds an operand's chunk already, shape (n,), -1: none.
    clock
        What tells the seconds.

    Raises
    ------
    GraphError
        If there is no such preference, the graph has a cycle, or no worker may run an operand.
    MemoryLimitError
        If one operand alone does not fit in any plan tried.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> pair = PlanGraph.build(Dag.from_edges(3, [0, 1], [2, 2]), cost=1.0, nbytes=8)
    >>> choice = choose(pair, Workers.build(2, latency=0.0))
    >>> choice.lower_bound, round(choice.predicted.makespan, 3), choice.best.assigned_by
    (2.0, 2.0, 'eft 3')
    """
    if prefer not in PREFERENCES:
        raise GraphError(f"no preference {prefer!r}; choose one of {', '.join(PREFERENCES)}")
    start = clock()
    bound, total = lower_bound(graph, workers), int(graph.nbytes.sum())
    lean = sequential_peak(graph, rank_by("dfs", graph)) * len(workers)
    tried: list[Candidate] = []
    failed: list[MemoryLimitError] = []

    def is_over() -> bool:
        return budget is not None and bool(tried) and clock() - start >= budget

    def attempt(assigned_by: str, ranked_by: str, assign: NDArray[np.int16], rank: NDArray[np.int64]) -> None:
        try:
            result = simulate(graph, workers, assign, rank, placed=placed)
        except MemoryLimitError as error:
            failed.append(error)
        else:
            score = _score(prefer, result, bound, total, lean)
            tried.append(Candidate(assigned_by, ranked_by, assign, rank, result, score))

    for candidate in _candidates(graph, workers, placed):
        attempt(*candidate)
        if is_over():
            break
    if not tried:
        raise failed[0]
    for one in sorted(tried, key=lambda one: one.score)[:_JUSTIFIED]:
        if is_over():
            break
        trace = simulate(graph, workers, one.assign, one.rank, placed=placed, trace=True).trace
        assert trace is not None
        rank = rank_justified(graph, one.assign, trace, workers.seconds_per_byte)
        attempt(one.assigned_by, f"{one.ranked_by}, justified", one.assign, rank)
    fastest = min(one.result.makespan for one in tried)
    allowed = [one for one in tried if prefer != "memory" or one.result.makespan <= fastest * _SLACK]
    best = min(allowed, key=lambda one: one.score)
    return Choice(Plan(graph.dag, best.assign.copy(), best.rank.copy()), best.result, tuple(tried), bound)


def lower_bound(graph: PlanGraph, workers: Workers) -> float:
    """Seconds that no plan beats: the longest path on the fastest core, or all work on all cores; moving is free."""
    if not graph.n:
        return 0.0
    return max(max(b_level(graph)) / float(workers.speed.max()), float(graph.cost.sum()) / workers.rate)


def _score(prefer: str, result: SimResult, bound: float, total: int, lean: int) -> float:
    """What a plan is worth, lower is better."""
    if prefer == "memory":
        return float(result.peak_total + result.spilled)
    time_ = result.makespan / bound if bound else result.makespan
    if prefer == "fast":
        return time_
    return time_ + _MOVED * result.moved / max(total, 1) + _HELD * max(0.0, result.peak_total / max(lean, 1) - 1)


def _candidates(
    graph: PlanGraph, workers: Workers, placed: ArrayLike | None
) -> Iterator[tuple[str, str, NDArray[np.int16], NDArray[np.int64]]]:
    """Names, assignment and rank of plans to try, those that won most often first."""

    @cache
    def rank(name: str) -> NDArray[np.int64]:
        return rank_by(name, graph, workers.seconds_per_byte)

    def eft(order: str, price: float) -> NDArray[np.int16]:
        return assign_eft(graph, workers, rank(order), price=price, placed=placed)

    def after_sources() -> NDArray[np.int16]:
        home = source_runs(graph, workers, rank("dfs"))
        return assign_eft(graph, workers, rank("dfs"), affinity=home, pull=np.inf, placed=placed)

    def bisect(order: str) -> NDArray[np.int16]:
        return np.where(_there(graph, placed), np.int16(-1), assign_bisect(graph, workers, rank(order)))

    def runs() -> NDArray[np.int16]:
        return np.where(_there(graph, placed), np.int16(-1), assign_runs(graph, workers, rank("dfs")))

    ways: list[tuple[str, Callable[[], NDArray[np.int16]]]] = [
        ("eft 3", partial(eft, "blevel", 3.0)),
        ("halves", partial(bisect, "dfs")),
        ("eft 5 by wave", partial(eft, "wave", 5.0)),
        ("runs of sources, eft 3", after_sources),
        ("halves by wave", partial(bisect, "wave")),
        ("eft 1", partial(eft, "blevel", 1.0)),
        ("eft 10", partial(eft, "blevel", 10.0)),
        ("runs", runs),
        ("eft 3 by dfs", partial(eft, "dfs", 3.0)),
    ]
    for name, way in ways:
        assign = way()
        for ranked_by in ("blevel", "dfs"):
            yield name, ranked_by, assign, rank(ranked_by)


def _there(graph: PlanGraph, placed: ArrayLike | None) -> NDArray[np.bool_]:
    """Which chunks are held already."""
    return np.zeros(graph.n, np.bool_) if placed is None else np.asarray(placed) >= 0
