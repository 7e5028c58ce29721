"""Partition by merging: subgraphs that grow from the root of the critical path by the neighbour that saves most.

The seed runs a subgraph as one process that reads all its inputs first, and its rules can make two that wait for each
other. With `convex` an operand joins only if no path leaves the subgraph and comes back through it, other subgraphs
counted as one operand each; then the subgraphs can always be run one after another.
Source: seed 004, "Graph Partitioning by Merging"; PLANNING 1.5.
"""

from __future__ import annotations

import math

from jmars.errors import GraphError
from jmars.graph.order import topological
from jmars.plan.order.ranks import rows
from jmars.plan.partition.parts import Part, next_worker
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.workers import Workers

__all__ = ["merge"]

_LARGEST = 30_000  # operands; sets of all ancestors take n² / 8 bytes


def merge(graph: PlanGraph, workers: Workers, *, convex: bool = True, quota: float = math.inf) -> list[Part]:
    """Subgraphs by the seed's rules, in the order in which they are stored.

    Parameters
    ----------
    graph, workers
        What is run where; a worker is the seed's processing context, with its device, speed and memory.
    convex
        Whether no two subgraphs may wait for each other; False is the seed to the letter.
    quota
        Seconds of cost after which a subgraph grows no more, beside the worker's memory.

    Raises
    ------
    GraphError
        If no worker may run an operand, or one alone does not fit, or the graph is too large for `convex`.

    Notes
    -----
    The fastest unused worker is taken, when all are used the one with least total assigned time. Its subgraph starts
    at the root, among operands whose inputs are all stored in subgraphs, of the longest remaining path; a worker that
    may run no root is passed over. Of the neighbours that it may run and that fit its memory joins the one with

    1. most bytes shared with the subgraph, divided by the worker's inefficiency for it: the speed of the fastest worker
       that may run it over this one's (the seed asks for communication cost and does not know where the others will
       run; bytes that stay inside are known to be saved);
    2. the longest remaining path through it;
    3. most bytes; 4. highest cost; 5. the lowest index, the seed's name.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> line = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), cost=1.0, nbytes=10)
    >>> [part.operands for part in merge(line, Workers.build(2, memory=20))]
    [(0, 1), (2,)]
    """
    if convex and graph.n > _LARGEST:
        raise GraphError(
            f"a convex merge of {graph.n} operands needs {graph.n**2 // 4_000_000} MB to know their ancestors; "
            "contract the graph first, or give convex=False"
        )
    growth = _Growth(graph, workers, convex)
    total, used = [0.0] * len(workers), [False] * len(workers)
    parts = []
    while growth.left:
        to_end, to_start = growth.paths()
        roots = sorted(growth.roots, key=lambda v: (-to_end[v], v))
        worker, root = growth.start(roots, next_worker(workers, total, used))
        members = growth.grow(worker, root, [a + b for a, b in zip(to_end, to_start, strict=True)], quota)
        seconds = sum(growth.cost[v] for v in members) / growth.speed[worker]
        total[worker] += seconds
        used[worker] = True
        parts.append(Part(worker, tuple(members), sum(growth.size[v] for v in members), seconds))
    return parts


