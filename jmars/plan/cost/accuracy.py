"""Errors of past predictions on this machine: predicted makespan and peak memory beside the measured numbers.

A `Profile` keeps an `Accuracy` between sessions, so that each prediction can be shown with the error seen so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

__all__ = ["KEPT", "Accuracy"]

KEPT = 50  # newest runs
_SHORT = 0.02  # seconds; shorter runs say little about a prediction
_ENOUGH = 3  # runs before an error is reported
_SPREAD = 0.3  # of costs, below that number of runs
_NAMES = ("makespan", "peak")

Row = list[float]  # predicted makespan, measured makespan, predicted peak next to it, measured peak; seconds and bytes


@dataclass
class Accuracy:
    """Predictions beside measurements, the newest last.

    Examples
    --------
    >>> seen = Accuracy()
    >>> for makespan, peak in ((1.0, 95), (1.25, 80), (2.0, 125)):
    ...     seen.observe({"makespan": 1.0, "peak": [90, 100]}, {"makespan": makespan, "peak": peak})
    >>> seen.errors()
    {'runs': 3, 'makespan': 0.2, 'peak': 0.125}
    """

    rows: list[Row] = field(default_factory=list)
    fresh: int = 0  # rows at the end that no file holds yet

    def observe(self, predicted: Mapping[str, Any] | None, measured: Mapping[str, Any] | None) -> None:
        """Adds a successful run: seconds of `makespan`, and bytes of `peak` or both ends of the interval of `peak`.

        A measured peak within the interval was predicted without error: a wide interval is no wrong one.
        """
        if not predicted or not measured:
            return
        peak, held = predicted.get("peak", 0), measured.get("peak", 0)
        if isinstance(peak, list | tuple) and len(peak) and _is_number(held) and all(map(_is_number, peak)):
            peak = min(max(held, min(peak)), max(peak))
        row = [predicted.get("makespan"), measured.get("makespan"), peak, held]
        if good := _good([row]):
            self.rows = [*self.rows, *good][-KEPT:]
            self.fresh = min(KEPT, self.fresh + 1)

    def errors(self) -> dict[str, Any]:
        """Median of `|predicted - measured| / measured` of "makespan" and "peak" (None below 3), number of "runs".

        Where an interval was predicted, its point next to the measured number counts as predicted.
        """
        found: dict[str, Any] = {"runs": len(self.rows)}
        for k, name in enumerate(_NAMES):
            pairs = [(row[2 * k], row[2 * k + 1]) for row in self.rows if row[2 * k] > 0 and row[2 * k + 1] > 0]
            off = [abs(guess - real) / real for guess, real in pairs]
            found[name] = median(off) if len(off) >= _ENOUGH else None
        return found

    @property
    def spread(self) -> float:
        """Sigma of log(measured / predicted) seconds, between 0.1 and 1; 0.3 below 3 runs."""
        logs = [math.log(row[1] / row[0]) for row in self.rows if row[0] > 0 and row[1] > 0]
        if len(logs) < _ENOUGH:
            return _SPREAD
        return min(1.0, max(0.1, math.sqrt(sum(x * x for x in logs) / len(logs))))

    def take(self, rows: Any) -> None:
        """Adds the rows of a file before the unsaved rows; skips entries that are not four numbers."""
        self.rows = [*_good(list(rows) if isinstance(rows, list | tuple) else []), *self._new()][-KEPT:]

    def join(self, rows: Any) -> None:
        """Adds the rows of a file as `take` does and marks the unsaved rows as saved."""
        self.take(rows)
        self.fresh = 0

    def _new(self) -> list[Row]:
        return self.rows[len(self.rows) - self.fresh :] if self.fresh else []


def _good(rows: list[Any]) -> list[Row]:
    """Rows of four numbers of runs that were long enough."""
    four = [row for row in rows if isinstance(row, list | tuple) and len(row) == 4 and all(map(_is_number, row))]
    return [[float(x) for x in row] for row in four if row[1] >= _SHORT]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer) and bool(0 <= value < math.inf)
