"""Memory that users' functions keep between calls, and graphs in the control process: held against the memory limit.

A function may leave something behind in its process: a library that it imported, a cache, a leak. What an executor
keeps beyond a little is promised to it like scratch, so chunks make room for it. What it keeps after its first
functions is taken for what they need; one that goes on growing is replaced between two batches, and so are all that
keep something where an operand would find no room otherwise. Executors say what they keep (`granted`).
A graph of many operands makes the control process grow. What that takes beyond the bytes that are set aside for it is
promised to it too, while jobs run, and given up only where an operand would find no room otherwise. The host says what
it takes. Used by `reporting` and `care`. Source: the issue's "Memory is a guarantee"; RELIABILITY 4.2, row 9.
"""

from __future__ import annotations

import logging

from jmars.storage.arena import PAGE
from jmars.units import format_bytes
from jmars.worker.crew import Worker
from jmars.worker.hosted import Workplace
from jmars.worker.requests import Request
from jmars.worker.rescue import BEATEN, Rescue

__all__ = ["RENEWED", "Keeping", "bound"]

log = logging.getLogger("jmars.worker")

RENEWED = "renewed"  # state of a worker whose process is replaced, for the memory that it wanted or kept
MOST_PART = 4  # of the memory, shared by all workers: what may grow in their processes at most
NAME = "what functions keep"  # under which it is promised, by worker
GRAPHS = "what graphs take"  # the same for the control process
STEP, PIECE = 2**20, 2**24  # bytes by which that changes at least, and that are asked for at most at a time


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


class Keeping:
    """What each executor keeps, and which must go."""

    def __init__(self, place: Workplace, rescue: Rescue) -> None:
        self._place, self._rescue = place, rescue
        self._first: dict[int, int] = {}  # bytes by worker: what its process kept after its first functions
        self._renewed: dict[int, int] = {}  # by worker: how often it was replaced for what it kept
        self.aside = 0  # bytes that the control process may take without a promise
        self._control = 0  # that it is promised
        self._asking: Request | None = None  # for more of it

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

    def control(self, taken: int) -> None:
        """The control process takes so many bytes; 0 when nothing runs."""
        beyond = max(0, taken - self.aside) // STEP * STEP
        if beyond == self._control:
            return
        storing = self._place.storing
        self._control = self._place.admission.quota.adjust(GRAPHS, 0, beyond, STEP)
        if self._control == beyond:
            storing.withdraw(lambda request: request is self._asking)
            self._asking = None
        elif self._asking is None:  # chunks go to disk for it, some at a time
            size = min(beyond - self._control, PIECE)
            self._asking = Request((), None, self._granted, self._refused, GRAPHS, scratch=size, least=STEP)
            storing.ask(self._asking)

    def _granted(self, _: int) -> None:
        """The control process got its piece in line."""
        request, self._asking = self._asking, None
        assert request is not None
        self._place.admission.quota.add(GRAPHS, 0, request.promised)
        self._control += self._place.arena.size_of(request.promised)

    def _refused(self, error: Exception) -> None:
        """There is none now: the next look asks again."""
        self._asking = None

    def rests(self, worker: Worker) -> None:
        """A worker has no batch: if its process is to be replaced, now is the time."""
        if worker.state == RENEWED and not worker.batches:
            worker.link.kill(BEATEN)

    def shed(self) -> bool:
        """Somebody finds no room: have what is kept go; whether some of it goes by itself.

        Processes that keep memory are replaced; one that waits for a place does not end: where there is none its result
        is dropped (`sizing`), and so it ends. Where none keeps anything, the control process gives up its promise.
        """
        place = self._place
        if self._asking is not None and self._asking in place.storing.line:
            return False  # it is the control process that finds none
        keeping = [one for one in place.workers if one.link.pid and one.kept > place.admission.grants.slack]
        for worker in keeping:
            if worker.state != RENEWED:
                self._renew(worker)
        if not keeping and self._control:
            self._control = 0
            place.admission.quota.release(GRAPHS, 0)
            place.storing.later(0.0, place.storing.advance)
            return True
        return any(not worker.batches or worker.batches[0].asking is None for worker in keeping)

    def fresh(self, worker: Worker) -> None:
        """A new process keeps nothing."""
        worker.kept = 0
        self._first.pop(worker.index, None)
        self._place.admission.quota.release(NAME, worker.index)

    def _renew(self, worker: Worker) -> None:
        """Replace a process as soon as it rests; what it has not begun waits for others."""
        worker.state = RENEWED
        if worker.batches and worker.batches[-1].twin is None:
            self._rescue.take_back(worker)
        self.rests(worker)
