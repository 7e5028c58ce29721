"""Memory that users' functions keep between calls: held against the memory limit, and bounded.

A function may leave something behind in its process: a library that it imported, a cache, a leak. What an executor
keeps beyond a little is promised to it like scratch, so chunks make room for it. What it keeps after its first
functions is taken for what they need; one that goes on growing is replaced between two batches, and so are all that
keep something where an operand would find no room otherwise. Executors say what they keep (`granted`); used by
`reporting` and `care`. Source: the issue's "Memory is a guarantee"; RELIABILITY 4.2, row 9.
"""

from __future__ import annotations

import logging

from jmars.dispatch.worker_state import Worker
from jmars.storage.arena import PAGE
from jmars.units import format_bytes
from jmars.worker.open_jobs import WorkerContext
from jmars.worker.speculation import DISCARDED, SpeculativeExecution

__all__ = ["RECYCLED", "RetainedMemory", "bound"]

log = logging.getLogger("jmars.worker")

RECYCLED = "recycled"  # state of a worker whose process is replaced, for the memory that it wanted or kept
MOST_PART = 4  # of the memory, shared by all workers: what may grow in their processes at most
NAME = "what functions keep"  # under which it is promised, by worker


def bound(first: int, slack: int, most: int, renewed: int) -> int:
    """Bytes that a process may keep.

    Parameters
    ----------
    first
        That it kept after its first functions.
    slack, most
        By which that may grow at first, and ever.
    renewed
        How often this worker's process was replaced for that: libraries are imported again, so they get more room.

    Examples
    --------
    >>> [bound(100, 10, 50, renewed) for renewed in range(4)]
    [110, 120, 140, 150]
    """
    return first + min(most, slack << min(renewed, 40))


class RetainedMemory:
    """What each executor keeps, and which must go."""

    def __init__(self, place: WorkerContext, rescue: SpeculativeExecution) -> None:
        self._place, self._rescue = place, rescue
        self._first: dict[int, int] = {}  # bytes by worker: what its process kept after its first functions
        self._renewed: dict[int, int] = {}  # by worker: how often it was replaced for what it kept

    def told(self, worker: Worker, kept: int) -> None:
        """An executor keeps so many bytes, now that it has run a batch of functions."""
        place, index = self._place, worker.index
        worker.kept = kept
        slack, capacity = place.admission.grants.slack, place.arena.capacity
        first = self._first.setdefault(index, kept)
        place.admission.quota.adjust(NAME, index, max(0, kept - slack) // PAGE * PAGE)
        if kept > bound(first, slack, capacity // MOST_PART // len(place.workers), self._renewed.get(index, 0)):
            self._renewed[index] = self._renewed.get(index, 0) + 1
            log.warning("functions left %s behind in %s; its process is replaced", format_bytes(kept), worker.name)
            self._renew(worker)

    def rests(self, worker: Worker) -> None:
        """A worker has no batch: if its process is to be replaced, now is the time."""
        if worker.state == RECYCLED and not worker.batches:
            worker.link.kill(DISCARDED)

    def shed(self) -> bool:
        """Somebody finds no room: replace processes that keep memory; whether one of them ends by itself.

        One that waits for a place does not: where there is none its result is dropped (`sizing`), and so it ends.
        """
        keeping = [one for one in self._place.workers if one.link.pid and one.kept > self._place.admission.grants.slack]
        for worker in keeping:
            if worker.state != RECYCLED:
                self._renew(worker)
        return any(not worker.batches or worker.batches[0].asking is None for worker in keeping)

    def fresh(self, worker: Worker) -> None:
        """A new process keeps nothing."""
        worker.kept = 0
        self._first.pop(worker.index, None)
        self._place.admission.quota.release(NAME, worker.index)

    def _renew(self, worker: Worker) -> None:
        """Replace a process as soon as it rests; what it has not begun waits for others."""
        worker.state = RECYCLED
        if worker.batches and worker.batches[-1].twin is None:
            self._rescue.take_back(worker)
        self.rests(worker)
