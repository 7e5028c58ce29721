"""Chooses a plan for several workers: simulates candidate assignments and orders and takes the best.

For clusters of several hosts. No planner wins everywhere, so `choose` simulates several plans under the real memory
limit, the cheapest planners first, until its time is up. It keeps the results of all candidates for the notebook.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError, MemoryLimitError
from jmars.model.limits import TRAFFIC_WEIGHT
from jmars.native import backend
from jmars.plan.choice.candidates import candidates
from jmars.plan.choice.chosen import PREFERENCES, Candidate, Choice
from jmars.plan.improve.anneal import anneal
from jmars.plan.improve.justify import rank_justified
from jmars.plan.improve.multilevel import refine
from jmars.plan.order.ranks import rank_by, sequential_peak
from jmars.plan.plan import Plan
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.lower_bound import lower_bound
from jmars.plan.simulation.sim_result import SimResult, Trace
from jmars.plan.simulation.simulate import simulate
from jmars.plan.workers import Workers

__all__ = ["choose"]

_HELD = 0.05  # "lean": score of holding twice as many bytes
_JUSTIFIED = 3  # best plans to try again with justified ranks
_PACE = {"c": 12e-6, "python": 150e-6}  # "auto": seconds per operand
_SHORTEST, _LEAST = 0.15, 3  # "auto": seconds, and plans
_SLACK = 1.1  # "memory": most seconds, as a multiple of the fastest plan


def choose(
    graph: PlanGraph,
    workers: Workers,
    *,
    prefer: str = "lean",
    budget: float | Literal["auto"] | None = "auto",
    improve: float = 0.0,
    placed: ArrayLike | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Choice:
    """Makes several plans, simulates them, and returns the best.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    prefer
        "fast": the shortest time; "lean": also few bytes moved and held; "memory": fewest bytes held among plans
        within a tenth of the fastest.
    budget
        Seconds; no further plan is tried when the remaining time is less than the longest step so far. At least one
        plan is made, for several workers two: of the same assignment, by length of the paths left and depth first,
        since the first order may hold all chunks at once. None: all candidates are tried. "auto": 12 µs an operand, or
        150 without the C kernels, but at least 150 ms, and three plans.
    improve
        Further seconds to improve the best plan, by multilevel refinement and then by annealing; for plans that will
        be reused. Not for "memory".
    placed
        Worker that stores an operand's chunk already, shape (n,), -1: none.
    clock
        Returns the time in seconds.

    Raises
    ------
    GraphError
        If the preference is unknown, the graph has a cycle, or no worker may run an operand.
    MemoryLimitError
        If an operand alone does not fit in any plan tried.

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
    start = last = clock()
    limit, least, longest = (*_auto(graph.n), 0.0) if budget == "auto" else (budget, min(len(workers), 2), 0.0)
    bound, total = lower_bound(graph, workers, placed), int(graph.nbytes.sum())
    scratch = int(graph.work.max(initial=0)) * int(workers.cores.sum())  # no plan runs on all cores with less
    lean = sequential_peak(graph, rank_by("dfs", graph)) * len(workers) + scratch
    tried: list[Candidate] = []
    failed: list[MemoryLimitError] = []
    times: dict[int, Trace] = {}  # of the best so far, by their place in `tried`

    def is_over() -> bool:
        nonlocal last, longest
        now = clock()
        last, longest = now, max(longest, now - last)
        return limit is not None and len(tried) >= least and now - start + longest > limit

    def attempt(assigned_by: str, ranked_by: str, assign: NDArray[np.int16], rank: NDArray[np.int64]) -> None:
        try:
            result = simulate(graph, workers, assign, rank, placed=placed, trace="times")
        except MemoryLimitError as error:
            failed.append(error)
            return
        assert result.trace is not None
        times[len(tried)] = result.trace
        score = _score(prefer, result, bound, total, lean)
        tried.append(Candidate(assigned_by, ranked_by, assign, rank, replace(result, trace=None), score))
        if len(times) > _JUSTIFIED:
            del times[max(times, key=lambda k: (tried[k].score, k))]

    for candidate in candidates(graph, workers, placed, prefer=prefer, seconds=limit):
        attempt(*candidate)
        if is_over():
            break
    if not tried:
        raise failed[0]
    ran = dict(times)
    for k in sorted(ran, key=lambda k: (tried[k].score, k)):
        if is_over():
            break
        one = tried[k]
        rank = rank_justified(graph, one.assign, ran[k], workers.seconds_per_byte)
        attempt(one.assigned_by, f"{one.ranked_by}, justified", one.assign, rank)
    if improve > 0 and prefer != "memory":
        one = min(tried, key=lambda one: one.score)
        price = 0.0  # of a second of transfer, such that its weight is the same as in the score
        if prefer == "lean" and workers.seconds_per_byte:
            price = TRAFFIC_WEIGHT * bound / (max(total, 1) * workers.seconds_per_byte)
        for name, assign, rank in _improved(graph, workers, one, price, improve, placed, clock):
            attempt(one.assigned_by, f"{one.ranked_by}, {name}", assign, rank)
    fastest = min(one.result.makespan for one in tried)
    allowed = [one for one in tried if prefer != "memory" or one.result.makespan <= fastest * _SLACK]
    best = min(allowed, key=lambda one: one.score)
    return Choice(Plan(graph.dag, best.assign.copy(), best.rank.copy()), best.result, tuple(tried), bound)


def _auto(n: int) -> tuple[float, int]:
    """Seconds to plan a graph of n operands, and least number of plans."""
    return max(_SHORTEST, n * _PACE[backend()]), _LEAST


def _score(prefer: str, result: SimResult, bound: float, total: int, lean: int) -> float:
    """Score of a plan, lower is better."""
    if prefer == "memory":
        return float(result.peak_total + result.spilled)
    time_ = result.makespan / bound if bound else result.makespan
    if prefer == "fast":
        return time_
    traffic, held = (result.moved + result.spilled) / max(total, 1), result.peak_total / max(lean, 1)
    return time_ + TRAFFIC_WEIGHT * traffic + _HELD * max(0.0, held - 1)


def _improved(
    graph: PlanGraph,
    workers: Workers,
    one: Candidate,
    price: float,
    seconds: float,
    placed: ArrayLike | None,
    clock: Callable[[], float],
) -> Iterator[tuple[str, NDArray[np.int16], NDArray[np.int64]]]:
    """Yields the plan refined, then annealed, in half of the time each; without copies of operands."""
    start, assign = clock(), one.assign
    if len(workers) > 1:
        assign = refine(
            graph, workers, assign, one.rank, tries=10**6, seconds=seconds / 2, price=price, placed=placed, clock=clock
        ).assign
        yield "refined", assign, one.rank
    if placed is None or not np.any(np.asarray(placed) >= 0):
        left = seconds - (clock() - start)
        moves = ("move", "swap", "reorder") if len(workers) > 1 else ("reorder",)
        found = anneal(
            graph, workers, assign, one.rank, tries=10**6, seconds=left, price=price, moves=moves, clock=clock
        )
        yield "annealed", found.assign, found.rank
