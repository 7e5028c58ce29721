"""Errors of requests that cannot fit: too large for the memory, for memory and disk, or for the rest beside pins."""

from __future__ import annotations

from collections.abc import Sequence

from jmars.errors import MemoryLimitError
from jmars.storage.arena import PAGE, Allocator
from jmars.units import format_bytes

__all__ = ["check_results", "check_slots", "no_room"]


def check_slots(arena: Allocator, sizes: Sequence[int], what: str) -> None:
    """Raise MemoryLimitError if slots of these sizes never fit together; `what` names the request."""
    pages = sum(max(1, -(-size // PAGE)) for size in sizes) * PAGE
    if pages > arena.capacity:
        raise MemoryLimitError(
            f"{what} needs {format_bytes(pages)} in memory at once (inputs, output and scratch) and the memory "
            f"limit leaves {format_bytes(arena.capacity)}; use a smaller chunk_size or raise memory_limit"
        )


def check_results(arena: Allocator, size: int, disk_room: int) -> None:
    """Raise MemoryLimitError if results of `size` bytes fit neither in memory nor on disk."""
    free = arena.capacity - arena.used + disk_room
    if size > free:
        raise MemoryLimitError(
            f"the results take {format_bytes(size)}, and memory and disk together have {format_bytes(free)} left; "
            "keep less (a sum instead of the whole, one name for steps on the way), or give a larger spill_dir"
        )


def no_room(what: str, lacking: int, capacity: int, pinned: int) -> MemoryLimitError:
    """Error of a request that lacks bytes beside chunks that must stay, of which clients pin `pinned` bytes."""
    views = f" (views that you hold take {format_bytes(pinned)} of it: let go of them)" if pinned else ""
    return MemoryLimitError(
        f"{what} finds no room for {format_bytes(lacking)} beside what must stay in memory, of the "
        f"{format_bytes(capacity)} that the memory limit leaves{views}; use a smaller chunk_size or "
        "raise memory_limit"
    )
