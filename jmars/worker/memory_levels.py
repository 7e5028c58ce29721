"""How many bytes lie on each of seed 003's levels, and how chunks go to disk: for who looks at a cluster.

*Shared* memory holds chunks that any executor may read; *private* memory what was brought back, or gathered, for one
operand alone; *disk* what was spilled. *Device* memory is named and empty until there are executors with one.
Source: seed 003, "内存管理"; the levels of Mars's storage service.
"""

from __future__ import annotations

from typing import TypedDict

from jmars.memory.buffer_manager import BufferManager
from jmars.worker.admission import Admission

__all__ = ["MemoryLevels", "levels"]


class MemoryLevels(TypedDict):
    """Bytes now, and since the start."""

    device: int
    shared: int
    private: int
    disk: int
    private_total: int  # read from files to private memory since the start
    direct: bool | None  # whether files are written past the page cache; None as long as nothing was


def levels(storing: BufferManager, admission: Admission) -> MemoryLevels:
    """Of one host."""
    size_of, chunks = storing.arena.size_of, storing.chunks
    waiting = [*storing.line, *storing.loading]
    own = [slot for request in waiting for slot in request.private.values()]
    own += [request.promised for request in waiting if request.gather and request.promised >= 0]
    own += [slot for slots in admission.quota.private.values() for slot in slots.values()]
    return {
        "device": 0,
        "shared": sum(map(size_of, chunks.memory.values())),
        "private": sum(map(size_of, own)),
        "disk": chunks.on_disk,
        "private_total": storing.gathers.private,
        "direct": storing.mover.direct,
    }
