"""Detects drift between a run and its plan: the measured speed of workers, and whether to plan anew.

`drift` compares measured seconds of ended operands with planned seconds. A worker has drifted if its speed differs from
the other workers' by more than the tolerance and beyond chance, after some operands; if all workers are slower alike
the plan stays good. `replan` takes the measured speeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jmars.plan.plan_graph import PlanGraph
from jmars.plan.workers import Workers

__all__ = ["DriftReport", "Observed", "drift", "with_speed"]

_SURE = 3.0  # standard errors of a drift, beside the tolerance


@dataclass(frozen=True, eq=False)
class Observed:
    """Ended operands, the workers that ran them, and their seconds; arrays of shape (k,)."""

    operand: NDArray[np.int64]
    worker: NDArray[np.int64]
    seconds: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DriftReport:
    """Measured speeds of workers against the plan.

    Attributes
    ----------
    speed
        Measured speed of each worker, shape (P,), as `Workers.speed`: relative to the median worker, so that equally
        slow workers keep their speed. Workers with too few ended operands keep the planned speed.
    scale
        Measured seconds over planned seconds of all workers; 2.0: operands take twice as long.
    ran
        Number of ended operands of each worker that count, shape (P,).
    workers
        Workers that drifted.
    """

    speed: NDArray[np.float64]
    scale: float
    ran: NDArray[np.int64]
    workers: tuple[int, ...]

    @property
    def off(self) -> bool:
        """Whether a worker drifted, so that planning anew is worth its time."""
        return bool(self.workers)

    @property
    def why(self) -> str:
        """The speeds of drifted workers in a sentence, for the log and the view."""
        if not self.workers:
            return "every worker is about as fast as planned"
        found = [f"worker {w} runs at {self.speed[w]:.2f} (after {self.ran[w]} operands)" for w in self.workers]
        return ", ".join(found)


def drift(
    graph: PlanGraph, workers: Workers, observed: Observed, *, tolerance: float = 0.25, after: int = 4
) -> DriftReport:
    """Compares a run with its plan.

    Parameters
    ----------
    graph, workers
        The arguments of the plan.
    observed
        Operands ended so far; operands without cost are left out.
    tolerance
        Part by which a worker's speed may differ from the planned speed.
    after
        Least number of ended operands of a worker to be judged.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> graph = PlanGraph.build(Dag.from_edges(12, [], []), cost=1.0, nbytes=8)
    >>> two = Workers.build(2)
    >>> ran = Observed(np.arange(12), np.arange(12) % 2, np.where(np.arange(12) % 2, 2.0, 1.0))
    >>> report = drift(graph, two, ran)
    >>> report.workers, report.speed.tolist(), report.why
    ((1,), [1.0, 0.5], 'worker 1 runs at 0.50 (after 6 operands)')
    """
    p = len(workers)
    operand, worker = np.asarray(observed.operand, np.int64), np.asarray(observed.worker, np.int64)
    planned = graph.cost[operand] / workers.speed[worker]
    took = np.asarray(observed.seconds, np.float64)
    counts = (planned > 0) & (took > 0)
    planned, took, worker = planned[counts], took[counts], worker[counts]
    ran = np.bincount(worker, minlength=p)
    judged = np.flatnonzero(ran >= after)
    if not len(judged):
        return DriftReport(workers.speed.copy(), 1.0, ran, ())
    ratio = np.bincount(worker, took, p) / np.maximum(np.bincount(worker, planned, p), 1e-300)
    # the reference is the median worker, weighted by cores
    order = judged[np.argsort(ratio[judged], kind="stable")]
    share = np.cumsum(workers.cores[order])
    middle = int(order[np.searchsorted(share, share[-1] / 2)])
    scale = float(ratio[middle])
    spread = np.log(took / planned) - np.log(ratio[worker])
    sigma = float(np.sqrt(np.mean(spread**2))) if len(spread) else 0.0
    speed, off = workers.speed.copy(), []
    for w in judged.tolist():
        relative = scale / ratio[w]
        far = abs(np.log(relative))
        if far > np.log1p(tolerance) and far > _SURE * sigma * np.sqrt(1 / ran[w] + 1 / ran[middle]):
            speed[w] *= relative
            off.append(w)
    return DriftReport(speed, scale, ran, tuple(off))


def with_speed(workers: Workers, speed: NDArray[np.float64]) -> Workers:
    """The same workers at other speeds."""
    return replace(workers, speed=np.array(speed, np.float64))
