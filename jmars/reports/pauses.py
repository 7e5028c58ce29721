"""Pauses of a run in which no operand waits or runs, as between the cells of a notebook, folded in a time line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pauses"]

LEAST = 2.0  # seconds of a pause that is folded, and
SHARE = 0.2  # share of the seconds without pauses
KEPT = 0.02  # share of the same that a folded pause takes

_Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class Pauses:
    """Long pauses, and the folded time line: between two knots a folded time is linear in the real time.

    Examples
    --------
    >>> pauses = Pauses.of(np.array([0.0, 1.0, 100.0]), np.array([5.0, 2.0, 105.0]))
    >>> pauses.begins.tolist(), pauses.ends.tolist()
    ([5.0], [100.0])
    >>> pauses.folded(np.array([1.0, 5.0, 100.0, 105.0])).round(3).tolist()
    [1.0, 5.0, 5.2, 10.2]
    """

    begins: _Seconds
    ends: _Seconds
    real: _Seconds  # knots
    fold: _Seconds

    @classmethod
    def of(cls, begins: _Seconds, ends: _Seconds) -> Pauses:
        """The pauses between operands that begin to wait, and end, at these seconds."""
        order = np.argsort(begins)
        latest = np.maximum.accumulate(ends[order])
        gaps = np.maximum(begins[order][1:] - latest[:-1], 0.0)
        busy = float(latest[-1] - begins[order][0] - gaps.sum()) if len(order) else 0.0
        at = np.flatnonzero(gaps > max(LEAST, SHARE * busy))
        begin, end = latest[:-1][at], begins[order][1:][at]
        first, last = (float(begins.min()), float(ends.max())) if len(order) else (0.0, 0.0)
        real = np.concatenate([[min(first, 0.0)], np.stack([begin, end], 1).ravel(), [last + 1.0]])
        steps = np.diff(real)
        steps[1::2] = KEPT * busy
        return cls(begin, end, real, real[0] + np.concatenate([[0.0], np.cumsum(steps)]))

    def folded(self, seconds: _Seconds) -> _Seconds:
        """Places of times in the folded time line; outside the knots as far from them as in the real one."""
        inside = np.interp(seconds, self.real, self.fold)
        found: _Seconds = inside + np.minimum(seconds - self.real[0], 0.0) + np.maximum(seconds - self.real[-1], 0.0)
        return found

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def seconds(self) -> float:
        """All pauses together."""
        return float((self.ends - self.begins).sum())
