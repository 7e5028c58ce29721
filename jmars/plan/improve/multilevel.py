"""Multilevel refinement of a plan: moves large groups of operands between workers first, then smaller groups.

For clusters of several hosts, and plans that are reused. The coarsest level of at most eight groups is solved exactly
in a model of two terms, the busiest worker's seconds and the seconds of all transfers. On every level a group moves
only if the simulated run gets shorter, so the cost never rises from level to level.
Source: docs/explanation/seeds.md, "Multilevel partitioning".
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import MemoryLimitError
from jmars.plan.assign.bisection import assign_bisect
from jmars.plan.order.ranks import rank_by
from jmars.plan.partition.metis import metis_groups, suits_metis
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.sim_result import SimResult
from jmars.plan.simulation.simulate import simulate
from jmars.plan.workers import Workers

__all__ = ["Refined", "groups_of", "refine", "solve_exactly"]

_COARSEST = 8  # groups
_FINER = 4  # times as many groups on the next level
_LEAVES = 50_000  # most assignments that the exact solution may examine
_TARGETS = 3  # workers to try a group on

Grouping = Callable[[PlanGraph, int], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Refined:
    """Refined assignment, cost in seconds, (groups, cost) of each level from the coarsest, and simulations made."""

    assign: NDArray[np.int16]
    cost: float
    levels: list[tuple[int, float]]
    tries: int


def refine(
    graph: PlanGraph,
    workers: Workers,
    assign: ArrayLike,
    rank: NDArray[np.int64],
    *,
    tries: int = 400,
    seconds: float = math.inf,
    price: float = 0.0,
    grouping: Grouping | None = None,
    placed: ArrayLike | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Refined:
    """Improves a plan's assignment; the order stays.

    Parameters
    ----------
    graph, workers, assign, rank, placed
        The plan, as for `simulate`.
    tries, seconds
        Most plans to simulate, and most seconds to spend.
    price
        Cost of a second of transfer beside the makespan, in seconds.
    grouping
        Function that groups operands; None: `groups_of`.
    clock
        Returns the time in seconds.
    """
    make, start = grouping or groups_of, clock()
    best = np.array(assign, np.int16)
    fixed = (best < 0) | (graph.pin >= 0)
    able = workers.able(graph)
    spent = 0

    def run(found: NDArray[np.int16]) -> tuple[float, SimResult | None]:
        nonlocal spent
        spent += 1
        try:
            result = simulate(graph, workers, found, rank, placed=placed)
        except MemoryLimitError:
            return math.inf, None
        return result.makespan + price * result.moved * workers.seconds_per_byte, result

    def over() -> bool:
        return spent >= tries or clock() - start >= seconds

    cost, result = run(best)
    levels: list[tuple[int, float]] = []
    for k, label in _levels(graph, workers, make):
        if over():
            break
        if not levels:
            there = solve_exactly(graph, workers, label)[label].astype(np.int16)
            found = np.where(fixed | ~_may(able, there), best, there)
            now, ran = run(found)
            if now < cost:
                best, cost, result = found, now, ran
        group = label * len(workers) + np.maximum(best, 0)  # members of a group on the same worker
        order = np.argsort(-np.bincount(group, graph.cost), kind="stable")
        for members in (np.flatnonzero((group == g) & ~fixed) for g in order.tolist()):
            if not len(members) or over():
                continue
            home = int(best[members[0]])
            for target in _targets(graph, workers, best, members, result, home):
                if over() or any(target not in able[v] for v in members.tolist()):
                    continue
                found = best.copy()
                found[members] = target
                now, ran = run(found)
                if now < cost:
                    best, cost, result = found, now, ran
                    break
        levels.append((k, cost))
    return Refined(best, cost, levels, spent)


def groups_of(graph: PlanGraph, k: int) -> NDArray[np.int64]:
    """Up to k groups of similar work and bytes with few bytes between them, by METIS if possible, else by bisection."""
    if suits_metis(graph, k, memory=True):
        return metis_groups(graph, k, memory=True, slack=1.1)
    free = replace(graph, device=np.zeros(graph.n, np.uint8), pin=np.full(graph.n, -1, np.int16))
    return assign_bisect(free, Workers.build(k), rank_by("dfs", graph)).astype(np.int64)


def solve_exactly(graph: PlanGraph, workers: Workers, label: NDArray[np.int64]) -> NDArray[np.int64]:
    """Worker of each group such that the busiest worker's seconds plus all transfers are least, by branch and bound.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    label
        Group of each operand, from 0 on, shape (n,); few groups, since the time grows exponentially.

    Returns
    -------
    ndarray of int64, shape (groups,)

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> four = PlanGraph.build(Dag.from_edges(4, [0], [1]), cost=[1.0, 1.0, 2.0, 2.0], nbytes=2 * 10**9)
    >>> solve_exactly(four, Workers.build(2), np.arange(4)).tolist()
    [0, 0, 0, 1]
    """
    k, p = int(label.max(initial=-1)) + 1, len(workers)
    seconds: list[float] = np.bincount(label, graph.cost, k).tolist()
    sent = _sent(graph, label, workers.seconds_per_byte)
    rate: list[float] = (workers.cores * workers.speed).tolist()
    order = sorted(range(k), key=lambda g: (-seconds[g], g))
    left = [sum(seconds[g] for g in order[depth:]) for depth in range(k + 1)]
    placed, load, guests = [-1] * k, [0.0] * p, [0] * p
    best: tuple[float, list[int]] = (math.inf, [0] * k)

    def transfers() -> float:
        """Seconds of all transfers between placed groups."""
        total = 0.0
        for takes, sender, readers in sent:
            if placed[sender] >= 0:
                total += takes * len({placed[r] for r in readers} - {placed[sender], -1})
        return total

    def place(depth: int) -> None:
        nonlocal best
        busiest = max(load[w] / rate[w] for w in range(p))
        moving = transfers()
        if max(busiest, (sum(load) + left[depth]) / sum(rate)) + moving >= best[0] * (1 - 1e-12):
            return
        if depth == k:
            best = (busiest + moving, placed.copy())
            return
        g, empty = order[depth], set[float]()
        for w in sorted(range(p), key=lambda w: (load[w] / rate[w], w)):
            if not guests[w]:  # try a single empty worker of each speed
                if rate[w] in empty:
                    continue
                empty.add(rate[w])
            placed[g] = w
            load[w] += seconds[g]
            guests[w] += 1
            place(depth + 1)
            load[w] -= seconds[g]
            guests[w] -= 1
            placed[g] = -1

    place(0)
    return np.array(best[1], np.int64)


def _sent(graph: PlanGraph, label: NDArray[np.int64], per_byte: float) -> list[tuple[float, int, tuple[int, ...]]]:
    """Transfers (seconds, sending group, receiving groups) of chunks that leave their group, summed by groups."""
    src, dst = graph.dag.edges()
    out = label[src] != label[dst]
    readers: dict[int, set[int]] = {}
    for v, g in zip(src[out].tolist(), label[dst[out]].tolist(), strict=True):
        readers.setdefault(v, set()).add(g)
    sums: dict[tuple[int, tuple[int, ...]], float] = {}
    for v, groups in readers.items():
        key = (int(label[v]), tuple(sorted(groups)))
        sums[key] = sums.get(key, 0.0) + float(graph.nbytes[v]) * per_byte
    return [(takes, sender, groups) for (sender, groups), takes in sums.items()]


def _levels(graph: PlanGraph, workers: Workers, make: Grouping) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Number of groups and group of each operand per level, from the coarsest level to single operands."""
    p = len(workers)
    alike = len(set((workers.cores * workers.speed).tolist())) == 1
    k = _COARSEST if alike or p == 1 else max(2, min(_COARSEST, int(math.log(_LEAVES) / math.log(p))))
    while k < graph.n:
        yield k, make(graph, k)
        k *= _FINER
    yield graph.n, np.arange(graph.n)


def _may(able: list[tuple[int, ...]], assign: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Flags of operands that may run on their worker."""
    return np.array([w in team for w, team in zip(assign.tolist(), able, strict=True)], np.bool_)


def _targets(
    graph: PlanGraph,
    workers: Workers,
    assign: NDArray[np.int16],
    members: NDArray[np.int64],
    result: SimResult | None,
    home: int,
) -> list[int]:
    """Workers to try a group on: the most idle workers, and workers that share most bytes with the group."""
    p = len(workers)
    inside = np.zeros(graph.n, np.bool_)
    inside[members] = True
    src, dst = graph.dag.edges()
    joined = inside[src] != inside[dst]
    other = np.where(inside[src[joined]], dst[joined], src[joined])
    near = assign[other] >= 0
    shared = np.bincount(assign[other][near], graph.nbytes[src[joined]][near], p)
    idle = np.zeros(p) if result is None else result.makespan - result.busy / workers.cores
    by_idle = [w for w in np.argsort(-idle, kind="stable").tolist() if w != home]
    by_bytes = [w for w in np.argsort(-shared, kind="stable").tolist() if w != home and shared[w]]
    return list(dict.fromkeys([*by_idle[:2], *by_bytes[:2], *by_idle]))[:_TARGETS]
