"""Places of all chunks on this host, and the choice of chunks to spill.

A chunk is a whole number that is never used twice in a cluster. `Chunks` decides and keeps the books;
`memory/buffer_manager.py` has the bytes moved.

Chunks that travel as messages have checksums, which the receiver compares. Chunks in shared memory do not travel and
have no checksum.
Source: docs/explanation/seeds.md, "Memory management"; docs/explanation/reliability.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
import xxhash

from jmars.errors import ChunkLostError, ClusterError, StorageError
from jmars.storage.arena import Allocator

VICTIM_SHARE = 256  # at least 1/256 of the movable chunks is spilled together


class SpillFile(NamedTuple):
    """File of a spilled chunk."""

    name: str
    checksum: bytes  # of all blocks, as `spill.write_chunk` returned them
    size: int  # bytes


class OnDevice(NamedTuple):
    """The GPU that made a chunk and keeps it."""

    worker: int
    size: int  # bytes


class Elsewhere(NamedTuple):
    """Other hosts that have a chunk."""

    size: int  # bytes
    hosts: tuple[int, ...]  # numbers, the preferred host first
    turn: int = 0  # changes after the chunk was freed, so that an earlier read is not accepted


class ChunkRange(NamedTuple):
    """Bytes [start, stop) of a chunk of other hosts, to be read into the arena."""

    chunk: int
    start: int
    stop: int
    offset: int  # of the arena
    urgency: tuple[int, int]  # number of the job, and rank of the operand that reads; the lowest is read first
    ahead: bool = False  # no operand waits for it yet


class ChunkElements(NamedTuple):
    """Elements of a chunk in C order, at `strides` bytes from byte `start` on, as clients read chunks.

    Examples
    --------
    >>> ChunkElements(7, 1, 1, (2,), (3,)).cut(np.arange(6, dtype="u1").reshape(2, 3))
    b'\\x01\\x04'
    """

    chunk: int
    start: int
    itemsize: int  # bytes
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes, none below 0

    @classmethod
    def first(cls, chunk: int, size: int, start: int = 0) -> ChunkElements:
        """`size` bytes of a chunk from `start` on."""
        return cls(chunk, start, 1, (size,), (1,))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.itemsize * math.prod(self.shape)

    def check(self, size: int) -> None:
        """Raise ClusterError for elements outside a chunk of `size` bytes."""
        last = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        stop = self.start + last + self.itemsize
        outside = self.start < 0 or self.itemsize < 1 or min(self.strides, default=0) < 0 or stop > size
        if outside and 0 not in self.shape:
            raise ClusterError(f"bytes {self.start} to {stop} are no part of chunk {self.chunk}, which has {size}")

    def cut(self, data: Any) -> bytes:
        """The elements out of the chunk's array."""
        if not self.nbytes:
            return b""
        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        return np.ndarray(tuple(self.shape), f"V{self.itemsize}", data, self.start, tuple(self.strides)).tobytes()


