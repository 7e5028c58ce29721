"""Recursive bisection: splits operands between workers so that few bytes move and every worker gets its share of work.

For clusters of several hosts. A chunk with its readers is a net, and a net on k workers costs k - 1 times its bytes,
the bytes that move. A half grows greedily by the operand that adds least to the cut, then single operands change sides
while the cut shrinks. Bisection ignores time, so operands of one half may wait for the other half; simulation measures
these waits. About 20 µs an operand for 8 workers, 1 in C.
Source: Fiduccia and Mattheyses 1982; Karypis and Kumar 1998 (greedy growing); docs/explanation/seeds.md, "Multilevel
partitioning".
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from jmars.plan import c_planners
from jmars.plan.c_planners import serves
from jmars.plan.order.ranks import rows
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.workers import Workers, allowed

__all__ = ["assign_bisect"]

_SLACK = 0.02  # part by which a half may miss its share of the work
_PASSES = 3
_PATIENCE = 60  # moves without a better cut before a pass gives up


def assign_bisect(graph: PlanGraph, workers: Workers, rank: NDArray[np.int64]) -> NDArray[np.int16]:
    """Assigns workers to operands by halving workers and operands recursively; `rank` breaks ties.

    Pins and devices are kept: the first allowed worker takes operands that are assigned to a forbidden worker.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> fans = PlanGraph.build(Dag.from_edges(6, [0, 0, 1, 1], [2, 4, 3, 5]), cost=1.0, nbytes=8)
    >>> assign_bisect(fans, Workers.build(2), np.arange(6)).tolist()
    [0, 1, 0, 1, 0, 1]
    """
    order = c_planners.in_order(rank)
    cost = graph.cost + (graph.cost.max(initial=0.0) or 1.0) * 1e-6
    rate = workers.cores * workers.speed
    found = c_planners.bisect(graph, order, cost, rate) if serves(graph) else None
    assigned = _split(graph, order, cost, rate) if found is None else found.astype(np.int16)
    return allowed(graph, workers, assigned, np.arange(graph.n))


def _split(
    graph: PlanGraph, order: NDArray[np.int64], costs: NDArray[np.float64], rates: NDArray[np.float64]
) -> NDArray[np.int16]:
    """Workers by bisection, pins and devices ignored."""
    cost, rate = costs.tolist(), rates.tolist()
    readers = rows(graph.dag.succ_ptr, graph.dag.succ_idx)
    nets = [[v, *readers[v]] for v in range(graph.n) if readers[v]]
    weights = [size for size, read in zip(graph.nbytes.tolist(), readers, strict=True) if read]
    assigned = np.zeros(graph.n, np.int16)
    todo = [(list(range(len(rate))), order.tolist(), nets, weights)]
    while todo:
        team, operands, nets, weights = todo.pop()
        if len(team) == 1 or not operands:
            assigned[operands] = team[0]
            continue
        first, second = team[: len(team) // 2], team[len(team) // 2 :]
        share = _sum([rate[w] for w in first]) / _sum([rate[w] for w in team])
        halves = _Halves(operands, nets, weights, cost)
        halves.grow(share)
        for _ in range(_PASSES):
            if not halves.improve(share):
                break
        for side, half in ((1, first), (0, second)):
            inside = [v for v in operands if halves.side[v] == side]
            kept = [([v for v in net if halves.side[v] == side], w) for net, w in zip(nets, weights, strict=True)]
            kept = [(net, w) for net, w in kept if len(net) > 1]
            todo.append((half, inside, [net for net, _ in kept], [w for _, w in kept]))
    return assigned


def _sum(numbers: list[float]) -> float:
    """Adds from left to right as the C kernel does; `sum` rounds differently from Python 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total


