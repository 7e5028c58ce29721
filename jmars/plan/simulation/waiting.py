"""Waiting outputs: bytes times seconds that chunks stay at their producer until readers on other workers start.

The partitions of document 004 do not penalise waiting outputs; `explain` shows the number beside a plan's makespan.
Source: docs/explanation/seeds.md, "Limitations".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.sim_result import Trace

__all__ = ["waiting"]


def waiting(graph: PlanGraph, assign: ArrayLike, trace: Trace, workers: int) -> NDArray[np.float64]:
    """Byte-seconds that outputs waited on each worker for the other workers, shape (workers,).

    An output waits from the end of its operand until the last reader on a different worker has started. An output with
    readers on its own worker only does not wait.

    Parameters
    ----------
    graph, assign
        Worker of each operand, shape (n,); -1: the chunk was stored before the run and does not wait.
    trace
        Start and end of each operand.
    workers
        Number of workers.

    Examples
    --------
    Operand 0 ends at 1 s and is read elsewhere at 3 s:

    >>> from jmars.graph import Dag
    >>> graph = PlanGraph.build(Dag.from_edges(2, [0], [1]), cost=1.0, nbytes=10)
    >>> ran = Trace(np.array([0.0, 3.0]), np.array([1.0, 4.0]), [])
    >>> waiting(graph, [0, 1], ran, 2).tolist()
    [20.0, 0.0]
    """
    where = np.asarray(assign, np.int64)
    src, dst = graph.dag.edges()
    far = (where[src] != where[dst]) & (where[src] >= 0)
    last = trace.end.copy()
    np.maximum.at(last, src[far], trace.start[dst[far]])
    made = np.flatnonzero(where >= 0)
    return np.bincount(where[made], (graph.nbytes * (last - trace.end))[made], workers).astype(np.float64)
