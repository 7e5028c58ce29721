"""Assigns workers to operands on several hosts: recursive bisection, runs of an order, earliest finish time.

`assign_bisect` splits the operands recursively, so that few bytes move and every worker gets an equal share of work. A
chunk with its readers is a net, and a net on k workers costs k - 1 times the chunk's bytes, the bytes that move. A half
grows greedily by the operand that adds least to the cut, then single operands change sides while the cut shrinks.
Bisection ignores time, so operands of one half may wait for the other half; simulation measures the waits. About 20 µs
an operand for 8 workers, 1 in C.

`assign_runs` cuts an order into contiguous runs, a run per worker, so that neighbours in the order share a worker; the
cut ignores time, but moves and holds few bytes on trees and matrix products. `source_runs` cuts only the operands
without inputs, weighted with their share of the work that follows; `assign_eft` then places the rest.

`assign_eft` assigns operands to the worker of earliest finish time (HEFT), with a price on bytes moved. The planner
visits operands by rank and keeps a clock for every core and network port. A `price` of 0 is HEFT; 3 gives up a few per
cent of time to move several times fewer bytes.
Source: Fiduccia and Mattheyses 1982; Karypis and Kumar 1998 (greedy growing); docs/explanation/seeds.md, "Multilevel
partitioning", "Graph partitioning for scheduling"; Topcuoglu, Hariri and Wu 2002.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.plan import c_planners
from jmars.plan.c_planners import serves
from jmars.plan.order import rows, topological
from jmars.plan.plan_graph import PlanGraph, Workers, allowed

_BALANCE_TOLERANCE = 0.02  # allowed deviation of a half from its share of the work
_REFINEMENT_PASSES = 3
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
        for _ in range(_REFINEMENT_PASSES):
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
    """A bisection in progress: the operands' sides, the nets' pins on both sides, and the gains of moves."""

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
        """Moves `v` to the other side; returns operands with changed gains."""
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
        """Fills side 1 up to the share of the work, by the operand that adds least to the cut."""
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
        slack = total * _BALANCE_TOLERANCE
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


def assign_runs(graph: PlanGraph, workers: Workers, rank: NDArray[np.int64]) -> NDArray[np.int16]:
    """Assigns workers to operands: runs of `rank` with equal work for equal workers.

    Pins and devices are kept: the first allowed worker takes operands that are assigned to a forbidden worker.

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
    """Assigns workers to operands without inputs, -1 to others: runs of `rank` that lead to equal work."""
    weight = _shares(graph)
    sources = graph.dag.sources()
    sources = sources[np.argsort(rank[sources])]
    assigned = np.full(graph.n, -1, np.int16)
    assigned[sources] = _cut(weight[sources], workers)
    return allowed(graph, workers, assigned, sources)


def _shares(graph: PlanGraph) -> NDArray[np.float64]:
    """Work behind an operand: the operand's own cost and an equal share of the readers' work."""
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
    """Workers of the operands of a sequence, by the middle of the operand's cost; zero costs count a little."""
    cost = cost + (cost.max(initial=0.0) or 1.0) * 1e-9
    ends = np.cumsum(cost)
    rate = np.cumsum(workers.cores * workers.speed)
    middle = (ends - cost / 2) / (ends[-1] if len(ends) else 1.0)
    return np.searchsorted(rate[:-1] / rate[-1], middle, side="right")


