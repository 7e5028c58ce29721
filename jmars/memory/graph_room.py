"""Promises memory to the control process for graphs, while jobs run.

The control process grows with the number of planned and tracked operands. Bytes beyond the set-aside are promised
like scratch, so chunks make room for them; the promise is given up only if an operand would find no room
otherwise. The host measures the process. Source: docs/explanation/memory.md.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from jmars.memory.allocation_requests import AllocationRequest
from jmars.memory.buffer_manager import BufferManager
from jmars.memory.quota import Quota
from jmars.model.status import GRAPHS

__all__ = ["GraphRoom"]

STEP = 2**20  # bytes of the smallest change
PIECE = 2**24  # bytes of the largest request
PATIENCE = 5.0  # seconds between a refused request and the next one


class GraphRoom:
    """The promise to the control process.

    Parameters
    ----------
    aside
        Bytes that the control process may take without a promise.

    Attributes
    ----------
    held
        Bytes promised now.
    """

    def __init__(self, quota: Quota, buffers: BufferManager, aside: int) -> None:
        self.held = 0
        self._aside, self._quota, self._buffers = aside, quota, buffers
        self._asking: AllocationRequest | None = None  # for more
        self._refused_at = -PATIENCE

    def update(self, taken: int) -> None:
        """The control process takes `taken` bytes; 0 while no job runs."""
        wanted = max(0, taken - self._aside) // STEP * STEP
        if wanted == self.held and self._asking is None:
            return
        buffers = self._buffers
        self.held = self._quota.adjust(GRAPHS, 0, wanted)
        if self.held == wanted:
            asking, self._asking = self._asking, None
            buffers.withdraw(lambda request: request is asking)
        elif self._asking is None and buffers.disk.error is None and perf_counter() > self._refused_at + PATIENCE:
            size = min(wanted - self.held, PIECE)  # chunks are spilled for it, some at a time
            self._asking = AllocationRequest((), None, self._granted, self._refused, GRAPHS, scratch=size, least=STEP)
            buffers.enqueue(self._asking)

    def shed(self, others: Callable[[], bool]) -> bool:
        """Free memory for the head of the queue: `others` first, then this promise; returns whether some will be."""
        queue = self._buffers.queue
        if queue and queue[0] is self._asking:
            return False  # the head is the control process itself
        if others():
            return True
        if not self.held:
            return False
        self.held = 0
        self._quota.release(GRAPHS, 0)
        self._buffers.later(0.0, self._buffers.advance)
        return True

    def _granted(self, _: int) -> None:
        request, self._asking = self._asking, None
        assert request is not None
        self._quota.add(GRAPHS, 0, request.promised)
        self.held = self._quota.promised(GRAPHS, 0)

    def _refused(self, error: Exception) -> None:
        self._asking, self._refused_at = None, perf_counter()
