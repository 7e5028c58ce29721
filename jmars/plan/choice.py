"""A frozen plan, and the choice among several simulated plans, as data; the choice of an order on a single host.

Apart from `choose`, so that a single host imports no planner of several hosts. The executors of a host share a memory,
so no chunk moves between them and a plan is an order. Mars's order suits some graphs and spills twice as much as depth
first on other graphs; `choose_order` simulates both, and two more. Planning may take a small share of the run's least
seconds, so small graphs are not planned at all.

A run is brief (`are_brief`) if messages about the operands take longer than the operands, and all chunks are small.
Such a run is fastest where many operands are ready at once, since they share a message; depth first, which keeps few
chunks in memory, has few ready operands. Memory is no concern, so the order that has the longest way to the end first
serves.

A `Plan` has the workers of initial operands and the ranks of all operands, decided before a graph runs. The scheduler
makes a frozen `Plan` per compiled graph and passes the plan by value.

Where a graph shuffles, a reducer's inputs count as none. A reducer reads a piece of every mapper's output, so no worker
has most of the inputs, and the reducer is placed as an initial operand: every worker gets a share of the reducers, and
no search passes from mappers to reducers. "bfs-v1" gets the graph as Mars had it, with an operand between that only
passes the pieces on.
Source: docs/explanation/seeds.md, "Choosing operands", "Initial worker assignment", "Scheduling policy"; Mars v0.1
`scheduler/graph.py`, `place_initial_chunks`; v0.10 `analyzer/assigner.py`, `reassign_worker`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.native import backend
from jmars.plan.costs import Profile, signature
from jmars.plan.initial import assign_bfs_v1, assign_initial, initial_v1, shares
from jmars.plan.order import rank_by, sequential_peak
from jmars.plan.plan_graph import PlanGraph, Workers
from jmars.plan.simulation import SimResult, lower_bound, simulate
from jmars.tensor.chunk import ChunkGraph


@dataclass(frozen=True, eq=False)
class Plan:
    """The plan of a graph: workers and ranks of operands.

    Attributes
    ----------
    dag
        The operands; an edge leads from an operand to a reader of its chunk.
    assign
        First worker of each operand, shape (n,); -1 for operands that follow their inputs.
    rank
        Order of preference, shape (n,), a permutation of 0..n-1: of two ready operands the lower rank runs first.

    The arrays are read-only.
    """

    dag: Dag
    assign: NDArray[np.int16]
    rank: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name, array in (("assign", self.assign), ("rank", self.rank)):
            if array.shape != (self.dag.n,):
                raise GraphError(f"{name} has shape {array.shape}; give one entry for each of {self.dag.n} operands")
            array.flags.writeable = False


def make_plan(
    dag: Dag,
    rank: NDArray[np.int64],
    workers: Sequence[int],
    stored: NDArray[np.bool_] | None = None,
    search: str = "bfs",
    seed: int = 0,
    reducers: NDArray[np.bool_] | None = None,
) -> Plan:
    """Makes the plan of a graph on some workers.

    Parameters
    ----------
    dag
        The operands.
    rank
        `Compiled.rank`.
    workers
        Slots of each worker.
    stored
        Whether each operand's chunk is stored already, or its worker is fixed, shape (n,); such operands get no worker.
        None: no operand is.
    search, seed
        See `assign_initial`.
    reducers
        Whether each operand reads a piece of each input, shape (n,): after a shuffle its inputs count as none, so it
        is placed as an initial operand. None: no operand does.

    Raises
    ------
    GraphError
        If there are operands and no slots, or `rank` does not fit the graph.
    """
    fixed = np.zeros(dag.n, np.bool_) if stored is None else stored
    if reducers is not None and (reducers & ~fixed).any():
        assign = assign_shuffled(dag, reducers, fixed, workers, search, seed)
    else:
        sources = dag.sources()
        assign = assign_initial(dag, sources[~fixed[sources]], workers, search, seed)
    return Plan(dag, assign, rank.astype(np.int64))


def assign_shuffled(
    dag: Dag,
    reducers: NDArray[np.bool_],
    fixed: NDArray[np.bool_],
    workers: Sequence[int],
    search: str = "bfs",
    seed: int = 0,
) -> NDArray[np.int16]:
    """Assigns workers to initial operands and to reducers.

    Parameters
    ----------
    dag
        The operands.
    reducers, fixed
        Whether each operand reads pieces of a shuffle, and whether it gets no worker here, shape (n,).
    workers, search, seed
        See `assign_initial`.

    Returns
    -------
    ndarray of int16, shape (dag.n,)
        Index into `workers`; -1 for operands that are neither initial nor reducers, or are fixed.

    Examples
    --------
    >>> sort = Dag.from_edges(4, [0, 0, 1, 1], [2, 3, 2, 3])  # 0 and 1 are mappers, 2 and 3 reducers
    >>> reducers = np.array([False, False, True, True])
    >>> assign_shuffled(sort, reducers, ~reducers & reducers, [1, 1]).tolist()
    [0, 1, 0, 1]
    """
    if search == "bfs-v1":
        whole, between = _with_shuffles(dag, reducers)
        first = initial_v1(whole, between)
        first = first[(first < dag.n) & ~np.append(fixed, np.zeros(whole.n - dag.n, np.bool_))[first]]
        return assign_bfs_v1(whole, first, shares(len(first), workers), shuffles=between, seed=seed)[: dag.n]
    apart = without_shuffles(dag, reducers)
    sources = dag.sources()
    assigned = assign_initial(apart, sources[~fixed[sources]], workers, search, seed)
    readers = np.flatnonzero(reducers & ~fixed)  # apart: they run when all initial operands have run
    assigned[readers] = assign_initial(apart, readers, workers, search, seed)[readers]
    return assigned


def without_shuffles(dag: Dag, reducers: NDArray[np.bool_]) -> Dag:
    """The graph without the edges into reducers."""
    src, dst = dag.edges()
    stays = ~reducers[dst]
    return Dag.from_edges(dag.n, src[stays], dst[stays])


def _with_shuffles(dag: Dag, reducers: NDArray[np.bool_]) -> tuple[Dag, list[int]]:
    """The graph with an operand between the mappers and the reducers of every shuffle, and the new operands."""
    number: dict[tuple[int, ...], int] = {}  # of the operand between, by mappers
    src, dst = dag.edges()
    stays = ~reducers[dst]
    more: list[tuple[int, int]] = []
    for reducer in np.flatnonzero(reducers).tolist():
        mappers = tuple(sorted(set(dag.preds(reducer).tolist())))
        if mappers not in number:
            number[mappers] = dag.n + len(number)
            more += [(mapper, number[mappers]) for mapper in mappers]
        more.append((number[mappers], reducer))
    begin, end = [one for one, _ in more], [one for _, one in more]
    whole = Dag.from_edges(dag.n + len(number), np.concatenate([src[stays], begin]), np.concatenate([dst[stays], end]))
    return whole, list(number.values())


PREFERENCES = ("fast", "lean", "memory")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A simulated plan: the names of assignment and order, and the result."""

    assigned_by: str
    ranked_by: str
    assign: NDArray[np.int16]
    rank: NDArray[np.int64]
    result: SimResult
    score: float  # lower is better; for "memory" bytes, else multiples of the lower bound

    @property
    def name(self) -> str:
        """Assignment and order; on a single host the order."""
        return f"{self.assigned_by}, {self.ranked_by}" if self.assigned_by else self.ranked_by


