"""Simulated annealing of a plan: random small changes, kept if the plan improves and sometimes if it does not.

Cascade's old scheduler has a single move, the swap of two tasks; this file has four, and the cost of a plan is its
simulated run. Annealing takes thousands of simulations, so it is for plans that are reused. The best plan and the curve
of best costs are kept, and `stop` serves a stop button.
Source: Kirkpatrick, Gelatt and Vecchi 1983; ECMWF earthkit-workflows, `schedulers/anneal.py` of 2023 (100 levels of
100 tries, T 0.5 falling by 0.9); docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError, MemoryLimitError
from jmars.plan.improve.duplication import Copied, with_copies
from jmars.plan.order.ranks import rows
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.simulate import simulate
from jmars.plan.workers import Workers

__all__ = ["MOVES", "Annealed", "anneal"]

MOVES = ("move", "swap", "reorder", "duplicate")

_COOL = 0.9
_LEVELS = 40  # temperatures
_NEIGHBOURS = 0.5  # chance that a further neighbour moves along with an operand


@dataclass(frozen=True, eq=False)
class Annealed:
    """Result of annealing: the plan with its copies, its cost, and the curve of best costs.

    Attributes
    ----------
    assign, rank
        The plan without the copies, shape (n,).
    copies
        Pairs (operand, worker) of operands that run again.
    plan
        The plan with the copies as operands.
    cost
        Seconds of `plan`; never above the cost of the given plan.
    curve
        Pairs (try, best cost) at the first try, each improvement, and the last try.
    tries
        Number of plans simulated.
    """

    assign: NDArray[np.int16]
    rank: NDArray[np.int64]
    copies: list[tuple[int, int]]
    plan: Copied
    cost: float
    curve: list[tuple[int, float]]
    tries: int


def anneal(
    graph: PlanGraph,
    workers: Workers,
    assign: ArrayLike,
    rank: NDArray[np.int64],
    *,
    tries: int = 2000,
    seconds: float = math.inf,
    temperature: float = 0.02,
    moves: tuple[str, ...] = MOVES,
    price: float = 0.0,
    seed: int = 0,
    placed: ArrayLike | None = None,
    stop: Callable[[], bool] | None = None,
    better: Callable[[int, float], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Annealed:
    """Improves a plan by random changes, deterministically for a given seed.

    Parameters
    ----------
    graph, workers, assign, rank
        The plan; every operand must have a worker, and `rank` be topological.
    tries, seconds
        Most plans to simulate, and most seconds to spend.
    temperature
        Initial temperature, as a part of the cost: a plan worse by this part is kept once in e tries. The temperature
        falls 40 times by a tenth.
    moves
        Of `MOVES`: "move" sends an operand and some neighbours to a different worker; "swap" exchanges two operands on
        different workers; "reorder" runs an operand earlier or later, between its inputs and its readers; "duplicate"
        adds or removes a copy of an operand without inputs.
    price
        Cost of a second of transfer beside the makespan, in seconds.
    seed
        Of the random generator.
    placed
        Worker that stores an operand's chunk before the run, or -1, shape (n,): such operands do not run, and stay.
    better
        Called with the try and the cost at each improvement.
    stop
        Called after every try; True ends the search with the best plan so far.
    clock
        Returns the time in seconds.

    Raises
    ------
    GraphError
        If a move does not exist, or an operand has no worker.
    """
    if unknown := set(moves) - set(MOVES):
        raise GraphError(f"no move {sorted(unknown)[0]!r}; choose of {', '.join(MOVES)}")
    there = np.full(graph.n, -1, np.int64) if placed is None else np.asarray(placed, np.int64)
    state = _State(graph, workers, np.array(assign, np.int16), rank, np.random.default_rng(seed), there)
    if len(lost := np.flatnonzero((np.array(state.where) < 0) & (there < 0))):
        raise GraphError(f"operand {lost[0]} has no worker; anneal a plan that places all of them")
    start = clock()

    def cost_of(plan: Copied) -> float:
        try:
            run = simulate(plan.graph, workers, plan.assign, plan.rank, placed=there[plan.origin])
        except MemoryLimitError:
            return math.inf
        return run.makespan + price * run.moved * workers.seconds_per_byte

    best = now = state.snapshot()
    plan = state.plan()
    cost = best_cost = first = cost_of(plan)
    curve, done = [(0, first)], 1
    able = [move for move in moves if state.can(move)]
    level = max(1, (tries - 1) // _LEVELS)
    heat = temperature
    while done < tries and able and clock() - start < seconds and not (stop is not None and stop()):
        if not state.change(able[int(state.rng.integers(len(able)))]):
            done += 1  # counts as a try, so that the loop ends if no change is possible
            continue
        tried = state.plan()
        found = cost_of(tried)
        done += 1
        if found < cost or (
            cost < math.inf and state.rng.random() < math.exp((cost - found) / (first * heat or 1e-12))
        ):
            cost, now = found, state.snapshot()
            if found < best_cost:
                best_cost, best, plan = found, now, tried
                curve.append((done, found))
                if better is not None:
                    better(done, found)
        else:
            state.restore(now)
        if done % level == 0:
            heat *= _COOL
            if cost > best_cost * (1 + heat):  # too far off
                cost, now = best_cost, best
                state.restore(best)
    state.restore(best)
    curve.append((done, best_cost))
    return Annealed(*state.arrays(), plan.copies, plan, best_cost, curve, done)


_Snapshot = tuple[list[int], list[int], frozenset[tuple[int, int]]]


class _State:
    """A mutable plan: a worker for each operand, an order, and copies."""

    def __init__(
        self,
        graph: PlanGraph,
        workers: Workers,
        assign: NDArray[np.int16],
        rank: NDArray[np.int64],
        rng: np.random.Generator,
        placed: NDArray[np.int64],
    ) -> None:
        self.graph, self.rng = graph, rng
        self.where: list[int] = assign.tolist()
        self.order: list[int] = np.argsort(rank, kind="stable").tolist()
        self.copies: frozenset[tuple[int, int]] = frozenset()
        self._able = workers.able(graph)
        self._inputs = rows(graph.dag.pred_ptr, graph.dag.pred_idx)
        self._readers = rows(graph.dag.succ_ptr, graph.dag.succ_idx)
        self._free = [v for v in range(graph.n) if len(self._able[v]) > 1 and placed[v] < 0]
        self._sources = [v for v in self._free if not self._inputs[v] and self._readers[v]]
        self._place: list[int] | None = None

    def can(self, move: str) -> bool:
        """Whether the graph has operands for a kind of move."""
        needs = {"move": len(self._free), "swap": len(self._free) - 1, "duplicate": len(self._sources)}
        return needs.get(move, self.graph.n - 1) > 0

    def snapshot(self) -> _Snapshot:
        return self.where.copy(), self.order.copy(), self.copies

    def restore(self, snapshot: _Snapshot) -> None:
        where, order, self.copies = snapshot
        self.where, self.order = where.copy(), order.copy()

    def arrays(self) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
        rank = np.empty(self.graph.n, np.int64)
        rank[self.order] = np.arange(self.graph.n)
        return np.array(self.where, np.int16), rank

    def plan(self) -> Copied:
        return with_copies(self.graph, *self.arrays(), sorted(self.copies))

    def change(self, move: str) -> bool:
        """Applies a random move of this kind; returns whether the plan changed."""
        changes = {"move": self._move, "swap": self._swap, "reorder": self._reorder, "duplicate": self._duplicate}
        return changes[move]()

    def _any(self, line: list[int]) -> int:
        return line[int(self.rng.integers(len(line)))]

    def _move(self) -> bool:
        v = self._any(self._free)
        home = self.where[v]
        target = self._any([w for w in self._able[v] if w != home])
        group, edge = {v}, [v]
        while self.rng.random() < _NEIGHBOURS:
            near = [u for x in edge for u in (*self._inputs[x], *self._readers[x])]
            near = [u for u in near if u not in group and self.where[u] == home and target in self._able[u]]
            if not near:
                break
            edge.append(self._any(near))
            group.add(edge[-1])
        for u in group:
            self.where[u] = target
        return True

    def _swap(self) -> bool:
        a, b = self._any(self._free), self._any(self._free)
        if self.where[a] == self.where[b] or self.where[b] not in self._able[a] or self.where[a] not in self._able[b]:
            return False
        self.where[a], self.where[b] = self.where[b], self.where[a]
        return True

    def _reorder(self) -> bool:
        at = int(self.rng.integers(self.graph.n))
        v = self.order[at]
        reads, read_by = set(self._inputs[v]), set(self._readers[v])
        low = at
        while low > 0 and self.order[low - 1] not in reads:
            low -= 1
        high = at
        while high + 1 < self.graph.n and self.order[high + 1] not in read_by:
            high += 1
        to = int(self.rng.integers(low, high + 1))
        if to == at:
            return False
        self.order.insert(to, self.order.pop(at))
        return True

    def _duplicate(self) -> bool:
        v = self._any(self._sources)
        there = sorted({self.where[r] for r in self._readers[v]} & set(self._able[v]) - {self.where[v]})
        if not there:
            return False
        self.copies ^= {(v, self._any(there))}
        return True
