"""`Plan`: workers of initial operands and ranks of all operands, decided before a graph runs.

The scheduler makes a frozen `Plan` of each compiled graph and passes the plan by value.

Where a graph shuffles, a reducer's inputs count as none. A reducer reads a piece of each output of its mappers, so no
worker has most of its inputs, and it is placed as an initial operand: every worker gets its share of the reducers, and
no search passes from mappers to reducers. "bfs-v1" gets the graph as Mars had it, with an operand between that only
passes the pieces on.
Source: docs/explanation/seeds.md, "Initial worker assignment", "Scheduling policy"; Mars v0.1 `scheduler/graph.py`,
`place_initial_chunks`; v0.10 `analyzer/assigner.py`, `reassign_worker`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan.initial import assign_bfs_v1, assign_initial, initial_v1, shares


@dataclass(frozen=True, eq=False)
class Plan:
    """The plan of a graph: workers and ranks of operands.

    Attributes
    ----------
    dag
        The operands; an edge leads from an operand to a reader of its chunk.
    assign
        First worker of each operand, shape (n,); -1 for operands that follow their inputs.
    rank
        Order of preference, shape (n,), a permutation of 0..n-1: of two ready operands the lower rank runs first.

    The arrays are read-only.
    """

    dag: Dag
    assign: NDArray[np.int16]
    rank: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name, array in (("assign", self.assign), ("rank", self.rank)):
            if array.shape != (self.dag.n,):
                raise GraphError(f"{name} has shape {array.shape}; give one entry for each of {self.dag.n} operands")
            array.flags.writeable = False


def make_plan(
    dag: Dag,
    rank: NDArray[np.int64],
    workers: Sequence[int],
    stored: NDArray[np.bool_] | None = None,
    search: str = "bfs",
    seed: int = 0,
    reducers: NDArray[np.bool_] | None = None,
) -> Plan:
    """Makes the plan of a graph on some workers.

    Parameters
    ----------
    dag
        The operands.
    rank
        `Compiled.rank`.
    workers
        Slots of each worker.
    stored
        Whether each operand's chunk is stored already, or its worker is fixed, shape (n,); such operands get no worker.
        None: no operand is.
    search, seed
        See `assign_initial`.
    reducers
        Whether each operand reads a piece of each input, shape (n,): after a shuffle its inputs count as none, so it
        is placed as an initial operand. None: no operand does.

    Raises
    ------
    GraphError
        If there are operands and no slots, or `rank` does not fit the graph.
    """
    fixed = np.zeros(dag.n, np.bool_) if stored is None else stored
    if reducers is not None and (reducers & ~fixed).any():
        assign = assign_shuffled(dag, reducers, fixed, workers, search, seed)
    else:
        sources = dag.sources()
        assign = assign_initial(dag, sources[~fixed[sources]], workers, search, seed)
    return Plan(dag, assign, rank.astype(np.int64))


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
