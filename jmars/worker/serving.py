"""Serves chunks to other hosts, from memory or from their files, without memory of its own.

A source that needed memory to send could wait for a host that waits for the source. So a chunk is sent from where it
is: from its slot, also while it is being spilled, or from its file.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import asyncio
import mmap

from jmars.actors import remote_method
from jmars.errors import ChunkLostError, ClusterError
from jmars.storage.chunk_checksums import checksum
from jmars.storage.chunks import SpillFile
from jmars.storage.spill import Span, read_span
from jmars.worker.execution import ExecutionActor

__all__ = ["ServingActor"]


class ServingActor:
    """The actor "serving" of a host, for reads that the head passes on.

    Parameters
    ----------
    memory
        The shared mapping.
    folder
        Of the files of spilled chunks.
    """

    def __init__(self, execution: ExecutionActor, memory: mmap.mmap, folder: str) -> None:
        self._chunks, self._buffers = execution.chunks, execution.memory.buffers
        self._memory, self._folder = memory, folder

    @remote_method
    async def read(self, chunk: int, start: int, stop: int) -> tuple[bytes, bytes]:
        """Bytes of a chunk and their checksum; ask for a few MiB at a time.

        Raises
        ------
        ChunkLostError
            If the chunk is not here.
        StorageError
            If its file cannot be read.
        """
        chunks = self._chunks
        slot, place = chunks.memory.get(chunk), chunks.disk.get(chunk)
        if slot is not None and (chunk not in chunks.moving or chunk in self._buffers.spills):
            if not 0 <= start <= stop <= chunks.size(chunk):
                raise ClusterError(f"bytes {start} to {stop} are no part of chunk {chunk}")
            data = self._memory[slot + start : slot + stop]
        elif place is not None:
            data = await asyncio.to_thread(_from_file, self._folder, place, start, stop)
        else:
            raise ChunkLostError(f"chunk {chunk} is not on this host; compute its tensor again")
        return data, checksum(data)


def _from_file(folder: str, place: SpillFile, start: int, stop: int) -> bytes:
    span = Span(place.checksum, place.size, start, stop)
    buffer = bytearray(span.nbytes)
    read_span(folder, place.name, span, memoryview(buffer))
    return bytes(buffer[start - span.start : stop - span.start])
