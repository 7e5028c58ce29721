"""Numbered events of scheduler and host, bounded in memory.

Readers keep the number of the last event that they saw. A reader behind the oldest kept event gets the present state
as events: the graph, and every operand's state. A reader that begins gets the events of a job that began later.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from jmars.model.events import JOB_SUBMITTED, Event

SAMPLE = 1_000  # entries of a long list that are weighed for all


class EventLog:
    """The last events of a cluster, at most `limit` of them and about `budget` bytes.

    Examples
    --------
    >>> log = EventLog(now=lambda: 0.0)
    >>> log.append("JobMoved", "job-1", {"state": "running"})
    >>> log.read(since=0)
    ([[1, 0.0, 'JobMoved', 'job-1', {'state': 'running'}]], 1)
    """

    def __init__(self, limit: int = 20_000, budget: int = 6 * 2**20, now: Callable[[], float] = time.time) -> None:
        self.last = 0  # number of the newest event
        self.standing: Callable[[str], Sequence[tuple[str, str, dict[str, Any]]]] = lambda job: ()
        self._events: deque[tuple[Event, int]] = deque()
        self._limit, self._budget, self._now = limit, budget, now
        self._held = 0  # bytes, about
        self._forgotten = 0  # events of forgotten jobs and of the cluster that stood right before the oldest

    def append(self, kind: str, job: str, data: dict[str, Any], size: int | None = None) -> None:
        """Append an event; `size` is the size of `data` in bytes, where it is known (`weight`)."""
        self.last += 1
        size = 100 + (weight(data) if size is None else size)
        self._events.append(([self.last, self._now(), kind, job, data], size))
        self._held += size
        while len(self._events) > self._limit or (self._held > self._budget and len(self._events) > 1):
            _, left = self._events.popleft()
            self._held -= left
            self._forgotten = 0

    def drop_oldest(self, is_forgotten: Callable[[str], bool]) -> None:
        """Drop the oldest events up to the first event of a job that is remembered.

        Examples
        --------
        >>> log = EventLog(now=lambda: 0.0)
        >>> for job in ("", "job-1", "", "job-2", ""):
        ...     log.append("JobMoved", job, {})
        >>> log.drop_oldest(lambda job: job == "job-1")
        >>> [event[3] for event in log.read(3)[0]]
        ['job-2', '']
        """
        while self._events and (not self._events[0][0][3] or is_forgotten(self._events[0][0][3])):
            self._held -= self._events.popleft()[1]
            self._forgotten += 1

    def read(self, since: int, job: str = "", limit: int = 5_000) -> tuple[list[Event], int]:
        """Events after number `since`, oldest first, at most `limit`; and the number to read on from.

        Parameters
        ----------
        job
            Only this job's events and those of the cluster; "" for all.
        """
        first = self.last - len(self._events) + 1
        found: list[Event] = []
        upto = since
        if since + 1 < first:
            now, standing = self._now(), self.standing(job)
            if not job or (since + 1 < first - self._forgotten and not (since == 0 and self._has_begin(job))):
                start = self.last + 1 - len(standing)  # numbered as the newest, so that a reader takes them for news
                return [[start + i, now, *record] for i, record in enumerate(standing)], self.last
            cluster = [record for record in standing if not record[1]]  # what left was of the cluster and other jobs
            found += [[first - len(cluster) + i, now, *record] for i, record in enumerate(cluster)]
            upto = first - 1
        for event, _ in islice(self._events, max(0, since + 1 - first), None):
            upto = event[0]
            if not job or event[3] in (job, ""):
                found.append(event)
                if len(found) >= limit:
                    break
        return found, upto

    def _has_begin(self, job: str) -> bool:
        return any(event[3] == job and event[2] == JOB_SUBMITTED for event, _ in self._events)


def weight(value: Any) -> int:
    """Bytes of memory that a part of an event takes, about."""
    if isinstance(value, bytes | str):
        return 50 + len(value)
    if isinstance(value, dict):
        return 200 + sum(map(weight, value.values()))
    if isinstance(value, list | tuple):
        if len(value) > SAMPLE:
            return 60 + len(value) * sum(map(weight, value[:SAMPLE])) // SAMPLE
        return 60 + sum(map(weight, value))
    return 30
