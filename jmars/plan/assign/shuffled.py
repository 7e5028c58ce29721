"""Assigns initial workers where a graph shuffles: a reducer's inputs count as none.

A reducer reads a piece of each output of its mappers, so no worker has most of its inputs, and it is placed as an
initial operand: every worker gets its share of the reducers, and no search passes from mappers to reducers. "bfs-v1"
gets the graph as Mars had it, with an operand between that only passes the pieces on.
Source: Mars v0.1 `scheduler/graph.py`, `place_initial_chunks`; v0.10 `analyzer/assigner.py`, `reassign_worker`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jmars.graph.dag import Dag
from jmars.plan.assign.bfs_v1 import assign_bfs_v1, initial_v1
from jmars.plan.assign.initial import assign_initial, shares

__all__ = ["assign_shuffled", "without_shuffles"]


def assign_shuffled(
    dag: Dag,
    reducers: NDArray[np.bool_],
    fixed: NDArray[np.bool_],
    workers: Sequence[int],
    search: str = "bfs",
    seed: int = 0,
) -> NDArray[np.int16]:
    """Assigns workers to initial operands and to reducers.

    Parameters
    ----------
    dag
        The operands.
    reducers, fixed
        Whether each operand reads pieces of a shuffle, and whether it gets no worker here, shape (n,).
    workers, search, seed
        See `assign_initial`.

    Returns
    -------
    ndarray of int16, shape (dag.n,)
        Index into `workers`; -1 for operands that are neither initial nor reducers, or are fixed.

    Examples
    --------
    >>> sort = Dag.from_edges(4, [0, 0, 1, 1], [2, 3, 2, 3])  # 0 and 1 are mappers, 2 and 3 reducers
    >>> reducers = np.array([False, False, True, True])
    >>> assign_shuffled(sort, reducers, ~reducers & reducers, [1, 1]).tolist()
    [0, 1, 0, 1]
    """
    if search == "bfs-v1":
        whole, between = _with_shuffles(dag, reducers)
        first = initial_v1(whole, between)
        first = first[(first < dag.n) & ~np.append(fixed, np.zeros(whole.n - dag.n, np.bool_))[first]]
        return assign_bfs_v1(whole, first, shares(len(first), workers), shuffles=between, seed=seed)[: dag.n]
    apart = without_shuffles(dag, reducers)
    sources = dag.sources()
    assigned = assign_initial(apart, sources[~fixed[sources]], workers, search, seed)
    readers = np.flatnonzero(reducers & ~fixed)  # apart: they run when all initial operands have run
    assigned[readers] = assign_initial(apart, readers, workers, search, seed)[readers]
    return assigned


def without_shuffles(dag: Dag, reducers: NDArray[np.bool_]) -> Dag:
    """The graph without the edges into reducers."""
    src, dst = dag.edges()
    stays = ~reducers[dst]
    return Dag.from_edges(dag.n, src[stays], dst[stays])


def _with_shuffles(dag: Dag, reducers: NDArray[np.bool_]) -> tuple[Dag, list[int]]:
    """The graph with an operand between the mappers and the reducers of each shuffle, and these operands."""
    number: dict[tuple[int, ...], int] = {}  # of the operand between, by mappers
    src, dst = dag.edges()
    stays = ~reducers[dst]
    more: list[tuple[int, int]] = []
    for reducer in np.flatnonzero(reducers).tolist():
        mappers = tuple(sorted(set(dag.preds(reducer).tolist())))
        if mappers not in number:
            number[mappers] = dag.n + len(number)
            more += [(mapper, number[mappers]) for mapper in mappers]
        more.append((number[mappers], reducer))
    begin, end = [one for one, _ in more], [one for _, one in more]
    whole = Dag.from_edges(dag.n + len(number), np.concatenate([src[stays], begin]), np.concatenate([dst[stays], end]))
    return whole, list(number.values())
