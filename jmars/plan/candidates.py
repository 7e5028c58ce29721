"""The plans that `choose` tries: assignments and the orders to run them in, those that won most often first.

What is cheap to make comes first, so that a short budget loses little; METIS and mt-KaHyPar come last, where they are
installed. On one worker only the order matters, so only orders are tried.
Source: PLANNING 4.2, "Candidate set, by size".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.plan.bisect import assign_bisect
from jmars.plan.cluster import Workers
from jmars.plan.eft import assign_eft
from jmars.plan.graph import PlanGraph
from jmars.plan.min_memory import rank_backwards
from jmars.plan.order import rank_by
from jmars.plan.partition.km1 import assign_km1, has_km1
from jmars.plan.partition.metis import assign_metis, suits_metis
from jmars.plan.runs import assign_runs, source_runs

__all__ = ["candidates"]

_LARGE = 20_000  # operands above which METIS and mt-KaHyPar take too long beside the others
_BANDS = 4  # of time, for METIS
_ONE = ("dfs", "blevel", "wave", "mars", "level")  # orders for one worker

Named = tuple[str, str, NDArray[np.int16], NDArray[np.int64]]


def candidates(
    graph: PlanGraph, workers: Workers, placed: ArrayLike | None, *, prefer: str = "lean"
) -> Iterator[Named]:
    """Name of the assignment, name of the order, assignment and rank of each plan to try.

    Parameters
    ----------
    graph, workers, placed, prefer
        As for `choose`; with "memory", and where not all chunks fit at one time, an order that is found backwards from
        the outputs is tried too.
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
        workers.able(graph)  # raises where it may not run something
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

    ways: list[tuple[str, Callable[[], NDArray[np.int16]]]] = [
        ("eft 3", partial(eft, "blevel", 3.0)),
        ("halves", lambda: only(assign_bisect(graph, workers, rank("dfs")))),
        ("eft 5 by wave", partial(eft, "wave", 5.0)),
        ("runs of sources, eft 3", after_sources),
        ("halves by wave", lambda: only(assign_bisect(graph, workers, rank("wave")))),
        ("eft 1", partial(eft, "blevel", 1.0)),
        ("eft 10", partial(eft, "blevel", 10.0)),
        ("runs", lambda: only(assign_runs(graph, workers, rank("dfs")))),
        ("eft 3 by dfs", partial(eft, "dfs", 3.0)),
    ]
    if graph.n <= _LARGE and suits_metis(graph, len(workers), bands=_BANDS):
        ways.append((f"metis, {_BANDS} bands", lambda: only(assign_metis(graph, workers, bands=_BANDS))))
    if graph.n <= _LARGE and has_km1():
        ways.append(("km1", lambda: only(assign_km1(graph, workers))))
    for name, way in ways:
        assign = way()
        for ranked_by in ("blevel", "dfs", *backwards):
            yield name, ranked_by, assign, rank(ranked_by)
