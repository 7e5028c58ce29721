"""ChunkTransferActor: reads and writes chunks over a connection, for clients that do not map the shared memory.

The web gateway reads results and stores uploads so. A call is a single step of the host, so a gateway that is killed
at any point holds no chunk here. Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import mmap
import secrets
from collections.abc import Sequence

import numpy as np

from jmars.actors import remote_method
from jmars.errors import ClusterError
from jmars.storage.chunk_checksums import checksum, received
from jmars.worker.store import StoreActor

__all__ = ["ChunkTransferActor"]


class ChunkTransferActor:
    """Copies between the host's memory and messages.

    Parameters
    ----------
    store
        Pins chunks, and reserves slots for fresh ones.
    memory
        The shared mapping.
    """

    def __init__(self, store: StoreActor, memory: mmap.mmap) -> None:
        self._store, self._memory = store, memory
        self._left: dict[int, int] = {}  # chunk that comes in pieces: bytes that have not come
        self._slots: dict[int, asyncio.Future[int]] = {}  # and the slot that was asked for

    async def read(self, chunk: int, start: int, stop: int) -> bytes:
        """Bytes `start` to `stop` of a chunk, reloaded from disk if necessary; ask for a few MiB at a time."""
        ticket = f"read-{secrets.token_hex(8)}"
        try:
            (offset,) = await self._store.pin(ticket, [chunk])
            self._check(chunk, start, stop)
            return self._memory[offset + start : offset + stop]
        finally:
            self._store.unpin(ticket)

    @remote_method
    async def gather(
        self, chunk: int, start: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]
    ) -> tuple[bytes, bytes]:
        """Elements of a chunk in C order, at `strides` bytes from byte `start` on, and their checksum.

        So a tenth of the chunk is sent for every tenth column.
        """
        ticket = f"gather-{secrets.token_hex(8)}"
        try:
            (offset,) = await self._store.pin(ticket, [chunk])
            last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
            self._check(chunk, start, start + last + itemsize if min(strides, default=0) >= 0 else -1)
            data = np.ndarray(shape, f"V{itemsize}", self._memory, offset + start, strides).tobytes()
            return data, checksum(data)
        finally:
            self._store.unpin(ticket)

    @remote_method
    async def put(self, chunk: int, data: bytes, sent: bytes) -> None:
        """Store a fresh chunk; `sent` is the sender's checksum."""
        received(data, sent, f"chunk {chunk}")
        await self._store.reserve(chunk, len(data))
        offset = self._store.reserved(chunk)  # the sender may be gone since, and the slot reused
        self._memory[offset : offset + len(data)] = data
        self._store.seal(chunk)

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
        for chunk in range(first, first + count):
            self._left.pop(chunk, None)
            slot = self._slots.pop(chunk, None)
            if slot is not None:
                slot.add_done_callback(_heard)
        self._store.abandon(first, count)

    def _check(self, chunk: int, start: int, stop: int) -> None:
        """Raise ClusterError for bytes outside the chunk; the slot may be larger than the chunk."""
        size = self._store.size(chunk)
        if not 0 <= start <= stop <= size:
            raise ClusterError(f"bytes {start} to {stop} are no part of chunk {chunk}, which has {size}")


def _heard(slot: asyncio.Future[int]) -> None:
    """Retrieve the error of a slot that nobody waits for any more."""
    if not slot.cancelled():
        slot.exception()
