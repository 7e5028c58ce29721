"""Which chunk lies where on this host, and which one to spill.

A chunk is a whole number that is never used twice in a cluster. `Chunks` decides and keeps the books; the worker's
storing actor moves the bytes. Source: seed 003, "内存管理" (spill what is not in use; what is in use stays).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from jmars.errors import ChunkLostError
from jmars.storage.arena import Allocator

__all__ = ["Chunks", "Place"]

AT_ONCE = 256  # the part of the chunks that is spilled at once, one in so many, where that is more than was asked for


class Place(NamedTuple):
    """A file that holds a chunk."""

    name: str
    checksum: bytes  # one for each block, as `spill.write_chunk` gave them
    size: int  # bytes


class Chunks:
    """The chunks of one host: in a slot, in a file, or on the way between the two."""

    def __init__(self, allocator: Allocator, next_use: Callable[[int], int]) -> None:
        self.allocator = allocator
        self.next_use = next_use  # rank of a chunk's next use; the highest is spilled first
        self.memory: dict[int, int] = {}  # chunk: offset of its slot
        self.disk: dict[int, Place] = {}  # files; a chunk that was read back has a slot as well
        self.shapes: dict[int, tuple[int, ...]] = {}  # of chunks whose size was not known before they were there
        self.moving: set[int] = set()  # chunks being written or read; neither usable nor to be freed
        self.pins: dict[int, int] = {}  # chunk: how many hold it in place (uploads, fetches)
        self.doomed: set[int] = set()  # freed while moving or pinned
        self.spilled = self.reloaded = 0  # bytes moved since the start

    def size(self, chunk: int) -> int:
        """Bytes of a chunk's slot, in memory or as it will be; raises ChunkLostError when it is not here."""
        offset = self.memory.get(chunk)
        if offset is not None:
            return self.allocator.size_of(offset)
        place = self.disk.get(chunk)
        if place is None:
            raise ChunkLostError(f"chunk {chunk} is not on this host; compute its tensor again")
        return place.size

    def is_here(self, chunk: int) -> bool:
        """Whether a chunk is on this host, in memory or on disk."""
        return chunk in self.memory or chunk in self.disk

    def free(self, chunk: int) -> Place | None:
        """Forget a chunk and give its slot back; returns the file to delete, if any."""
        if chunk in self.moving or chunk in self.pins:
            self.doomed.add(chunk)
            return None
        offset = self.memory.pop(chunk, None)
        if offset is not None:
            self.allocator.free(offset)
        if self.shapes:
            self.shapes.pop(chunk, None)
        return self.disk.pop(chunk, None)

    def pin(self, chunk: int) -> None:
        """Hold a chunk in its slot."""
        self.pins[chunk] = self.pins.get(chunk, 0) + 1

    def unpin(self, chunk: int) -> Place | None:
        """Let go of what `pin` held; a chunk that was freed meanwhile goes now: returns the file to delete, if any."""
        left = self.pins[chunk] - 1
        if left:
            self.pins[chunk] = left
            return None
        del self.pins[chunk]
        return self._bury(chunk)

    def victims(self, size: int, in_use: Collection[int], rank: int = -1) -> list[int]:
        """Chunks to spill until `size` bytes are free: what is read last goes first; fewer when there are no more.

        Only chunks whose next use comes after `rank` are taken; what is needed sooner than that stays. Of thousands
        a few more are taken than were asked for, since it takes a look at all of them to tell which.
        """
        free = self.allocator.capacity - self.allocator.used - size
        movable = [c for c in self.memory if c not in self.moving and c not in self.pins and c not in in_use]
        uses = {chunk: self.next_use(chunk) for chunk in movable}
        movable = sorted((c for c in movable if uses[c] > rank), key=uses.__getitem__, reverse=True)
        chosen: list[int] = []
        for chunk in movable:
            if free >= 0 and len(chosen) >= len(movable) // AT_ONCE:
                break
            chosen.append(chunk)
            free += self.allocator.size_of(self.memory[chunk])
        return chosen or movable[:1]  # enough bytes but in pieces: one more may join two of them

    def start_spill(self, chunk: int) -> tuple[int, int] | None:
        """Begin to write a chunk; returns offset and bytes of its slot, or None where its file still stands.

        A chunk never changes, so one that was read back keeps its file, and leaving memory again costs nothing.
        """
        if chunk in self.disk:
            self.allocator.free(self.memory.pop(chunk))
            return None
        self.moving.add(chunk)
        offset = self.memory[chunk]
        return offset, self.allocator.size_of(offset)

    def spill_done(self, chunk: int, place: Place | None) -> Place | None:
        """A write ended, with a file or (None) in vain; returns a file to delete when the chunk was freed meanwhile."""
        self.moving.discard(chunk)
        if place is not None:
            self.allocator.free(self.memory.pop(chunk))
            self.spilled += place.size
            self.disk[chunk] = place
        return self._bury(chunk)

    def start_load(self, chunk: int, offset: int) -> Place:
        """Begin to read a chunk into a slot; returns its file."""
        self.moving.add(chunk)
        self.memory[chunk] = offset
        return self.disk[chunk]

    def load_done(self, chunk: int) -> Place | None:
        """A read ended; returns a file to delete when the chunk was freed meanwhile."""
        self.moving.discard(chunk)
        self.reloaded += self.disk[chunk].size
        return self._bury(chunk)

    def _bury(self, chunk: int) -> Place | None:
        if chunk in self.doomed and chunk not in self.moving and chunk not in self.pins:
            self.doomed.discard(chunk)
            return self.free(chunk)
        return None

    @property
    def on_disk(self) -> int:
        """Bytes in files now."""
        return sum(place.size for place in self.disk.values())
