"""PartQueue: chooses the next part that a host sends: the lowest urgency first, part by part.

Parts of chunks in memory are sent from their slots. Parts of spilled chunks are read ahead into two buffers, checked,
and sent from there, so that the disk and the network work at the same time and a chunk that is read needs no memory.
Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

from jmars.storage.spill import CHECKED
from jmars.transport.wire import PART_BYTES

__all__ = ["ChunkPart", "PartQueue", "ServeJob"]

BUFFERS = 2  # of PART_BYTES each, for spilled chunks


@dataclass(eq=False, slots=True)
class ServeJob:
    """Bytes [start, stop) of a chunk that a host has asked for."""

    key: tuple[int, int]  # ticket and piece
    request: int
    urgency: int
    start: int
    stop: int
    offset: int = -1  # of the chunk in the arena; -1: in a file
    path: str = ""
    sums: bytes = b""
    size: int = 0  # bytes of the file
    by_ucx: bool = False  # parts may be sent by UCX
    sent: int = 0
    read: int = 0  # bytes that were read from the file, or are being read
    is_over: bool = False  # nothing more is sent


@dataclass(eq=False, slots=True)
class ChunkPart:
    """A part to send now."""

    job: ServeJob
    offset: int  # in the piece
    view: memoryview
    is_last: bool
    buffer: mmap.mmap | None = None  # to give back when the part was sent


class PartQueue:
    """Jobs of a lane.

    Parameters
    ----------
    memory
        The arena.
    read
        Starts to read bytes [start, stop) of a job's chunk into a buffer; `came` or `refused` follows.
    """

    def __init__(self, memory: memoryview, read: Callable[[ServeJob, int, int, mmap.mmap], None]) -> None:
        self._memory, self._read = memory, read
        self._jobs: dict[tuple[int, int], ServeJob] = {}
        self._in_memory: list[tuple[int, int, ServeJob]] = []  # heap by urgency
        self._in_files: list[tuple[int, int, ServeJob]] = []  # heap of those with bytes to read
        self._came: list[tuple[int, int, ChunkPart]] = []  # heap of parts that were read
        self._buffers: list[mmap.mmap] | None = None  # free ones
        self._number = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, key: object) -> bool:
        return key in self._jobs

    def add(self, job: ServeJob) -> None:
        """A new job."""
        self._jobs[job.key] = job
        self._number += 1
        heap = self._in_memory if job.offset >= 0 else self._in_files
        heappush(heap, (job.urgency, self._number, job))

    def drop(self, key: tuple[int, int]) -> ServeJob | None:
        """A piece is not wanted any more; None if there is no such job."""
        job = self._jobs.pop(key, None)
        if job is not None:
            job.is_over = True
        return job

    def next(self) -> ChunkPart | None:
        """The part to send now; None without a part in memory, perhaps until a read ends."""
        self._read_ahead()
        while self._in_memory and self._in_memory[0][2].is_over:
            heappop(self._in_memory)
        while self._came and self._came[0][2].job.is_over:
            self.give_back(heappop(self._came)[2].buffer)
        if not self._in_memory or (self._came and self._came[0][0] < self._in_memory[0][0]):
            return self._sent(heappop(self._came)[2]) if self._came else None
        job = self._in_memory[0][2]
        start = job.start + job.sent
        stop = min(job.stop, start + PART_BYTES)
        if stop == job.stop:
            heappop(self._in_memory)
        view = self._memory[job.offset + start : job.offset + stop]
        return self._sent(ChunkPart(job, job.sent, view, stop == job.stop))

    def came(self, job: ServeJob, start: int, view: memoryview, buffer: mmap.mmap) -> None:
        """Bytes from `start` on were read."""
        stop = start + len(view)
        self._number += 1
        part = ChunkPart(job, start - job.start, view, stop == job.stop, buffer)
        heappush(self._came, (job.urgency, self._number, part))

    def refused(self, job: ServeJob, buffer: mmap.mmap) -> bool:
        """Bytes cannot be read; returns whether the job was still wanted."""
        self.give_back(buffer)
        return self.drop(job.key) is job

    def give_back(self, buffer: mmap.mmap | None) -> None:
        """A buffer is free again."""
        if buffer is not None and self._buffers is not None:
            self._buffers.append(buffer)

    def _read_ahead(self) -> None:
        """Read parts of the most urgent jobs while there are buffers."""
        while self._in_files:
            job = self._in_files[0][2]
            start = job.start + job.read
            if job.is_over or (start == job.stop and job.read):
                heappop(self._in_files)
                continue
            if self._buffers is None:
                self._buffers = [mmap.mmap(-1, PART_BYTES) for _ in range(BUFFERS)]
            if not self._buffers:
                return
            stop = min(job.stop, start // CHECKED * CHECKED + PART_BYTES)  # later parts begin with a checked block
            job.read += stop - start
            if stop == job.stop:
                heappop(self._in_files)
            self._read(job, start, stop, self._buffers.pop())

    def _sent(self, part: ChunkPart) -> ChunkPart:
        part.job.sent += len(part.view)
        if part.is_last:
            self.drop(part.job.key)
        return part
