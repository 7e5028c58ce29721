"""Whether a run goes as its plan said: how fast each worker really is, and whether that is worth planning anew.

`drift` compares what ended with what it should have taken. A worker is off when it differs from the others, after some
operands and beyond chance; when all are slower alike the plan is as good as before. `replan` takes the speeds found.
Source: PLANNING 0.5 and 3.4 ("replan once when observed/model speed differs >25 % after 4 tasks").
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jmars.plan.plan_graph import PlanGraph
from jmars.plan.workers import Workers

__all__ = ["DriftReport", "Observed", "drift", "with_speed"]

_SURE = 3.0  # standard errors that a worker must be off, beside the tolerance


@dataclass(frozen=True, eq=False)
class Observed:
    """What ended: operands, the workers that ran them and the seconds that each took there, arrays of shape (k,)."""

    operand: NDArray[np.int64]
    worker: NDArray[np.int64]
    seconds: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DriftReport:
    """How a run goes.

    Attributes
    ----------
    speed
        Speed of each worker as observed, shape (P,), as `Workers.speed`: relative to the others, so that workers that
        are all slow alike keep theirs. What ran too little keeps the speed that the plan knew.
    scale
        Observed seconds over planned ones, of all workers; 2.0: everything takes twice as long.
    ran
        Operands that ended on each worker and count, shape (P,).
    workers
        Those that are off.
    """

    speed: NDArray[np.float64]
    scale: float
    ran: NDArray[np.int64]
    workers: tuple[int, ...]

    @property
    def off(self) -> bool:
        """Whether planning anew is worth it."""
        return bool(self.workers)

    @property
    def why(self) -> str:
        """A sentence for the log and the view."""
        if not self.workers:
            return "every worker is about as fast as planned"
        found = [f"worker {w} runs at {self.speed[w]:.2f} (after {self.ran[w]} operands)" for w in self.workers]
        return ", ".join(found)


def drift(
    graph: PlanGraph, workers: Workers, observed: Observed, *, tolerance: float = 0.25, after: int = 4
) -> DriftReport:
    """Compare a run with its plan.

    Parameters
    ----------
    graph, workers
        What the plan was made for.
    observed
        What ended until now; operands that cost nothing say nothing and are left out.
    tolerance
        How far a worker's speed may be from what was planned, as a part of it.
    after
        Operands that must have ended on a worker before it is judged.

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
    # what most cores do is normal: the median of the workers, each with its cores
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
