"""Predicts the peak memory of a planned run as an interval, since no prediction is exact and memory must not run out.

The ends are the least and the greatest peak of up to 10 simulated runs: the predicted run; on one machine a run whose
workers are sent work ahead (`jmars.plan.simulation.predict`); and 8 runs of the same plan with costs drawn around the
predicted costs, spread as widely as predictions were off so far (`Accuracy.spread`). The interval is then widened by
the median error of predicted peaks on this machine, once that is known.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from jmars.client.plans.named_policies import PolicyPlan
from jmars.plan.cost.accuracy import Accuracy
from jmars.plan.cost.profile import Profile
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.predict import predict_from_simulation
from jmars.plan.simulation.sim_result import SimResult
from jmars.plan.workers import Workers

__all__ = ["peak_interval"]

_DRAWS = 8
_SECONDS = 0.2  # in which they are simulated; one is always
_SLOW = 2000  # operands from which a policy that places while it runs takes too long to be drawn
_MOST = float(np.iinfo(np.int64).max // 2)


def peak_interval(
    graph: PlanGraph, workers: Workers, planned: PolicyPlan, predicted: SimResult, profile: Profile | None
) -> NDArray[np.int64]:
    """Predicts the peak bytes of each machine, shape (P, 2), low and high.

    The draws are seeded, so the same plan has the same interval, unless the graph is so large that time runs out before
    the eighth run.

    Parameters
    ----------
    graph, workers, planned
        The graph, the machines and the plan.
    predicted
        The simulated run of the plan.
    profile
        Known costs, and errors of predictions, on this machine; None if unknown.
    """
    seen = profile.accuracy if profile is not None else Accuracy()
    peaks = [predicted.peak]
    if len(workers) == 1 and profile is not None and (planned.placed < 0).any():
        corrected = predict_from_simulation(
            graph, workers, planned.rank, predicted, profile, planned.placed.astype(np.int64)
        )
        peaks.append(np.array([corrected.peak[1]]))
    until = time.perf_counter() + _SECONDS
    for seed in range(1, _DRAWS + 1) if planned.follow is None or graph.n <= _SLOW else ():
        peaks.append(planned.run(graph, workers, noise=seen.spread, seed=seed).peak)
        if time.perf_counter() > until:
            break
    off = seen.errors()["peak"] or 0.0
    low, high = np.min(peaks, axis=0) * max(0.0, 1 - off), np.max(peaks, axis=0) * (1 + off)
    ends = np.stack([low, np.minimum(high, workers.memory)], axis=1)
    interval: NDArray[np.int64] = np.minimum(ends, _MOST).astype(np.int64)
    return interval