class _Growth:
    """What is stored in subgraphs already, and the rules by which the next one grows."""

    def __init__(self, graph: PlanGraph, workers: Workers, convex: bool) -> None:
        self.cost: list[float] = graph.cost.tolist()
        self.size: list[int] = graph.nbytes.tolist()
        self.inputs = rows(graph.dag.pred_ptr, graph.dag.pred_idx)
        self.readers = rows(graph.dag.succ_ptr, graph.dag.succ_idx)
        self.able = workers.able(graph)
        self.speed: list[float] = workers.speed.tolist()
        self.memory: list[int] = workers.memory.tolist()
        self.order: list[int] = topological(graph.dag).tolist()
        self.open = [True] * graph.n
        self.left = graph.n
        self.missing: list[int] = graph.dag.in_degree.tolist()  # inputs that are in no subgraph
        self.roots = set(graph.dag.sources().tolist())
        self.convex = convex
        self.before = [0] * graph.n  # sets as bits: who leads here, and who follows, subgraphs counted as one
        self.after = [0] * graph.n
        if convex:
            for v in self.order:
                for p in self.inputs[v]:
                    self.before[v] |= self.before[p] | 1 << p
            for v in reversed(self.order):
                for r in self.readers[v]:
                    self.after[v] |= self.after[r] | 1 << r

    def paths(self) -> tuple[list[float], list[float]]:
        """Longest paths from each open operand's start to the end, and to its start, through open ones only."""
        to_end, to_start = [0.0] * len(self.open), [0.0] * len(self.open)
        todo = [v for v in self.order if self.open[v]]
        for v in reversed(todo):
            to_end[v] = self.cost[v] + max([to_end[r] for r in self.readers[v] if self.open[r]], default=0.0)
        for v in todo:
            to_start[v] = max([to_start[p] + self.cost[p] for p in self.inputs[v] if self.open[p]], default=0.0)
        self.order = todo
        return to_end, to_start

    def start(self, roots: list[int], workers: list[int]) -> tuple[int, int]:
        """The first worker that may run a root, and its first such root."""
        for worker in workers + [w for w in range(len(self.speed)) if w not in workers]:
            for root in roots:
                if worker in self.able[root] and self.size[root] <= self.memory[worker]:
                    return worker, root
        raise GraphError(
            f"operand {roots[0]} writes {self.size[roots[0]]} bytes and fits no worker that may run it; "
            "use a smaller chunk_size or a worker with more memory"
        )

    def grow(self, worker: int, root: int, through: list[float], quota: float) -> list[int]:
        """Members of the subgraph that starts at `root`; stores them."""
        members: list[int] = []
        held, spent, inside = 0, 0.0, 0
        before = after = 0
        shared: dict[int, int] = {}  # neighbour: bytes that it shares with the members
        joins = root
        while joins >= 0:
            members.append(joins)
            self.open[joins] = False
            shared.pop(joins, None)
            held, spent, inside = held + self.size[joins], spent + self.cost[joins], inside | 1 << joins
            before, after = before | self.before[joins], after | self.after[joins]
            for p in self.inputs[joins]:
                if self.open[p]:
                    shared[p] = shared.get(p, 0) + self.size[p]
            for r in self.readers[joins]:
                if self.open[r]:
                    shared[r] = shared.get(r, 0) + self.size[joins]
            joins = -1
            if spent < quota:
                fits = [
                    y
                    for y in shared
                    if held + self.size[y] <= self.memory[worker]
                    and worker in self.able[y]
                    and not (self.convex and (after & self.before[y] | before & self.after[y]) & ~inside)
                ]
                if fits:
                    joins = min(fits, key=lambda y: self._preference(y, worker, shared[y], through[y]))
        self._store(members, inside, before & ~inside, after & ~inside)
        return members

    def _preference(self, y: int, worker: int, shared: int, through: float) -> tuple[float, float, int, float, int]:
        """The seed's rules as a key, smallest first."""
        inefficiency = max([self.speed[w] for w in self.able[y]]) / self.speed[worker]
        return -shared / inefficiency, -through, -self.size[y], -self.cost[y], y

    def _store(self, members: list[int], inside: int, before: int, after: int) -> None:
        """Close a subgraph: from now on it is one operand, so what leads to a part of it leads to all that follows."""
        self.left -= len(members)
        for v in members:
            self.roots.discard(v)
            for r in self.readers[v]:
                self.missing[r] -= 1
                if not self.missing[r] and self.open[r]:
                    self.roots.add(r)
        if self.convex:
            through_after, through_before = after | inside, before | inside
            for v in range(len(self.open)):
                if before >> v & 1 or inside >> v & 1:
                    self.after[v] |= after if inside >> v & 1 else through_after
                if after >> v & 1 or inside >> v & 1:
                    self.before[v] |= before if inside >> v & 1 else through_before
