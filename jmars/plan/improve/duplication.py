"""Duplicates cheap operands without inputs on the workers of their readers, in place of a transfer.

For clusters of several hosts. A plan with copies is a plan of a larger graph in which each copy is an operand, so the
simulator and other readers of plans need no notion of copies. `duplicate` adds the copies that pay.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError
from jmars.graph.dag import Dag
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.simulate import simulate
from jmars.plan.workers import Workers

__all__ = ["Copied", "cheap_copies", "duplicate", "with_copies"]

_SHARE = 0.5  # largest ratio of an operand's cost to its chunk's transfer time for a copy


@dataclass(frozen=True, eq=False)
class Copied:
    """A plan with copies: `graph` has all operands of the original graph, then the copies, and `assign` and `rank`
    cover both. `origin` is the original operand of each copy, and each other operand itself, shape (k,).
    """

    graph: PlanGraph
    assign: NDArray[np.int16]
    rank: NDArray[np.int64]
    origin: NDArray[np.int64]

    @property
    def copies(self) -> list[tuple[int, int]]:
        """Pairs (operand, worker), a pair for each copy."""
        extra = np.flatnonzero(self.origin != np.arange(len(self.origin)))
        return list(zip(self.origin[extra].tolist(), self.assign[extra].tolist(), strict=True))


def with_copies(
    graph: PlanGraph, assign: NDArray[np.int16], rank: NDArray[np.int64], copies: Iterable[tuple[int, int]]
) -> Copied:
    """Builds the plan in which operands run again on other workers.

    Readers on the copy's worker read the copy. An operand that is no result and would keep no readers moves to the
    worker of its first copy, in place of that copy.

    Parameters
    ----------
    graph, assign, rank
        The plan.
    copies
        Pairs (operand, worker); operands must have no inputs, and pairs without a reader on the worker are ignored.

    Raises
    ------
    GraphError
        If an operand has inputs.

    Examples
    --------
    >>> fan = PlanGraph.build(Dag.from_edges(3, [0, 0], [1, 2]), cost=1.0, nbytes=8)
    >>> found = with_copies(fan, np.array([0, 0, 1], np.int16), np.arange(3), [(0, 1)])
    >>> found.assign.tolist(), found.origin.tolist(), [edge.tolist() for edge in found.graph.dag.edges()]
    ([0, 0, 1, 1], [0, 1, 2, 0], [[0, 3], [1, 2]])
    """
    copies = list(dict.fromkeys(copies))
    if not copies:
        return Copied(graph, np.array(assign, np.int16), np.array(rank, np.int64), np.arange(graph.n))
    degree = graph.dag.in_degree
    src, dst = graph.dag.edges()
    src, dst = src.copy(), dst.copy()
    where = np.array(assign, np.int16)
    read_at = set(zip(src.tolist(), where[dst].tolist(), strict=True))
    wanted = [(v, w) for v, w in copies if where[v] not in (w, -1) and (v, w) in read_at]
    if reads := [v for v, _ in wanted if degree[v]]:
        raise GraphError(f"operand {reads[0]} reads other chunks; only operands without inputs can run again anywhere")
    serves = {v: {w for u, w in read_at if u == v} for v in {v for v, _ in wanted}}
    kept = []
    for v, w in wanted:
        if not graph.result[v] and int(where[v]) not in serves[v]:
            where[v] = w  # no reader is left on its worker
        else:
            kept.append((v, w))
    kept = [(v, w) for v, w in kept if where[v] != w]
    origin = np.concatenate([np.arange(graph.n), np.array([v for v, _ in kept], np.int64)])
    number = {pair: graph.n + k for k, pair in enumerate(kept)}
    for k, pair in enumerate(zip(src.tolist(), where[dst].tolist(), strict=True)):
        src[k] = number.get(pair, src[k])
    result = graph.result[origin].copy()
    result[graph.n :] = False
    larger = PlanGraph.build(
        Dag.from_edges(len(origin), src, dst),
        graph.cost[origin],
        graph.nbytes[origin],
        work=graph.work[origin],
        result=result,
        device=graph.device[origin],
        pin=np.where(np.arange(len(origin)) < graph.n, graph.pin[origin], -1),
        op=graph.op[origin],
    )
    order = np.lexsort((np.arange(len(origin)), rank[origin]))
    place = np.empty(len(origin), np.int64)
    place[order] = np.arange(len(origin))
    return Copied(larger, np.concatenate([where, np.array([w for _, w in kept], np.int16)]), place, origin)


def cheap_copies(
    graph: PlanGraph, workers: Workers, assign: NDArray[np.int16], *, share: float = _SHARE
) -> list[tuple[int, int]]:
    """Pairs (operand, worker) whose copy costs less than `share` of the transfer, most bytes first.

    Candidates are operands without inputs on workers that may run them and have readers. Operands that are pinned or
    whose chunk is stored already (`assign` -1) are never copied.
    """
    src, dst = graph.dag.edges()
    where = np.asarray(assign, np.int64)
    far = (where[src] != where[dst]) & (where[src] >= 0) & (where[dst] >= 0)
    free = (graph.dag.in_degree == 0) & (graph.pin < 0)
    pairs = np.unique(np.stack([src, where[dst]], 1)[far & free[src]], axis=0)
    if not len(pairs):
        return []
    v, w = pairs.T
    takes = graph.nbytes[v] / workers.bandwidth[where[v], w] + workers.latency
    able = (graph.device[v] == 0) | (graph.device[v] == workers.device[w])
    cheap = able & (graph.cost[v] / workers.speed[w] < share * takes)
    pairs = pairs[cheap][np.argsort(-graph.nbytes[v[cheap]], kind="stable")]
    return [(int(a), int(b)) for a, b in pairs]


def duplicate(
    graph: PlanGraph,
    workers: Workers,
    assign: NDArray[np.int16],
    rank: NDArray[np.int64],
    *,
    share: float = _SHARE,
    tries: int = 16,
) -> Copied:
    """Adds copies of cheap operands that shorten the plan, or move fewer bytes in the same time.

    Parameters
    ----------
    graph, workers, assign, rank
        The plan.
    share
        See `cheap_copies`.
    tries
        Most plans to simulate.

    Examples
    --------
    >>> fan = PlanGraph.build(Dag.from_edges(3, [0, 0], [1, 2]), cost=[0.1, 1.0, 1.0], nbytes=10**9)
    >>> better = duplicate(fan, Workers.build(2), np.array([0, 0, 1], np.int16), np.arange(3))
    >>> better.copies, simulate(better.graph, Workers.build(2), better.assign, better.rank).makespan
    ([(0, 1)], 1.1)
    """
    chosen: list[tuple[int, int]] = []
    best = with_copies(graph, assign, rank, chosen)
    run = simulate(best.graph, workers, best.assign, best.rank)
    score = (run.makespan, run.moved + run.spilled)
    todo = [cheap_copies(graph, workers, assign, share=share)]
    while todo and todo[-1] and tries > 0:
        group = todo.pop()
        tries -= 1
        found = with_copies(graph, assign, rank, [*chosen, *group])
        run = simulate(found.graph, workers, found.assign, found.rank)
        now = (run.makespan, run.moved + run.spilled)
        if now[0] <= score[0] * (1 + 1e-12) and now < score or now[0] <= score[0] and now[1] < score[1]:
            chosen, best, score = [*chosen, *group], found, now
        elif len(group) > 1:  # a half of them may still pay
            todo += [group[len(group) // 2 :], group[: len(group) // 2]]
    return best
