"""Work stealing on a plan: idle workers take operands or whole subgraphs from busy workers, before the run.

For clusters of several hosts. Stealing during a run destroys good plans, so the plan is changed beforehand: a theft
that does not shorten the simulated run is undone. The result is never worse than the given plan.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.plan.order.ranks import rank_by, rows
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.sim_result import SimResult, Trace
from jmars.plan.simulation.simulate import simulate
from jmars.plan.workers import Workers

__all__ = ["steal"]


def steal(
    graph: PlanGraph,
    workers: Workers,
    assign: ArrayLike,
    rank: NDArray[np.int64],
    *,
    tries: int = 200,
    placed: ArrayLike | None = None,
) -> NDArray[np.int16]:
    """Improves an assignment by all thefts that shorten the simulated run.

    The most idle worker steals from the busiest worker operands that had not started when the thief fell idle: a
    connected subgraph, a part of a subgraph, or an operand; first about half of the difference in load.

    Parameters
    ----------
    graph, workers, assign, rank, placed
        The plan, as for `simulate`.
    tries
        Most plans to simulate.

    Returns
    -------
    ndarray of int16, shape (n,)
        An assignment whose simulated run is no longer than the run of `assign`.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> lines = PlanGraph.build(Dag.from_edges(8, [0, 1, 2, 4, 5, 6], [1, 2, 3, 5, 6, 7]), cost=1.0, nbytes=8)
    >>> steal(lines, Workers.build(2), [0] * 8, np.arange(8)).tolist()
    [1, 1, 1, 1, 0, 0, 0, 0]
    """
    best = np.array(assign, np.int16)
    able = workers.able(graph)
    run = simulate(graph, workers, best, rank, placed=placed, trace=True)
    tries -= 1
    near = rank_by("dfs", graph).tolist()
    failed: set[tuple[int, int]] = set()
    while tries > 0:
        pair = _pair(run, workers, failed)
        if pair is None:
            break
        thief, victim = pair
        better = False
        for loot in _loot(graph, workers, best, near, run, thief, victim):
            mine = [v for v in loot if thief in able[v]]
            if not mine or tries <= 0:
                continue
            tries -= 1
            found = best.copy()
            found[mine] = thief
            now = simulate(graph, workers, found, rank, placed=placed, trace=True)
            if (now.makespan, now.moved) < (run.makespan * (1 - 1e-9), run.moved):
                best, run, better = found, now, True
                failed.clear()
                break
        if not better:
            failed.add(pair)
    return best


def _pair(run: SimResult, workers: Workers, failed: set[tuple[int, int]]) -> tuple[int, int] | None:
    """The thief with most idle time and the victim with least, among pairs that have not failed."""
    idle = run.makespan - run.busy / workers.cores
    pairs = [(t, v) for t in range(len(workers)) for v in range(len(workers)) if (t, v) not in failed]
    pairs = [(t, v) for t, v in pairs if idle[t] > idle[v] + 1e-9 * run.makespan]
    return max(pairs, key=lambda pair: (idle[pair[0]] - idle[pair[1]], -pair[0], -pair[1]), default=None)


def _loot(
    graph: PlanGraph,
    workers: Workers,
    assign: NDArray[np.int16],
    near: list[int],
    run: SimResult,
    thief: int,
    victim: int,
) -> Iterator[list[int]]:
    """Sets of operands to steal, from whole subgraphs to single operands; `near`: a depth-first rank."""
    assert run.trace is not None
    busy = run.busy[[thief, victim]] / workers.cores[[thief, victim]]
    fair = (busy[1] - busy[0]) * float(workers.cores[thief] * workers.speed[thief]) / 2  # seconds of cost
    subgraphs = _subgraphs(graph, assign, run.trace, thief, victim)
    cost = graph.cost
    sums = [float(cost[part].sum()) for part in subgraphs]
    # as many whole subgraphs as make both equally busy, the large ones first
    whole, spent = list[int](), 0.0
    for k in sorted(range(len(sums)), key=lambda k: (-sums[k], k)):
        if spent + sums[k] <= fair * 1.01:
            whole += subgraphs[k]
            spent += sums[k]
    if whole:
        yield whole
    for k in sorted(range(len(sums)), key=lambda k: (abs(sums[k] - fair), k))[:4]:
        part = sorted(subgraphs[k], key=near.__getitem__)
        if part != whole:
            yield part
        ends = np.cumsum(cost[part])
        for share in (fair, fair / 2, fair / 4, fair / 8):  # pieces from its end, its start and its middle
            for since in (ends[-1] - share, 0.0, (ends[-1] - share) / 2):
                a = int(np.searchsorted(ends, since + 1e-12))
                yield part[a : max(a + 1, int(np.searchsorted(ends, since + share, side="right")))]
    waits = sorted((v for part in subgraphs for v in part), key=lambda v: (-cost[v], near[v]))
    yield from ([v] for v in waits[:4])


def _subgraphs(graph: PlanGraph, assign: NDArray[np.int16], trace: Trace, thief: int, victim: int) -> list[list[int]]:
    """Connected groups of the victim's operands that start after the thief first fell idle."""
    theirs = np.flatnonzero(assign == thief)
    since = _first_gap(trace.start[theirs], trace.end[theirs])
    mine = np.flatnonzero((assign == victim) & (trace.start >= since - 1e-12))
    inside = set(mine.tolist())
    inputs, readers = rows(graph.dag.pred_ptr, graph.dag.pred_idx), rows(graph.dag.succ_ptr, graph.dag.succ_idx)
    found: list[list[int]] = []
    while inside:
        stack, part = [min(inside)], list[int]()
        inside.discard(stack[0])
        while stack:
            v = stack.pop()
            part.append(v)
            for u in (*inputs[v], *readers[v]):
                if u in inside:
                    inside.discard(u)
                    stack.append(u)
        found.append(part)
    return found


def _first_gap(start: NDArray[np.float64], end: NDArray[np.float64]) -> float:
    """First time at which a worker with these operands is idle."""
    if not len(start) or start.min() > 1e-12:
        return 0.0
    order = np.argsort(start, kind="stable")
    until = np.maximum.accumulate(end[order])
    gaps = np.flatnonzero(start[order][1:] > until[:-1] + 1e-12)
    return float(until[gaps[0]]) if len(gaps) else float(until[-1])
