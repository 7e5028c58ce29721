"""Candidate plans for `choose`: assignments and orders, sorted so that early candidates gain most.

A short budget so loses little: over 57 graphs and clusters the first plan's score is 25 % above the best score, the
best of the first five 3 %, of the first nine 1 %. METIS and mt-KaHyPar come last, if they are installed and time
allows. On a single worker only orders are tried. Plans for a few workers or a single worker are candidates too: they
win where many bytes must move over slow links. So is the placement of a run that plans first operands only
(`FollowInputs`), if time allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.plan.assign.bisection import assign_bisect
from jmars.plan.assign.contiguous import assign_runs, source_runs
from jmars.plan.assign.earliest_finish import assign_eft
from jmars.plan.assign.initial import assign_initial
from jmars.plan.order.min_memory import rank_backwards
from jmars.plan.order.ranks import rank_by
from jmars.plan.partition.km1 import assign_km1, has_km1
from jmars.plan.partition.metis import assign_metis, suits_metis
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.follow_inputs import FollowInputs
from jmars.plan.simulation.simulate import simulate
from jmars.plan.workers import UNLIMITED, Workers, allowed

__all__ = ["candidates"]

_LARGE = 20_000  # operands above which METIS and mt-KaHyPar take too long
_METIS, _KM1, _FOLLOW = 20e-6, 500e-6, 150e-6  # seconds per operand
_BANDS = 4  # of time, for METIS
_SLOW = 3  # ratio of sending all chunks once to all work, above which few workers are tried early
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
        """Assignment to the k fastest workers; operands that these may not run go to the first worker that may."""
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
        return graph.n <= _LARGE and (seconds is None or each * graph.n <= seconds)

    def follow() -> NDArray[np.int16]:
        """The assignment of a run that plans first operands only, whose readers follow most bytes of their inputs."""
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
