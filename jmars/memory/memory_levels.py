"""Bytes on the levels of memory, and how files are written.

*Shared* memory holds chunks that any executor may read; *private* memory holds chunks and pieces that were loaded for a
single operand; *disk* holds spilled chunks. *Device* memory is that of GPUs, whose slots dispatch gives.
Source: docs/explanation/seeds.md, "Memory management"; Mars `storage/base.py` (StorageLevel).
"""

from __future__ import annotations

from typing import TypedDict

from jmars.memory.buffer_manager import BufferManager
from jmars.memory.quota import Quota
from jmars.model.status import DiskStatus

__all__ = ["MemoryLevels", "disk_status", "levels"]


class MemoryLevels(TypedDict):
    """Bytes now, and since the start."""

    device: int  # chunks in slots of GPUs; each has a copy on a lower level
    shared: int
    private: int
    disk: int
    private_total: int  # read from files to private memory since the start
    direct: bool | None  # whether files are written past the page cache; None before the first write


def levels(buffers: BufferManager, quota: Quota) -> MemoryLevels:
    """Levels of a host without its GPUs."""
    size_of, chunks = buffers.arena.size_of, buffers.chunks
    waiting = [*buffers.queue, *buffers.loading]
    own = [slot for request in waiting for slot in request.private.values()]
    own += [slot for request in waiting if request.gather for slot in request.promised]
    own += [slot for slots in quota.private.values() for slot in slots.values()]
    return {
        "device": 0,
        "shared": sum(map(size_of, chunks.memory.values())),
        "private": sum(map(size_of, own)),
        "disk": chunks.on_disk,
        "private_total": buffers.gathers.private,
        "direct": buffers.mover.direct,
    }


def disk_status(buffers: BufferManager) -> DiskStatus:
    """Status of the disk: writes and reads under way, their bytes, and the last error."""
    reads, pieces, in_memory = buffers.reads.loads, buffers.gathers.pieces, buffers.chunks.memory
    chunks = [chunk for chunk in (*buffers.spills, *reads) if chunk in in_memory]
    return {
        "writes": len(buffers.spills),
        "reads": len(reads) + len(pieces),
        "nbytes": sum(map(buffers.chunks.size, chunks)) + sum(stop - start for _, start, stop in pieces),
        "seconds": buffers.mover.silent,
        "full": str(buffers.disk.error or ""),
    }
