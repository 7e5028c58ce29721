"""Cuts an order into contiguous runs, one run for each worker, so that neighbours in the order share a worker.

For clusters of several hosts. `assign_runs` cuts all operands; the cut ignores time, but moves and holds few bytes on
trees and matrix products. `source_runs` cuts only the operands without inputs, weighted with their share of the work
that follows; `assign_eft` then places the rest.
Source: docs/explanation/seeds.md, "Graph partitioning for scheduling".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jmars.plan import c_planners
from jmars.plan.c_planners import serves
from jmars.plan.order.ranks import rows, topological
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.workers import Workers, allowed

__all__ = ["assign_runs", "source_runs"]


def assign_runs(graph: PlanGraph, workers: Workers, rank: NDArray[np.int64]) -> NDArray[np.int16]:
    """Assigns workers to operands: runs of `rank` with equal work for equal workers.

    Pins and devices are kept: the first allowed worker takes operands that are assigned to a forbidden worker.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> four = PlanGraph.build(Dag.from_edges(4, [], []), cost=1.0, nbytes=8)
    >>> assign_runs(four, Workers.build(2), np.array([0, 2, 1, 3])).tolist()
    [0, 1, 0, 1]
    """
    assigned = np.empty(graph.n, np.int16)
    order = c_planners.in_order(rank)
    assigned[order] = _cut(graph.cost[order], workers)
    return allowed(graph, workers, assigned, np.arange(graph.n))


def source_runs(graph: PlanGraph, workers: Workers, rank: NDArray[np.int64]) -> NDArray[np.int16]:
    """Assigns workers to operands without inputs, -1 to others: runs of `rank` that lead to equal work."""
    weight = _shares(graph)
    sources = graph.dag.sources()
    sources = sources[np.argsort(rank[sources])]
    assigned = np.full(graph.n, -1, np.int16)
    assigned[sources] = _cut(weight[sources], workers)
    return allowed(graph, workers, assigned, sources)


def _shares(graph: PlanGraph) -> NDArray[np.float64]:
    """Work that each operand leads to: its own cost and an equal share of each reader's work."""
    order = topological(graph.dag)
    if serves(graph):
        return c_planners.shares(graph, order)
    weight: list[float] = graph.cost.tolist()
    inputs = rows(graph.dag.pred_ptr, graph.dag.pred_idx)
    for v in reversed(order.tolist()):
        if inputs[v]:
            share = weight[v] / len(inputs[v])
            for p in inputs[v]:
                weight[p] += share
    return np.array(weight)


def _cut(cost: NDArray[np.float64], workers: Workers) -> NDArray[np.int64]:
    """Worker of each operand of a sequence, by the middle of the operand's cost; zero costs count a little."""
    cost = cost + (cost.max(initial=0.0) or 1.0) * 1e-9
    ends = np.cumsum(cost)
    rate = np.cumsum(workers.cores * workers.speed)
    middle = (ends - cost / 2) / (ends[-1] if len(ends) else 1.0)
    return np.searchsorted(rate[:-1] / rate[-1], middle, side="right")
