"""Partition depth first, then expansion: from the last output backwards, along the critical path, until full.

The seed breaks off at "When an input node is reached ???"; here the operands that were passed by on the way are taken
up then, the deepest first, in the same subgraph, and when none is left the next output.
Source: seed 004, "Graph Partitioning by Depth First then Expansion"; PLANNING 1.6.
"""

from __future__ import annotations

import math

from jmars.errors import GraphError
from jmars.plan.order.ranks import rows, t_level
from jmars.plan.partition.atomic import atomic_parts
from jmars.plan.partition.parts import Part
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.workers import Workers

__all__ = ["depth_first"]


def depth_first(graph: PlanGraph, workers: Workers, *, convex: bool = False, quota: float = math.inf) -> list[Part]:
    """Subgraphs by the seed's rules, in the order in which they are opened.

    Parameters
    ----------
    graph, workers
        What is run where.
    convex
        Whether no two subgraphs may wait for each other; they are split then, see `atomic`. False is the seed.
    quota
        Seconds of cost that fill a subgraph, beside the worker's memory.

    Raises
    ------
    GraphError
        If no worker may run an operand, or one alone does not fit.

    Notes
    -----
    Outputs come by the longest path that ends there. From each the search goes back: of an operand's inputs the one
    with the longest path is next, then the one with most bytes, then the highest index. What does not fit the
    subgraph's memory or quota, or may not run on its worker, opens a new one on the worker with least total assigned
    time, of equals the fastest. Without `convex` two subgraphs may wait for each other, so they must not be run as one
    process each.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> line = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), cost=1.0, nbytes=10)
    >>> [part.operands for part in depth_first(line, Workers.build(2, memory=20))]
    [(2, 1), (0,)]
    """
    cost, size = graph.cost.tolist(), graph.nbytes.tolist()
    speed, memory = workers.speed.tolist(), workers.memory.tolist()
    able = workers.able(graph)
    inputs = rows(graph.dag.pred_ptr, graph.dag.pred_idx)
    path = [start + own for start, own in zip(t_level(graph), cost, strict=True)]
    total = [0.0] * len(workers)
    closed: list[Part] = []
    open_ = [True] * graph.n
    worker, members, held, spent = -1, list[int](), 0, 0.0

    def close() -> None:
        if members:
            closed.append(Part(worker, tuple(members), held, spent / speed[worker]))

    for sink in sorted(graph.dag.sinks().tolist(), key=lambda v: (-path[v], v)):
        stack = [sink]
        while stack:
            v = stack.pop()
            if not open_[v]:
                continue
            full = worker < 0 or held + size[v] > memory[worker] or (members and spent + cost[v] > quota)
            if full or worker not in able[v]:
                fits = [w for w in able[v] if size[v] <= memory[w]]
                if not fits:
                    raise GraphError(
                        f"operand {v} writes {size[v]} bytes and fits no worker that may run it; "
                        "use a smaller chunk_size or a worker with more memory"
                    )
                close()
                worker, members, held, spent = min(fits, key=lambda w: (total[w], -speed[w], w)), [], 0, 0.0
            open_[v] = False
            members.append(v)
            held += size[v]
            spent += cost[v]
            total[worker] += cost[v] / speed[worker]
            stack += sorted([p for p in inputs[v] if open_[p]], key=lambda p: (path[p], size[p], p))
    close()
    return atomic_parts(graph, closed) if convex else closed
