"""ChunkPiecesActor: takes large chunks in pieces, from senders that do not map the memory.

Such a sender is the head of a cluster of several hosts, or a kernel on another machine.
"""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Iterable

from jmars.actors import remote_method
from jmars.errors import ClusterError
from jmars.storage.chunk_checksums import received
from jmars.worker.chunk_transfer import ChunkTransferActor
from jmars.worker.store import StoreActor

__all__ = ["ChunkPiecesActor"]


class ChunkPiecesActor(ChunkTransferActor):
    """The actor "passing" of a host."""

    def __init__(self, store: StoreActor, memory: mmap.mmap) -> None:
        super().__init__(store, memory)
        self._left: dict[int, int] = {}  # chunk that comes in pieces: bytes that have not come
        self._slots: dict[int, asyncio.Future[int]] = {}  # and the slot that was asked for
        store.on_abandon = self._forget

    @remote_method
    async def put_piece(self, chunk: int, start: int, size: int, data: bytes, sent: bytes) -> None:
        """Bytes of a fresh chunk from `start` on; the chunk of `size` bytes is stored when all have come."""
        received(data, sent, f"chunk {chunk}")
        if start < 0 or start + len(data) > size:
            raise ClusterError(f"bytes {start} to {start + len(data)} are no part of chunk {chunk}, which has {size}")
        if chunk not in self._left:
            self._left[chunk] = size
            self._slots[chunk] = asyncio.ensure_future(self._store.reserve(chunk, size))
        await self._slots[chunk]
        offset = self._store.reserved(chunk) + start
        self._memory[offset : offset + len(data)] = data
        self._left[chunk] -= len(data)
        if not self._left[chunk]:
            del self._left[chunk], self._slots[chunk]
            self._store.seal(chunk)

    @remote_method
    def abandon(self, first: int, count: int) -> None:
        """Free fresh chunks that wait, come in pieces or were stored."""
        self._store.abandon(first, count)

    def _forget(self, chunks: Iterable[int]) -> None:
        """An upload was abandoned."""
        for chunk in chunks:
            self._left.pop(chunk, None)
            slot = self._slots.pop(chunk, None)
            if slot is not None:
                slot.add_done_callback(_heard)


def _heard(slot: asyncio.Future[int]) -> None:
    """Retrieve the error of a slot that nobody waits for any more."""
    if not slot.cancelled():
        slot.exception()
