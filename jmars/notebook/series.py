"""A series with a bounded number of points, however long the run, for memory over time.

When the series is full, neighbours merge and the resolution halves; the time span and the peaks are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["BoundedSeries"]


@dataclass
class BoundedSeries:
    """Rows of (time, value, ...); merged rows keep the first time and the greatest values.

    Examples
    --------
    >>> series = BoundedSeries(limit=4)
    >>> for t in range(8):
    ...     series.add(t, [10 * t])
    >>> series.times, series.values
    ([0, 2, 4, 6], [[10], [30], [50], [70]])
    """

    limit: int = 240  # points
    times: list[float] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)
    stride: int = 1  # samples in each point
    filled: int = 0  # samples in the last point

    def add(self, time: float, values: Sequence[float]) -> None:
        """Adds a sample."""
        if self.times and self.filled < self.stride:
            self.values[-1] = [max(pair) for pair in zip(self.values[-1], values)]
            self.filled += 1
            return
        if len(self.times) == self.limit:
            self._halve()
            self.add(time, values)
            return
        self.times.append(time)
        self.values.append(list(values))
        self.filled = 1

    def _halve(self) -> None:
        """Merges pairs of neighbours."""
        pairs = zip(self.values[::2], self.values[1::2] + self.values[-1:])
        self.values = [[max(pair) for pair in zip(*rows)] for rows in pairs]
        self.filled = self.stride * (2 - len(self.times) % 2)
        self.times = self.times[::2]
        self.stride *= 2
