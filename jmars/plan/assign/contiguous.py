"""A depth-first order cut into runs, one for each worker: neighbours in the order are neighbours in memory.

`assign_runs` cuts all operands; it has no notion of time, but moves little and holds little on trees and products.
`source_runs` cuts only the operands that read nothing, each weighed with its share of what follows, for
`eft.assign_eft` to place the rest after them.
Source: PLANNING 3.2 and 4.2, prototype `dfs_blocks`; seed 004, "Maybe we can optimise starting with a depth-first
partition/ordering".
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
    """A worker for each operand: runs of `rank` with equal work for equal workers.

    Pins and devices are kept: an operand that may not run where its run goes takes the first worker that may.

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
    """A worker for each operand that reads nothing, -1 for the others: runs of `rank` that lead to equal work."""
    weight = _shares(graph)
    sources = graph.dag.sources()
    sources = sources[np.argsort(rank[sources])]
    assigned = np.full(graph.n, -1, np.int16)
    assigned[sources] = _cut(weight[sources], workers)
    return allowed(graph, workers, assigned, sources)


def _shares(graph: PlanGraph) -> NDArray[np.float64]:
    """What each operand leads to: its own cost, and of each reader's share as much as of any other of its inputs."""
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
    """Which worker's run each of a line of operands falls in, by the middle of its cost; zero costs count a little."""
    cost = cost + (cost.max(initial=0.0) or 1.0) * 1e-9
    ends = np.cumsum(cost)
    rate = np.cumsum(workers.cores * workers.speed)
    middle = (ends - cost / 2) / (ends[-1] if len(ends) else 1.0)
    return np.searchsorted(rate[:-1] / rate[-1], middle, side="right")
