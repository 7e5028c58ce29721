"""Ranks operands by latest start times of a simulated run: urgent operands go first (justification).

`choose` simulates its best plans, computes how late each operand could have started without delaying its readers, and
tries the order of these times. It helps where many small operands feed few large operands, as in a rechunk.
Source: Li and Willis 1992 (backward scheduling from a forward schedule); docs/explanation/seeds.md, "Graph
optimization".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jmars.graph.order import levels
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.sim_result import Trace

__all__ = ["rank_justified"]


def rank_justified(
    graph: PlanGraph, assign: NDArray[np.int16], trace: Trace, seconds_per_byte: float
) -> NDArray[np.int64]:
    """Ranks operands by latest start, then by actual start; topological.

    Parameters
    ----------
    graph, assign
        Worker of each operand, shape (n,).
    trace
        Start and end of each operand.
    seconds_per_byte
        Of a transfer between workers.

    Examples
    --------
    Operand 0 is read late and 1 early, so 1 goes first the next time:

    >>> from jmars.graph import Dag
    >>> graph = PlanGraph.build(Dag.from_edges(4, [0, 1], [3, 2]), cost=1.0, nbytes=8)
    >>> ran = Trace(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]), [])
    >>> rank_justified(graph, np.zeros(4, np.int16), ran, 1e-9).tolist()
    [1, 0, 2, 3]
    """
    src, dst = graph.dag.edges()
    moves = np.where(assign[src] != assign[dst], graph.nbytes[src] * seconds_per_byte, 0.0)
    latest = np.where(graph.dag.out_degree > 0, np.inf, trace.end)
    np.minimum.at(latest, src, trace.start[dst] - moves)
    rank = np.empty(graph.n, np.int64)
    took = trace.end - trace.start
    rank[np.lexsort((levels(graph.dag), trace.start, latest - took))] = np.arange(graph.n)
    return rank