def assign_eft(
    graph: PlanGraph,
    workers: Workers,
    rank: NDArray[np.int64],
    *,
    price: float = 3.0,
    affinity: ArrayLike | None = None,
    pull: float = 0.0,
    placed: ArrayLike | None = None,
    few: int = 4,
) -> NDArray[np.int16]:
    """Assigns workers to operands by earliest finish time.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    rank
        Order in which operands are placed, topological, shape (n,).
    price
        Cost of a second of transfer beside the delay that the transfer causes, in seconds.
    affinity, pull
        Preferred worker of each operand, shape (n,), -1: none; and the cost of any other worker, in seconds.
    placed
        Worker that holds an operand's chunk already, shape (n,), -1: none.
    few
        Number of workers to try beside those that hold an input, the least busy first.

    Returns
    -------
    ndarray of int16, shape (n,)
        -1 for operands in `placed`.

    Raises
    ------
    GraphError
        If `rank` puts an operand before its input, or no worker may run an operand.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> pair = PlanGraph.build(Dag.from_edges(3, [0, 1], [2, 2]), cost=1.0, nbytes=[10, 10, 10])
    >>> assign_eft(pair, Workers.build(2), np.arange(3)).tolist()
    [0, 1, 0]
    """
    order = c_planners.in_order(rank)
    wishes = np.full(graph.n, -1) if affinity is None else np.asarray(affinity).astype(np.int64)
    held = np.full(graph.n, -1) if placed is None else np.asarray(placed).astype(np.int64)
    where = c_planners.eft(graph, workers, order, wishes, held, price, pull, few) if serves(graph, workers) else None
    if where is None:
        where = _place(graph, workers, order, wishes.tolist(), held.tolist(), price, pull, few)
    assigned = where.astype(np.int16)
    assigned[held >= 0] = -1
    return assigned


def _place(
    graph: PlanGraph,
    workers: Workers,
    order: NDArray[np.int64],
    wish: list[int],
    there: list[int],
    price: float,
    pull: float,
    few: int,
) -> NDArray[np.int64]:
    """Workers that run the operands or store the chunks already."""
    n, p = graph.n, len(workers)
    cost, size = graph.cost.tolist(), graph.nbytes.tolist()
    inputs = rows(graph.dag.pred_ptr, graph.dag.pred_idx)
    able = workers.able(graph)
    speed, latency = workers.speed.tolist(), workers.latency
    per_byte = (1 / workers.bandwidth).tolist()  # [from][to]
    cores = [[0.0] * c for c in workers.cores.tolist()]  # heaps: when each core is free
    port_in, port_out = [0.0] * p, [0.0] * p
    end, where = [0.0] * n, list(there)
    copies: list[dict[int, float]] = [{} for _ in range(n)]  # per chunk: worker, and the time of the chunk's arrival
    for v, w in enumerate(there):
        if w >= 0:
            copies[v][w] = 0.0
    everyone, busy = range(p), [0.0] * p  # seconds until the cores or the port of each worker are busy
    for v in order.tolist():
        if where[v] >= 0:
            continue
        needs, seconds, prefers = inputs[v], cost[v], wish[v]
        if min([where[i] for i in needs], default=0) < 0:
            raise GraphError(f"the rank puts operand {v} before its input; give a topological one")
        tried: list[int] | tuple[int, ...] = able[v]
        if len(tried) > few + 4:
            owners = {w for i in needs for w in copies[i]}
            if len(owners) > few + 4:  # holders of the largest input only: some inputs are on most workers
                owners = set(copies[max(needs, key=size.__getitem__)])
            idle = sorted(everyone if len(tried) == p else tried, key=busy.__getitem__)[:few]
            owners.update(idle)
            if prefers >= 0:
                owners.add(prefers)
            tried = sorted(owners) if len(able[v]) == p else [w for w in sorted(owners) if w in able[v]] or idle
        best = (np.inf, np.inf, -1)
        for w in tried:
            ready, port, moving = 0.0, port_in[w], 0.0
            for i in needs:
                arrives = copies[i].get(w)
                if arrives is None:
                    source = where[i]
                    takes = size[i] * per_byte[source][w]
                    port = max(end[i], port, port_out[source]) + takes
                    arrives = port + latency
                    moving += takes
                if arrives > ready:
                    ready = arrives
            ends = max(ready, cores[w][0]) + seconds / speed[w]
            score = ends + price * moving + (pull if 0 <= prefers != w else 0.0)
            if (score, ends, w) < best:
                best = (score, ends, w)
        _, ends, w = best
        port = port_in[w]
        for i in needs:
            if w not in copies[i]:
                source = where[i]
                port = max(end[i], port, port_out[source]) + size[i] * per_byte[source][w]
                port_out[source] = port
                copies[i][w] = port + latency
        port_in[w] = port
        heapq.heapreplace(cores[w], ends)
        busy[w] = max(cores[w][0], port)
        end[v], where[v] = ends, w
        copies[v][w] = ends
    return np.array(where, np.int64)
