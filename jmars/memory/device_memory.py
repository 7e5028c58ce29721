"""Memory of the GPUs of a host: admits operands to a GPU, brings chunks down, and knows the chunks of each GPU.

The levels are GPU, shared memory, disk. An operand first gets slots on the GPU; chunks that make room are copied to
shared memory before, unless they have a copy there or on disk. Then inputs that are not on the GPU come to shared
memory. The output is copied to shared memory at once only if more than operands of GPUs read the output; else the GPU
keeps the output until a core or a client reads it, or the room is needed. With a GPU, chunks that no other place has
are lost.
Source: docs/explanation/devices.md, "Levels of memory".

Slots in the memory of a GPU, and the choice of chunks that leave: the upper level of memory. Pure.

The control process grants an operand all slots before sending the operand, and the slots stay until the operand has
ended. The chunk with the furthest next use leaves first, as in shared memory; a chunk without a copy on a lower level
(shared memory, disk) is copied down before.
Source: docs/explanation/devices.md, "Levels of memory"; Belady, "A study of replacement algorithms" (1966).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from jmars.errors import ChunkLostError
from jmars.memory.admission import Admission, MemoryEvents
from jmars.memory.buffer_manager import AllocationRequest, BufferManager
from jmars.model.messages import JobTable
from jmars.storage.arena import Allocator
from jmars.storage.chunks import Chunks, OnDevice

log = logging.getLogger("jmars.memory")

ToDown = Callable[[int, int, int, int], None]  # orders a copy: chunk, its place in the slab, slot, bytes
LEAVES = "a chunk that leaves a GPU"
WAITS = -1  # instead of a slot: the operand is staged later


@dataclass(frozen=True)
class DeviceRequest:
    """Needs of an operand on a GPU.

    Attributes
    ----------
    inputs, out
        Chunks and their bytes.
    keeps
        Whether the output stays on the GPU without a copy.
    """

    table: JobTable
    operand: int
    inputs: Sequence[tuple[int, int]]
    out: tuple[int, int]
    scratch: int
    keeps: bool

    @property
    def nbytes(self) -> int:
        """All bytes together."""
        return self.scratch + sum(size for _, size in {*self.inputs, self.out})

    @property
    def key(self) -> tuple[int, int]:
        """Job number and operand."""
        return self.table.number, self.operand


@dataclass(eq=False)
class _Head:
    """The operand that chunks of a GPU make room for."""

    request: DeviceRequest
    waits: int = 0  # chunks on their way down for the request


@dataclass(eq=False)
class _Gpu:
    """Memory of a GPU."""

    slots: DeviceSlots
    to_down: ToDown
    head: _Head | None = None
    grants: dict[tuple[int, int], tuple[DeviceGrant, DeviceRequest]] = field(default_factory=dict)  # by job and operand
    downs: dict[int, deque[tuple[Place, Callable[[str], None]]]] = field(default_factory=dict)  # by chunk


class DeviceMemory:
    """All GPUs of a host, by the number of their worker."""

    def __init__(
        self,
        chunks: Chunks,
        buffers: BufferManager,
        admission: Admission,
        next_use: Callable[[int], int],
        events: MemoryEvents,
        staged: deque[tuple[JobTable, int, int]],
    ) -> None:
        self._chunks, self._buffers, self._admission, self._next_use = chunks, buffers, admission, next_use
        self._events, self._staged = events, staged
        self._gpus: dict[int, _Gpu] = {}
        buffers.reads.copy_down = self._copy_down
        admission.ended = self.release

    # -- GPUs come and go
    def open(self, worker: int, slab: int, to_down: ToDown) -> DeviceSlots:
        """A GPU is warm, with `slab` bytes for chunks."""
        slots = DeviceSlots(slab, self._next_use, partial(self._has_copy, worker), partial(self._left, worker))
        self._gpus[worker] = _Gpu(slots, to_down)
        self._chunks.freed = self._freed
        return slots

    def lose(self, worker: int, why: str) -> None:
        """The process of a GPU has ended: chunks that only this GPU had are lost, and waiting operands wait anew."""
        gpu = self._gpus.pop(worker, None)
        if gpu is None:
            return
        gone = [chunk for chunk, place in self._chunks.on_device.items() if place.worker == worker]
        for chunk in gone:
            del self._chunks.on_device[chunk]
        again = self._take_back(gpu, set(gpu.grants))
        for chunk in gone:
            if not self._chunks.is_here(chunk):
                self._events.lost(chunk, why)
        for copies in gpu.downs.values():
            for _, done in copies:
                done(why)
        for table, operand in again:
            self._events.requeue(table, operand)

    def take_back(self, table: JobTable, operands: Iterable[int]) -> None:
        """Operands of a job that were admitted to a GPU, or wait for it, and were not sent wait for a worker again."""
        keys = {(table.number, operand) for operand in operands}
        for gpu in self._gpus.values():
            for _, operand in self._take_back(gpu, keys):
                self._events.requeue(table, operand)

    def _take_back(self, gpu: _Gpu, keys: Collection[tuple[int, int]]) -> list[tuple[JobTable, int]]:
        """Give up operands that were not sent; returns them."""
        head = gpu.head
        if head is not None and head.request.key not in keys and gpu in self._gpus.values():
            head = None  # the request goes on waiting
        if head is not None:
            gpu.head = None  # first: chunks that leave for it may end within the lines below
        staged = [item for item in self._staged if (item[0].number, item[1]) in keys]
        for item in staged:
            self._staged.remove(item)
            self._admission.give_back(*item)
        again = [(table, operand) for table, operand, _ in staged]
        again += self._admission.withdraw(lambda table, operand: (table.number, operand) in keys)
        if head is not None:
            again.append((head.request.table, head.request.operand))
        return again

    def leave_downs(self, worker: int) -> list[int]:
        """Slots that a process that cannot die may still write to, for the caller to free later."""
        gpu = self._gpus.get(worker)
        return [] if gpu is None else self._buffers.reads.leave_downs(list(gpu.downs))

    # -- operands
    def fits(self, worker: int, request: DeviceRequest) -> bool:
        """Whether an operand fits in the memory of a GPU."""
        return self._gpus[worker].slots.fits(request.inputs, request.out, request.scratch)

    def is_waiting(self, worker: int) -> bool:
        """Whether an operand waits for room on a GPU, so that no other is admitted there."""
        gpu = self._gpus.get(worker)
        return gpu is not None and gpu.head is not None

    def admit(self, worker: int, request: DeviceRequest) -> int:
        """Slot of the output in shared memory, 0 for none, of an operand that can run now; -1: it is staged later."""
        gpu = self._gpus[worker]
        assert gpu.head is None
        gpu.head = _Head(request)
        return self._advance(gpu)

    def grant(self, worker: int, table: JobTable, operand: int) -> DeviceGrant | None:
        """Slots that a GPU granted to an admitted operand."""
        gpu = self._gpus.get(worker)
        found = None if gpu is None else gpu.grants.get((table.number, operand))
        return None if found is None else found[0]

    def owner(self, table: JobTable, operand: int) -> int:
        """Worker whose GPU has granted slots to an operand; -1 for none."""
        key = table.number, operand
        return next((worker for worker, gpu in self._gpus.items() if key in gpu.grants), -1)

    def done(self, worker: int, table: JobTable, operand: int) -> None:
        """An operand has run: inputs and output are on the GPU."""
        gpu = self._gpus[worker]
        grant, request = gpu.grants.pop((table.number, operand))
        gpu.slots.settle(grant, done=True)
        chunk, size = request.out
        if request.keeps and not grant.out.gone:
            self._chunks.on_device[chunk] = OnDevice(worker, size)

    def release(self, table: JobTable, operand: int) -> bool:
        """An operand will not run, or did not end: the GPU has the slots back. Tells whether an operand waits there."""
        awaited = False
        for gpu in self._gpus.values():
            found = gpu.grants.pop((table.number, operand), None)
            if found is not None:
                gpu.slots.settle(found[0], done=False)
                awaited |= gpu.head is not None
        return awaited

    def drop(self, table: JobTable) -> list[int]:
        """Give up operands of a job that wait for room on a GPU; returns them."""
        dropped = []
        for gpu in self._gpus.values():
            if gpu.head is not None and gpu.head.request.table is table:
                dropped.append(gpu.head.request.operand)
                gpu.head = None
        return dropped

    def advance(self) -> None:
        """Operands may have ended: operands that wait for room on a GPU may have room now."""
        for gpu in list(self._gpus.values()):
            self._go_on(gpu)

    def _go_on(self, gpu: _Gpu) -> None:
        if gpu.head is None or gpu.head.waits:
            return
        head = gpu.head
        slot = self._advance(gpu)
        if slot != WAITS:
            self._staged.append((head.request.table, head.request.operand, slot))
        if gpu.head is not head:
            self._events.admitted()  # even if it waits for shared memory now: another may have room on the GPU

    def _advance(self, gpu: _Gpu) -> int:
        """Give the head its slots, or have chunks leave; as `admit`."""
        head = gpu.head
        assert head is not None
        request = head.request
        found = gpu.slots.grant(request.inputs, request.out, request.scratch)
        if isinstance(found, list):
            self._bring_down(gpu, head, found)
            return WAITS
        gpu.head = None
        gpu.grants[request.key] = found, request
        missing = [one for one, place in zip(request.inputs, found.inputs) if not place.is_there]
        size = None if request.keeps else request.out[1]
        return self._admission.admit_for_device(request.table, request.operand, dict(missing), size)

    def _bring_down(self, gpu: _Gpu, head: _Head, places: Sequence[Place]) -> None:
        """Read chunks of a GPU into shared memory, so that they can leave."""
        head.waits += len(places)
        table, rank = head.request.table, head.request.table.rank[head.request.operand]
        for place in places:
            refused = partial(self._came_down, gpu, head, place)
            request = AllocationRequest([place.chunk], None, partial(self._is_down, refused), refused, LEAVES, rank)
            request.job = table.number
            self._buffers.enqueue(request)

    def _is_down(self, came: Callable[[Exception | None], None], slot: int) -> None:
        came(None)

    def _came_down(self, gpu: _Gpu, head: _Head, place: Place, error: Exception | None) -> None:
        """A chunk is in shared memory, or cannot be: the operand that waits goes on, or fails."""
        if error is None and not place.gone and not place.pins:
            gpu.slots.evict(place)
        head.waits -= 1
        if gpu.head is not head:
            return
        if error is not None and not isinstance(error, ChunkLostError):  # a chunk that was freed needs no room
            gpu.head = None
            self._events.refused(head.request.table.job, head.request.operand, error)
            self._events.admitted()
            return
        self._go_on(gpu)

    # -- chunks
    def copied_down(self, worker: int, chunk: int, error: str) -> None:
        """A GPU has copied a chunk to shared memory; no effect where no copy is under way."""
        gpu = self._gpus.get(worker)
        copies = None if gpu is None else gpu.downs.get(chunk)
        if gpu is None or copies is None:
            log.info("no copy of chunk %d from the GPU of worker %d is under way", chunk, worker)
            return
        place, done = copies.popleft()
        if not copies:
            del gpu.downs[chunk]
        gpu.slots.unpin(place)
        done(error)
        self._go_on(gpu)

    @property
    def used(self) -> int:
        """Bytes of chunks on all GPUs."""
        return sum(gpu.slots.used for gpu in self._gpus.values())

    def _copy_down(self, chunk: int, slot: int, done: Callable[[str], None]) -> None:
        """A `CopyDown`."""
        kept = self._chunks.on_device[chunk]
        gpu = self._gpus[kept.worker]
        place = gpu.slots.places[chunk]
        place.pins += 1
        gpu.downs.setdefault(chunk, deque()).append((place, done))
        gpu.to_down(chunk, place.offset, slot, kept.size)

    def _has_copy(self, worker: int, chunk: int) -> bool:
        kept = self._chunks.on_device.get(chunk)
        return kept is None or kept.worker != worker or chunk in self._chunks.memory or chunk in self._chunks.disk

    def _left(self, worker: int, chunk: int) -> None:
        kept = self._chunks.on_device.get(chunk)
        if kept is not None and kept.worker == worker:
            del self._chunks.on_device[chunk]

    def _freed(self, chunk: int) -> None:
        for gpu in self._gpus.values():
            gpu.slots.free(chunk)


@dataclass(eq=False, slots=True)
class Place:
    """A slot of a chunk.

    Attributes
    ----------
    pins
        Operands and copies under way that use the slot.
    is_there
        Whether the chunk's bytes are there for sure; else an operand under way brings or writes them.
    gone
        Whether the chunk was freed; the slot is freed with the last pin.
    """

    chunk: int
    offset: int
    pins: int = 0
    is_there: bool = False
    gone: bool = False


class DeviceGrant(NamedTuple):
    """Places in a slab for an operand."""

    inputs: tuple[Place, ...]
    out: Place
    scratch: int  # an offset; -1 where none is needed


class DeviceSlots:
    """Slots of a GPU.

    Parameters
    ----------
    capacity
        Bytes of the slab.
    next_use
        Rank of a chunk's next use; the chunk with the highest leaves first.
    has_copy
        Whether a chunk has a copy on a lower level.
    left
        Called with a chunk that left for others.

    Attributes
    ----------
    places
        Place of each chunk.

    Examples
    --------
    >>> slots = DeviceSlots(3 * 4096, next_use=lambda chunk: chunk, has_copy=lambda chunk: chunk < 3)
    >>> first = slots.grant([(1, 4096)], (9, 4096), 4096)
    >>> first.inputs[0].offset, first.out.offset, first.scratch
    (0, 4096, 8192)
    >>> slots.grant([(2, 4096)], (3, 4096), 0)  # chunks 1 and 9 are used: the operand has to end first
    []
    >>> slots.settle(first, done=True)
    >>> [place.chunk for place in slots.grant([(2, 4096)], (3, 4096), 0)]  # to be copied down before
    [9]
    >>> slots.evict(slots.places[9])
    >>> slots.grant([(2, 4096)], (3, 4096), 0).inputs[0].offset, sorted(slots.places)
    (4096, [1, 2, 3])
    """

    def __init__(
        self,
        capacity: int,
        next_use: Callable[[int], int],
        has_copy: Callable[[int], bool],
        left: Callable[[int], None] = lambda chunk: None,
    ) -> None:
        self.capacity = capacity
        self.places: dict[int, Place] = {}
        self._next_use, self._has_copy, self._left = next_use, has_copy, left
        self._allocator = Allocator(capacity)

    @property
    def used(self) -> int:
        """Bytes in slots of chunks."""
        return self._allocator.used

    def fits(self, inputs: Sequence[tuple[int, int]], out: tuple[int, int], scratch: int) -> bool:
        """Whether slots of so many bytes fit together in an empty slab; as `grant`."""
        empty = Allocator(self.capacity)  # slots are given in the order of `grant`, which may matter
        sizes = [*dict(inputs).values(), out[1], *([scratch] if scratch else [])]
        return all(empty.allocate(size) is not None for size in sizes)

    def grant(self, inputs: Sequence[tuple[int, int]], out: tuple[int, int], scratch: int) -> DeviceGrant | list[Place]:
        """Slots for chunks that are read and for the chunk that is written, as (number, bytes), and for scratch.

        Chunks with a copy leave at once. Else a list of places comes back: those that have to be copied down before;
        an empty list if only operands or copies under way, which end, can make room.
        """
        if out[0] in self.places:  # computed once more, perhaps with another size
            self.evict(self.places[out[0]])
        wanted = dict(inputs)
        while True:
            new = {chunk: size for chunk, size in wanted.items() if chunk not in self.places}
            sizes = [*new.values(), out[1], *([scratch] if scratch else [])]
            slots = self._allocate(sizes)
            if slots is not None:
                break
            victims = self._victims(wanted, sum(sizes) - (self._allocator.capacity - self._allocator.used))
            unsaved = [place for place in victims if not self._has_copy(place.chunk)]
            if unsaved or not victims:
                return unsaved
            for place in victims:
                self.evict(place)
        for chunk, offset in zip(new, slots):
            self.places[chunk] = Place(chunk, offset)
        made = self.places[out[0]] = Place(out[0], slots[len(new)])
        read = tuple(self.places[chunk] for chunk, _ in inputs)
        for place in (*read, made):
            place.pins += 1
        return DeviceGrant(read, made, slots[-1] if scratch else -1)

    def settle(self, grant: DeviceGrant, done: bool) -> None:
        """An operand has ended: the chunks are there if `done`."""
        if grant.scratch >= 0:
            self._allocator.free(grant.scratch)
        for place in (*grant.inputs, grant.out):
            place.is_there |= done
            self.unpin(place)

    def unpin(self, place: Place) -> None:
        """An operand or a copy ends; a slot without pins is freed unless a chunk is there."""
        place.pins -= 1
        if not place.pins and (place.gone or not place.is_there):
            if not place.gone:
                del self.places[place.chunk]
            self._allocator.free(place.offset)

    def evict(self, place: Place) -> None:
        """A chunk leaves."""
        self.free(place.chunk)
        self._left(place.chunk)

    def free(self, chunk: int) -> None:
        """Forget a chunk; the slot is free after the last pin."""
        place = self.places.pop(chunk, None)
        if place is not None:
            place.gone = True
            if not place.pins:
                self._allocator.free(place.offset)

    def _allocate(self, sizes: Sequence[int]) -> list[int] | None:
        """Slots of so many bytes each; no slot, and None, if they do not fit together."""
        slots = self._allocate_now(sizes)
        if slots is None:
            self._allocator.drop_empty_slabs()  # they lie between free pages: an empty GPU would not have what `fits`
            slots = self._allocate_now(sizes)
        return slots

    def _allocate_now(self, sizes: Sequence[int]) -> list[int] | None:
        slots: list[int] = []
        for size in sizes:
            slot = self._allocator.allocate(size)
            if slot is None:
                for one in slots:
                    self._allocator.free(one)
                return None
            slots.append(slot)
        return slots

    def _victims(self, wanted: Iterable[int], lacking: int) -> list[Place]:
        """Places that leave for so many bytes, the furthest next use first; at least a single place if there is any.

        If only the wanted chunks are left, the room is in pieces between them: they leave too, and are placed anew.
        """
        keep = set(wanted)
        idle = [place for place in self.places.values() if not place.pins]
        movable = [place for place in idle if place.chunk not in keep]
        if not movable:
            return idle
        movable.sort(key=lambda place: self._next_use(place.chunk), reverse=True)
        chosen: list[Place] = []
        for place in movable:
            if chosen and lacking <= 0:
                break
            chosen.append(place)
            lacking -= self._allocator.size_of(place.offset)
        return chosen
