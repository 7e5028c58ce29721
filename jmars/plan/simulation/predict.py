"""Predicts a run on this host before it starts: seconds, peak bytes, bytes spilled.

The costs come from the profile and the run from the simulator. Three effects that the simulator does not model are
added here: batches are sent to executors ahead, so outputs take memory before their operands run; slots are larger than
small chunks; and the first write to a page of memory costs time.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars.errors import MemoryLimitError
from jmars.graph.dag import Dag
from jmars.model.limits import BATCH_OPERANDS, BATCH_SECONDS, PAGE, SMALLEST_SLOT, WINDOW
from jmars.plan.cost.annotate import annotate, one_host
from jmars.plan.cost.profile import Profile
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.lower_bound import lower_bound
from jmars.plan.simulation.sim_result import SimResult
from jmars.plan.simulation.simulate import simulate
from jmars.plan.simulation.windows import WindowedRun, peak_of_windows
from jmars.plan.workers import Workers
from jmars.tensor.chunk import ChunkGraph

__all__ = ["Prediction", "predict", "predict_from_simulation", "slots"]

FEW = 500  # operands for which each batch is simulated


@dataclass(frozen=True)
class Prediction:
    """Predicted cost of a run.

    Attributes
    ----------
    makespan
        Seconds from the start of the first operand to the end of the last operand.
    peak
        Most bytes of chunks and scratch: if few batches are sent ahead, and if every executor has batches waiting.
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
    """Predicts a run of a compiled graph on this host, with operands in the order of `rank`.

    Parameters
    ----------
    graph, dag
        `Compiled.after` and `Compiled.dag`.
    rank
        Rank of each operand by the plan.
    profile
        Measured costs.
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
    """Corrects a simulation of this host for batches sent ahead, slot sizes and untouched memory.

    Parameters
    ----------
    graph, workers, rank, placed
        Arguments of the simulation.
    result
        Result of the simulation.
    fresh
        Bytes of the arena that no job has written yet.
    """
    executors, count = int(workers.cores.sum()), int((placed < 0).sum())
    mean = float(graph.cost.sum()) / max(count, 1)
    batch = min(math.ceil(BATCH_SECONDS * profile.busy / mean), BATCH_OPERANDS) if mean else 1
    sent = WINDOW * min(batch, max(1, count // (WINDOW * executors)))
    # operands sent ahead hold memory while they wait for the operands before them; the total time stays
    ahead = Workers.build(1, cores=workers.cores * sent, speed=workers.speed, memory=workers.memory, disk=workers.disk)
    cost = np.where(placed < 0, graph.cost + (sent - 1) * mean, 0.0)
    one, taken = np.where(placed < 0, 0, -1), slots(graph.nbytes)
    in_slots, sent_ahead = (
        PlanGraph.build(graph.dag, seconds, taken, work=graph.work, result=graph.result)
        for seconds in (graph.cost, cost)
    )
    try:
        alone = simulate(in_slots, workers, one, rank, placed=placed).peak_total
        waiting = simulate(sent_ahead, ahead, one, rank, placed=placed)
        held, spilled = waiting.peak_total, (result.spilled + max(result.spilled, waiting.spilled)) // 2  # the mean
    except MemoryLimitError:  # fits to the byte but not in slots: memory will be full
        alone, held, spilled = result.peak_total, int(workers.memory[0]), result.spilled
    if graph.n <= FEW and held < workers.memory[0]:
        stored, work = placed >= 0, np.where(graph.work > 0, slots(graph.work), 0)
        windows = WindowedRun(graph, rank, executors, stored, taken, work, np.zeros(graph.n, np.bool_))
        found = [peak_of_windows(windows, believed=believed) for believed in (None, 1.0)]
        if max(found) <= workers.memory[0]:  # else operands wait for memory
            alone, held = found
    low, high = sorted((alone, held))
    late = (spilled - result.spilled) / float(workers.disk[0])  # written and read, half of it beside other work
    touched = min(fresh, high) * profile.touch / executors
    return Prediction(result.makespan + late + touched, (low, high), spilled, lower_bound(graph, workers))


def slots(nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sizes of the arena slots of chunks of these sizes, as `model.limits.slot_size`.

    Examples
    --------
    >>> slots(np.array([0, 8, 100, 5000])).tolist()
    [64, 64, 128, 8192]
    """
    small = 1 << np.ceil(np.log2(np.maximum(nbytes, SMALLEST_SLOT))).astype(np.int64)
    return np.where(nbytes <= PAGE // 2, small, -(-nbytes // PAGE) * PAGE)
