"""Orders to run a graph in, as ranks of operands, and the longest paths and memory peaks behind them.

A rank has shape (n,) and is a permutation of 0..n-1; of two ready operands the lower rank runs first. `assign_eft` also
visits operands by rank, so the rank must be topological: all but `rank_mars` are topological. The C kernels give the
same ranks.

For few bytes, `rank_depth_first` is good for trees; a greedy search backwards from the outputs can be better where
operands share inputs. `choose` tries the backward rank for the preference "memory".
Source: docs/explanation/seeds.md, "Choosing operands", "Graph partitioning for scheduling", "Graph optimization"; Liu
1987 (the key).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from jmars import graph as sweeps
from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.optimize.passes import mars
from jmars.plan import c_planners
from jmars.plan.c_planners import serves
from jmars.plan.plan_graph import PlanGraph

Rank = NDArray[np.int64]
Floats = NDArray[np.float64]


def rank_by(name: str, graph: PlanGraph, seconds_per_byte: float = 0.0) -> Rank:
    """Computes the rank named `name`, a key of `RANKS`: "dfs", "blevel", "level", "wave" or "mars".

    Raises
    ------
    GraphError
        If there is no such rank, or the graph has a cycle.
    """
    if name not in RANKS:
        raise GraphError(f"no order {name!r} for operands; choose one of {', '.join(RANKS)}")
    return RANKS[name](graph, seconds_per_byte)


def rank_depth_first(graph: PlanGraph) -> Rank:
    """Depth-first rank: chunks are read soon after they are computed, so few chunks are held.

    Walks back from the sink of the longest path, visiting inputs in ascending (own bytes - Liu's key), so that the
    input with the largest peak beyond its output comes first. Readers that an operand makes ready follow at once,
    smallest output first. O(n log d + m), about 10 µs an operand, 0.5 in C.
    """
    sinks = graph.dag.sinks()
    sinks = sinks[np.argsort(-_t_level(graph)[sinks], kind="stable")]
    if serves(graph):
        return c_planners.depth_first(graph, graph.nbytes - _liu_key(graph), sinks)
    size, key = graph.nbytes.tolist(), liu_key(graph)
    inputs, readers = rows(graph.dag.pred_ptr, graph.dag.pred_idx), rows(graph.dag.succ_ptr, graph.dag.succ_idx)
    gain = [s - k for s, k in zip(size, key, strict=True)]
    missing = graph.dag.in_degree.tolist()
    placed = bytearray(graph.n)
    order: list[int] = []
    for sink in sinks.tolist():
        stack = [] if placed[sink] else [(sink, iter(sorted(inputs[sink], key=gain.__getitem__)))]
        while stack:
            operand, left = stack[-1]
            below = next((p for p in left if not placed[p]), -1)
            if below >= 0:
                stack.append((below, iter(sorted(inputs[below], key=gain.__getitem__))))
                continue
            stack.pop()
            ready = [] if placed[operand] else [operand]
            while ready:
                now = ready.pop()
                placed[now] = 1
                order.append(now)
                able = []
                for reader in readers[now]:
                    missing[reader] -= 1
                    if not missing[reader]:
                        able.append(reader)
                if len(able) > 1:
                    able.sort(key=size.__getitem__, reverse=True)
                ready += able
    return _positions(np.array(order, np.int64))


def rank_b_level(graph: PlanGraph, seconds_per_byte: float = 0.0) -> Rank:
    """Critical-path rank: operands with the longest path to an end run first."""
    order = topological(graph.dag)
    return _positions(order[np.argsort(-_b_level(graph, seconds_per_byte)[order], kind="stable")])


def rank_level(graph: PlanGraph) -> Rank:
    """Breadth-first rank: by distance from the sources, then by index."""
    return _positions(topological(graph.dag))


def rank_wave(graph: PlanGraph, seconds_per_byte: float = 0.0) -> Rank:
    """Rank by level; within a level, operands with the longest path to an end run first."""
    return _positions(np.lexsort((-_b_level(graph, seconds_per_byte), levels(graph.dag))))


def rank_mars(graph: PlanGraph) -> Rank:
    """Mars's rank by depth, readers and output size; not a topological order."""
    return mars(graph.dag, graph.nbytes)


RANKS: dict[str, Callable[[PlanGraph, float], Rank]] = {
    "dfs": lambda graph, _: rank_depth_first(graph),
    "blevel": rank_b_level,
    "level": lambda graph, _: rank_level(graph),
    "wave": rank_wave,
    "mars": lambda graph, _: rank_mars(graph),
}


def b_level(graph: PlanGraph, seconds_per_byte: float = 0.0) -> list[float]:
    """Seconds on the longest paths from the operands' starts to an end; edges cost their bytes' transfer time.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> line = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), cost=[1.0, 2.0, 4.0], nbytes=8)
    >>> b_level(line), t_level(line)
    ([7.0, 6.0, 4.0], [0.0, 1.0, 3.0])
    """
    found: list[float] = _b_level(graph, seconds_per_byte).tolist()
    return found


def t_level(graph: PlanGraph, seconds_per_byte: float = 0.0) -> list[float]:
    """Seconds until operands can start if cores were unlimited."""
    found: list[float] = _t_level(graph, seconds_per_byte).tolist()
    return found


def liu_key(graph: PlanGraph) -> list[int]:
    """Liu's key: most bytes held while an operand and the unshared ancestors are computed; shared inputs are stored.

    Inputs are computed in descending (peak - output bytes), the optimum for a tree.
    """
    found: list[int] = _liu_key(graph).tolist()
    return found


def sequential_peak(graph: PlanGraph, rank: Rank) -> int:
    """Most bytes held when a single core runs all operands by a topological rank; results stay."""
    if serves(graph):
        return c_planners.sequential_peak(graph, c_planners.in_order(rank))
    size: list[int] = graph.nbytes.tolist()
    keep = graph.result.tolist()
    inputs, readers = rows(graph.dag.pred_ptr, graph.dag.pred_idx), graph.dag.out_degree.tolist()
    held = highest = 0
    for v in np.argsort(rank).tolist():
        held += size[v]
        highest = max(highest, held)
        for p in inputs[v]:
            readers[p] -= 1
            if not readers[p] and not keep[p]:
                held -= size[p]
        if not readers[v] and not keep[v]:
            held -= size[v]
    return highest


def rows(ptr: NDArray[np.int64], idx: NDArray[np.int64]) -> list[list[int]]:
    """Neighbours of all vertices as lists, for loops over single vertices."""
    flat: list[int] = idx.tolist()
    return [flat[a:b] for a, b in pairwise(ptr.tolist())]


def levels(dag: Dag) -> NDArray[np.int64]:
    """Longest distances of operands from a source, in edges; `graph.order.levels` in C if possible."""
    found = c_planners.levels(dag)
    return sweeps.levels(dag) if found is None else found[0]


def topological(dag: Dag) -> NDArray[np.int64]:
    """Operands by level and then by index; `graph.order.topological` in C if possible."""
    found = c_planners.levels(dag)
    return sweeps.topological(dag) if found is None else found[1]


def _b_level(graph: PlanGraph, seconds_per_byte: float) -> Floats:
    order, moving = topological(graph.dag), (graph.nbytes * seconds_per_byte).astype(np.float64)
    if serves(graph):
        return c_planners.b_level(graph, order, moving)
    level: list[float] = graph.cost.tolist()
    edge = moving.tolist()
    readers = rows(graph.dag.succ_ptr, graph.dag.succ_idx)
    for v in reversed(order.tolist()):
        if readers[v]:
            level[v] += edge[v] + max([level[reader] for reader in readers[v]])
    return np.array(level)


def _t_level(graph: PlanGraph, seconds_per_byte: float = 0.0) -> Floats:
    order, ends = topological(graph.dag), graph.cost + graph.nbytes * seconds_per_byte
    if serves(graph):
        return c_planners.t_level(graph, order, ends)
    done, level = ends.tolist(), [0.0] * graph.n
    inputs = rows(graph.dag.pred_ptr, graph.dag.pred_idx)
    for v in order.tolist():
        if inputs[v]:
            level[v] = max([level[p] + done[p] for p in inputs[v]])
    return np.array(level)


def _liu_key(graph: PlanGraph) -> NDArray[np.int64]:
    order = topological(graph.dag)
    if serves(graph):
        return c_planners.liu(graph, order)
    size = graph.nbytes.tolist()
    inputs, shared = rows(graph.dag.pred_ptr, graph.dag.pred_idx), (graph.dag.out_degree > 1).tolist()
    peak: list[int] = list(size)
    for v in order.tolist():
        held = highest = 0
        if len(inputs[v]) > 1:
            # a shared input has no peak beyond its own bytes, so comes last
            for gain, p in sorted([(size[p] - (size[p] if shared[p] else peak[p]), p) for p in inputs[v]]):
                highest = max(highest, held + size[p] - gain)
                held += size[p]
        elif inputs[v]:
            p = inputs[v][0]
            held, highest = size[p], size[p] if shared[p] else peak[p]
        peak[v] = max(highest, held + size[v])
    return np.array(peak, np.int64)


def _positions(order: NDArray[np.int64]) -> Rank:
    """Positions of operands in `order`."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


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

    Places, among operands whose readers are all placed, the operand with unplaced inputs that exceed the output by
    fewest bytes, then the operand with the longest path from a source. O(m log n).
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
