"""Predicts the peak memory of a planned run as an interval, since no prediction is exact and memory must not run out.

On one host the run is simulated with the batches that the dispatcher sends ahead (`jmars.plan.prediction`), in
slots, up to 80 times: in the planned order and in the order that small graphs run in; with costs drawn around the
predicted costs, spread as widely as predictions were off so far (`Accuracy.spread`) or as on a loaded host, and twice
as high; and with times of programs that the dispatcher knows, underestimates, or has still to learn. Functions of users
may be promised all memory. On several machines, for very large graphs, and where memory will be short, the least and
the greatest peak are those of the predicted run, of a run with work ahead (`predict`), and of 8 runs with drawn costs.
The interval is widened by the median error of predicted peaks on this machine, at least a tenth.
"""

from __future__ import annotations

import time
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

from jmars.client.plans.named_policies import PolicyPlan
from jmars.memory.dynamic_outputs import MOST_GUESS
from jmars.optimize.passes import Compiled
from jmars.plan.costs import Accuracy, Profile
from jmars.plan.plan_graph import PlanGraph, Workers
from jmars.plan.prediction import WindowedRun, peak_of_windows, predict_from_simulation, slots
from jmars.plan.simulation import SimResult
from jmars.scheduler.ranking import OPERAND_BYTES

_DRAWS = 8
# Times that batches are filled by: known, still to learn, far too short; and how much slower than predicted the host is
_MOODS: tuple[tuple[float | None, float], ...] = ((1.0, 1.0), (None, 1.0), (0.0, 1.0), (1.0, 2.0), (None, 2.0))
_LEAST_OFF = 0.1
_LOADED = 1.0  # sigma of the logarithm of costs where other programs take the processors
_SIMULATED_SECONDS = 0.2  # in which runs without windows are simulated; one is always
_OPERANDS = 20_000  # that all runs with windows together have, about 0.2 s
_SLOW = 2000  # operands from which a policy that places while it runs takes too long to be drawn
_LARGE = 20_000  # operands from which windows take too long to simulate, and the graph's own memory counts
_MOST = float(np.iinfo(np.int64).max // 2)


def peak_interval(
    graph: PlanGraph,
    workers: Workers,
    planned: PolicyPlan,
    predicted: SimResult,
    profile: Profile | None,
    compiled: Compiled | None = None,
) -> NDArray[np.int64]:
    """Predicts the peak bytes of each machine, shape (P, 2), low and high.

    The draws are seeded, so the same plan has the same interval, unless it needs runs without windows and time runs out
    before the last one.

    Parameters
    ----------
    graph, workers, planned
        The graph, the machines and the plan.
    predicted
        The simulated run of the plan.
    profile
        Known costs, and errors of predictions, on this machine; None if unknown.
    compiled
        The compiled graph; None if unknown.
    """
    seen = profile.accuracy if profile is not None else Accuracy()
    off = max(seen.errors()["peak"] or 0.0, _LEAST_OFF)
    found = None
    if len(workers) == 1 and compiled is not None and 0 < graph.n <= _LARGE:
        found = _of_windows(graph, workers, planned, compiled, seen.spread)
    if found is None or found[0] > int(workers.memory[0]):
        low, high = _of_simulations(graph, workers, planned, predicted, profile, seen.spread)
    else:
        low, high = (np.array([end]) for end in found)
    ends = np.stack([low * max(0.0, 1 - off), np.minimum(high * (1 + off), workers.memory)], axis=1)
    interval: NDArray[np.int64] = np.minimum(ends, _MOST).astype(np.int64)
    return interval


def _of_windows(
    graph: PlanGraph, workers: Workers, planned: PolicyPlan, compiled: Compiled, spread: float
) -> tuple[int, int]:
    """Least and greatest peak of simulated runs with batches sent ahead, of one host."""
    after, executors = compiled.after, int(workers.cores.sum())
    stored, unsized = after.program < 0, after.unsized
    work = np.where(graph.work > 0, slots(graph.work), 0)
    sizes = [(graph.nbytes, work)]
    if unsized.any():  # results of unknown size are small, or take what is promised to the first ones
        guess = min(MOST_GUESS, int(workers.memory[0]) // (8 * executors))
        promised = np.where(unsized & ~stored, work + np.maximum(guess, graph.nbytes), work)
        sizes = [(np.where(unsized, 0, graph.nbytes), work), (graph.nbytes, promised)]
    runs = [
        WindowedRun(graph, rank, executors, stored, slots(outputs), scratch, unsized)
        for rank in (planned.rank, compiled.rank)
        for outputs, scratch in sizes
    ]
    peaks: list[int] = []
    most = max(len(_MOODS) * len(sizes), _OPERANDS // graph.n)
    for seed, run, (believed, slower) in islice(product(range(_DRAWS), runs, _MOODS), most):
        noise = 0.0 if not seed else _LOADED if seed % 2 else spread
        peaks.append(peak_of_windows(run, noise, seed, believed, slower))
    users = any(program.runs_user_code for program in after.programs)
    return min(peaks), int(workers.memory[0]) if users else max(peaks)


def _of_simulations(
    graph: PlanGraph,
    workers: Workers,
    planned: PolicyPlan,
    predicted: SimResult,
    profile: Profile | None,
    spread: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and greatest peak of each machine in runs that wait for memory or move chunks."""
    peaks = [predicted.peak]
    if len(workers) == 1 and profile is not None and (planned.placed < 0).any():
        corrected = predict_from_simulation(
            graph, workers, planned.rank, predicted, profile, planned.placed.astype(np.int64)
        )
        low, high = corrected.peak
        peaks = [np.array([low]), np.array([high + OPERAND_BYTES * graph.n * (graph.n > _LARGE)])]
    until = time.perf_counter() + _SIMULATED_SECONDS
    for seed in range(1, _DRAWS + 1) if planned.follow is None or graph.n <= _SLOW else ():
        peaks.append(planned.run(graph, workers, noise=spread, seed=seed).peak)
        if time.perf_counter() > until:
            break
    return np.min(peaks, axis=0), np.max(peaks, axis=0)
