"""Memory that graphs take in the control process: held against the memory limit while jobs run.

A graph of many operands makes the process grow that plans it and knows how each stands. What it takes beyond the bytes
that are set aside for it is promised to it like scratch, so chunks make room for it; it is given up only where an
operand would find no room otherwise. The host says how much it is. Used by `execution`.
Source: the issue's "Memory is a guarantee".
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from jmars.memory.allocation_requests import AllocationRequest
from jmars.model.status import GRAPHS
from jmars.worker.open_jobs import WorkerContext

__all__ = ["GraphRoom"]

STEP = 2**20  # bytes by which it changes at least
PIECE = 2**24  # bytes that are asked for at most at a time
PATIENCE = 5.0  # seconds after which it is asked again for what could not be had


class GraphRoom:
    """What the control process is promised.

    Attributes
    ----------
    aside
        Bytes that it may take without a promise.
    held
        Bytes that it is promised.
    """

    def __init__(self, place: WorkerContext) -> None:
        self.aside = self.held = 0
        self._place = place
        self._asking: AllocationRequest | None = None  # for more
        self._refused_at = -PATIENCE

    def told(self, taken: int) -> None:
        """The control process takes so many bytes; 0 when nothing runs."""
        wanted = max(0, taken - self.aside) // STEP * STEP
        if wanted == self.held and self._asking is None:
            return
        storing = self._place.storing
        self.held = self._place.admission.quota.adjust(GRAPHS, 0, wanted, STEP)
        if self.held == wanted:
            asking, self._asking = self._asking, None
            storing.withdraw(lambda request: request is asking)
        elif self._asking is None and storing.trouble.error is None and perf_counter() > self._refused_at + PATIENCE:
            size = min(wanted - self.held, PIECE)  # chunks go to disk for it, some at a time
            self._asking = AllocationRequest((), None, self._granted, self._refused, GRAPHS, scratch=size, least=STEP)
            storing.ask(self._asking)

    def shed(self, others: Callable[[], bool]) -> bool:
        """Somebody finds no room: have what is kept go, that of others first; whether some of it goes by itself."""
        line = self._place.storing.line
        if line and line[0] is self._asking:
            return False  # it is the control process itself
        if others():
            return True
        if not self.held:
            return False
        self.held = 0
        self._place.admission.quota.release(GRAPHS, 0)
        self._place.storing.later(0.0, self._place.storing.advance)
        return True

    def _granted(self, _: int) -> None:
        request, self._asking = self._asking, None
        assert request is not None
        self._place.admission.quota.add(GRAPHS, 0, request.promised)
        self.held += self._place.arena.size_of(request.promised)

    def _refused(self, error: Exception) -> None:
        self._asking, self._refused_at = None, perf_counter()
