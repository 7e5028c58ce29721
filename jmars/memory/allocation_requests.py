"""Entries of the allocation queue, and the back-off of a disk that refuses writes: plain records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from jmars.errors import StorageError
from jmars.storage.arena import PAGE

__all__ = ["AllocationRequest", "DiskBackoff", "later"]

RETRY = 0.25  # seconds after which a refused write is tried again
PATIENCE = 3.0  # seconds for which the head of the queue waits for the disk alone


@dataclass(eq=False)
class AllocationRequest:
    """A request for chunks in memory, for a new slot, and for scratch, granted together."""

    chunks: Sequence[int]
    size: int | None  # bytes of the new slot; None for none
    granted: Callable[[int], None]  # called with the slot's offset, or -1
    refused: Callable[[Exception], None]
    what: str  # for errors: "the operand add"
    rank: int = -1  # of the operand; chunks used sooner stay in memory while any operand runs
    job: int = 0  # its number
    scratch: int = 0  # bytes of process memory to reserve
    least: int = 1 << 62  # fewest bytes of scratch that are enough; by default all
    gather: Sequence[tuple[int, int, int]] = ()  # (chunk, start, stop): bytes to concatenate in the scratch
    slot: int = -1
    promised: list[int] = field(default_factory=list)  # slots that represent the scratch
    loading: set[int] = field(default_factory=set)
    private: dict[int, int] = field(default_factory=dict)  # chunk without another reader: its private slot
    gathering: int = 0  # orders to the mover that are under way for private memory
    first: bool = False  # goes before requests that read chunks: an executor waits for it
    left: float = 0.0  # perf_counter when it had its slots and left the queue
    restarted: int = 1 << 62  # bytes that others held when it gave its slots back because they fragmented memory

    @property
    def urgency(self) -> tuple[int, int]:
        """Sort key: operands of earlier jobs first, then by rank; clients before later requests."""
        return (self.job, self.rank)

    def yields(self) -> bool:
        """Reduce the scratch by an eighth if less is enough; returns whether that was possible."""
        less = max(self.least, PAGE, self.scratch // 8 * 7)
        if self.promised or less >= self.scratch:
            return False
        self.scratch = less
        return True

    @property
    def slots(self) -> list[int]:
        """Slots held for the output, the scratch and private chunks."""
        return [slot for slot in (self.slot, *self.promised, *self.private.values()) if slot >= 0]


class DiskBackoff:
    """Retries a disk that refuses writes; chunks stay in memory meanwhile.

    A request fails only if no other memory can help and the disk has refused for `patience` seconds.
    """

    def __init__(self) -> None:
        self.error: StorageError | None = None  # of the last write; None after success
        self.patience = PATIENCE
        self._retry = 0.0  # time of the next try
        self._since = 0.0  # time since which the head of the queue waits for the disk alone; 0 otherwise

    def refused(self, error: StorageError) -> None:
        """A write failed."""
        self.error, self._retry = error, perf_counter() + RETRY

    def worked(self) -> None:
        """A write went well."""
        self.error, self._since = None, 0.0

    @property
    def may_try(self) -> bool:
        """Whether a write may be tried now."""
        return self.error is None or perf_counter() >= self._retry

    def wait(self) -> float | None:
        """Seconds until the next try while only the disk can help; None when `patience` is over."""
        now = perf_counter()
        self._since = self._since or now
        return None if now - self._since >= self.patience else max(0.0, self._retry - now)

    def over(self) -> None:
        """No request waits for the disk any more."""
        self._since = 0.0


def later(seconds: float, call: Callable[[], None]) -> None:
    """Call `call` after `seconds` in the running loop."""
    asyncio.get_running_loop().call_later(seconds, call)
