"""Partition depth first, then expansion: fills workers backwards from the outputs along the critical path.

For clusters of several hosts. The document leaves open how to go on at an operand without inputs; here the search
returns to the deepest operand passed on the way, in the same subgraph, and finally to the next output.
Source: docs/explanation/seeds.md, "Graph partitioning by depth first then expansion".
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
    """Partitions a graph depth first; returns subgraphs in order of opening.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    convex
        Whether to split subgraphs that wait for each other, see `atomic`; False follows the document.
    quota
        Seconds of cost that fill a subgraph, beside the worker's memory.

    Raises
    ------
    GraphError
        If no worker may run an operand, or an operand alone does not fit.

    Notes
    -----
    Outputs are visited by the longest path that ends there, and the search goes back from each output: of an operand's
    inputs the input with the longest path is next, then with most bytes, then with the highest index. An operand that
    exceeds the subgraph's memory or quota, or may not run on its worker, opens a new subgraph on the worker with least
    total assigned time, of equals the fastest. Without `convex` subgraphs may wait for each other, so they must not run
    as single processes.

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
