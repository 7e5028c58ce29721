"""`SimResult`: makespan, bytes moved and spilled, and peak memory of a simulated run; `Trace`: its times.

`simulate` returns a `SimResult`, `choose` compares results, and the view draws a `Trace`.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SimResult", "Trace"]


@dataclass(frozen=True, eq=False)
class Trace:
    """Times of a run: `start` and `end` of each operand in seconds, shape (n,), and `memory`, a list of changes
    (seconds, worker, bytes in memory from then on).
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    memory: list[tuple[float, int, int]]


@dataclass(frozen=True, eq=False)
class SimResult:
    """Result of a simulated run.

    Attributes
    ----------
    makespan
        Seconds from the start of the first operand to the end of the last operand.
    moved, spilled, reloaded
        Bytes between workers, to disk, and from disk.
    peak
        Most bytes in the memory of each worker, shape (P,).
    peak_total
        Most bytes in the memories of all workers at a time.
    busy
        Seconds that the cores of each worker computed, shape (P,).
    assign
        Worker that ran each operand, shape (n,); -1 for chunks stored before the run.
    trace
        None unless asked for.
    """

    makespan: float
    moved: int
    spilled: int
    reloaded: int
    peak: NDArray[np.int64]
    peak_total: int
    busy: NDArray[np.float64]
    assign: NDArray[np.int16]
    trace: Trace | None = None