class Chunks:
    """Chunks of one host: in a slot, in a file, or moving between the two; on a GPU; and chunks that other hosts have.

    A chunk on a GPU that was read into memory is in both, and either place can go without a copy. A chunk of another
    host is read like a spilled chunk. The bytes that came are a copy: evicted without a file.
    """

    def __init__(self, allocator: Allocator, next_use: Callable[[int], int]) -> None:
        self.allocator = allocator
        self.next_use = next_use  # rank of a chunk's next use; the chunk with the highest rank is spilled first
        self.memory: dict[int, int] = {}  # offset of the slot, by chunk
        self.disk: dict[int, SpillFile] = {}  # by chunk; a reloaded chunk has a slot as well
        self.on_device: dict[int, OnDevice] = {}  # by chunk that a GPU made and keeps
        self.freed: Callable[[int], None] | None = None  # called with a chunk that is forgotten, if the host has GPUs
        self.elsewhere: dict[int, Elsewhere] = {}  # by chunk that operands of this host read
        self._turn = 0  # of `Elsewhere`
        self.copies: set[int] = set()  # chunks in memory that came from other hosts
        self.shapes: dict[int, tuple[int, ...]] = {}  # of chunks whose size was unknown until they were stored
        self.moving: set[int] = set()  # chunks being written or read; not usable, not to be freed
        self.pins: dict[int, int] = {}  # number of holders (uploads, fetches), by chunk
        self.doomed: set[int] = set()  # freed while moving or pinned
        self.spilled = self.reloaded = self.fetched = 0  # bytes moved since the start

    def size(self, chunk: int) -> int:
        """Bytes of a chunk's slot, present or future.

        Raises
        ------
        ChunkLostError
            If the chunk is neither here nor known to be on another host.
        """
        offset = self.memory.get(chunk)
        if offset is not None:
            return self.allocator.size_of(offset)
        place = self.disk.get(chunk) or self.on_device.get(chunk) or self.elsewhere.get(chunk)
        if place is None:
            raise ChunkLostError(f"chunk {chunk} is not on this host; compute its tensor again")
        return place.size

    def locate(self, chunk: int, place: Elsewhere, shape: tuple[int, ...] | None = None) -> None:
        """Other hosts have a chunk that operands of this host will read; no effect on a chunk that is here."""
        if not self.is_here(chunk):
            known = self.elsewhere.get(chunk)
            if known is None:
                self._turn += 1
            self.elsewhere[chunk] = place._replace(turn=self._turn if known is None else known.turn)
            if shape is not None:
                self.shapes[chunk] = shape

    def is_here(self, chunk: int) -> bool:
        """Whether a chunk is on this host, in memory, on disk or on a GPU."""
        return chunk in self.memory or chunk in self.disk or chunk in self.on_device

    def free(self, chunk: int) -> SpillFile | None:
        """Forget a chunk and free the slot; returns the file to delete, if any."""
        files = self.free_all((chunk,))
        return files[0] if files else None

    def free_all(self, chunks: Iterable[int]) -> list[SpillFile]:
        """Forget chunks and free their slots; returns the files to delete."""
        slots: list[int] = []
        files: list[SpillFile] = []
        for chunk in chunks:
            if chunk in self.moving or chunk in self.pins:
                self.doomed.add(chunk)
                continue
            offset = self.memory.pop(chunk, None)
            if offset is not None:
                slots.append(offset)
            if self.freed is not None:
                self.freed(chunk)
                self.on_device.pop(chunk, None)
            if self.shapes:
                self.shapes.pop(chunk, None)
            if self.elsewhere:
                self.elsewhere.pop(chunk, None)
                self.copies.discard(chunk)
            if self.disk and chunk in self.disk:
                files.append(self.disk.pop(chunk))
        if len(slots) == 1:  # the usual case during a run: no sorting and joining
            self.allocator.free(slots[0])
        else:
            self.allocator.free_all(slots)
        return files

    def pin(self, chunk: int) -> None:
        """Keep a chunk in memory, in place."""
        self.pins[chunk] = self.pins.get(chunk, 0) + 1

    def unpin(self, chunk: int) -> SpillFile | None:
        """Undo a `pin`; a chunk that was freed meanwhile is freed now: returns the file to delete, if any."""
        left = self.pins[chunk] - 1
        if left:
            self.pins[chunk] = left
            return None
        del self.pins[chunk]
        return self._bury(chunk)

    def victims(self, size: int, in_use: Collection[int], rank: int = -1) -> list[int]:
        """Chunks to spill until `size` bytes are free, the furthest next use first; fewer if there are no more.

        Only chunks with a next use after `rank` are victims. Among thousands of chunks a few more than needed are
        chosen, since the choice looks at all of them.
        """
        free = self.allocator.capacity - self.allocator.used - size
        movable = [c for c in self.memory if c not in self.moving and c not in self.pins and c not in in_use]
        uses = {chunk: self.next_use(chunk) for chunk in movable}
        movable = sorted((c for c in movable if uses[c] > rank), key=uses.__getitem__, reverse=True)
        chosen: list[int] = []
        for chunk in movable:
            if free >= 0 and len(chosen) >= len(movable) // VICTIM_SHARE:
                break
            chosen.append(chunk)
            free += self.allocator.size_of(self.memory[chunk])
        return chosen or movable[:1]  # enough bytes but fragmented: a further chunk may join two free runs

    def unsaved(self, chunks: Iterable[int]) -> list[int]:
        """Chunks in memory that must be written before their memory is freed."""
        return [chunk for chunk in chunks if not self._has_copy(chunk)]

    def _has_copy(self, chunk: int) -> bool:
        """Whether a chunk in memory is in another place, too."""
        return chunk in self.disk or chunk in self.copies or chunk in self.on_device

    def start_spill(self, chunk: int) -> tuple[int, int] | None:
        """Begin to write a chunk; returns offset and bytes of the slot, or None for a chunk evicted without a write.

        A chunk never changes, so a reloaded chunk keeps the file, and a second spill is free of cost. Of a copy
        another host has the original, and a GPU keeps what it made.
        """
        if self._has_copy(chunk):
            self.allocator.free(self.memory.pop(chunk))
            self.copies.discard(chunk)
            return None
        self.moving.add(chunk)
        offset = self.memory[chunk]
        return offset, self.allocator.size_of(offset)

    def spill_done(self, chunk: int, place: SpillFile | None) -> SpillFile | None:
        """A write ended with a file, or failed (None); returns the file to delete if the chunk was freed meanwhile."""
        self.moving.discard(chunk)
        if place is not None:
            self.spilled += place.size
            self.disk[chunk] = place
            if chunk not in self.pins:  # a pinned chunk, read by another host, is evicted later without a write
                self.allocator.free(self.memory.pop(chunk))
        return self._bury(chunk)

    def start_load(self, chunk: int, offset: int) -> SpillFile:
        """Begin to read a chunk into a slot; returns the file."""
        self.moving.add(chunk)
        self.memory[chunk] = offset
        return self.disk[chunk]

    def load_done(self, chunk: int) -> SpillFile | None:
        """A read ended; returns the file to delete if the chunk was freed meanwhile."""
        self.moving.discard(chunk)
        self.reloaded += self.disk[chunk].size
        return self._bury(chunk)

    def down_done(self, chunk: int, slot: int, error: str) -> None:
        """A copy from a GPU into `slot` ended; the slot is freed after an error, or if the chunk was freed."""
        if error or chunk not in self.on_device or chunk in self.memory:
            self.allocator.free(slot)
        else:
            self.memory[chunk] = slot

    def fetch_done(self, chunk: int, place: Elsewhere, slot: int, error: str) -> bool:
        """A read from another host into `slot` ended; returns whether the chunk is here now.

        The slot is freed if not: after an error, or if the chunk was freed meanwhile.
        """
        known = self.elsewhere.get(chunk)
        wanted = known is not None and known.turn == place.turn and chunk not in self.memory
        if wanted and not error:
            self.memory[chunk] = slot
            self.copies.add(chunk)
            self.fetched += place.size
            return True
        self.allocator.free(slot)
        if wanted:
            del self.elsewhere[chunk]  # the next reader is told that the chunk is missing
        return False

    def revive(self, chunk: int) -> bool:
        """Note a chunk that was computed again; returns whether the chunk is still here, freed and in use."""
        if chunk not in self.doomed or not self.is_here(chunk):
            return False
        self.doomed.discard(chunk)
        self.keep(chunk)
        return True

    def keep(self, chunk: int) -> None:
        """A copy in memory is an original from now on: the host of the original leaves."""
        self.copies.discard(chunk)
        self.elsewhere.pop(chunk, None)

    def _bury(self, chunk: int) -> SpillFile | None:
        if chunk in self.doomed and chunk not in self.moving and chunk not in self.pins:
            self.doomed.discard(chunk)
            return self.free(chunk)
        return None

    @property
    def on_disk(self) -> int:
        """Bytes in files now."""
        return sum(place.size for place in self.disk.values())


def checksum(data: bytes | memoryview) -> bytes:
    """Checksum of 16 bytes."""
    return xxhash.xxh3_128_digest(data)


def received(data: bytes, expected: bytes, what: str) -> bytes:
    """The bytes, checked.

    Raises
    ------
    StorageError
        If the bytes differ from the sent ones.

    Examples
    --------
    >>> received(b"chunk", checksum(b"chunk"), "chunk 3")
    b'chunk'
    """
    if checksum(data) != expected:
        raise StorageError(f"the bytes of {what} changed on their way; ask for them, or send them, once more")
    return data