@dataclass(frozen=True, eq=False)
class Choice:
    """The best plan, the simulated result, all candidates, and a lower bound of the makespan."""

    plan: Plan
    predicted: SimResult
    tried: tuple[Candidate, ...]
    lower_bound: float

    @property
    def best(self) -> Candidate:
        """The candidate that `plan` was made from."""
        return next(one for one in self.tried if one.result is self.predicted)


HOST_ORDERS = ("dfs", "mars", "blevel", "level")  # the most frequent winners first

SHARE = 0.03  # of the run's least seconds that planning may take
_SECONDS = {"c": 2e-6, "python": 40e-6}  # to rank and simulate an operand
_SPILLED, _HELD = 0.3, 0.05  # "lean": score of spilling all bytes, and of holding twice the bytes
MAX_SLOWDOWN = 1.1  # prefer "memory": most seconds, as a multiple of the fastest candidate


def seconds_to_plan(graph: PlanGraph, workers: Workers) -> float:
    """Seconds that planning a run may take: a share of the least seconds of computing and spilling.

    0 if the seconds do not suffice for a single candidate.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> host = Workers.build(1, cores=2)
    >>> pair = PlanGraph.build(Dag.from_edges(3, [0, 1], [2, 2]), cost=4.0, nbytes=8)
    >>> round(seconds_to_plan(pair, host), 3)
    0.18
    >>> seconds_to_plan(PlanGraph.build(pair.dag, cost=1e-6, nbytes=8), host)
    0.0
    """
    kept = int(graph.nbytes[graph.result].sum()) - int(workers.memory.sum())
    least = float(graph.cost.sum()) / workers.rate + max(0, kept) / float(workers.disk.sum())
    return share if (share := SHARE * least) > _SECONDS[backend()] * graph.n else 0.0


