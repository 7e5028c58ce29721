"""Scratch memory promised to running operands on a host.

Chunks and scratch share a budget, the arena's: a promise is a slot that is never written, so an operand that needs
scratch stands in the same queue as an operand that needs room for an output, and chunks are spilled for both.
Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

from jmars.storage.arena import PAGE, Arena

__all__ = ["Quota"]


class Quota:
    """Promises by operand: bytes of process memory that chunks leave free."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._slots: dict[tuple[str, int], int] = {}  # (job, operand): slot that represents its scratch
        self._pieces: dict[tuple[str, int], list[int]] = {}  # (job, operand): the same in several slots
        self.private: dict[tuple[str, int], dict[int, int]] = {}  # (job, operand): private slot by chunk

    @property
    def granted(self) -> int:
        """Bytes promised now."""
        slots = [*self._slots.values(), *(slot for pieces in self._pieces.values() for slot in pieces)]
        slots += [slot for own in self.private.values() for slot in own.values()]
        return sum(map(self._arena.size_of, slots))

    def request(self, job: str, operand: int, size: int) -> bool:
        """Promise `size` bytes if they are free now; returns whether they were."""
        slot = self._arena.reserve(size)
        if slot is None:
            return False
        self.take(job, operand, slot)
        return True

    def take(self, job: str, operand: int, slot: int) -> None:
        """Record a slot that an operand got from the allocation queue."""
        self._slots[job, operand] = slot

    def promised(self, job: str, operand: int) -> int:
        """Bytes promised to an operand in a single piece; 0 for none."""
        slot = self._slots.get((job, operand))
        return 0 if slot is None else self._arena.size_of(slot)

    def held(self, job: str, operand: int) -> int:
        """Bytes promised to an operand in several pieces."""
        return sum(map(self._arena.size_of, self._pieces.get((job, operand), ())))

    def slot(self, job: str, operand: int) -> int:
        """Offset of the memory promised to an operand in a single piece."""
        return self._slots[job, operand]

    def adjust(self, job: str, operand: int, size: int, least: int = PAGE) -> int:
        """Change a promise to `size` bytes, in pieces if necessary, or to all that is free.

        Returns the bytes promised now. `least` is the smallest piece.
        """
        self.release(job, operand)
        asked = size
        pieces = self._pieces[job, operand] = []
        piece = size
        while size > 0:
            piece = min(piece, size)
            slot = self._arena.reserve(piece)
            if slot is not None:
                pieces.append(slot)
                size -= piece
            elif piece > least:
                piece = max(least, piece // 2)
            else:
                break
        return asked - max(0, size)

    def add(self, job: str, operand: int, slot: int) -> None:
        """Add a slot from the allocation queue to an operand's pieces."""
        self._pieces.setdefault((job, operand), []).append(slot)

    def release(self, job: str, operand: int) -> None:
        """Free the slots promised to an operand, if any."""
        slot = self._slots.pop((job, operand), None)
        if slot is not None:
            self._arena.free(slot)
        for slot in self._pieces.pop((job, operand), ()) if self._pieces else ():
            self._arena.free(slot)
        if self.private and (own := self.private.pop((job, operand), None)):
            for slot in own.values():
                self._arena.free(slot)

    def hand_over(self, job: str, operand: int, to: str) -> None:
        """Move a promise from a job's name to a second name."""
        slot = self._slots.pop((job, operand), None)
        if slot is not None:
            self.take(to, operand, slot)
