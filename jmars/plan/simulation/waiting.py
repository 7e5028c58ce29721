"""Outputs that wait: bytes times seconds that chunks lie at their producer until somebody elsewhere has read them.

Seed 004 knows that its partitions do not penalise them; here they are a number beside a plan's makespan, so that the
price is seen. `explain` shows it.
Source: seed 004, "Limitations": "No penalisation for outputs hanging around waiting for another context to receive
them".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.sim_result import Trace

__all__ = ["waiting"]


def waiting(graph: PlanGraph, assign: ArrayLike, trace: Trace, workers: int) -> NDArray[np.float64]:
    """Byte-seconds that outputs waited on each worker for the other workers, shape (workers,).

    An output waits from its end until the last operand on another worker that reads it has started. What is read only
    where it was made waits for nobody.

    Parameters
    ----------
    graph, assign
        What ran where, shape (n,); -1: its chunk was there before, and it counts as waiting for nobody.
    trace
        When it ran.
    workers
        How many there are.

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
