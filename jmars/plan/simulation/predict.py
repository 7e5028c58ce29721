"""What a run on this host should take: seconds, bytes held, bytes spilled; told before it starts.

The costs are the profile's, the run is the simulator's. What the simulator does not know is added here: executors are
sent work ahead, so outputs take memory before they are computed, in slots that are larger than small chunks; and memory
that nobody has used yet must be touched.
Source: PLANNING 7, step 6; seed 004, "To evaluate the overall cost, need to consider the timeline".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars.errors import MemoryLimitError
from jmars.graph.dag import Dag
from jmars.plan.cost.annotate import annotate, one_host
from jmars.plan.cost.profile import Profile
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.lower_bound import lower_bound
from jmars.plan.simulation.sim_result import SimResult
from jmars.plan.simulation.simulate import simulate
from jmars.plan.workers import Workers
from jmars.tensor.chunk import ChunkGraph

__all__ = ["AHEAD", "Prediction", "predict", "predict_from_simulation", "slots"]

AHEAD = 2  # batches that an executor has at once: one that it runs, one that waits beside it
_PAGE = 4096  # bytes; slots are whole pages, and powers of two from 64 bytes to half a page
_BATCH, _BATCH_SECONDS = 100, 0.005  # operands of a batch, and the time that it should take (dispatch/estimate.py)


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
    return predict_from_simulation(seen, workers, rank, result, profile, placed)


def predict_from_simulation(
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
    mean = float(graph.cost.sum()) / max(count, 1)
    batch = min(math.ceil(_BATCH_SECONDS * profile.busy / mean), _BATCH) if mean else 1  # filled by what they compute
    sent = AHEAD * min(batch, max(1, count // (AHEAD * executors)))
    # as many operands hold memory as are sent ahead; each waits for those before it, so that all take as long as ever
    ahead = Workers.build(1, cores=workers.cores * sent, speed=workers.speed, memory=workers.memory, disk=workers.disk)
    cost = np.where(placed < 0, graph.cost + (sent - 1) * mean, 0.0)
    in_slots = PlanGraph.build(graph.dag, cost, slots(graph.nbytes), work=graph.work, result=graph.result)
    try:
        waiting = simulate(in_slots, ahead, np.where(placed < 0, 0, -1), rank, placed=placed)
        held, spilled = waiting.peak_total, (result.spilled + max(result.spilled, waiting.spilled)) // 2  # between both
    except MemoryLimitError:  # what fits to the byte does not fit in slots: it will be tight
        held, spilled = int(workers.memory[0]), result.spilled
    low, high = sorted((result.peak_total, held))
    late = (spilled - result.spilled) / float(workers.disk[0])  # written and read again, half of it beside other work
    touched = min(fresh, high) * profile.touch / executors
    return Prediction(result.makespan + late + touched, (low, high), spilled, lower_bound(graph, workers))


def slots(nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of memory that chunks of these sizes take, as `storage.arena` gives them out.

    Examples
    --------
    >>> slots(np.array([0, 8, 100, 5000])).tolist()
    [64, 64, 128, 8192]
    """
    small = 1 << np.ceil(np.log2(np.maximum(nbytes, 64))).astype(np.int64)
    return np.where(nbytes <= _PAGE // 2, small, -(-nbytes // _PAGE) * _PAGE)
