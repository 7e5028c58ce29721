"""Slots in the memory of a GPU, and the choice of chunks that leave it: the upper level of memory. Pure.

The control process grants an operand all slots before sending the operand, and the slots stay until the operand has
ended. The chunk with the furthest next use leaves first, as in shared memory; a chunk without a copy on a lower level
(shared memory, disk) is copied down before.
Source: docs/explanation/devices.md, "Levels of memory"; Belady, "A study of replacement algorithms" (1966).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jmars.storage.arena import Allocator

__all__ = ["DeviceGrant", "DeviceSlots", "Place"]


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
    """Slots of one GPU.

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
    evicted
        Number of chunks that left, since the start.

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
        self.evicted = 0
        self._next_use, self._has_copy, self._left = next_use, has_copy, left
        self._allocator = Allocator(capacity)

    @property
    def used(self) -> int:
        """Bytes in slots of chunks."""
        return self._allocator.used

    def fits(self, inputs: Sequence[tuple[int, int]], out: tuple[int, int], scratch: int) -> bool:
        """Whether slots of these bytes fit together in an empty slab; as `grant`."""
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
        """An operand has ended: its chunks are there if it is `done`."""
        if grant.scratch >= 0:
            self._allocator.free(grant.scratch)
        for place in (*grant.inputs, grant.out):
            place.is_there |= done
            self.unpin(place)

    def unpin(self, place: Place) -> None:
        """An operand or a copy ends; a slot without pins is freed if nothing is there."""
        place.pins -= 1
        if not place.pins and (place.gone or not place.is_there):
            if not place.gone:
                del self.places[place.chunk]
            self._allocator.free(place.offset)

    def evict(self, place: Place) -> None:
        """A chunk leaves."""
        self.evicted += 1
        self.free(place.chunk)
        self._left(place.chunk)

    def free(self, chunk: int) -> None:
        """Forget a chunk; the slot is free when nothing uses it any more."""
        place = self.places.pop(chunk, None)
        if place is not None:
            place.gone = True
            if not place.pins:
                self._allocator.free(place.offset)

    def _allocate(self, sizes: Sequence[int]) -> list[int] | None:
        """Slots of these bytes; None, and none of them, if they do not fit."""
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
        """Places that leave for so many bytes, the furthest next use first; at least one if there is one.

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
