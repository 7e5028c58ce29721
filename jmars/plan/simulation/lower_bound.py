"""A lower bound of the makespan of any plan of a graph on given workers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from jmars.plan.order.ranks import b_level
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.workers import Workers

__all__ = ["lower_bound"]


def lower_bound(graph: PlanGraph, workers: Workers, placed: ArrayLike | None = None) -> float:
    """Seconds that no plan beats: the longest path on the fastest core, or all work on all cores. Transfers are free,
    and so are operands whose chunks are stored (`placed`, see `choose`).
    """
    if not graph.n:
        return 0.0
    if placed is not None and np.any(there := np.asarray(placed) >= 0):
        graph = replace(graph, cost=np.where(there, 0.0, graph.cost))
    return max(max(b_level(graph)) / float(workers.speed.max()), float(graph.cost.sum()) / workers.rate)
