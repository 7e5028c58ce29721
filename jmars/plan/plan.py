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
        Whether each operand's chunk is stored already, shape (n,); such operands get no worker. None: no chunk is.
    search, seed
        See `assign_initial`.

    Raises
    ------
    GraphError
        If there are operands and no slots, or `rank` does not fit the graph.
    """
    sources = dag.sources()
    if stored is not None:
        sources = sources[~stored[sources]]
    return Plan(dag, assign_initial(dag, sources, workers, search, seed), rank.astype(np.int64))
