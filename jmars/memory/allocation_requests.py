"""What stands in the line for memory, and what is known of a disk that refuses: plain records of `storing`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from jmars.errors import StorageError
from jmars.storage.arena import PAGE

__all__ = ["AllocationRequest", "DiskBackoff", "later"]

RETRY = 0.25  # seconds after which a disk that refused is tried again
PATIENCE = 3.0  # seconds for which the head of the line waits for it where nothing else can go on


@dataclass(eq=False)
class AllocationRequest:
    """Chunks that must lie in memory, and perhaps a new slot, together."""

    chunks: Sequence[int]
    size: int | None  # bytes of the new slot; None for none
    granted: Callable[[int], None]  # called with the slot's offset, or -1
    refused: Callable[[Exception], None]
    what: str  # for errors: "the operand add"
    rank: int = -1  # of the operand that asks; what is used sooner stays in memory as long as something runs
    job: int = 0  # number of its job
    scratch: int = 0  # bytes of process memory that must be left free beside them
    least: int = 1 << 62  # bytes of scratch that do where there is no more; as it stands, none but all
    gather: Sequence[tuple[int, int, int]] = ()  # (chunk, start, stop): bytes that are put into the scratch, in order
    slot: int = -1
    promised: int = -1  # the slot that stands for the scratch
    loading: set[int] = field(default_factory=set)
    private: dict[int, int] = field(default_factory=dict)  # chunk that nobody else reads: slot of its own for it
    gathering: int = 0  # what the mover puts into its own memory just now
    first: bool = False  # goes before all who read chunks: it comes from an operand that runs
    left: float = 0.0  # by perf_counter, when it had its slots and left the line
    restarted: int = 1 << 62  # bytes that others held when it gave all back, as free memory lay between its own slots

    @property
    def urgency(self) -> tuple[int, int]:
        """Operands of earlier jobs first, then by rank; a client's request before all who come after it."""
        return (self.job, self.rank)

    def yields(self) -> bool:
        """Ask for an eighth less scratch where less does; returns whether it did."""
        less = max(self.least, PAGE, self.scratch // 8 * 7)
        if self.promised >= 0 or less >= self.scratch:
            return False
        self.scratch = less
        return True

    @property
    def slots(self) -> list[int]:
        """What it holds: for its output, its scratch, and chunks that are its own."""
        return [slot for slot in (self.slot, self.promised, *self.private.values()) if slot >= 0]


class DiskBackoff:
    """A disk that does not take what it should: chunks stay in memory, and it is tried again a little later.

    An error comes of it only when nothing can go on without the disk, and it has refused for some seconds.
    """

    def __init__(self) -> None:
        self.error: StorageError | None = None  # why the last write failed; None where it went well
        self.patience = PATIENCE
        self._retry = 0.0  # when to try again
        self._since = 0.0  # since when the head of the line waits for the disk alone; 0 where it does not

    def refused(self, error: StorageError) -> None:
        """A write failed."""
        self.error, self._retry = error, perf_counter() + RETRY

    def worked(self) -> None:
        """A write went well."""
        self.error = None

    @property
    def may_try(self) -> bool:
        """Whether something may be written now."""
        return self.error is None or perf_counter() >= self._retry

    def wait(self) -> float | None:
        """Nothing goes on without the disk: seconds until it is tried again; None when that was done long enough."""
        now = perf_counter()
        self._since = self._since or now
        return None if now - self._since >= self.patience else max(0.0, self._retry - now)

    def over(self) -> None:
        """Nobody waits for the disk any more."""
        self._since = 0.0


def later(seconds: float, call: Callable[[], None]) -> None:
    """Call something in so many seconds."""
    asyncio.get_running_loop().call_later(seconds, call)
