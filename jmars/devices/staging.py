"""Copies bytes between shared memory and a device, in one direction, through two pinned buffers.

A stream copies only pinned memory beside kernels, and the shared memory of a host is not pinned. While a stream copies
a buffer, this process fills or empties the second buffer.
Source: docs/explanation/devices.md, "Levels of memory".
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from jmars.devices.device import Array, Device

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
    """Two buffers of `size` bytes.

    Attributes
    ----------
    copied
        Bytes since the start.
    """

    def __init__(self, device: Device, size: int = STAGING) -> None:
        self.copied = 0
        self._timed: deque[tuple[int, Any, Any]] = deque()  # bytes, events before and after, of copies under way
        self._device, self._size = device, size
        self._buffers = [_Buffer(device.pinned(size)) for _ in range(2)]

    def copy_in(self, offset: int, source: Array, stream: Any) -> None:
        """Copy bytes to the slab; `source` is read before this returns."""
        start = self._device.record(stream, timed=True) if source.size >= TIMED else None
        for at in range(0, source.size, self._size):
            part = source[at : at + self._size]
            buffer = self._next()
            np.copyto(buffer.memory[: part.size], part)
            self._device.copy_in(offset + at, buffer.memory[: part.size], stream)
            buffer.event = self._device.record(stream)
        self._copied(source.size, start, stream)

    def copy_out(self, target: Array, offset: int, stream: Any) -> None:
        """Copy bytes of the slab to `target`, which holds them after `flush`."""
        start = self._device.record(stream, timed=True) if target.size >= TIMED else None
        for at in range(0, target.size, self._size):
            part = target[at : at + self._size]
            buffer = self._next()
            self._device.copy_out(buffer.memory[: part.size], offset + at, stream)
            buffer.event, buffer.target = self._device.record(stream), part
        self._copied(target.size, start, stream)

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
        for buffer in self._buffers:
            if buffer.target is not None and np.may_share_memory(buffer.target, target):
                self._settle(buffer)

    def forget(self) -> None:
        """All streams have ended, and their copies do not count."""
        self._timed.clear()
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
