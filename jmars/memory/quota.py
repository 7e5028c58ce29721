"""Scratch memory promised to running operands on one host.

Chunks and scratch share one budget, the arena's: a promise is a slot that nobody writes, so an operand that needs
scratch stands in the same line as one that needs room for its output, and chunks are spilled for either. Asked by
`execution`. Source: seed 003, "内存管理" (QuotaActor).
"""

from __future__ import annotations

from jmars.storage.arena import PAGE, Arena

__all__ = ["Quota"]


class Quota:
    """What each operand was promised: bytes of process memory that chunks leave free."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._slots: dict[tuple[str, int], int] = {}  # (job, operand): the slot that stands for its scratch
        self._pieces: dict[tuple[str, int], list[int]] = {}  # the same where it stands in several slots
        self.private: dict[tuple[str, int], dict[int, int]] = {}  # the same: slots of chunks that it alone reads

    @property
    def granted(self) -> int:
        """Bytes promised now."""
        slots = [*self._slots.values(), *(slot for pieces in self._pieces.values() for slot in pieces)]
        slots += [slot for own in self.private.values() for slot in own.values()]
        return sum(map(self._arena.size_of, slots))

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

    def promised(self, job: str, operand: int) -> int:
        """Bytes that an operand was promised in one piece; 0 for none."""
        slot = self._slots.get((job, operand))
        return 0 if slot is None else self._arena.size_of(slot)

    def held(self, job: str, operand: int) -> int:
        """Bytes that it was promised in pieces."""
        return sum(map(self._arena.size_of, self._pieces.get((job, operand), ())))

    def slot(self, job: str, operand: int) -> int:
        """Where the memory lies that an operand was promised in one piece."""
        return self._slots[job, operand]

    def adjust(self, job: str, operand: int, size: int, least: int = PAGE) -> int:
        """What an operand takes is known now: it holds `size` bytes, in pieces if need be, or all that is free.

        Returns the bytes that it holds now. `least` is the smallest piece that is worth it.
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
        """One piece more, that an operand got in line."""
        self._pieces.setdefault((job, operand), []).append(slot)

    def release(self, job: str, operand: int) -> None:
        """Give back what an operand was promised, if anything."""
        slot = self._slots.pop((job, operand), None)
        if slot is not None:
            self._arena.free(slot)
        for slot in self._pieces.pop((job, operand), ()) if self._pieces else ():
            self._arena.free(slot)
        if self.private and (own := self.private.pop((job, operand), None)):
            for slot in own.values():
                self._arena.free(slot)

    def hand_over(self, job: str, operand: int, to: str) -> None:
        """What was promised under one job's name stands under another's from now on."""
        slot = self._slots.pop((job, operand), None)
        if slot is not None:
            self.take(to, operand, slot)
