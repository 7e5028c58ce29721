"""Chunks in the memory of a device, and the events to wait for before memory is read or written.

A stream may read a range after the write of it, and write a range after the last write and all reads of it. The control
process chooses the slots; this module knows their chunks, since only the device's process knows the orders that ran.
Pure: events are any objects.
Source: docs/explanation/devices.md, "What a GPU's process asks of its GPU".
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any

__all__ = ["DeviceContents"]


@dataclass
class _Range:
    """Bytes [start, stop) that were written together."""

    start: int
    stop: int
    chunk: int  # -1 for scratch
    written: Any  # event
    reads: list[Any] = field(default_factory=list)  # events of reads since


class DeviceContents:
    """What lies where in a slab.

    Examples
    --------
    >>> contents = DeviceContents()
    >>> contents.wrote(0, 100, chunk=7, event="copied")
    >>> contents.holds(0, 7), contents.before_read(0, 100)
    (True, ['copied'])
    >>> contents.read(0, 100, "used")
    >>> contents.before_write(50, 150)
    ['copied', 'used']
    """

    def __init__(self) -> None:
        self._starts: list[int] = []  # sorted; ranges do not overlap
        self._ranges: dict[int, _Range] = {}  # by start

    def holds(self, start: int, chunk: int) -> bool:
        """Whether a chunk lies at `start`, or will when the stream has come so far."""
        found = self._ranges.get(start)
        return found is not None and found.chunk == chunk

    def before_read(self, start: int, stop: int) -> list[Any]:
        """Events to wait for before a stream reads [start, stop)."""
        return [one.written for one in self._overlapping(start, stop)]

    def before_write(self, start: int, stop: int) -> list[Any]:
        """Events to wait for before a stream writes [start, stop)."""
        return [event for one in self._overlapping(start, stop) for event in (one.written, *one.reads)]

    def read(self, start: int, stop: int, event: Any) -> None:
        """A stream reads [start, stop) before `event`."""
        for one in self._overlapping(start, stop):
            one.reads.append(event)

    def wrote(self, start: int, stop: int, chunk: int, event: Any) -> None:
        """A stream writes a chunk, -1 for scratch, before `event`; overlapped chunks are gone."""
        for one in self._overlapping(start, stop):
            self._remove(one)
            for low, high in ((one.start, start), (stop, one.stop)):  # bytes that stay, without being a chunk
                if low < high:
                    self._add(_Range(low, high, -1, one.written, list(one.reads)))
        self._add(_Range(start, stop, chunk, event))

    def void(self, start: int, chunk: int) -> None:
        """The bytes of a chunk at `start` are not valid."""
        if self.holds(start, chunk):
            self._ranges[start].chunk = -1

    def _overlapping(self, start: int, stop: int) -> list[_Range]:
        first = bisect_left(self._starts, start)
        if first and self._ranges[self._starts[first - 1]].stop > start:
            first -= 1
        last = bisect_left(self._starts, stop)
        return [self._ranges[at] for at in self._starts[first:last]]

    def _add(self, one: _Range) -> None:
        insort(self._starts, one.start)
        self._ranges[one.start] = one

    def _remove(self, one: _Range) -> None:
        del self._starts[bisect_left(self._starts, one.start)]
        del self._ranges[one.start]
