"""What is decided before a graph runs, frozen: where its first operands start, and which ready operand goes first.

The scheduler makes a `Plan` of each compiled graph and passes it by value; nothing in it changes during the run.
Source: seed 000, "Initial Worker Assignment"; seed 003, "调度策略".
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
    """One graph's plan.

    Attributes
    ----------
    dag
        The operands and who reads whose chunk.
    assign
        First worker of each operand, shape (n,); -1 where it follows its inputs.
    rank
        Order of preference, shape (n,), each of 0..n-1 once: of two ready operands the lower one runs first.

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
    """The plan of a graph on some workers.

    Parameters
    ----------
    dag
        The operands.
    rank
        `Compiled.rank`.
    workers
        Slots of each worker.
    stored
        Which operands' chunks are held already, shape (n,); they run nowhere and get no worker. None: none.
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
