"""Improves plans by simulation, for plans that are reused: annealing, copies, justification, refinement.

Simulated annealing makes random small changes and keeps a change if the plan improves, sometimes also if it does not.
Cascade's old scheduler has a single move, the swap of two tasks; `anneal` has four, and the cost of a plan is the
simulated run. Annealing takes thousands of simulations, so only plans that are reused are annealed. The best plan and
the curve of best costs are kept, and `stop` serves a stop button.

A plan with copies is a plan of a larger graph with copies as operands, so the simulator and other readers of plans need
no notion of copies.

Justification ranks operands by their latest start times in a simulated run, so that urgent operands go first. `choose`
simulates the best plans, computes how late operands could have started without delaying readers, and tries the order of
these times. The order helps where many small operands feed few large operands, as in a rechunk.

Multilevel refinement, on several hosts, moves large groups of operands between workers first, then smaller groups. The
coarsest level of at most eight groups is solved exactly in a model of two terms, the busiest worker's seconds and the
seconds of all transfers. On every level a group moves only if the simulated run gets shorter, so the cost never rises
from level to level.
Source: Kirkpatrick, Gelatt and Vecchi 1983; ECMWF earthkit-workflows, `schedulers/anneal.py` of 2023 (100 levels of 100
tries, T 0.5 falling by 0.9); docs/explanation/seeds.md, "Multilevel partitioning"; Li and Willis
1992 (backward scheduling from a forward schedule).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError, MemoryLimitError
from jmars.graph import Dag, levels
from jmars.plan.assign import assign_bisect
from jmars.plan.order import rank_by, rows
from jmars.plan.partition import metis_groups, suits_metis
from jmars.plan.plan_graph import PlanGraph, Workers
from jmars.plan.simulation import SimResult, Trace, simulate

MOVES = ("move", "swap", "reorder", "duplicate")

_COOL = 0.9
_LEVELS = 40  # temperatures
_NEIGHBOURS = 0.5  # chance that a further neighbour moves along with an operand


@dataclass(frozen=True, eq=False)
class Annealed:
    """Result of annealing: the plan with copies, the cost, and the curve of best costs.

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
    """A mutable plan: a worker per operand, an order, and copies."""

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


@dataclass(frozen=True, eq=False)
class Copied:
    """A plan with copies: `graph` has all operands of the original graph, then the copies, and `assign` and `rank`
    cover both. `origin` has the original operands of copies, and all other operands themselves, shape (k,).
    """

    graph: PlanGraph
    assign: NDArray[np.int16]
    rank: NDArray[np.int64]
    origin: NDArray[np.int64]

    @property
    def copies(self) -> list[tuple[int, int]]:
        """Pairs (operand, worker), a pair per copy."""
        extra = np.flatnonzero(self.origin != np.arange(len(self.origin)))
        return list(zip(self.origin[extra].tolist(), self.assign[extra].tolist(), strict=True))


def with_copies(
    graph: PlanGraph, assign: NDArray[np.int16], rank: NDArray[np.int64], copies: Iterable[tuple[int, int]]
) -> Copied:
    """Builds the plan in which operands run again on other workers.

    Readers on the copy's worker read the copy. An operand that is no result and would keep no readers moves to the
    worker of the first copy, in place of that copy.

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


def rank_justified(
    graph: PlanGraph, assign: NDArray[np.int16], trace: Trace, seconds_per_byte: float
) -> NDArray[np.int64]:
    """Ranks operands by latest start, then by actual start; topological.

    Parameters
    ----------
    graph, assign
        Worker of each operand, shape (n,).
    trace
        Start and end of each operand.
    seconds_per_byte
        Of a transfer between workers.

    Examples
    --------
    Operand 0 is read late and 1 early, so 1 goes first the next time:

    >>> from jmars.graph import Dag
    >>> graph = PlanGraph.build(Dag.from_edges(4, [0, 1], [3, 2]), cost=1.0, nbytes=8)
    >>> ran = Trace(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]), [])
    >>> rank_justified(graph, np.zeros(4, np.int16), ran, 1e-9).tolist()
    [1, 0, 2, 3]
    """
    src, dst = graph.dag.edges()
    moves = np.where(assign[src] != assign[dst], graph.nbytes[src] * seconds_per_byte, 0.0)
    latest = np.where(graph.dag.out_degree > 0, np.inf, trace.end)
    np.minimum.at(latest, src, trace.start[dst] - moves)
    rank = np.empty(graph.n, np.int64)
    took = trace.end - trace.start
    rank[np.lexsort((levels(graph.dag), trace.start, latest - took))] = np.arange(graph.n)
    return rank


_COARSEST = 8  # groups
_FINER = 4  # times as many groups on the next level
_LEAVES = 50_000  # most assignments that the exact solution may examine
_TARGETS = 3  # workers to try a group on

Grouping = Callable[[PlanGraph, int], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Refined:
    """Refined assignment, cost in seconds, (groups, cost) per level from the coarsest, and simulations made."""

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
    """Workers of the groups such that the busiest worker's seconds plus all transfers are least, by branch and bound.

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
    """Number of groups and groups of the operands per level, from the coarsest level to single operands."""
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
