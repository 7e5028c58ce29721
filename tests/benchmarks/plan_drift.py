"""A run that finds out, while it goes, that its workers are not as fast as planned: drift, and a plan for the rest.

The simulator cannot be stopped, so a run is simulated to its end, cut at the moment at which `drift` would have spoken,
and simulated anew from there. Chunks on their way at that moment count as not sent, which is the worst case.
Source: PLANNING 3.4, "jm + replan once when observed/model speed differs >25 % after 4 tasks".
"""

from dataclasses import dataclass, replace

import numpy as np

from jmars.plan import Observed, PlanGraph, Workers, choose, drift, remaining, replan, simulate, volume, with_speed
from jmars.plan.revision import DONE, RUNNING, WAITS

_MOST = 3  # times that one run is planned anew


@dataclass
class Found:
    """Seconds and bytes of a run, when it was planned anew, and the speeds that it believed in the end."""

    makespan: float
    moved: int
    replanned: list[float]
    speed: np.ndarray


def run_and_see(
    graph: PlanGraph, believed: Workers, really: Workers, *, noise: float = 0.0, seed: int = 1, prefer: str = "lean"
) -> Found:
    """Plan for `believed`, run on `really`, and plan anew where `drift` says so."""
    spread = np.random.default_rng(seed).lognormal(-(noise**2) / 2, noise, graph.n) if noise else np.ones(graph.n)
    true = replace(graph, cost=graph.cost * spread)
    choice = choose(graph, believed, prefer=prefer, budget=None)
    plan, known = choice.plan, believed
    state, placed = np.full(graph.n, WAITS), np.full(graph.n, -1)
    running, elapsed = np.full(graph.n, -1), np.zeros(graph.n)
    now, moved, replanned = 0.0, 0, list[float]()
    while True:
        rest = remaining(true, state, placed, running, elapsed=elapsed)
        assign = np.where(rest.placed >= 0, -1, plan.assign[rest.operands])
        rank = np.argsort(np.argsort(plan.rank[rest.operands], kind="stable"), kind="stable")
        run = simulate(rest.graph, really, assign, rank, placed=rest.placed, trace=True)
        assert run.trace is not None
        cut = _speaks(graph, known, rest.operands, assign, run.trace, rest.fixed) if len(replanned) < _MOST else None
        if cut is None:
            return Found(now + run.makespan, moved + run.moved, replanned, known.speed)
        time, speed = cut
        known = with_speed(known, speed)
        start, end = run.trace.start, run.trace.end
        ran = assign >= 0
        done, runs = ran & (end <= time), ran & (start < time) & (end > time)
        begun = np.flatnonzero(done | runs | ~ran)
        src, dst = rest.graph.dag.edges()
        seen = np.isin(src, begun) & np.isin(dst, begun)
        where = np.where(ran, assign, rest.placed)
        part = replace(rest.graph, nbytes=np.where(np.isin(np.arange(rest.graph.n), src[seen]), rest.graph.nbytes, 0))
        moved += volume(part, np.where(np.isin(np.arange(rest.graph.n), begun), where, 0)) if seen.any() else 0
        operands = rest.operands
        state[operands[done]], state[operands[runs]] = DONE, RUNNING
        placed[operands[done]] = assign[done]
        running[operands] = np.where(runs, assign, -1)
        before = elapsed.copy()
        elapsed[operands] = np.where(runs, (time - start) * really.speed[np.maximum(assign, 0)], 0.0)
        elapsed[operands] += np.where(runs & (rest.fixed >= 0), before[operands], 0.0)
        now += time
        replanned.append(now)
        plan = replan(graph, known, plan, state, placed, running=running, elapsed=elapsed, budget=None).plan


def _speaks(graph, known, operands, assign, trace, fixed):
    """When `drift` is sure for the first time in this run, and the speeds that it found; None: never."""
    whole = np.flatnonzero((assign >= 0) & (fixed < 0))  # those that ran when planned anew are seen in part
    order = whole[np.argsort(trace.end[whole], kind="stable")]
    p = len(known)
    for k in range(p, len(order) - 2 * p, max(1, p // 2)):
        ended = order[:k]
        seconds = (trace.end - trace.start)[ended]
        report = drift(graph, known, Observed(operands[ended], assign[ended], seconds))
        if report.off:
            return float(trace.end[order[k - 1]]), report.speed
    return None
