"""Chunks that count as lost while operands of this host read them.

The head gives up a chunk when its host is gone; another host may have a copy of which the head has not heard yet, and
operands that read the copy. Freeing its slot at once would give the slot to another chunk under their hands. So the
operands go on, and the slot is kept until none of them is under way.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jmars.memory.active_operands import ActiveOperands
from jmars.memory.buffer_manager import BufferManager
from jmars.storage.chunks import Chunks

__all__ = ["LostChunks"]


class LostChunks:
    """Keeps the slots.

    Parameters
    ----------
    free
        Frees chunks, those that are pinned as soon as they are not.
    """

    def __init__(
        self,
        chunks: Chunks,
        buffers: BufferManager,
        active: ActiveOperands,
        free: Callable[[Iterable[int]], None],
    ) -> None:
        self._chunks, self._buffers, self._active, self._free = chunks, buffers, active, free
        self._kept: set[int] = set()  # pinned here

    def __len__(self) -> int:
        return len(self._kept)

    def drop(self, chunks: Iterable[int]) -> None:
        """Chunks count as lost: free them, some of them later."""
        chunks = list(chunks)
        used = self._used()
        for chunk in chunks:
            if chunk in used and chunk in self._chunks.memory and chunk not in self._kept:
                self._kept.add(chunk)
                self._chunks.pin(chunk)
        self._free(chunks)

    def release(self) -> None:
        """Free chunks that no operand under way reads any more."""
        if not self._kept:
            return
        over = self._kept - self._used()
        self._kept -= over
        for chunk in over:
            self._buffers.delete(self._chunks.unpin(chunk))
        if over:
            self._buffers.advance()

    def _used(self) -> set[int]:
        return self._active.chunks_in_use().union(*(request.chunks for request in self._buffers.loading))
