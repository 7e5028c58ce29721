"""Which order runs best on one host: a few are simulated under its memory limit, as long as that pays.

The executors of a host share one memory, so nothing moves between them and a plan is an order. Seed 003's is right for
one graph and spills twice as much as a depth-first one on the next; `choose_order` simulates both, and two more. It may
take a small share of the seconds that the run itself takes at least, so small graphs are not planned at all.
Used by scheduler/prepare.py and by `Tensor.plan()`. Source: PLANNING 0.1 and 4.3; seed 003, "Operand 选择策略".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError
from jmars.native import backend
from jmars.plan.choice.choose import PREFERENCES, Candidate, Choice
from jmars.plan.order.ranks import rank_by, sequential_peak
from jmars.plan.plan import Plan
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.lower_bound import lower_bound
from jmars.plan.simulation.sim_result import SimResult
from jmars.plan.simulation.simulate import simulate
from jmars.plan.workers import Workers

__all__ = ["HOST_ORDERS", "choose_order", "seconds_to_plan"]

HOST_ORDERS = ("dfs", "mars", "blevel", "level")  # those that won most often first

SHARE = 0.03  # of the least seconds of a run that planning it may take
_SECONDS = {"c": 2e-6, "python": 40e-6}  # to rank and simulate an operand
_SPILLED, _HELD = 0.3, 0.05  # "lean": what all bytes spilled, and twice the bytes held, are worth beside the seconds
_SLACK = 1.1  # "memory": how much longer than the fastest it may take


def seconds_to_plan(graph: PlanGraph, workers: Workers) -> float:
    """Seconds that planning a run may take: a share of what it computes and, where memory is short, spills at least.

    0 where they do not suffice for one candidate.

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
    """Simulate a run in several orders and take the best.

    Parameters
    ----------
    graph
        What is run.
    workers
        The host: one row, see `one_host`.
    prefer
        "fast": the shortest time; "lean": also few bytes spilled and held; "memory": fewest bytes held and spilled
        among orders within a tenth of the fastest.
    budget
        Seconds after which nothing more is tried; None: all are. One always is.
    placed
        0 where a chunk is held already, -1 elsewhere, shape (n,); None: none is.
    names
        Orders to try (`plan.order.RANKS`); of equally good ones the first is taken.
    clock
        What tells the seconds.

    Raises
    ------
    GraphError
        If there is no such preference or order, there are several workers, or the graph has a cycle.
    MemoryLimitError
        If one operand alone does not fit.

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
        tried.append(Candidate("host", name, assign, rank, result, _score(prefer, result, bound, total, lean)))
        now = clock()
        took, last = now - last, now
        if budget is not None and now + took > start + budget:
            break  # another one like this would not be done in time
    fastest = min(one.result.makespan for one in tried)
    allowed = [one for one in tried if prefer != "memory" or one.result.makespan <= fastest * _SLACK]
    best = min(allowed, key=lambda one: one.score)
    return Choice(Plan(graph.dag, assign, best.rank.copy()), best.result, tuple(tried), bound)


def _score(prefer: str, result: SimResult, bound: float, total: int, lean: int) -> float:
    """What an order is worth, lower is better."""
    if prefer == "memory":
        return float(result.peak_total + result.spilled)
    seconds = result.makespan / bound if bound else result.makespan
    if prefer == "fast":
        return seconds
    disk = _SPILLED * (result.spilled + result.reloaded) / total
    return seconds + disk + _HELD * max(0.0, result.peak_total / lean - 1)
