"""Concatenates parts of many chunks into an operand's private memory.

An operand with a program that `gathers` reads a part of every input, so no input has to be in memory as a whole: the
mover copies parts from memory and reads the rest from files, checked block by block. The result is in the scratch that
the operand was promised: private memory, not a chunk.
Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jmars.errors import ChunkLostError
from jmars.model.messages import JobTable
from jmars.storage.chunks import Chunks, SpillFile
from jmars.storage.spill import Span

__all__ = ["Gathers", "Piece", "pieces_of"]

Piece = tuple[int, int, int]  # chunk, and where its bytes begin and end


@dataclass
class _Gather:
    """An order to the mover that is under way."""

    slot: int
    pieces: Sequence[Piece]
    message: tuple[Any, ...]
    pinned: list[int] = field(default_factory=list)  # chunks in memory, pinned until they are copied
    done: Callable[[str], None] | None = None  # None once its request was withdrawn
    urgency: Any = None  # of the operand


class Gathers:
    """Orders to the mover that concatenate pieces of chunks.

    Parameters
    ----------
    tell
        Sends the mover a message.
    delete
        Deletes a file that is no longer needed.
    """

    def __init__(self, chunks: Chunks, tell: Callable[..., None], delete: Callable[[SpillFile | None], None]) -> None:
        self.private = 0  # bytes read from files to private memory since the start
        self._chunks, self._tell, self._delete = chunks, tell, delete
        self._running: dict[int, _Gather] = {}  # by ticket
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._running)

    @property
    def pieces(self) -> list[Piece]:
        """Pieces under way."""
        return [piece for gather in self._running.values() for piece in gather.pieces]

    @property
    def urgencies(self) -> list[Any]:
        """Sort keys of the operands with pieces under way."""
        return [gather.urgency for gather in self._running.values() if gather.done is not None]

    def start(self, pieces: Sequence[Piece], slot: int, done: Callable[[str], None], urgency: Any) -> None:
        """Concatenate pieces in `slot`; `done` is called with "" or the error.

        Raises
        ------
        ChunkLostError
            If a chunk is not here.
        """
        chunks = self._chunks
        wire: list[tuple[Any, ...]] = []
        pinned: list[int] = []
        for chunk, start, stop in pieces:
            place = chunks.disk.get(chunk)
            if chunk in chunks.memory and chunk not in chunks.moving:
                wire.append((chunks.memory[chunk] + start, stop - start))
                pinned.append(chunk)
            elif place is not None:
                span = Span(place.checksum, place.size, start, stop)
                self.private += stop - start
                chunks.reloaded += span.nbytes
                wire.append((place.name, span.start, span.nbytes, span.sums, start - span.start, stop - start))
            else:
                raise ChunkLostError(f"chunk {chunk} is not on this host; compute its tensor again")
        for chunk in pinned:
            chunks.pin(chunk)
        self._tickets += 1
        message = ("gather", self._tickets, slot, wire)
        self._running[self._tickets] = _Gather(slot, pieces, message, pinned, done, urgency)
        self._tell(*message)

    def leave(self, slot: int) -> bool:
        """The request of `slot` was withdrawn; returns whether the order is still under way, so that the slot stays."""
        for gather in self._running.values():
            if gather.slot == slot and gather.done is not None:
                gather.done = None
                return True
        return False

    def ended(self, ticket: int) -> tuple[Sequence[Piece], int, Callable[[str], None] | None]:
        """The mover finished an order; returns pieces, slot, and `done` of the order: None after a withdrawal."""
        gather = self._running.pop(ticket)
        for chunk in gather.pinned:
            self._delete(self._chunks.unpin(chunk))
        return gather.pieces, gather.slot, gather.done

    def again(self, free: Callable[[int], None]) -> None:
        """The mover died: repeat orders that are still wanted, and free the slots of withdrawn orders."""
        for ticket, gather in list(self._running.items()):
            if gather.done is None:
                free(self.ended(ticket)[1])
            else:
                self._tell(*gather.message)

    def give_up(self, free: Callable[[int], None]) -> list[Callable[[str], None]]:
        """Cancel all orders; returns the `done` of orders that are still wanted."""
        told = []
        for ticket in list(self._running):
            _, slot, done = self.ended(ticket)
            if done is None:
                free(slot)
            else:
                told.append(done)
        return told


def pieces_of(table: JobTable, operand: int) -> list[Piece]:
    """Pieces that an operand of a gathering program reads."""
    assert table.args is not None
    bounds = np.frombuffer(table.args[operand][-1][-1], np.int64).reshape(-1, 2)
    size = table.programs[table.program[operand]].inputs[0].dtype.itemsize
    chunks = [table.chunk[i] for i in table.inputs[operand]]
    return [(chunk, start * size, stop * size) for chunk, (start, stop) in zip(chunks, bounds.tolist(), strict=True)]
