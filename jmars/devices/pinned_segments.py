"""Pins segments of a host's shared memory, so that streams copy chunks without a buffer between.

Large copies pin the segments of their chunk, and a segment stays pinned for later chunks. Pinning a GiB takes half as
long as copying a GiB through buffers; copies of pinned memory are as fast as PCIe. Where the control process gave pages
back to the system, a pinned segment would keep the old pages: all segments are then pinned anew.
Source: https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html (`cudaHostRegister`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from jmars.devices.device import Array, Device, DeviceLostError

__all__ = ["LEAST", "SEGMENT", "PinnedSegments"]

log = logging.getLogger("jmars.worker")

SEGMENT = 2**24  # bytes of a segment: 16 MiB, pinned in some 0.6 ms
LEAST = 2**20  # bytes of a copy for which segments are pinned


class PinnedSegments:
    """The segments of shared memory `memory`, of `size` bytes each.

    Parameters
    ----------
    removals
        Counts how often pages of the memory went back to the system (`arena.removals`).
    """

    def __init__(
        self, device: Device, memory: Array, removals: Callable[[], int], size: int = SEGMENT, least: int = LEAST
    ) -> None:
        self._device, self._memory, self._size, self._least = device, memory, size, least
        self._removals, self._seen = removals, removals()
        self._base = memory.ctypes.data
        self._pinned: set[int] = set()  # numbers of segments
        self._usable = True

    def parts(self, host: Array) -> list[Array] | None:
        """The bytes of a chunk in shared memory, a part for each segment; None where a buffer must be between."""
        if not self._usable or host.size < self._least:
            return None
        start = host.ctypes.data - self._base
        numbers = range(start // self._size, (start + host.size - 1) // self._size + 1)
        for number in numbers:
            if number not in self._pinned and not self._pin(number):
                return None
        cuts = [start, *(number * self._size for number in numbers[1:]), start + host.size]
        return [self._memory[low:high] for low, high in pairwise(cuts)]

    def renew(self, streams: tuple[Any, ...]) -> None:
        """Unpin all segments if pages went back to the system since the last call; waits for the streams before."""
        now = self._removals()
        if now == self._seen:
            return
        self._seen = now
        if self._pinned:
            for stream in streams:
                self._device.synchronise(self._device.record(stream))
        while self._pinned:
            self._device.unpin(self._segment(self._pinned.pop()))

    def _segment(self, number: int) -> Array:
        return self._memory[number * self._size : (number + 1) * self._size]

    def _pin(self, number: int) -> bool:
        try:
            self._device.pin(self._segment(number))
        except DeviceLostError:
            raise
        except Exception as error:  # containers may forbid it
            told = "shared memory cannot be pinned (%s): chunks go to %s by buffers"
            log.warning(told, error, self._device.name)
            self._usable = False
            return False
        self._pinned.add(number)
        return True
