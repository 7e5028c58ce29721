"""`Plan`: workers of initial operands and ranks of all operands, decided before a graph runs.

The scheduler makes a frozen `Plan` of each compiled graph and passes the plan by value.
Source: docs/explanation/seeds.md, "Initial worker assignment", "Scheduling policy".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError
from jmars.graph.dag import Dag
from jmars.plan.assign.initial import assign_initial
from jmars.plan.assign.shuffled import assign_shuffled

__all__ = ["Plan", "make_plan"]


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
