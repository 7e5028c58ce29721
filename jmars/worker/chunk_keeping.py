"""ChunkKeepingActor: makes chunks of a leaving host chunks of this host.

Chunks are read into memory like inputs of an operand, and are originals from then on: spilled for want of memory, and
never evicted like copies. Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from jmars.actors import remote_method
from jmars.errors import JmarsError
from jmars.memory.allocation_requests import AllocationRequest
from jmars.model.orders import LocateChunks
from jmars.worker.execution import ExecutionActor

__all__ = ["ChunkKeepingActor"]

log = logging.getLogger("jmars.worker")


class ChunkKeepingActor:
    """The actor "keeping" of a host; only the head reaches it."""

    def __init__(self, execution: ExecutionActor) -> None:
        self._execution = execution
        self._chunks, self._buffers = execution.chunks, execution.memory.buffers

    @remote_method
    async def keep(
        self,
        chunks: Sequence[int],
        nbytes: Sequence[int],
        hosts: Sequence[Sequence[int]],
        shapes: Mapping[int, Sequence[int]] | None = None,
    ) -> list[int]:
        """Read chunks of further hosts, and keep the chunks; returns the chunks that are originals here now.

        Parameters
        ----------
        chunks, nbytes, hosts, shapes
            As of `LocateChunks`.
        """
        reads = self._buffers.reads
        rows = [row for row in zip(chunks, nbytes, hosts, strict=True) if row[0] not in reads]  # else they come already
        locate = LocateChunks([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows], shapes)
        self._execution.locate_chunks(locate)
        kept = await asyncio.gather(*[self._keep(chunk) for chunk in chunks])
        return [chunk for chunk, is_here in zip(chunks, kept, strict=True) if is_here]

    async def _keep(self, chunk: int) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def granted(_: int) -> None:
            self._chunks.keep(chunk)
            answer.set_result(True)

        def refused(error: Exception) -> None:
            log.info("chunk %d of another host cannot be kept here: %s", chunk, error)
            answer.set_result(False)

        if chunk in self._chunks.disk:
            return True  # an original, of a host that had it before
        try:
            self._buffers.refuse_too_large([self._chunks.size(chunk)], "a chunk of a host that leaves")
        except JmarsError as error:
            refused(error)
        else:
            self._buffers.enqueue(AllocationRequest([chunk], None, granted, refused, "a chunk of a host that leaves"))
        return await answer
