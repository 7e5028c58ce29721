"""Concatenates parts of many chunks into an operand's private memory.

An operand with a program that `gathers` reads a part of every input, so no input has to be in memory as a whole: the
mover copies parts from memory and reads the rest from files, checked block by block. The result is in the scratch that
the operand was promised: private memory, not a chunk. Of a chunk on another host only the part travels.
Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from jmars.errors import ChunkLostError
from jmars.memory.chunk_reads import Pull
from jmars.model.messages import JobTable
from jmars.storage.chunks import Chunks, Elsewhere, SpillFile
from jmars.storage.spill import Span

__all__ = ["Gathers", "Piece", "pieces_of"]

log = logging.getLogger("jmars.memory")

Piece = tuple[int, int, int]  # chunk, and where its bytes begin and end


@dataclass
class _Gather:
    """Parts of chunks that are concatenated in a slot: by the mover, and by reads from other hosts."""

    slot: int
    pieces: Sequence[Piece]
    message: tuple[Any, ...]  # to the mover; () once the mover is done
    waits: int  # for the mover, and for reads
    pinned: list[int] = field(default_factory=list)  # chunks in memory, pinned until they are copied
    done: Callable[[str], None] | None = None  # None once its request was withdrawn
    urgency: Any = None  # of the operand
    error: str = ""
    withdraw: list[Callable[[], None]] = field(default_factory=list)  # stop reads; no effect on those that have ended


class Gathers:
    """Concatenations under way.

    Parameters
    ----------
    tell
        Sends the mover a message.
    delete
        Deletes a file that is no longer needed.
    pull
        Reads bytes of chunks from other hosts.
    ended
        Called with the slot, the `done` of the request (None after a withdrawal) and the error, when nothing writes to
        the slot any more.
    """

    def __init__(
        self,
        chunks: Chunks,
        tell: Callable[..., None],
        delete: Callable[[SpillFile | None], None],
        pull: Pull,
        ended: Callable[[int, Callable[[str], None] | None, str], None],
    ) -> None:
        self.private = 0  # bytes read from files to private memory since the start
        self._chunks, self._tell, self._delete, self._pull, self._ended = chunks, tell, delete, pull, ended
        self._running: dict[int, _Gather] = {}  # by ticket
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._running)

    @property
    def pieces(self) -> list[Piece]:
        """Pieces under way."""
        return [piece for gather in self._running.values() for piece in gather.pieces]

    def waits_for_mover(self, ticket: int) -> bool:
        """Whether the mover's part of a concatenation is under way."""
        return ticket in self._running and bool(self._running[ticket].message)

    @property
    def urgencies(self) -> list[Any]:
        """Sort keys of the operands with pieces under way."""
        return [gather.urgency for gather in self._running.values() if gather.done is not None]

    def chunk_of(self, ticket: int, piece: int) -> int:
        """Chunk of a piece."""
        return self._running[ticket].pieces[piece][0]

    def start(self, pieces: Sequence[Piece], slot: int, done: Callable[[str], None], urgency: Any) -> None:
        """Concatenate pieces in `slot`; `done` is called with "" or the error.

        Raises
        ------
        ChunkLostError
            If a chunk is neither here nor on another host.
        """
        chunks = self._chunks
        wire: list[tuple[Any, ...]] = []
        pinned: list[int] = []
        away: list[tuple[Piece, int]] = []  # pieces on other hosts, and where their bytes go
        offset = slot
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
            elif chunk in chunks.elsewhere:
                away.append(((chunk, start, stop), offset))
                wire.append((stop - start,))
            else:
                raise ChunkLostError(f"chunk {chunk} is not on this host; compute its tensor again")
            offset += stop - start
        for chunk in pinned:
            chunks.pin(chunk)
        self._tickets += 1
        ticket = self._tickets
        message = ("gather", ticket, slot, wire) if len(away) < len(wire) or not wire else ()
        waits = len(away) + bool(message)
        self._running[ticket] = _Gather(slot, pieces, message, waits, pinned, done, urgency)
        if message:
            self._tell(*message)
        for (chunk, start, stop), to in away:
            found = chunks.elsewhere[chunk]
            came = partial(self._pulled, ticket, chunk, stop - start, found)
            self._running[ticket].withdraw.append(self._pull(chunk, start, stop, to, found.hosts, urgency, came))

    def leave(self, slot: int) -> bool:
        """The request of `slot` was withdrawn; returns whether the order is still under way, so that the slot stays."""
        found = next((one for one in self._running.values() if one.slot == slot and one.done is not None), None)
        if found is None:
            return False
        found.done = None
        for withdraw in found.withdraw:
            withdraw()
        return True

    def moved(self, ticket: int, error: str) -> None:
        """The mover finished its part."""
        gather = self._running[ticket]
        gather.message = ()
        for chunk in gather.pinned:
            self._delete(self._chunks.unpin(chunk))
        self._part_ended(ticket, error)

    def again(self) -> None:
        """The mover died: repeat orders that are still wanted."""
        for ticket, gather in list(self._running.items()):
            if gather.message:
                if gather.done is None:
                    self.moved(ticket, "")
                else:
                    self._tell(*gather.message)

    def give_up(self, error: str) -> None:
        """The mover cannot work: end its part of all gathers."""
        for ticket, gather in list(self._running.items()):
            if gather.message:
                self.moved(ticket, error)

    def _pulled(self, ticket: int, chunk: int, size: int, found: Elsewhere, error: str) -> None:
        """A piece of `size` bytes came from another host, or cannot come; no effect on a gather that is over."""
        if ticket not in self._running:
            log.info("gather %d is over already, and hears of chunk %d: %s", ticket, chunk, error or "it came")
            return
        if not error:
            self._chunks.fetched += size
        elif self._running[ticket].done is not None and self._chunks.elsewhere.get(chunk) is found:
            del self._chunks.elsewhere[chunk]
        self._part_ended(ticket, error)

    def _part_ended(self, ticket: int, error: str) -> None:
        gather = self._running[ticket]
        gather.error = gather.error or error
        gather.waits -= 1
        if not gather.waits:
            del self._running[ticket]
            self._ended(gather.slot, gather.done, gather.error)


def pieces_of(table: JobTable, operand: int) -> list[Piece]:
    """Pieces that an operand of a gathering program reads."""
    assert table.args is not None
    bounds = np.frombuffer(table.args[operand][-1][-1], np.int64).reshape(-1, 2)
    size = table.programs[table.program[operand]].inputs[0].dtype.itemsize
    chunks = [table.chunk[i] for i in table.inputs[operand]]
    return [(chunk, start * size, stop * size) for chunk, (start, stop) in zip(chunks, bounds.tolist(), strict=True)]
