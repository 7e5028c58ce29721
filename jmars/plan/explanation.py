"""Explains a plan as data for the notebook: timeline per worker, critical path, transfers, reason of the choice.

`picture` describes a simulated run, `explain` a choice with all candidates. The data is JSON and bounded: bars, points
and edges beyond the limits are merged or left out, and counts tell how many.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.plan.choice import Candidate, Choice
from jmars.plan.order import rows
from jmars.plan.plan_graph import UNLIMITED, PlanGraph, Workers
from jmars.plan.simulation import SimResult, Trace, simulate, waiting

_EPS = 1e-9


def explain(
    graph: PlanGraph, workers: Workers, choice: Choice, *, placed: ArrayLike | None = None, most: int = 2000
) -> dict[str, Any]:
    """Describes the chosen plan as `picture` does, with the candidates and the reason of the choice.

    Parameters
    ----------
    graph, workers, choice, placed
        Arguments and result of `choose`.
    most
        Bars, and points of all memory curves together, at most.

    Returns
    -------
    dict
        All of `picture`, and

        - "lower_bound": seconds that no plan beats;
        - "chosen": name of the plan; "why": the reason in a sentence;
        - "tried": [name, makespan, peak of all workers, spilled, moved, score] of each plan that was simulated, the
          best first; seconds and bytes.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> from jmars.plan.best_plan import choose
    >>> pair = PlanGraph.build(Dag.from_edges(3, [0, 1], [2, 2]), cost=1.0, nbytes=8)
    >>> shown = explain(pair, Workers.build(1, cores=2), choose(pair, Workers.build(1, cores=2)))
    >>> shown["makespan"], shown["workers"][0]["lanes"]
    (2.0, [[[0, 0.0, 1.0, 1], [2, 1.0, 2.0, 1]], [[1, 0.0, 1.0, 1]]])
    """
    plan = choice.plan
    result = simulate(graph, workers, plan.assign, plan.rank, placed=placed, trace=True)
    tried = sorted(choice.tried, key=lambda one: (one is not choice.best, one.score))
    return picture(graph, workers, result, most=most) | {
        "lower_bound": choice.lower_bound,
        "chosen": choice.best.name,
        "why": _why(choice, tried),
        "tried": [
            [c.name, r.makespan, int(r.peak_total), int(r.spilled), int(r.moved), float(c.score)]
            for c in tried
            for r in [c.result]
        ],
    }


def picture(graph: PlanGraph, workers: Workers, result: SimResult, *, most: int = 2000) -> dict[str, Any]:
    """Describes a simulated run as JSON data.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    result
        Result of `simulate(..., trace=True)`.
    most
        Bars, and points of all memory curves together, at most.

    Returns
    -------
    dict
        In seconds and bytes:

        - "makespan", "moved", "spilled", "reloaded", "peak" (of all workers at a time), "operands" (that ran);
        - "workers": per worker "cores", "speed", "memory" (None: unlimited), "busy", "idle" (core seconds), "peak",
          "waiting" (byte-seconds that outputs waited for other workers), "lanes": for each core the bars
          [first operand, start, end, operands in the bar], and "curve": [seconds, bytes from then on];
        - "critical": the critical chain of operands from the start to the end, each {"operand", "start", "end", "why",
          "after"}. "why" tells how operand "after" (or -1) delayed the start: "start": no delay; "input": computed an
          input; "transfer": computed an input on another worker; "core": occupied the core; "disk": memory was full;
        - "cut": {"bytes", "chunks", "pairs": [from, to, bytes, chunks], "largest": [operand, from, to, bytes] of 20 at
          most}, each chunk counted once per receiving worker.

    Raises
    ------
    GraphError
        If the run was not traced.
    """
    if result.trace is None:
        raise GraphError("this run was not traced; simulate it with trace=True")
    trace, p = result.trace, len(workers)
    where = result.assign.astype(np.int64)
    ran = np.flatnonzero(where >= 0)
    waited = waiting(graph, where, trace, p)
    curves = _curves(trace.memory, p, max(2, most // p), result.makespan)
    tick = result.makespan / max(1, most // max(1, int(workers.cores.sum())))
    shown = []
    for w in range(p):
        mine = ran[where[ran] == w]
        cores, memory = int(workers.cores[w]), int(workers.memory[w])
        shown.append(
            {
                "cores": cores,
                "speed": float(workers.speed[w]),
                "memory": None if memory == UNLIMITED else memory,
                "busy": float(result.busy[w]),
                "idle": float(cores * result.makespan - result.busy[w]),
                "peak": int(result.peak[w]),
                "waiting": float(waited[w]),
                "lanes": _lanes(mine, trace, cores, tick if len(ran) > most else 0.0),
                "curve": curves[w],
            }
        )
    return {
        "makespan": float(result.makespan),
        "moved": int(result.moved),
        "spilled": int(result.spilled),
        "reloaded": int(result.reloaded),
        "peak": int(result.peak_total),
        "operands": len(ran),
        "workers": shown,
        "critical": _critical(graph, workers, where, trace, most),
        "cut": _cut(graph, where),
    }


def _why(choice: Choice, tried: list[Candidate]) -> str:
    """Compares the chosen plan with the best plan of a different assignment, in a sentence."""
    best = choice.best
    others = [c for c in tried if c.assigned_by != best.assigned_by]
    bound = best.result.makespan / choice.lower_bound if choice.lower_bound else 1.0
    text = f"{best.name}: {bound:.2f} times the lower bound"
    if not others:
        return f"{text}; no other plan was tried"
    other = others[0]
    mine, its = best.result, other.result
    found = []
    for what, a, b in (
        ("time", mine.makespan, its.makespan),
        ("bytes moved", float(mine.moved), float(its.moved)),
        ("bytes spilled", float(mine.spilled), float(its.spilled)),
        ("bytes held", float(mine.peak_total), float(its.peak_total)),
    ):
        if b and abs(a / b - 1) >= 0.005:
            found.append(f"{a / b - 1:+.0%} {what}")
        elif a and not b:
            found.append(f"{a / 1e6:.0f} MB more {what}")
    return f"{text}; beside {other.name}, the next best of {len(tried)}: {', '.join(found) or 'alike'}"


def _lanes(mine: NDArray[np.int64], trace: Trace, cores: int, tick: float) -> list[list[list[float]]]:
    """Bars of a worker by core; neighbours in a lane that start in the same tick are merged."""
    lanes: list[list[list[float]]] = [[] for _ in range(cores)]
    free = [0.0] * cores
    for v in mine[np.lexsort((mine, trace.end[mine], trace.start[mine]))].tolist():
        start, end = float(trace.start[v]), float(trace.end[v])
        able = [c for c in range(cores) if free[c] <= start + _EPS]
        core = able[0] if able else min(range(cores), key=free.__getitem__)
        free[core] = end
        lane = lanes[core]
        if lane and tick and int(lane[-1][1] / tick) == int(start / tick):
            lane[-1][2] = end
            lane[-1][3] += 1
        else:
            lane.append([v, start, end, 1])
    return lanes


def _curves(memory: list[tuple[float, int, int]], p: int, most: int, makespan: float) -> list[list[list[float]]]:
    """Bytes in memory over time per worker: all changes, or the maximum per tick if there are too many."""
    curves: list[list[list[float]]] = [[] for _ in range(p)]
    held: float
    for time, w, held in memory:
        curve = curves[w]
        if curve and curve[-1][0] == time:
            curve[-1][1] = held
        elif not curve or curve[-1][1] != held:
            curve.append([time, held])
    for w, curve in enumerate(curves):
        if len(curve) > most:
            tick = makespan / (most - 1) or 1.0
            highest: dict[int, float] = {}
            for (time, held), (until, _) in pairwise([*curve, [makespan, 0]]):
                for k in range(int(time / tick), max(int(time / tick), int(until / tick)) + 1):
                    highest[k] = max(highest.get(k, 0), held)
            curves[w] = [[k * tick, held] for k, held in sorted(highest.items())][:most]
    return curves


def _critical(
    graph: PlanGraph, workers: Workers, where: NDArray[np.int64], trace: Trace, most: int
) -> list[dict[str, Any]]:
    """Critical chain, walked back from the operand that ended last, from cause to cause."""
    ran = np.flatnonzero(where >= 0)
    if not len(ran):
        return []
    start, end = trace.start.tolist(), trace.end.tolist()
    inputs = rows(graph.dag.pred_ptr, graph.dag.pred_idx)
    size, home = graph.nbytes.tolist(), where.tolist()
    ended: list[list[tuple[float, int]]] = [[] for _ in range(len(workers))]
    for v in ran.tolist():
        ended[home[v]].append((end[v], v))
    for line in ended:
        line.sort()
    times = [np.array([time for time, _ in line]) for line in ended]
    chain: list[dict[str, Any]] = []
    seen: set[int] = set()
    v = int(ran[np.argmax(trace.end[ran])])
    while v >= 0 and v not in seen and len(chain) < most:
        seen.add(v)
        w, began = home[v], start[v]
        near = [i for i in inputs[v] if home[i] == w]
        far = [i for i in inputs[v] if home[i] not in (w, -1)]
        here = ended[w][: int(np.searchsorted(times[w], began + _EPS))]  # operands that had ended on this worker
        just = [u for _, u in here[int(np.searchsorted(times[w], began - _EPS)) :] if u not in seen]
        why, after = "start", -1
        if any(abs(end[i] - began) <= _EPS for i in near):
            why, after = "input", max(near, key=lambda i: (end[i], -i))
        elif began > _EPS and just:
            why, after = "core", min(just, key=start.__getitem__)
        elif began > _EPS and far:
            arrives = {i: end[i] + size[i] / float(workers.bandwidth[home[i], w]) for i in far}
            why, after = "transfer", max(far, key=lambda i: (arrives[i], -i))
        elif began > _EPS and (near or here):
            why, after = "disk", max([*near, here[-1][1]] if here else near, key=end.__getitem__)
        chain.append({"operand": v, "start": began, "end": end[v], "why": why, "after": after})
        v = after
    return chain[::-1]


def _cut(graph: PlanGraph, where: NDArray[np.int64]) -> dict[str, Any]:
    """Chunks that move between workers, counted once per receiver."""
    src, dst = graph.dag.edges()
    apart = (where[src] != where[dst]) & (where[src] >= 0) & (where[dst] >= 0)
    width = int(where.max(initial=0)) + 1
    sent, to = np.divmod(np.unique(src[apart] * width + where[dst[apart]]), width)
    size = graph.nbytes[sent]
    pair, back = np.unique(where[sent] * width + to, return_inverse=True)
    total, count = np.zeros(len(pair), np.int64), np.bincount(back, minlength=len(pair))
    np.add.at(total, back, size)
    top = np.argsort(-size, kind="stable")[:20]
    return {
        "bytes": int(size.sum()),
        "chunks": len(sent),
        "pairs": [[*divmod(int(k), width), int(b), int(c)] for k, b, c in zip(pair, total, count, strict=True)],
        "largest": [[int(sent[k]), int(where[sent[k]]), int(to[k]), int(size[k])] for k in top],
    }