class _Halves:
    """A bisection in progress: each operand's side, the nets' pins on each side, and the gain of each move."""

    def __init__(self, operands: list[int], nets: list[list[int]], weights: list[int], cost: list[float]) -> None:
        self.operands, self.nets, self.weights, self.cost = operands, nets, weights, cost
        self.side = dict.fromkeys(operands, 0)
        self.of: dict[int, list[int]] = {v: [] for v in operands}
        for e, net in enumerate(nets):
            for v in net:
                self.of[v].append(e)
        self.count = [[len(net), 0] for net in nets]
        # all operands are on side 0, so leaving cuts every net of an operand
        self.gain = {v: -sum([weights[e] for e in self.of[v]]) for v in operands}
        self.place = {v: k for k, v in enumerate(operands)}
        self.load = [_sum([cost[v] for v in operands]), 0.0]

    def move(self, v: int) -> list[int]:
        """Moves `v` to the other side; returns operands whose gain changed."""
        a, b = self.side[v], 1 - self.side[v]
        changed = []
        gain, side = self.gain, self.side
        for e in self.of[v]:
            net, weight, count = self.nets[e], self.weights[e], self.count[e]
            if count[b] == 0:
                for u in net:
                    gain[u] += weight
                changed += net
            elif count[b] == 1:
                lone = next(u for u in net if side[u] == b)
                gain[lone] -= weight
                changed.append(lone)
            count[a] -= 1
            count[b] += 1
            if count[a] == 0:
                for u in net:
                    gain[u] -= weight
                changed += net
            elif count[a] == 1:
                lone = next(u for u in net if side[u] == a and u != v)
                gain[lone] += weight
                changed.append(lone)
        side[v] = b
        self.load[a] -= self.cost[v]
        self.load[b] += self.cost[v]
        gain[v] = sum(
            [
                self.weights[e] if self.count[e][b] == 1 else -self.weights[e] if self.count[e][a] == 0 else 0
                for e in self.of[v]
            ]
        )
        return changed

    def grow(self, share: float) -> None:
        """Fills side 1 up to its share of the work, by the operand that adds least to the cut."""
        target = share * (self.load[0] + self.load[1])
        starts = iter(self.operands)
        heap: list[tuple[int, int, int]] = []
        while self.load[1] < target:
            if heap:
                loss, _, v = heapq.heappop(heap)
                if self.side[v] or -loss != self.gain[v]:
                    continue
            else:
                v = next((u for u in starts if not self.side[u]), -1)
                if v < 0:
                    break  # all operands are on side 1; rounding
            if self.load[1] + self.cost[v] / 2 > target:
                break
            for u in set(self.move(v)):
                if not self.side[u]:
                    heapq.heappush(heap, (-self.gain[u], self.place[u], u))

    def improve(self, share: float) -> bool:
        """A Fiduccia-Mattheyses pass: moves operands at most once, best gain first; undoes moves after the best cut."""
        total = self.load[0] + self.load[1]
        slack = total * _SLACK
        most = [total * (1 - share) + slack, total * share + slack]
        heap = [(-self.gain[v], self.place[v], v) for v in self.operands if self._on_the_edge(v)]
        heapq.heapify(heap)
        moved: list[int] = []
        fixed: set[int] = set()
        saved = best = keep = 0
        while heap and len(moved) - keep < _PATIENCE:
            loss, _, v = heapq.heappop(heap)
            if v in fixed or -loss != self.gain[v]:
                continue
            other = 1 - self.side[v]
            if self.load[other] + self.cost[v] > most[other]:
                continue
            saved -= loss
            fixed.add(v)
            moved.append(v)
            for u in set(self.move(v)):
                if u not in fixed:
                    heapq.heappush(heap, (-self.gain[u], self.place[u], u))
            if saved > best:
                best, keep = saved, len(moved)
        for v in reversed(moved[keep:]):
            self.move(v)
        return best > 0

    def _on_the_edge(self, v: int) -> bool:
        """Whether a net of `v` is cut."""
        return any(self.count[e][0] and self.count[e][1] for e in self.of[v])
