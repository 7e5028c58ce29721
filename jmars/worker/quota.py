"""Scratch memory promised to running operands on one host.

Chunks and scratch share one budget, the arena's: a promise is a slot that nobody writes, so an operand that needs
scratch stands in the same line as one that needs room for its output, and chunks are spilled for either. Asked by
`execution`. Source: seed 003, "内存管理" (QuotaActor).
"""

from __future__ import annotations

from jmars.storage.arena import Arena

__all__ = ["Quota"]


class Quota:
    """What each operand was promised: bytes of process memory that chunks leave free."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._slots: dict[tuple[str, int], int] = {}  # (job, operand): the slot that stands for its scratch

    @property
    def granted(self) -> int:
        """Bytes promised now."""
        return sum(self._arena.size_of(slot) for slot in self._slots.values())

    def request(self, job: str, operand: int, size: int) -> bool:
        """Whether `size` bytes are promised now; who is refused stands in line."""
        slot = self._arena.reserve(size)
        if slot is None:
            return False
        self.take(job, operand, slot)
        return True

    def take(self, job: str, operand: int, slot: int) -> None:
        """An operand got its promise in line."""
        self._slots[job, operand] = slot

    def adjust(self, job: str, operand: int, size: int) -> None:
        """What an operand takes is known now: it holds `size` bytes, or what it was promised where more is not free."""
        slot = self._slots.get((job, operand))
        promised = 0 if slot is None else self._arena.size_of(slot)
        self.release(job, operand)
        if not self.request(job, operand, size) and promised:
            taken = self.request(job, operand, promised)
            assert taken  # it was free a moment ago

    def release(self, job: str, operand: int) -> None:
        """Give back what an operand was promised, if anything."""
        slot = self._slots.pop((job, operand), None)
        if slot is not None:
            self._arena.free(slot)
