"""ChunkTransferActor: a chunk's bytes in and out over a connection, for who does not map the memory.

The web gateway reads results and stores uploads with it. Each call is one step of the host, so a gateway that is killed
at any point holds nothing here. Source: docs/explanation/seeds.md, "Submitting a job".
"""

from __future__ import annotations

import mmap
import secrets
from collections.abc import Sequence

import numpy as np

from jmars.actors import remote_method
from jmars.errors import ClusterError
from jmars.storage.travelling import checksum, received
from jmars.worker.store import StoreActor

__all__ = ["ChunkTransferActor"]


class ChunkTransferActor:
    """Copies between the host's memory and messages.

    Parameters
    ----------
    store
        Who makes chunks lie still, and room for fresh ones.
    memory
        The mapping that chunks lie in.
    """

    def __init__(self, store: StoreActor, memory: mmap.mmap) -> None:
        self._store, self._memory = store, memory

    async def read(self, chunk: int, start: int, stop: int) -> bytes:
        """Bytes `start` to `stop` of a chunk, which comes back from disk for it if need be; ask for a few MiB."""
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
        """Elements of a chunk in C order: those at `strides` bytes from each other, the first at byte `start`.

        So of a chunk of which every tenth column is wanted, a tenth is sent. Behind the bytes stands their checksum.
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
        """Store a fresh chunk, whose checksum as it was sent is `sent`."""
        received(data, sent, f"chunk {chunk}")
        await self._store.reserve(chunk, len(data))
        offset = self._store.reserved(chunk)  # who sent it may be gone since room was made, and its slot another's
        self._memory[offset : offset + len(data)] = data
        self._store.seal(chunk)

    def _check(self, chunk: int, start: int, stop: int) -> None:
        """Nobody is given what lies beside a chunk: a result may have been promised larger than it is."""
        size = self._store.size(chunk)
        if not 0 <= start <= stop <= size:
            raise ClusterError(f"bytes {start} to {stop} are no part of chunk {chunk}, which has {size}")
