"""Concatenates parts of many chunks into an operand's private memory.

An operand with a program that `gathers` reads a part of every input, so no input has to be in memory as a whole: the
mover copies parts from memory and reads the rest from files, checked block by block. The result is in the scratch that
the operand was promised: private memory, not a chunk. Of a chunk on another host only the part travels.
Source: docs/explanation/seeds.md, "Memory management".

Chunks on their way into memory: from files by the mover, from GPUs, from other hosts by the carrier.

A read from another host fills a slot of its own. The chunk is in memory only after the last byte, so that a chunk freed
meanwhile never appears. Source: docs/explanation/seeds.md, "Memory management".

The control process's end of the mover: starts a mover at the first order, sends orders, counts the time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, NoReturn

import numpy as np

from jmars.errors import ChunkLostError, ClusterError
from jmars.model.messages import JobTable
from jmars.processes.links import ChildLink
from jmars.storage.chunks import ChunkRange, Chunks, Elsewhere, SpillFile
from jmars.storage.spill import Span

log = logging.getLogger("jmars.memory")

# Reads a range from the first of some hosts that has it. The callback gets "" or an error when nothing writes there any
# more; the function that is returned withdraws the read, and the callback follows as soon as nothing writes there.
Pull = Callable[[ChunkRange, Sequence[int], Callable[[str], None]], Callable[[], None]]


def no_pull(wanted: ChunkRange, hosts: Sequence[int], done: Callable[[str], None]) -> NoReturn:
    """The `Pull` of a host without others."""
    raise ClusterError(f"chunk {wanted.chunk} cannot be read from host {list(hosts)}: this cluster has one host")


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
    ended
        Called with the slot, the `done` of the request (None after a withdrawal) and the error, when nothing writes to
        the slot any more.

    Attributes
    ----------
    pull
        Reads from other hosts.
    """

    def __init__(
        self,
        chunks: Chunks,
        tell: Callable[..., None],
        delete: Callable[[SpillFile | None], None],
        ended: Callable[[int, Callable[[str], None] | None, str], None],
    ) -> None:
        self.private = 0  # bytes read from files to private memory since the start
        self.pull: Pull = no_pull
        self._chunks, self._tell, self._delete, self._ended = chunks, tell, delete, ended
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
            wanted = ChunkRange(chunk, start, stop, to, urgency)
            self._running[ticket].withdraw.append(self.pull(wanted, found.hosts, came))

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


CopyDown = Callable[[int, int, Callable[[str], None]], None]  # chunk on a GPU, slot; calls back with "" or an error


def no_copy_down(chunk: int, slot: int, done: Callable[[str], None]) -> NoReturn:
    """The `CopyDown` of a host without a GPU."""
    raise ClusterError(f"chunk {chunk} cannot be read from a GPU: this host has none")


