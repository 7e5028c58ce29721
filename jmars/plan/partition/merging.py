"""Partition by merging: subgraphs grow from the root of the critical path by the neighbour that saves most transfers.

For clusters of several hosts that run a subgraph as a single process. The document's rules can make subgraphs that wait
for each other. With `convex` an operand joins only if no path leaves the subgraph and returns to it, finished subgraphs
counted as single operands; then the subgraphs can always run one after the other.
Source: docs/explanation/seeds.md, "Graph partitioning by merging".
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
    """Partitions a graph by merging neighbours; returns subgraphs in order of completion.

    Parameters
    ----------
    graph, workers
        The operands and the workers; a worker is the document's processing context, with device, speed and memory.
    convex
        Whether to exclude subgraphs that wait for each other; False follows the document to the letter.
    quota
        Seconds of cost at which a subgraph stops growing, beside the worker's memory.

    Raises
    ------
    GraphError
        If no worker may run an operand, or an operand alone does not fit, or the graph is too large for `convex`.

    Notes
    -----
    The fastest unused worker is next; when all are used, the worker with least total assigned time. Its subgraph starts
    at the root of the longest remaining path, among operands whose inputs are all in finished subgraphs; a worker that
    may run no root is skipped. Of the neighbours that the worker may run and that fit its memory, the neighbour joins
    with

    1. most bytes shared with the subgraph, divided by the worker's inefficiency: the speed of the fastest worker that
       may run the neighbour over the worker's speed (the document asks for communication cost, which depends on workers
       not assigned yet; bytes that stay inside the subgraph are saved for sure);
    2. the longest remaining path through the neighbour;
    3. most bytes; 4. highest cost; 5. the lowest index, in place of the document's name.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> line = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), cost=1.0, nbytes=10)
    >>> [part.operands for part in merge(line, Workers.build(2, memory=20))]
    [(0, 1), (2,)]
    """
    if convex and graph.n > _LARGEST:
        raise GraphError(
            f"a convex merge of {graph.n} operands needs {graph.n**2 // 4_000_000} MB for sets of ancestors; "
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
    """State of a partition by merging: open operands, finished subgraphs, and the rules of growth."""

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
        self.before = [0] * graph.n  # sets as bits: ancestors and descendants, subgraphs as single operands
        self.after = [0] * graph.n
        if convex:
            for v in self.order:
                for p in self.inputs[v]:
                    self.before[v] |= self.before[p] | 1 << p
            for v in reversed(self.order):
                for r in self.readers[v]:
                    self.after[v] |= self.after[r] | 1 << r

    def paths(self) -> tuple[list[float], list[float]]:
        """Longest paths of open operands from their start to an end, and from a source to their start."""
        to_end, to_start = [0.0] * len(self.open), [0.0] * len(self.open)
        todo = [v for v in self.order if self.open[v]]
        for v in reversed(todo):
            to_end[v] = self.cost[v] + max([to_end[r] for r in self.readers[v] if self.open[r]], default=0.0)
        for v in todo:
            to_start[v] = max([to_start[p] + self.cost[p] for p in self.inputs[v] if self.open[p]], default=0.0)
        self.order = todo
        return to_end, to_start

    def start(self, roots: list[int], workers: list[int]) -> tuple[int, int]:
        """The first worker that may run a root, and the first root that it may run."""
        for worker in workers + [w for w in range(len(self.speed)) if w not in workers]:
            for root in roots:
                if worker in self.able[root] and self.size[root] <= self.memory[worker]:
                    return worker, root
        raise GraphError(
            f"operand {roots[0]} writes {self.size[roots[0]]} bytes and fits no worker that may run it; "
            "use a smaller chunk_size or a worker with more memory"
        )

    def grow(self, worker: int, root: int, through: list[float], quota: float) -> list[int]:
        """Grows a subgraph from `root` and completes it; returns its members."""
        members: list[int] = []
        held, spent, inside = 0, 0.0, 0
        before = after = 0
        shared: dict[int, int] = {}  # neighbour: bytes shared with the members
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
        """The rules for joining as a sort key, smallest first."""
        inefficiency = max([self.speed[w] for w in self.able[y]]) / self.speed[worker]
        return -shared / inefficiency, -through, -self.size[y], -self.cost[y], y

    def _store(self, members: list[int], inside: int, before: int, after: int) -> None:
        """Completes a subgraph: paths now count it as a single operand."""
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
