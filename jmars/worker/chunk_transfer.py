"""ChunkTransferActor: reads and writes chunks over a connection, for clients that do not map the shared memory.

The web gateway reads results and stores uploads so. A call is a single step of the host, so a gateway that is killed
at any point holds no chunk here. Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

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

    def _check(self, chunk: int, start: int, stop: int) -> None:
        """Raise ClusterError for bytes outside the chunk; the slot may be larger than the chunk."""
        size = self._store.size(chunk)
        if not 0 <= start <= stop <= size:
            raise ClusterError(f"bytes {start} to {stop} are no part of chunk {chunk}, which has {size}")
