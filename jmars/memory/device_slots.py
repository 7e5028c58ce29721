"""Slots in the memory of a GPU, and the choice of chunks that leave it: the upper level of memory. Pure.

The control process grants an operand all slots before sending the operand. The chunk with the furthest next use leaves
first, as in shared memory, and at once, since a copy lies on a lower level (shared memory or disk). A slot may be
granted again while an earlier operand still uses the slot: the GPU's process runs operands in the order of their
grants, kept by events.
Source: docs/explanation/devices.md, "Levels of memory"; Belady, "A study of replacement algorithms" (1966).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jmars.storage.arena import Allocator

__all__ = ["DeviceGrant", "DeviceSlots"]


class DeviceGrant(NamedTuple):
    """Places in a slab for an operand."""

    inputs: tuple[int, ...]
    out: int
    scratch: int  # 0 where none is needed


class DeviceSlots:
    """Slots of one GPU.

    Parameters
    ----------
    capacity
        Bytes of the slab.
    next_use
        Rank of a chunk's next use; the chunk with the highest leaves first.

    Attributes
    ----------
    offsets
        Place of each chunk that has a slot.
    evicted
        Number of chunks that left, since the start.

    Examples
    --------
    >>> slots = DeviceSlots(3 * 4096, next_use=lambda chunk: chunk)
    >>> slots.grant([(1, 4096)], (2, 4096), 4096)
    DeviceGrant(inputs=(0,), out=4096, scratch=8192)
    >>> slots.grant([(2, 4096)], (9, 4096), 4096).inputs  # the chunk is there
    (4096,)
    >>> slots.grant([(1, 4096)], (3, 4096), 0).inputs, sorted(slots.offsets)  # 9, read last, has left
    ((0,), [1, 2, 3])
    >>> slots.grant([(1, 4096)], (5, 1 << 20), 0) is None
    True
    """

    def __init__(self, capacity: int, next_use: Callable[[int], int]) -> None:
        self.capacity = capacity
        self.offsets: dict[int, int] = {}
        self.evicted = 0
        self._next_use = next_use
        self._allocator = Allocator(capacity)

    @property
    def used(self) -> int:
        """Bytes in slots of chunks."""
        return self._allocator.used

    def grant(self, inputs: Sequence[tuple[int, int]], out: tuple[int, int], scratch: int) -> DeviceGrant | None:
        """Slots for chunks that are read and for the chunk that is written, as (number, bytes), and for scratch.

        None if the slab has less room; some chunks have left then.
        """
        wanted = dict([*inputs, out])
        self._free(out[0])  # computed once more, perhaps with another size
        if not self._place(wanted, scratch):
            for chunk in list(self.offsets):  # room in pieces: once more, with the slab empty
                self._free(chunk)
            if not self._place(wanted, scratch):
                return None
        at = self._allocator.allocate(scratch) if scratch else 0
        assert at is not None
        if scratch:
            self._allocator.free(at)  # free again for the next operand, which runs later
        return DeviceGrant(tuple(self.offsets[chunk] for chunk, _ in inputs), self.offsets[out[0]], at)

    def _place(self, wanted: dict[int, int], scratch: int) -> bool:
        """Give all chunks slots, and leave room for scratch in a piece; further chunks leave."""
        victims: list[int] | None = None
        needs = [(chunk, size) for chunk, size in wanted.items() if chunk not in self.offsets]
        for chunk, size in [*needs, *([(-1, scratch)] if scratch else [])]:
            while (at := self._allocator.allocate(size)) is None:
                if victims is None:
                    victims = sorted((one for one in self.offsets if one not in wanted), key=self._next_use)
                if not victims:
                    return False
                self._free(victims.pop())
                self.evicted += 1
            if chunk < 0:
                self._allocator.free(at)
            else:
                self.offsets[chunk] = at
        return True

    def _free(self, chunk: int) -> None:
        at = self.offsets.pop(chunk, None)
        if at is not None:
            self._allocator.free(at)
