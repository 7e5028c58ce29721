"""The time line of a cluster over all its jobs: one lane for each worker, bounded however many jobs there are.

Pieces carry the name of their job, such as "In [12]"; neighbours are merged when there are too many (`LaneState`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypedDict

from jmars.model.events import JOB_SUBMITTED, OPERANDS_TIMED, WORKER_MOVED, Event
from jmars.model.timing import spans
from jmars.notebook.lane_state import LaneState
from jmars.notebook.view import Lanes, plain_text

__all__ = ["ClusterHistory", "HistoryPart"]

MOST_NAMES = 200  # jobs and workers whose names are kept


class HistoryPart(TypedDict):
    """The time line as a page gets it."""

    begun: float  # seconds since the epoch
    elapsed: float  # seconds from there to the newest piece
    jobs: int
    operands: int
    workers: list[str]  # names by number
    lanes: Lanes


@dataclass
class ClusterHistory:
    """Folds the events of all jobs of a cluster.

    Examples
    --------
    >>> ClusterHistory().part() is None
    True
    """

    since: int = 0  # number of the newest event that was folded
    begun: float = 0.0
    newest: float = 0.0
    jobs: int = 0
    operands: int = 0
    lanes: LaneState = field(default_factory=LaneState)
    _names: dict[str, str] = field(default_factory=dict)  # of jobs, the newest last
    _workers: dict[int, str] = field(default_factory=dict)

    def fold(self, events: Iterable[Event], upto: int) -> None:
        """Adds events; `upto` is the number to read on from."""
        self.since = upto
        for _, time, kind, job, data in events:
            if kind == JOB_SUBMITTED:
                self.jobs += job not in self._names
                self._names[job] = plain_text(data.get("name") or job, 60)
                while len(self._names) > MOST_NAMES:
                    del self._names[next(iter(self._names))]
            elif kind == WORKER_MOVED and int(data["worker"]) < MOST_NAMES:
                self._workers[int(data["worker"])] = plain_text(data.get("name") or "", 60)
            elif kind == OPERANDS_TIMED:
                self._timed(time, job, data)

    def _timed(self, time: float, job: str, data: dict[str, Any]) -> None:
        found = spans(time, data)
        if not len(found):
            return
        self.begun = self.begun or float(found[:, 0].min())
        self.newest = max(self.newest, time)
        self.operands += len(found)
        name = self._names.get(job, job)
        self.lanes.add(int(data["worker"]), found, self.begun, [name] * len(found))

    def part(self) -> HistoryPart | None:
        """The time line so far; None before any operand ran."""
        lanes = self.lanes.part({})
        if lanes is None:
            return None
        names = [self._workers.get(number) or f"worker-{number}" for number in range(1 + max(self.lanes.parts))]
        return HistoryPart(
            begun=round(self.begun, 3),
            elapsed=round(self.newest - self.begun, 3),
            jobs=self.jobs,
            operands=self.operands,
            workers=names,
            lanes=lanes,
        )
