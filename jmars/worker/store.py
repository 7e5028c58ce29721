"""StoreActor: lets a client read and write chunks in place.

The client maps the same memory, and requests here a slot to fill, or chunks to pin while copying, so no array
goes through a socket. A client may be interrupted at any point, and so names all requests, to release any of them
by that name, granted or not. Source: docs/explanation/seeds.md, "Memory management".

ChunkTransferActor: reads and writes chunks over a connection, large chunks in pieces, for clients that do not map the
shared memory: the web gateway, a kernel on another machine, the head of a cluster of several hosts.

A read, or a write of a whole chunk, is a single step of the host, so a gateway that is killed at any point holds no
chunk here. Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import mmap
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from jmars.actors import remote_method
from jmars.errors import ClusterError
from jmars.memory.buffer_manager import AllocationRequest
from jmars.storage.chunks import ChunkElements, checksum, received
from jmars.worker.execution import ExecutionActor


class StoreActor:
    """Slots and pins of a client; they count as used until released.

    Attributes
    ----------
    on_abandon
        Called with the chunks of an upload that is abandoned.
    """

    def __init__(self, execution: ExecutionActor) -> None:
        self._execution = execution
        self._chunks, self._buffers = execution.chunks, execution.memory.buffers
        self.size = self._chunks.size
        self._active, self._fill_windows = execution.memory.active, execution.dispatch.dispatch
        self._waiting: dict[int | str, AllocationRequest] = {}  # fresh chunk or ticket: its request for memory
        self._reserved: dict[int, int] = {}  # chunk: slot that the client fills
        self._pinned: dict[str, tuple[Sequence[int], bool]] = {}  # ticket: chunks, and whether for a view that lasts
        self.on_abandon: Callable[[Sequence[int]], object] = len  # which has no effect

    @remote_method
    def reserve(self, chunk: int, size: int) -> Awaitable[int]:
        """Offset of a slot of `size` bytes for a fresh chunk, once there is room."""
        what = "a chunk of an array from the notebook"
        self._buffers.refuse_too_large([size], what)

        def take(slot: int) -> int:
            self._reserved[chunk] = slot
            return slot

        return self._stand_in_line(chunk, (), size, what, take)

    def reserved(self, chunk: int) -> int:
        """Slot of a chunk that is being filled; raises ClusterError if the upload was abandoned."""
        slot = self._reserved.get(chunk)
        if slot is None:
            raise ClusterError(f"chunk {chunk} was given up before it was stored; store it again")
        return slot

    @remote_method
    def seal(self, chunk: int) -> None:
        """The client has filled the chunk's slot: operands may read the chunk from now on."""
        slot = self._reserved.pop(chunk, None)
        if slot is None:
            raise ClusterError(f"chunk {chunk} was not reserved; reserve it first")
        self._chunks.memory[chunk] = slot
        self._settle()

    @remote_method
    def abandon(self, first: int, count: int) -> None:
        """Abandon an upload: free chunks that wait, are being filled, or are stored already."""
        chunks = range(first, first + count)
        self.on_abandon(chunks)
        self._leave_line(chunks)
        for chunk in chunks:
            slot = self._reserved.pop(chunk, None)
            if slot is not None:
                self._chunks.allocator.free(slot)
        self._execution.free_chunks(chunks)
        self._settle()

    def pin(self, ticket: str, chunks: Sequence[int], lasting: bool = False) -> Awaitable[list[int]]:
        """Offsets of chunks, pinned until `unpin`; `lasting` for a view that the user keeps."""
        what = "what is fetched"
        self._buffers.refuse_too_large([self._chunks.size(chunk) for chunk in chunks], what)

        def take(_: int) -> list[int]:
            for chunk in chunks:
                self._chunks.pin(chunk)
            self._pinned[ticket] = chunks, lasting
            return [self._chunks.memory[chunk] for chunk in chunks]

        return self._stand_in_line(ticket, chunks, None, what, take)

    def unpin(self, ticket: str) -> None:
        """Release the chunks of a `pin`, or withdraw the request."""
        self._leave_line([ticket])
        chunks, _ = self._pinned.pop(ticket, ((), False))
        for chunk in chunks:
            self._buffers.delete(self._chunks.unpin(chunk))
        self._settle()

    def _stand_in_line(
        self, name: int | str, chunks: Sequence[int], size: int | None, what: str, take: Callable[[int], Any]
    ) -> Awaitable[Any]:
        """Result of `take(slot)`, called when the request is granted, before the next request is served."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def granted(slot: int) -> None:
            del self._waiting[name]
            answer.set_result(take(slot))
            self._count()

        def refused(error: Exception) -> None:
            del self._waiting[name]
            answer.set_exception(error)

        request = self._waiting[name] = AllocationRequest(chunks, size, granted, refused, what)
        self._buffers.enqueue(request)
        return answer

    def _leave_line(self, names: Sequence[int | str]) -> None:
        requests = {self._waiting[name] for name in names if name in self._waiting}
        self._buffers.withdraw(requests.__contains__)
        for request in requests:
            request.refused(ClusterError(f"{request.what} is no longer asked for"))

    def _settle(self) -> None:
        self._count()
        self._buffers.advance()
        self._fill_windows()

    def _count(self) -> None:
        pinned = sum(not lasting for _, lasting in self._pinned.values())
        self._active.set_clients(len(self._reserved) + pinned)


class ChunkTransferActor:
    """The actor "passing" of a host: copies between the host's memory and messages.

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
        store.on_abandon = self._forget

    @remote_method
    async def gather(self, asked: Sequence[Any]) -> tuple[bytes, bytes]:
        """`ChunkElements`, and their checksum: a tenth of the chunk is sent for every tenth column."""
        wanted = ChunkElements(*asked)
        ticket = f"gather-{secrets.token_hex(8)}"
        try:
            (offset,) = await self._store.pin(ticket, [wanted.chunk])
            size = self._store.size(wanted.chunk)
            wanted.check(size)
            data = wanted.cut(memoryview(self._memory)[offset : offset + size])
            return data, checksum(data)
        finally:
            self._store.unpin(ticket)

    @remote_method
    async def put(self, chunk: int, start: int, size: int, data: bytes, sent: bytes) -> None:
        """Bytes of a fresh chunk from `start` on; the chunk of `size` bytes is stored when all have come.

        `sent` is the sender's checksum.
        """
        received(data, sent, f"chunk {chunk}")
        if start < 0 or start + len(data) > size:
            raise ClusterError(f"bytes {start} to {start + len(data)} are no part of chunk {chunk}, which has {size}")
        if chunk not in self._left:
            self._left[chunk] = size
            self._slots[chunk] = asyncio.ensure_future(self._store.reserve(chunk, size))
        await self._slots[chunk]
        offset = self._store.reserved(chunk) + start  # the sender may be gone since, and the slot reused
        self._memory[offset : offset + len(data)] = data
        self._left[chunk] -= len(data)
        if not self._left[chunk]:
            del self._left[chunk], self._slots[chunk]
            self._store.seal(chunk)

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
