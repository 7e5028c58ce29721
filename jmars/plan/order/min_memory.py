"""Ranks that hold few bytes: a greedy search backwards from the outputs, and the best of three ranks.

`rank_depth_first` is good for trees; the backward search can be better where operands share inputs. `choose` tries the
backward rank for the preference "memory".
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

import heapq

import numpy as np

from jmars.plan import c_planners
from jmars.plan.c_planners import serves
from jmars.plan.order.ranks import Rank, rank_depth_first, rank_level, rows, sequential_peak, t_level
from jmars.plan.plan_graph import PlanGraph

__all__ = ["rank_backwards", "rank_min_memory"]


def rank_min_memory(graph: PlanGraph) -> Rank:
    """The rank with the lowest peak on a single core: depth first, backward, or breadth first.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> graph = PlanGraph.build(Dag.from_edges(4, [0, 0, 1, 2], [1, 2, 3, 3]), cost=1.0, nbytes=[1, 9, 1, 1])
    >>> rank_min_memory(graph).tolist()
    [0, 2, 1, 3]
    """
    ranks = [rank_depth_first(graph), rank_backwards(graph), rank_level(graph)]
    return min(ranks, key=lambda rank: sequential_peak(graph, rank))


def rank_backwards(graph: PlanGraph) -> Rank:
    """Greedy rank from the outputs back to the sources; topological.

    Places, among operands whose readers are all placed, the operand whose unplaced inputs exceed its output by fewest
    bytes, then the operand with the longest path from a source. O(m log n).
    """
    late = t_level(graph)
    if serves(graph):
        return c_planners.backwards(graph, np.array(late))
    size: list[int] = graph.nbytes.tolist()
    inputs, readers = rows(graph.dag.pred_ptr, graph.dag.pred_idx), rows(graph.dag.succ_ptr, graph.dag.succ_idx)
    left = [len(set(read)) for read in readers]
    held = bytearray(graph.n)  # a reader is placed, so the chunk is in memory at this time

    def price(v: int) -> int:
        return sum([size[p] for p in set(inputs[v]) if not held[p]]) - size[v]

    heap = [(price(v), -late[v], -v) for v in range(graph.n) if not left[v]]
    heapq.heapify(heap)
    place, rank = graph.n, np.empty(graph.n, np.int64)
    done = bytearray(graph.n)
    while heap:
        told, _, v = heapq.heappop(heap)
        v = -v
        if done[v]:
            continue
        if (now := price(v)) < told:  # an input is held by now
            heapq.heappush(heap, (now, -late[v], -v))
            continue
        done[v] = 1
        place -= 1
        rank[v] = place
        for p in set(inputs[v]):
            left[p] -= 1
            if not held[p]:
                held[p] = 1
                for r in set(readers[p]):
                    if not done[r] and not left[r]:
                        heapq.heappush(heap, (price(r), -late[r], -r))
            if not left[p]:
                heapq.heappush(heap, (price(p), -late[p], -p))
    return rank
