"""Chooses a plan for several workers: simulates candidate assignments and orders and takes the best.

For clusters of several hosts. No planner wins everywhere, so `choose` simulates several plans under the real memory
limit, the cheapest planners first, until the time is up. The results of all candidates are kept for the notebook.

Candidates are sorted so that early candidates gain most. A short budget so loses little: over 57 graphs and clusters
the first plan's score is 25 % above the best score, the best of the first five 3 %, of the first nine 1 %. METIS and
mt-KaHyPar come last, if they are installed and time allows. On a single worker only orders are tried. Plans for a few
workers or a single worker are candidates too: they win where many bytes must move over slow links. So is the placement
of a run that plans first operands only (`FollowInputs`), if time allows.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError, MemoryLimitError
from jmars.model.limits import TRAFFIC_WEIGHT
from jmars.native import backend
from jmars.plan.assign import assign_bisect, assign_eft, assign_runs, source_runs
from jmars.plan.choice import MAX_SLOWDOWN, PREFERENCES, Candidate, Choice, Plan
from jmars.plan.improve import anneal, rank_justified, refine
from jmars.plan.initial import assign_initial
from jmars.plan.order import rank_backwards, rank_by, sequential_peak
from jmars.plan.partition import assign_km1, assign_metis, has_km1, suits_metis
from jmars.plan.plan_graph import UNLIMITED, PlanGraph, Workers, allowed
from jmars.plan.simulation import FollowInputs, SimResult, Trace, lower_bound, simulate

_HELD = 0.05  # "lean": score of holding twice as many bytes
_JUSTIFIED = 3  # best plans to try again with justified ranks
_PACE = {"c": 12e-6, "python": 150e-6}  # "auto": seconds per operand
_SHORTEST, _LEAST = 0.15, 3  # "auto": seconds, and plans


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
    allowed = [one for one in tried if prefer != "memory" or one.result.makespan <= fastest * MAX_SLOWDOWN]
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
    """Yields the plan refined, then annealed, each in half of the time; without copies of operands."""
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


_MAX_PARTITIONED_OPERANDS = 20_000  # operands; METIS and mt-KaHyPar take too long for larger graphs
_METIS, _KM1, _FOLLOW = 20e-6, 500e-6, 150e-6  # seconds per operand
_BANDS = 4  # of time, for METIS
_SLOW = 3  # ratio of the seconds to send all chunks to the seconds of all work; beyond it few workers are tried early
_PAIRS = (
    ("eft 3", "blevel"),
    ("eft 3", "dfs"),
    ("eft 5 by wave", "dfs"),
    ("halves by wave", "dfs"),
    ("halves", "blevel"),
    ("eft 1", "blevel"),
    ("runs of sources, eft 3", "dfs"),
    ("eft 5 by wave", "backwards"),
    ("eft 10", "blevel"),
    ("alone", "dfs"),
    ("eft 3 on few", "blevel"),
    ("runs", "dfs"),
    ("eft 5 by wave", "blevel"),
    ("halves by wave", "blevel"),
    ("halves", "dfs"),
    ("eft 1", "dfs"),
    ("eft 10", "dfs"),
    ("runs of sources, eft 3", "blevel"),
    ("runs", "blevel"),
    ("eft 3 by dfs", "blevel"),
    ("eft 3 by dfs", "dfs"),
)
_TIGHT = (  # if memory cannot hold all chunks at a time: the best of the first three is 3 % above the best
    ("halves by wave", "dfs"),
    ("eft 5 by wave", "backwards"),
    ("eft 3 by dfs", "dfs"),
    ("halves", "backwards"),
    ("halves", "dfs"),
    ("runs", "dfs"),
)
_ONE = ("dfs", "blevel", "wave", "mars", "level")  # orders for a single worker

Named = tuple[str, str, NDArray[np.int16], NDArray[np.int64]]


def candidates(
    graph: PlanGraph,
    workers: Workers,
    placed: ArrayLike | None,
    *,
    prefer: str = "lean",
    seconds: float | None = None,
) -> Iterator[Named]:
    """Yields candidate plans: name of the assignment, name of the order, assignment, rank.

    Parameters
    ----------
    graph, workers, placed, prefer
        As for `choose`; for "memory", and if memory cannot hold all chunks at a time, `rank_backwards` is tried
        too.
    seconds
        Time for all candidates; candidates that would take longer alone are left out. None: no limit.
    """
    there = np.zeros(graph.n, np.bool_) if placed is None else np.asarray(placed) >= 0

    @cache
    def rank(name: str) -> NDArray[np.int64]:
        if name == "backwards":
            return rank_backwards(graph)
        return rank_by(name, graph, workers.seconds_per_byte)

    is_tight = float(workers.memory.astype(np.float64).sum()) < float(graph.nbytes.sum())
    backwards = ("backwards",) if prefer == "memory" or is_tight else ()
    if len(workers) == 1:
        workers.able(graph)  # raises if the worker may not run an operand
        here = np.where(there, np.int16(-1), np.int16(0))
        for ranked_by in (*_ONE, *backwards):
            yield "one worker", ranked_by, here, rank(ranked_by)
        return

    def eft(order: str, price: float) -> NDArray[np.int16]:
        return assign_eft(graph, workers, rank(order), price=price, placed=placed)

    def after_sources() -> NDArray[np.int16]:
        home = source_runs(graph, workers, rank("dfs"))
        return assign_eft(graph, workers, rank("dfs"), affinity=home, pull=np.inf, placed=placed)

    def only(assign: NDArray[np.int16]) -> NDArray[np.int16]:
        return np.where(there, np.int16(-1), assign)

    def few(k: int) -> NDArray[np.int16]:
        """Assignment to the k fastest workers; operands that may not run there go to the first worker that may."""
        best = np.argsort(-workers.cores * workers.speed, kind="stable")[:k]
        free = replace(graph, device=np.zeros(graph.n, np.uint8), pin=np.full(graph.n, -1, np.int16))
        part = assign_eft(free, _only(workers, best), rank("blevel")) if k > 1 else np.zeros(graph.n, np.int64)
        return only(allowed(graph, workers, best[part].astype(np.int16), np.arange(graph.n)))

    ways: dict[str, Callable[[], NDArray[np.int16]]] = {
        "eft 3": partial(eft, "blevel", 3.0),
        "halves": lambda: only(assign_bisect(graph, workers, rank("dfs"))),
        "eft 5 by wave": partial(eft, "wave", 5.0),
        "runs of sources, eft 3": after_sources,
        "halves by wave": lambda: only(assign_bisect(graph, workers, rank("wave"))),
        "eft 1": partial(eft, "blevel", 1.0),
        "eft 10": partial(eft, "blevel", 10.0),
        "runs": lambda: only(assign_runs(graph, workers, rank("dfs"))),
        "eft 3 by dfs": partial(eft, "dfs", 3.0),
        "alone": partial(few, 1),
        "eft 3 on few": partial(few, max(2, len(workers) // 4)),
    }
    first = _TIGHT if is_tight else ()
    pairs = [*first, *(pair for pair in _PAIRS if pair not in first and (pair[1] != "backwards" or backwards))]
    if float(graph.nbytes.sum()) * workers.seconds_per_byte > _SLOW * float(graph.cost.sum()):
        early = (*pairs[:2], ("alone", "dfs"), ("eft 3 on few", "blevel"))
        pairs.sort(key=lambda pair: pair not in early)
    later = list(ways)

    def has_time(each: float) -> bool:
        return graph.n <= _MAX_PARTITIONED_OPERANDS and (seconds is None or each * graph.n <= seconds)

    def follow() -> NDArray[np.int16]:
        """The assignment of a run that plans first operands only; readers follow most bytes of their inputs."""
        free = graph.dag.sources()
        first = assign_initial(graph.dag, free[~there[free]], workers.cores.tolist())
        first = allowed(graph, workers, first, np.flatnonzero(first >= 0))
        roomy = replace(workers, memory=np.full(len(workers), UNLIMITED))
        run = simulate(graph, roomy, first, rank("mars"), placed=placed, policy=FollowInputs())
        return only(allowed(graph, workers, run.assign.astype(np.int16), np.flatnonzero(~there)))

    if has_time(_FOLLOW):
        ways["follow inputs"] = follow
    if has_time(_METIS) and suits_metis(graph, len(workers), bands=_BANDS):
        ways[f"metis, {_BANDS} bands"] = lambda: only(assign_metis(graph, workers, bands=_BANDS))
    if has_time(_KM1) and has_km1():
        ways["km1"] = lambda: only(assign_km1(graph, workers))
    pairs += [(name, order) for name in ways if name not in later for order in ("blevel", "dfs")]
    pairs += [(name, "backwards") for name in ways if backwards and (name, "backwards") not in pairs]
    made: dict[str, NDArray[np.int16]] = {}
    for name, ranked_by in pairs:
        if name not in made:
            made[name] = ways[name]()
        yield name, ranked_by, made[name], rank(ranked_by)


def _only(workers: Workers, some: NDArray[np.int64]) -> Workers:
    """The workers with numbers `some`."""
    return Workers.build(
        len(some),
        cores=workers.cores[some],
        speed=workers.speed[some],
        memory=workers.memory[some],
        device=workers.device[some],
        bandwidth=workers.bandwidth[np.ix_(some, some)],
        latency=workers.latency,
        disk=workers.disk[some],
    )
