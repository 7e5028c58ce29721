"""What a run costs: the numbers by which plans are compared, and the times of a run for those who draw it.

`simulate` makes them of a plan, `choose` compares them.
Source: PLANNING 7, `SimResult`; seed 004, "Something to measure".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SimResult", "Trace"]


@dataclass(frozen=True, eq=False)
class Trace:
    """When things happened: `start` and `end` of each operand in seconds, shape (n,), and `memory`, a list of
    (seconds, worker, bytes in memory from then on), an entry for each change.
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    memory: list[tuple[float, int, int]]


@dataclass(frozen=True, eq=False)
class SimResult:
    """What a run cost.

    Attributes
    ----------
    makespan
        Seconds from the first operand's start to the last one's end.
    moved, spilled, reloaded
        Bytes between workers, to disk, and from disk.
    peak
        Bytes in memory at most, of each worker, shape (P,).
    peak_total
        Bytes in memory at most, of all workers at one time.
    busy
        Seconds that the cores of each worker computed, shape (P,).
    assign
        Who ran each operand, shape (n,); -1 where its chunk was there before.
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
