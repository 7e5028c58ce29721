"""Scratch memory promised to running operands on a host.

Chunks and scratch share a budget, the arena's: a promise is slots that are never written, so an operand that needs
scratch stands in the same queue as an operand that needs room for an output, and chunks are spilled for both.
Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

from jmars.storage.arena import Allocator

__all__ = ["Quota"]


class Quota:
    """Promises by operand: bytes of process memory that chunks leave free."""

    def __init__(self, arena: Allocator) -> None:
        self._arena = arena
        self._slots: dict[tuple[str, int], list[int]] = {}  # (job, operand): slots that represent its scratch
        self.private: dict[tuple[str, int], dict[int, int]] = {}  # (job, operand): private slot by chunk

    @property
    def granted(self) -> int:
        """Bytes promised now."""
        slots = [slot for promise in self._slots.values() for slot in promise]
        slots += [slot for own in self.private.values() for slot in own.values()]
        return sum(map(self._arena.size_of, slots))

    def request(self, job: str, operand: int, size: int) -> bool:
        """Promise `size` bytes if they are free now; returns whether they were."""
        slots = self._arena.reserve(size)
        if slots is None:
            return False
        self._slots[job, operand] = slots
        return True

    def add(self, job: str, operand: int, slots: list[int]) -> None:
        """Add slots that an operand got from the allocation queue."""
        self._slots.setdefault((job, operand), []).extend(slots)

    def promised(self, job: str, operand: int) -> int:
        """Bytes promised to an operand."""
        return sum(map(self._arena.size_of, self.slots(job, operand)))

    def slots(self, job: str, operand: int) -> list[int]:
        """Offsets of the slots that represent the memory promised to an operand."""
        return self._slots.get((job, operand), [])

    def adjust(self, job: str, operand: int, size: int) -> int:
        """Change a promise to `size` bytes, or to all that is free; returns the bytes promised now."""
        self.release(job, operand)
        size = min(size, self._arena.free_pages)
        if size:
            self.request(job, operand, size)
        return size

    def release(self, job: str, operand: int) -> None:
        """Free the slots promised to an operand, if any."""
        for slot in self._slots.pop((job, operand), ()):
            self._arena.free(slot)
        if self.private and (own := self.private.pop((job, operand), None)):
            for slot in own.values():
                self._arena.free(slot)

    def hand_over(self, job: str, operand: int, to: str) -> None:
        """Move a promise from a job's name to a second name."""
        slots = self._slots.pop((job, operand), None)
        if slots is not None:
            self._slots[to, operand] = slots
