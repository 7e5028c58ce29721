"""Memory and disk of a simulated worker.

`SimMemory` counts bytes of chunks in memory, chunks pinned by running operands, and chunks on disk. The disk serves its
requests one after the other, so `make_room` returns the time at which the room is free.
Source: Belady 1966 (evicts the chunk whose next use is last); docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

__all__ = ["SimMemory"]


class SimMemory:
    """Chunks of a simulated worker in virtual time; `used` never exceeds `capacity`.

    Parameters
    ----------
    capacity
        Bytes of memory.
    disk
        Bytes a second.
    nbytes
        Bytes of every chunk of the graph.
    next_use
        Next use of a chunk on this worker, larger is later; the chunk with the latest next use is spilled first. None:
        the least recently used chunk is spilled first.
    together
        A list of a single number, the bytes in the memories of all workers, shared by their `SimMemory` objects.
    is_planned
        Whether a chunk's `next_use` changes only when the chunk is used, as in a run without a policy: then candidates
        for spilling are kept in a heap, made at the first spill.
    """

    __slots__ = (
        "_disk",
        "_disk_free",
        "_is_planned",
        "_nbytes",
        "_next_use",
        "_used_at",
        "_uses",
        "_victims",
        "capacity",
        "fast",
        "fast_bytes",
        "on_disk",
        "peak",
        "reloaded",
        "resident",
        "spilled",
        "together",
        "used",
    )

    def __init__(
        self,
        capacity: int,
        disk: float,
        nbytes: Sequence[int],
        next_use: Callable[[int], float] | None,
        together: list[int],
        is_planned: bool,
    ) -> None:
        self.together, self._is_planned = together, is_planned
        self._victims: list[tuple[float, int, int]] | None = None  # heap of (-next use, used at, chunk), some stale
        self._used_at: dict[int, int] = {}  # chunk in memory: count of uses, once the heap exists
        self._uses = 0
        self.capacity, self._disk, self._nbytes, self._next_use = capacity, disk, nbytes, next_use
        self.resident: dict[int, None] = {}  # longest unused first
        self.on_disk: set[int] = set()
        self.fast: dict[int, int] = {}  # chunk: running operands that need it in memory
        self.fast_bytes = 0  # of `fast`, and scratch
        self.used = self.peak = self.spilled = self.reloaded = 0  # bytes
        self._disk_free = 0.0  # when the disk has served all requests

    def missing(self, chunks: Sequence[int], more: int) -> int:
        """Bytes that an operand would pin beyond the chunks already pinned: its inputs, and `more`."""
        return more + sum([self._nbytes[c] for c in chunks if c not in self.fast])

    def hold(self, chunks: Sequence[int]) -> None:
        """Pins chunks in memory for a running operand, until `release`."""
        for chunk in chunks:
            holders = self.fast.get(chunk, 0)
            self.fast[chunk] = holders + 1
            if not holders:
                self.fast_bytes += self._nbytes[chunk]

    def release(self, chunks: Sequence[int]) -> None:
        """Unpins chunks for a running operand."""
        for chunk in chunks:
            holders = self.fast[chunk] - 1
            if holders:
                self.fast[chunk] = holders
            else:
                del self.fast[chunk]
                self.fast_bytes -= self._nbytes[chunk]
                if self._victims is not None:
                    self._may_leave(chunk)

    def scratch(self, nbytes: int) -> None:
        """Takes scratch after `make_room`; a negative number gives scratch back."""
        self.fast_bytes += nbytes
        self._grow(nbytes)

    def add(self, chunk: int) -> None:
        """Puts a chunk in memory after `make_room`."""
        self.resident[chunk] = None
        if self._victims is not None:
            self._use(chunk)
        self._grow(self._nbytes[chunk])

    def arrive(self, chunk: int, now: float) -> None:
        """Stores a received chunk in memory, or on disk if pinned chunks leave too little room."""
        size = self._nbytes[chunk]
        if self.fast_bytes + size > self.capacity:
            self._write(chunk, now)
        else:
            self.make_room(size, now)
            self.add(chunk)
            if self._victims is not None:
                self._may_leave(chunk)

    def drop(self, chunk: int) -> None:
        """Frees a chunk in memory or on disk."""
        if chunk in self.resident:
            del self.resident[chunk]
            self.used -= self._nbytes[chunk]
            self.together[0] -= self._nbytes[chunk]
        else:
            self.on_disk.discard(chunk)

    def touch(self, chunk: int, now: float) -> float:
        """Marks a chunk as used, reloading it from disk if needed; returns the time when the chunk is in memory."""
        if chunk not in self.on_disk:
            del self.resident[chunk]
            self.resident[chunk] = None
            if self._victims is not None:
                self._use(chunk)
            return now
        start = self.make_room(self._nbytes[chunk], now)
        self.on_disk.discard(chunk)
        self.add(chunk)
        return max(start, self.read(chunk, now))

    def read(self, chunk: int, now: float) -> float:
        """Reads a chunk from disk without keeping it in memory; returns the end time of the read."""
        self._disk_free = max(self._disk_free, now) + self._nbytes[chunk] / self._disk
        self.reloaded += self._nbytes[chunk]
        return self._disk_free

    def make_room(self, size: int, now: float) -> float:
        """Spills chunks until `size` bytes are free; returns the time when the bytes are free."""
        if self.used + size <= self.capacity:
            return now
        if self._is_planned:
            self._send_victims(size, now)
            return self._disk_free
        loose = [chunk for chunk in self.resident if chunk not in self.fast]
        if self._next_use is not None:
            loose.sort(key=self._next_use, reverse=True)
        for chunk in loose:
            if self.used + size <= self.capacity:
                break
            self.drop(chunk)
            self._write(chunk, now)
        return self._disk_free

    def forget(self) -> None:
        """Discards the heap, since the next use of all chunks changed."""
        self._victims = None

    def _send_victims(self, size: int, now: float) -> None:
        """Spills chunks by the heap: the same chunks in the same order as `make_room` without the heap."""
        if self._victims is None:
            self._victims = []
            for chunk in self.resident:
                self._use(chunk)
                self._may_leave(chunk)
        while self._victims and self.used + size > self.capacity:
            _, used_at, chunk = heapq.heappop(self._victims)
            if chunk in self.resident and chunk not in self.fast and self._used_at[chunk] == used_at:
                self.drop(chunk)
                self._write(chunk, now)

    def _use(self, chunk: int) -> None:
        self._uses += 1
        self._used_at[chunk] = self._uses

    def _may_leave(self, chunk: int) -> None:
        """Adds an unpinned chunk to the heap of candidates for spilling."""
        if chunk in self.resident and chunk not in self.fast:
            next_use = 0.0 if self._next_use is None else self._next_use(chunk)
            assert self._victims is not None
            heapq.heappush(self._victims, (-next_use, self._used_at[chunk], chunk))

    def _write(self, chunk: int, now: float) -> None:
        """Spills a chunk, after all earlier disk requests."""
        self.on_disk.add(chunk)
        self.spilled += self._nbytes[chunk]
        self._disk_free = max(self._disk_free, now) + self._nbytes[chunk] / self._disk

    def _grow(self, nbytes: int) -> None:
        self.used += nbytes
        self.together[0] += nbytes
        if self.used > self.peak:
            self.peak = self.used
