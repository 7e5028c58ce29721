"""Folds events about memory to the curves and numbers of the view's Memory tab."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jmars.notebook.series import BoundedSeries
from jmars.notebook.view import Series, plain_text

__all__ = ["MemoryState"]


@dataclass
class MemoryState:
    """Memory of all processes of a cluster.

    Attributes
    ----------
    kernel
        Returns the bytes that jmars keeps in the notebook's own process; None where another process draws.

    Examples
    --------
    >>> memory = MemoryState()
    >>> memory.measured({"used": 10, "resident": 100, "spilled": 0, "peak": 120}, at=0.5)
    >>> part = memory.part()
    >>> part["t"], part["used"], part["peak"]
    ([0.5], [10], 120)
    >>> memory.measured({"device": 4096, "device_memory": 8192}, at=1.0)
    >>> memory.part()["device"], memory.part()["device_memory"]
    (4096, 8192)
    """

    kernel: Callable[[], int] | None = None
    newest: Mapping[str, Any] = field(default_factory=dict)  # data of MemoryChanged
    series: BoundedSeries = field(default_factory=BoundedSeries)

    def measured(self, data: Mapping[str, Any], at: float | None) -> None:
        """Notes measured memory; `at` is in seconds on the view's time axis, None before and after the run."""
        self.newest = data
        if at is not None:
            self.series.add(at, (data.get("used", 0), data.get("resident", 0), data.get("spilled", 0)))

    def part(self) -> Series:
        """Memory over time."""
        columns = [[int(row[k]) for row in self.series.values] for k in range(3)]
        return {
            "t": [round(t, 2) for t in self.series.times],
            "used": columns[0],
            "resident": columns[1],
            "spilled": columns[2],
            "limit": int(self.newest.get("limit") or 0),
            "engine": plain_text(self.newest.get("engine") or "", 20),
            "peak": int(self.newest.get("peak", 0)),
            "spilled_total": int(self.newest.get("spilled_total", 0)),
            "reloaded_total": int(self.newest.get("reloaded_total", 0)),
            "kernel": self.kernel() if self.kernel is not None else None,
            "device": int(self.newest.get("device", 0)),
            "device_memory": int(self.newest.get("device_memory", 0)),
        }
