"""StoreActor: chunks that the client writes and reads in place.

The client maps the same memory; it asks here for a slot to fill, or for chunks to lie still while it copies them, so no
array goes through a socket. Source: the design's "Kernel on the same host maps the arena".
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from jmars.errors import ClusterError
from jmars.worker.execution import ExecutionActor
from jmars.worker.storing import Request

__all__ = ["StoreActor"]


class StoreActor:
    """What a client may do with the host's chunks; every slot that it holds counts until it lets go."""

    def __init__(self, execution: ExecutionActor) -> None:
        self._execution = execution
        self._chunks, self._storing = execution.chunks, execution.storing
        self._reserved: dict[int, int] = {}  # chunk: slot that the client fills

    async def reserve(self, chunk: int, size: int) -> int:
        """Offset of a slot of `size` bytes for a fresh chunk; waits until there is room."""
        self._storing.refuse_too_large([size], "a chunk of an array from the notebook")
        slot = await self._request((), size)
        self._reserved[chunk] = slot
        self._execution.clients += 1
        return slot

    def seal(self, chunk: int) -> None:
        """The client has filled the chunk's slot: it may be read, and spilled, from now on."""
        slot = self._reserved.pop(chunk, None)
        if slot is None:
            raise ClusterError(f"chunk {chunk} was not reserved; reserve it first")
        self._chunks.memory[chunk] = slot
        self._execution.clients -= 1
        self._settle()

    def abandon(self, chunk: int) -> None:
        """The client will not fill the slot after all."""
        slot = self._reserved.pop(chunk, None)
        if slot is not None:
            self._chunks.allocator.free(slot)
            self._execution.clients -= 1
            self._settle()

    async def pin(self, chunks: Sequence[int], lasting: bool = False) -> list[int]:
        """Offsets of chunks, which stay where they are until `unpin`; `lasting` for a view that the user keeps."""
        sizes = [self._chunks.size(chunk) for chunk in chunks]
        self._storing.refuse_too_large(sizes, "what is fetched")
        await self._request(chunks, None)
        for chunk in chunks:
            self._chunks.pin(chunk)
        self._execution.clients += not lasting
        return [self._chunks.memory[chunk] for chunk in chunks]

    def unpin(self, chunks: Sequence[int], lasting: bool = False) -> None:
        """Let go of what `pin` held."""
        for chunk in chunks:
            self._chunks.unpin(chunk)
        self._execution.clients -= not lasting
        self._settle()

    def _settle(self) -> None:
        self._storing.advance()
        self._execution.dispatch()

    async def _request(self, chunks: Sequence[int], size: int | None) -> int:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def granted(slot: int) -> None:
            if not answer.done():
                answer.set_result(slot)

        def refused(error: Exception) -> None:
            if not answer.done():
                answer.set_exception(error)

        what = "an array from the notebook" if size is not None else "what is fetched"
        self._storing.ask(Request(chunks, size, granted, refused, what))
        return await answer
