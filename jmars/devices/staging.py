"""Copies bytes between shared memory and a device, in one direction.

A stream copies only pinned memory beside kernels. Large chunks are copied from and to shared memory itself, which
`PinnedSegments` pins. Other bytes go through two pinned buffers: while a stream copies a buffer, this process fills or
empties the second buffer.
Source: docs/explanation/devices.md, "Levels of memory".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from jmars.devices.device import Array, Device
from jmars.devices.pinned_segments import PinnedSegments

__all__ = ["STAGING", "TIMED", "Staging"]

STAGING = 2**25  # bytes of a buffer: 32 MiB
TIMED = 2**18  # least bytes of a copy that is timed; of a smaller one the latency would count


class _Buffer:
    """A pinned buffer; `target`, unless None, gets the bytes after `event`."""

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.event: Any = None
        self.target: Array | None = None


class Staging:
    """Two buffers of `size` bytes, and pinned segments of shared memory.

    Attributes
    ----------
    copied
        Bytes since the start.
    """

    def __init__(self, device: Device, size: int = STAGING, segments: PinnedSegments | None = None) -> None:
        self.copied = 0
        self._segments = segments
        self._direct: dict[int, Any] = {}  # event behind a copy to shared memory itself, by address
        self._timed: deque[tuple[int, Any, Any]] = deque()  # bytes, events before and after, of copies under way
        self._device, self._size = device, size
        self._buffers = [_Buffer(device.pinned(size)) for _ in range(2)]

    def copy_in(self, offset: int, source: Array, stream: Any) -> None:
        """Copy bytes to the slab; `source` must not change until the stream has come behind the copy."""
        direct = self._segments.parts(source) if self._segments else None  # pins, which is no part of a copy's time
        start = self._device.record(stream, timed=True) if source.size >= TIMED else None
        for at, part in self._places(offset, source, direct):
            if direct is None:
                buffer = self._next()
                np.copyto(buffer.memory[: part.size], part)
                self._device.copy_in(at, buffer.memory[: part.size], stream)
                buffer.event = self._device.record(stream)
            else:
                self._device.copy_in(at, part, stream)
        self._copied(source.size, start, stream)

    def copy_out(self, target: Array, offset: int, stream: Any) -> None:
        """Copy bytes of the slab to `target`, which holds them after `flush`."""
        direct = self._segments.parts(target) if self._segments else None  # pins, which is no part of a copy's time
        start = self._device.record(stream, timed=True) if target.size >= TIMED else None
        for at, part in self._places(offset, target, direct):
            if direct is None:
                buffer = self._next()
                self._device.copy_out(buffer.memory[: part.size], at, stream)
                buffer.event, buffer.target = self._device.record(stream), part
            else:
                self._device.copy_out(part, at, stream)
        if direct is not None:
            self._direct[target.ctypes.data] = self._device.record(stream)
        self._copied(target.size, start, stream)

    def _places(self, offset: int, host: Array, direct: list[Array] | None) -> Iterator[tuple[int, Array]]:
        """The parts of a chunk that are copied one by one, each with its place in the slab."""
        for part in direct or (host[at : at + self._size] for at in range(0, host.size, self._size)):
            yield offset, part
            offset += part.size

    def measured(self) -> tuple[int, float]:
        """Bytes of timed copies that have ended since the last call, and their seconds, the pinned buffers included."""
        nbytes, seconds = 0, 0.0
        while self._timed and self._device.is_done(self._timed[0][2]):
            size, start, end = self._timed.popleft()
            nbytes, seconds = nbytes + size, seconds + self._device.seconds(start, end)
        return nbytes, seconds

    def _copied(self, size: int, start: Any, stream: Any) -> None:
        self.copied += size
        if start is not None:
            self._timed.append((size, start, self._device.record(stream, timed=True)))

    def flush(self, target: Array) -> None:
        """Wait until all bytes of `target` are there."""
        event = self._direct.pop(target.ctypes.data, None)
        if event is not None:
            self._device.synchronise(event)
            return
        for buffer in self._buffers:
            if buffer.target is not None and np.may_share_memory(buffer.target, target):
                self._settle(buffer)

    def forget(self) -> None:
        """All streams have ended, and their copies do not count."""
        self._timed.clear()
        self._direct.clear()
        for buffer in self._buffers:
            buffer.event = buffer.target = None

    def _next(self) -> _Buffer:
        """The buffer that was used first, free again."""
        self._buffers.reverse()
        self._settle(self._buffers[0])
        return self._buffers[0]

    def _settle(self, buffer: _Buffer) -> None:
        if buffer.event is not None:
            self._device.synchronise(buffer.event)
            buffer.event = None
        if buffer.target is not None:
            np.copyto(buffer.target, buffer.memory[: buffer.target.size])
            buffer.target = None