def choose_order(
    graph: PlanGraph,
    workers: Workers,
    *,
    prefer: str = "lean",
    budget: float | None = None,
    placed: NDArray[np.int64] | None = None,
    names: Sequence[str] = HOST_ORDERS,
    clock: Callable[[], float] = time.perf_counter,
) -> Choice:
    """Simulates a run in several orders and returns the best.

    Parameters
    ----------
    graph
        The operands.
    workers
        The host, a single worker, see `one_host`.
    prefer
        "fast": the shortest time; "lean": also few bytes spilled and held; "memory": fewest bytes held and spilled
        among orders within a tenth of the fastest.
    budget
        Seconds after which no further order is tried; None: all are tried. At least a single order is tried.
    placed
        0 for chunks that are stored already, else -1, shape (n,); None: no chunk is stored.
    names
        Orders to try, keys of `plan.order.ranks.RANKS`; among equals the first wins.
    clock
        Returns the time in seconds.

    Raises
    ------
    GraphError
        If a preference or order is unknown, there are several workers, or the graph has a cycle.
    MemoryLimitError
        If an operand alone does not fit.

    Examples
    --------
    Breadth first holds all leaves at once; with room for three chunks it spills, and depth first does not:

    >>> from jmars.graph import Dag
    >>> tree = PlanGraph.build(Dag.from_edges(7, [0, 1, 2, 3, 4, 5], [4, 4, 5, 5, 6, 6]), cost=1.0, nbytes=10**9)
    >>> choice = choose_order(tree, Workers.build(1, memory=4 * 10**9), names=["level", "dfs"])
    >>> choice.best.ranked_by, choice.predicted.spilled, [one.result.spilled > 0 for one in choice.tried]
    ('dfs', 0, [True, False])
    """
    if prefer not in PREFERENCES:
        raise GraphError(f"no preference {prefer!r}; choose one of {', '.join(PREFERENCES)}")
    if len(workers) != 1:
        raise GraphError(f"an order alone is a plan for one host, not for {len(workers)}; use choose")
    start = last = clock()
    home = np.full(graph.n, -1) if placed is None else placed
    assign = np.where(home < 0, 0, -1).astype(np.int16)
    bound, total = lower_bound(graph, workers), max(1, int(graph.nbytes.sum()))
    scratch = int(graph.work.max(initial=0)) * int(workers.cores.sum())  # no order runs on all cores with less
    lean = max(1, sequential_peak(graph, rank_by("dfs", graph)) + scratch)
    tried: list[Candidate] = []
    for name in names:
        rank = rank_by(name, graph)
        result = simulate(graph, workers, assign, rank, placed=home)
        tried.append(Candidate("", name, assign, rank, result, _score(prefer, result, bound, total, lean)))
        now = clock()
        took, last = now - last, now
        if budget is not None and now + took > start + budget:
            break  # the next order would end too late
    fastest = min(one.result.makespan for one in tried)
    allowed = [one for one in tried if prefer != "memory" or one.result.makespan <= fastest * MAX_SLOWDOWN]
    best = min(allowed, key=lambda one: one.score)
    return Choice(Plan(graph.dag, assign, best.rank.copy()), best.result, tuple(tried), bound)


def _score(prefer: str, result: SimResult, bound: float, total: int, lean: int) -> float:
    """Score of an order, lower is better."""
    if prefer == "memory":
        return float(result.peak_total + result.spilled)
    seconds = result.makespan / bound if bound else result.makespan
    if prefer == "fast":
        return seconds
    disk = _SPILLED * (result.spilled + result.reloaded) / total
    return seconds + disk + _HELD * max(0.0, result.peak_total / lean - 1)


BRIEF_ORDER = "blevel"
LEAST = 1000  # operands; fewer share few messages in any order
SECONDS = 100e-6  # of an operand, on average
NBYTES = 2**24  # of all chunks together


def are_brief(operands: ChunkGraph, graph: PlanGraph, profile: Profile, memory: int) -> bool:
    """Whether the operands of a run on a single host are brief.

    Results without a bound count as the newest results of their program did; False where none was seen.

    Parameters
    ----------
    operands, graph
        The compiled graph, and what `annotate` made of it.
    profile
        Measured costs.
    memory
        Bytes for chunks and scratch.
    """
    computed = operands.program[operands.program >= 0]
    if len(computed) < LEAST:
        return False
    if graph.cost[operands.program >= 0].mean() - profile.dispatch > SECONDS:
        return False
    nbytes = int(graph.nbytes.sum())
    for number, count in enumerate(np.bincount(computed).tolist()):
        program = operands.programs[number]
        if count and not program.output.has_bound:
            seen = profile.results.get(signature(program).key)
            if seen is None:
                return False
            nbytes += count * seen
    return nbytes <= min(NBYTES, memory // 4)
