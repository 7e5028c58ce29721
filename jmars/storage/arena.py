"""Slots of a shared memory mapping.

The mapping is a memfd: it has no name, so the kernel frees it with the last process, and the size of /dev/shm does not
bound it. Only the control process allocates slots; executors write their outputs in place. Small slots are equal parts
of a slab (free lists, one pop); large slots are runs of pages, best fit, joined with free neighbours. Freed slots keep
their pages, so a reused slot costs no page faults; fresh pages cost ten times a warm copy. Slots for memory elsewhere
are the last ones, and their pages go back to the system; slots of a MiB and more take the first run, so that they
seldom need these pages anew. `Allocator` decides, `Arena` owns the memory.
Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heappop, heappush
from operator import itemgetter

from jmars.model.limits import PAGE, slot_size

LONG = 2**20  # bytes of a slot that takes the first run that is long enough, not the shortest
SLAB = 16 * PAGE  # bytes that are cut into small slots at once
HEADER = PAGE  # bytes at the start of the mapping that hold flags, not chunks
REMOVALS = HEADER - 8  # place there of a number, see `removals`


class Allocator:
    """Offsets of free and used slots in `capacity` bytes that start at `base`.

    Examples
    --------
    >>> allocator = Allocator(capacity=64 * 4096)
    >>> first = allocator.allocate(10_000)
    >>> allocator.used
    12288
    >>> allocator.free(first)
    >>> allocator.used
    0
    """

    def __init__(self, capacity: int, base: int = 0) -> None:
        self.capacity = capacity // PAGE * PAGE
        self.base = base
        self.used = 0  # bytes in allocated slots
        self.peak = 0  # highest `used` since the last reset
        self._sizes: dict[int, int] = {}  # bytes by offset of an allocated slot
        self._small: dict[int, list[int]] = {}  # slot bytes: offsets of free small slots, a heap
        self._slabs: dict[int, int] = {}  # slots in use by offset of a slab
        self._empty: set[int] = set()  # slabs without a slot in use
        self._runs: list[tuple[int, int]] = []  # (bytes, offset) of free runs of pages, sorted
        self._ends: dict[int, int] = {}  # offset by end of a free run
        self._starts: dict[int, int] = {}  # bytes by offset of a free run
        if self.capacity:
            self._add_run(base, self.capacity)

    def allocate(self, size: int, last: bool = False) -> int | None:
        """Offset of a slot of at least `size` bytes, page-aligned from one page on; None when it does not fit now."""
        slot = slot_size(size)
        offset = self._take_small(slot) if slot < PAGE else self._take_run(slot, last)
        if offset is not None:
            self._sizes[offset] = slot
            self.used += slot
            if self.used > self.peak:
                self.peak = self.used
        return offset

    @property
    def free_pages(self) -> int:
        """Bytes of whole pages that are in no slot."""
        self.drop_empty_slabs()
        return sum(length for length, _ in self._runs)

    def reserve(self, size: int) -> list[int] | None:
        """Slots for memory elsewhere, the last ones, in pieces if no run is that long; None if so much is not free."""
        whole = self.allocate(size, last=True)
        if whole is not None:
            return [whole]
        left = -(-size // PAGE) * PAGE
        if left > self.free_pages:
            return None
        pieces = []
        while left:  # the shortest runs first: long runs stay for slots, which are contiguous
            length = min(self._runs[0][0], left)
            offset = self.allocate(length)
            assert offset is not None
            pieces.append(offset)
            left -= length
        return pieces

    def free(self, offset: int) -> None:
        """Free a slot."""
        slot = self._sizes.pop(offset)
        self.used -= slot
        if slot < PAGE:
            heappush(self._small[slot], offset)
            slab = (offset - self.base) // SLAB * SLAB + self.base
            self._slabs[slab] -= 1
            if not self._slabs[slab]:
                self._empty.add(slab)
        else:
            self._add_run(offset, slot)

    def free_all(self, offsets: Iterable[int]) -> None:
        """Free slots; neighbours become one run of pages before the free runs are searched, so that many are cheap."""
        start = end = 0
        for offset in sorted(offsets):
            size = self._sizes[offset]
            if size < PAGE:
                self.free(offset)
                continue
            del self._sizes[offset]
            self.used -= size
            if offset != end:
                self._add_run(start, end - start)
                start = offset
            end = offset + size
        self._add_run(start, end - start)

    def shrink(self, offset: int, size: int) -> None:
        """Free the pages of a slot behind the first `size` bytes, but not the first page."""
        slot = self._sizes[offset]
        left = max(PAGE, -(-size // PAGE) * PAGE)
        if left < slot:
            self._sizes[offset] = left
            self.used -= slot - left
            self._add_run(offset + left, slot - left)

    def size_of(self, offset: int) -> int:
        """Bytes of an allocated slot."""
        return self._sizes[offset]

    def _take_small(self, slot: int) -> int | None:
        free = self._small.setdefault(slot, [])
        if not free:
            slab = self._take_slab()
            if slab is None:
                return None
            free = self._small[slot]  # a new list, if slabs were dropped for this slab
            free.extend(range(slab, slab + SLAB, slot))
            self._slabs[slab] = 0
            self._empty.add(slab)
        offset = heappop(free)  # the lowest offset: slots in use stay together, and other slabs become empty
        slab = (offset - self.base) // SLAB * SLAB + self.base
        self._slabs[slab] += 1
        self._empty.discard(slab)
        return offset

    def _take_slab(self) -> int | None:
        """A run aligned to SLAB, so that the offset of a small slot tells the slab."""
        for _ in range(2):
            for size, offset in self._runs[bisect_left(self._runs, (SLAB, -1)) :]:
                start = -(-(offset - self.base) // SLAB) * SLAB + self.base
                if start + SLAB <= offset + size:
                    self._remove_run(offset)
                    self._add_run(offset, start - offset)
                    self._add_run(start + SLAB, offset + size - start - SLAB)
                    return start
            self.drop_empty_slabs()
        return None

    def _take_run(self, size: int, last: bool) -> int | None:
        index = bisect_left(self._runs, (size, -1))
        if index == len(self._runs):
            self.drop_empty_slabs()
            index = bisect_left(self._runs, (size, -1))
            if index == len(self._runs):
                return None
        length, offset = self._runs[index]
        if last or size >= LONG:  # there are few runs that are long enough
            length, offset = (max if last else min)(self._runs[index:], key=itemgetter(1))
        self._remove_run(offset)
        self._add_run(offset if last else offset + size, length - size)
        return offset + length - size if last else offset

    def drop_empty_slabs(self) -> None:
        """Turn slabs without a slot in use into runs of pages."""
        if not self._empty:
            return
        empty, self._empty = self._empty, set()
        for slot, free in self._small.items():
            self._small[slot] = [o for o in sorted(free) if (o - self.base) // SLAB * SLAB + self.base not in empty]
        for slab in empty:
            del self._slabs[slab]
            self._add_run(slab, SLAB)

    def _add_run(self, offset: int, size: int) -> None:
        if size <= 0:
            return
        before = self._ends.get(offset)
        if before is not None:
            size += self._starts[before]
            self._remove_run(before)
            offset = before
        after = self._starts.get(offset + size)
        if after is not None:
            self._remove_run(offset + size)
            size += after
        insort(self._runs, (size, offset))
        self._starts[offset] = size
        self._ends[offset + size] = offset

    def _remove_run(self, offset: int) -> None:
        size = self._starts.pop(offset)
        del self._ends[offset + size]
        del self._runs[bisect_left(self._runs, (size, offset))]


def removals(memory: mmap.mmap) -> int:
    """How often pages of an arena's mapping went back to the system: earlier pins of a process do not hold."""
    return int.from_bytes(memory[REMOVALS:HEADER], "little")


