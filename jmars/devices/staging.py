"""Copies bytes between shared memory and a device, in one direction, through two pinned buffers.

A stream copies only pinned memory beside kernels, and the shared memory of a host is not pinned. While a stream copies
a buffer, this process fills or empties the second buffer.
Source: docs/explanation/devices.md, "Levels of memory".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.devices.device import Array, Device

__all__ = ["STAGING", "Staging"]

STAGING = 2**25  # bytes of a buffer: 32 MiB


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
        self._device, self._size = device, size
        self._buffers = [_Buffer(device.pinned(size)) for _ in range(2)]

    def copy_in(self, offset: int, source: Array, stream: Any) -> None:
        """Copy bytes to the slab; `source` is read before this returns."""
        for start in range(0, source.size, self._size):
            part = source[start : start + self._size]
            buffer = self._next()
            np.copyto(buffer.memory[: part.size], part)
            self._device.copy_in(offset + start, buffer.memory[: part.size], stream)
            buffer.event = self._device.record(stream)
        self.copied += source.size

    def copy_out(self, target: Array, offset: int, stream: Any) -> None:
        """Copy bytes of the slab to `target`, which holds them after `flush`."""
        for start in range(0, target.size, self._size):
            part = target[start : start + self._size]
            buffer = self._next()
            self._device.copy_out(buffer.memory[: part.size], offset + start, stream)
            buffer.event, buffer.target = self._device.record(stream), part
        self.copied += target.size

    def flush(self, target: Array) -> None:
        """Wait until all bytes of `target` are there."""
        for buffer in self._buffers:
            if buffer.target is not None and np.may_share_memory(buffer.target, target):
                self._settle(buffer)

    def forget(self) -> None:
        """All streams have ended, and their copies do not count."""
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
