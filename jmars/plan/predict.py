"""What a run on this host should take: seconds, bytes held, bytes spilled; told before it starts.

The costs are the profile's, the run is the simulator's. What the simulator does not know is added here: executors are
sent work ahead, so outputs take memory before they are computed, and memory that nobody has used yet must be touched.
Source: PLANNING 7, step 6; seed 004, "To evaluate the overall cost, need to consider the timeline".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars.graph.dag import Dag
from jmars.plan.choose import lower_bound
from jmars.plan.cluster import Workers
from jmars.plan.cost import annotate, one_host
from jmars.plan.graph import PlanGraph
from jmars.plan.outcome import SimResult
from jmars.plan.profile import Profile
from jmars.plan.simulate import simulate
from jmars.tensor.chunk import ChunkGraph

__all__ = ["AHEAD", "Prediction", "foretell", "predict"]

AHEAD = 2  # batches that an executor has at once: one that it runs, one that waits beside it
_BATCH, _BATCH_SECONDS = 100, 0.005  # operands of a batch, and the time that it should take (worker/estimate.py)


@dataclass(frozen=True)
class Prediction:
    """What a run should take.

    Attributes
    ----------
    makespan
        Seconds from the first operand's start to the last one's end.
    peak
        Bytes of chunks and scratch at most: when nothing is sent ahead, and when every executor has work waiting.
    spilled
        Bytes written to disk.
    lower_bound
        Seconds that no plan beats.
    """

    makespan: float
    peak: tuple[int, int]
    spilled: int
    lower_bound: float


def predict(
    graph: ChunkGraph, dag: Dag, rank: NDArray[np.int64], profile: Profile, executors: int, memory: int
) -> Prediction:
    """What a compiled graph should take when its operands run in the order of `rank` on this host.

    Parameters
    ----------
    graph, dag
        `Compiled.after` and `Compiled.dag`.
    rank
        The plan's.
    profile
        What is known of costs.
    executors, memory
        Processes that compute, and bytes for chunks and scratch.

    Raises
    ------
    MemoryLimitError
        If one operand alone does not fit.
    """
    seen = annotate(graph, dag, profile)
    placed = np.where(graph.program < 0, 0, -1)
    workers = one_host(profile, executors, memory)
    result = simulate(seen, workers, np.where(placed < 0, 0, -1), rank, placed=placed)
    return foretell(seen, workers, rank, result, profile, placed)


def foretell(
    graph: PlanGraph,
    workers: Workers,
    rank: NDArray[np.int64],
    result: SimResult,
    profile: Profile,
    placed: NDArray[np.int64],
    fresh: int = 0,
) -> Prediction:
    """What a simulated plan of one host will really take.

    Parameters
    ----------
    graph, workers, rank, placed
        What was simulated.
    result
        What it gave.
    fresh
        Bytes of the memory that no job has touched yet.
    """
    executors, count = int(workers.cores.sum()), int((placed < 0).sum())
    large = np.average(graph.cost, weights=graph.nbytes) if graph.nbytes.any() else 0.0  # seconds, by what fills memory
    batch = min(max(1, int(_BATCH_SECONDS / large)), _BATCH) if large else 1
    sent = AHEAD * min(batch, max(1, count // (AHEAD * executors)))
    # as many operands hold memory as are sent ahead, and together they compute no faster
    ahead = Workers.build(
        1, cores=workers.cores * sent, speed=workers.speed / sent, memory=workers.memory, disk=workers.disk
    )
    waiting = simulate(graph, ahead, np.where(placed < 0, 0, -1), rank, placed=placed)
    peak = sorted((result.peak_total, waiting.peak_total))
    touched = min(fresh, peak[1]) * profile.touch / executors
    return Prediction(result.makespan + touched, (peak[0], peak[1]), result.spilled, lower_bound(graph, workers))