class ChunkReads:
    """Reads under way.

    Parameters
    ----------
    tell
        Sends the mover a message.
    fetched
        Called with a chunk, whether it is in memory as a copy now, and the error, after a read from another host or,
        with False, from a GPU.

    Attributes
    ----------
    pull, copy_down
        Reads from other hosts, and from GPUs.
    """

    def __init__(self, chunks: Chunks, tell: Callable[..., None], fetched: Callable[[int, bool, str], None]) -> None:
        self.loads: dict[int, tuple[SpillFile, int]] = {}  # chunk: its file and slot
        self.fetches: dict[int, tuple[Elsewhere, int]] = {}  # chunk: hosts that have it, and the slot
        self.downs: dict[int, int] = {}  # chunk on its way from a GPU: its slot
        self.pull: Pull = no_pull
        self.copy_down: CopyDown = no_copy_down
        self.withdrawn: set[int] = set()  # chunks of `fetches` that nobody waits for
        self._withdraw: dict[int, Callable[[], None]] = {}  # by chunk of `fetches`
        self._chunks, self._tell, self._fetched = chunks, tell, fetched

    def __contains__(self, chunk: int) -> bool:
        return chunk in self.loads or chunk in self.fetches or chunk in self.downs

    def start(self, chunk: int, slot: int, size: int, urgency: tuple[int, int], ahead: bool = False) -> None:
        """Read a chunk of `size` bytes into a slot; `ahead` of operands that will ask for it."""
        chunks = self._chunks
        if chunk in chunks.disk:
            place = chunks.start_load(chunk, slot)
            self.loads[chunk] = (place, slot)
            self._tell("load", chunk, slot, size, place.name, place.checksum)
            return
        if chunk in chunks.on_device:
            self.downs[chunk] = slot
            self.copy_down(chunk, slot, partial(self._came_down, chunk))
            return
        away = chunks.elsewhere[chunk]
        self.fetches[chunk] = (away, slot)
        wanted = ChunkRange(chunk, 0, size, slot, urgency, ahead)
        self._withdraw[chunk] = self.pull(wanted, away.hosts, partial(self._came, chunk))

    def withdraw(self, chunks: set[int]) -> None:
        """Stop reads of chunks from other hosts; no effect on reads from files and GPUs."""
        for chunk in chunks.intersection(self.fetches) - self.withdrawn:
            self.withdrawn.add(chunk)
            self._withdraw[chunk]()

    def again(self) -> None:
        """The mover died: have the next mover read what was not read."""
        for chunk, (place, slot) in self.loads.items():
            self._tell("load", chunk, slot, place.size, place.name, place.checksum)

    def leave_downs(self, chunks: Iterable[int]) -> list[int]:
        """The GPU's process may still write to the slots of these chunks; returns the slots, for the caller to free."""
        return [self.downs.pop(chunk) for chunk in chunks if chunk in self.downs]

    def _came_down(self, chunk: int, error: str) -> None:
        slot = self.downs.pop(chunk, None)
        if slot is not None:
            self._chunks.down_done(chunk, slot, error)
        self._fetched(chunk, False, error)

    def _came(self, chunk: int, error: str) -> None:
        if chunk not in self.fetches:
            log.info("the read of chunk %d is over already: %s", chunk, error or "its bytes came")
            return
        place, slot = self.fetches.pop(chunk)
        self._withdraw.pop(chunk, None)
        if chunk in self.withdrawn:
            self.withdrawn.discard(chunk)
            self._chunks.allocator.free(slot)
            self._fetched(chunk, False, error)
        else:
            self._fetched(chunk, self._chunks.fetch_done(chunk, place, slot, error), error)


UNANSWERED = ("delete", "sweep")  # orders without an answer
DEATHS = 3  # of movers in a row over the same orders


class MoverLink:
    """Sends orders to the mover, or after a death to the next mover.

    Parameters
    ----------
    start
        Forks a mover; raises StorageError if there is no folder for files.
    """

    def __init__(self, start: Callable[[], ChildLink]) -> None:
        self.direct: bool | None = None  # whether files are written past the page cache; None until a mover said so
        self.seconds = 0.0  # during which an order was unanswered
        self._start = start
        self._link: ChildLink | None = None
        self._orders = 0  # unanswered
        self._since = 0.0  # time of the first unanswered order, or of the last answer
        self._deaths = 0  # of movers since the last answer

    def begin(self) -> None:
        """Start a mover if none runs."""
        if self._link is None:
            self._link = self._start()

    def tell(self, *message: Any) -> None:
        """Send an order."""
        self.begin()
        assert self._link is not None
        if message[0] not in UNANSWERED:
            self._since = self._since if self._orders else perf_counter()
            self._orders += 1
        self._link.send(message)

    def reported(self) -> None:
        """The mover answered the oldest order."""
        self._orders -= 1
        self._deaths = 0
        now = perf_counter()
        self.seconds += now - self._since
        self._since = now

    @property
    def silent(self) -> float:
        """Seconds since the mover began the current order; 0.0 without an order."""
        return perf_counter() - self._since if self._orders else 0.0

    def died(self) -> bool:
        """The mover process ended; returns whether DEATHS movers in a row did, so that orders are not repeated."""
        self._link, self._orders = None, 0
        self._deaths = (self._deaths + 1) % DEATHS
        return not self._deaths
