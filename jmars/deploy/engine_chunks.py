"""Chunks of an engine for clients: the actors "passing" and "store", where chunks lie in the engine's workers.

Clients send and read pieces; a piece of a chunk that is read leaves its worker alone, without the rest of the chunk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from jmars.actors import remote_method
from jmars.engines.port import EngineWorkers
from jmars.errors import ClusterError
from jmars.storage.chunk_checksums import checksum, received

__all__ = ["EngineChunks", "EngineStore"]


class EngineChunks:
    """The actor "passing"; has the methods of ChunkTransferActor."""

    def __init__(self, workers: EngineWorkers) -> None:
        self._workers = workers
        self._coming: dict[int, tuple[bytearray, int]] = {}  # chunk that comes in pieces: its bytes, and how many came

    @remote_method
    async def gather(
        self, chunk: int, start: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]
    ) -> tuple[bytes, bytes]:
        """Elements of a chunk in C order, at `strides` bytes from byte `start` on, and their checksum."""
        data = await self._workers.read(chunk, start, itemsize, shape, strides)
        return data, checksum(data)

    @remote_method
    async def put(self, chunk: int, data: bytes, sent: bytes) -> None:
        """Store a fresh chunk; `sent` is the sender's checksum."""
        await self._workers.put(chunk, received(data, sent, f"chunk {chunk}"))

    @remote_method
    async def put_piece(self, chunk: int, start: int, size: int, data: bytes, sent: bytes) -> None:
        """Bytes of a fresh chunk from `start` on; the chunk of `size` bytes is stored when all have come."""
        received(data, sent, f"chunk {chunk}")
        whole, came = self._coming.get(chunk) or (bytearray(size), 0)
        if len(whole) != size or start < 0 or start + len(data) > size:
            raise ClusterError(f"bytes {start} to {start + len(data)} are no part of chunk {chunk}, which has {size}")
        whole[start : start + len(data)] = data
        self._coming[chunk] = whole, came + len(data)
        if came + len(data) >= size:
            del self._coming[chunk]
            await self._workers.put(chunk, bytes(whole))

    def abandon(self, chunks: Sequence[int]) -> None:
        """Forget chunks that come in pieces."""
        for chunk in chunks:
            self._coming.pop(chunk, None)

    async def read(self, chunk: int, size: int) -> bytes:
        """The first `size` bytes of a chunk."""
        return await self._workers.read(chunk, 0, 1, (size,), (1,)) if size else b""


class EngineStore:
    """The store behind the actor "store": there is no shared memory to write to, only uploads to abandon."""

    def __init__(self, workers: EngineWorkers, passing: EngineChunks) -> None:
        self._workers, self._passing = workers, passing

    def reserve(self, chunk: int, size: int) -> Awaitable[int]:
        """Raise ClusterError."""
        raise _no_shared_memory()

    def seal(self, chunk: int) -> None:
        """Raise ClusterError."""
        raise _no_shared_memory()

    def pin(self, ticket: str, chunks: Sequence[int], lasting: bool = False) -> Awaitable[list[int]]:
        """Raise ClusterError."""
        raise _no_shared_memory()

    def unpin(self, ticket: str) -> None:
        """No effect: nothing is pinned."""

    def abandon(self, first: int, count: int) -> None:
        """Abandon an upload: free chunks that come or have come."""
        chunks = range(first, first + count)
        self._passing.abandon(chunks)
        self._workers.abandon(chunks)


def _no_shared_memory() -> ClusterError:
    return ClusterError("the workers of an engine share no memory with clients; send and read chunks by 'passing'")