class Arena(Allocator):
    """The shared memory of a host: a memfd, mapped, with an allocator over it.

    Parameters
    ----------
    fd
        A memfd; the arena resizes and maps it, and closes only the mapping.
    capacity
        Bytes for chunks, behind a header page of flags.
    """

    def __init__(self, fd: int, capacity: int) -> None:
        super().__init__(capacity, HEADER)
        self.fd = fd
        self.size = HEADER + self.capacity
        os.ftruncate(fd, self.size)
        self.memory = mmap.mmap(fd, self.size)

    @property
    def resident(self) -> int:
        """Bytes of the pages that were touched, which the arena really takes."""
        return os.fstat(self.fd).st_blocks * 512

    def reserve(self, size: int) -> list[int] | None:
        """`Allocator.reserve`; from half full on, the pages of the slots go back to the system."""
        slots = super().reserve(size)
        if slots and size >= PAGE and 2 * (self.resident + size) > self.capacity:
            self.remove((offset, self.size_of(offset)) for offset in slots)
        return slots

    @property
    def free_runs(self) -> list[tuple[int, int]]:
        """(Offset, bytes) of whole pages that are in no slot."""
        self.drop_empty_slabs()
        return list(self._starts.items())

    def remove(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Give pages back to the system: (offset, bytes) of whole pages without content."""
        for offset, size in ranges:
            self.memory.madvise(mmap.MADV_REMOVE, offset, size)
        self.memory[REMOVALS:HEADER] = (removals(self.memory) + 1).to_bytes(8, "little")
