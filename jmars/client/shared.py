"""Arrays to and from the cluster's shared memory.

The kernel maps the same memory as the cluster, so an array goes chunk by chunk into slots that the cluster gives, and
comes back out of slots that it holds still; no array goes through a socket.
Source: the design's "Fetch": an owned copy, or a read-only view that pins its slot.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import mmap
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jmars.client.connection import Connection

__all__ = ["SharedMemory"]

Array = np.ndarray[Any, Any]
Splits = tuple[tuple[int, ...], ...]


class SharedMemory:
    """The client's mapping of a cluster's arena.

    Parameters
    ----------
    fd, size
        The memfd and its bytes.
    capacity
        Bytes for chunks in all; transfers hold at most a quarter of it at a time.
    """

    def __init__(self, connection: Connection, fd: int, size: int, capacity: int) -> None:
        self._connection = connection
        self._memory = mmap.mmap(fd, size)  # stays mapped as long as a view of it lives
        self._window = max(1, capacity // 4)

    def upload(self, key: str, array: Array, splits: Splits) -> None:
        """Store `array` in chunks of `splits` as the tensor `key`, with the value it has now."""
        connection = self._connection
        boxes = list(_boxes(splits))
        first = connection.ask("session", "take_chunks", len(boxes))
        for chunk, box in enumerate(boxes, start=first):
            part: Array = array[_whole(box)]
            offset = connection.ask("store", "reserve", chunk, part.nbytes)
            try:
                np.ndarray(part.shape, part.dtype, self._memory, offset)[...] = part
            except BaseException:
                connection.ask("store", "abandon", chunk)
                raise
            connection.ask("store", "seal", chunk)
        connection.ask("session", "keep", key, first, len(boxes))

    def download(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Array:
        """A copy of the tensor `key`, assembled here chunk by chunk."""
        connection = self._connection
        result = np.empty(tuple(map(sum, splits)), dtype)
        chunks = connection.ask("session", "chunks", key)
        for group in self._groups(zip(chunks, _boxes(splits), strict=True), dtype.itemsize):
            held = [chunk for chunk, _ in group]
            offsets = connection.ask("store", "pin", held)
            try:
                for offset, (_, box) in zip(offsets, group, strict=True):
                    part = result[_whole(box)]
                    part[...] = np.ndarray(part.shape, dtype, self._memory, offset)
            finally:
                connection.ask("store", "unpin", held)
        return result

    def move(self, key: str, source: SharedMemory, dtype: np.dtype[Any], splits: Splits) -> None:
        """Store here what another cluster holds under `key`."""
        theirs, ours = source._connection, self._connection
        chunks, boxes = theirs.ask("session", "chunks", key), list(_boxes(splits))
        first = ours.ask("session", "take_chunks", len(boxes))
        for number, (chunk, box) in enumerate(zip(chunks, boxes, strict=True)):
            shape = tuple(one.stop - one.start for one in box)
            (there,) = theirs.ask("store", "pin", [chunk])
            try:
                here = ours.ask("store", "reserve", first + number, dtype.itemsize * math.prod(shape))
                np.ndarray(shape, dtype, self._memory, here)[...] = np.ndarray(shape, dtype, source._memory, there)
                ours.ask("store", "seal", first + number)
            finally:
                theirs.ask("store", "unpin", [chunk])
        ours.ask("session", "keep", key, first, len(boxes))

    def view(self, key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """A read-only view of a tensor of one chunk; its slot is pinned until the view and all made of it are gone."""
        chunk = self._connection.ask("session", "chunks", key)
        (offset,) = self._connection.ask("store", "pin", chunk, True)
        size = max(1, math.prod(shape) * dtype.itemsize)
        owner = (ctypes.c_char * size).from_buffer(self._memory, offset)
        weakref.finalize(owner, self._connection.tell, "store", "unpin", chunk, True).atexit = False
        array: Array = np.ndarray(shape, dtype, memoryview(owner).cast("B"))
        array.flags.writeable = False
        return array

    def close(self) -> None:
        """Unmap, now or when the last view of it is gone."""
        try:
            self._memory.close()
        except BufferError:
            del self._memory  # the views hold it

    def _groups(self, parts: Iterator[tuple[int, tuple[slice, ...]]], itemsize: int) -> Iterator[list[tuple[int, Any]]]:
        """Chunks with their boxes, in groups that take a quarter of the memory at most, or one chunk."""
        group: list[tuple[int, Any]] = []
        held = 0
        for chunk, box in parts:
            size = itemsize * math.prod(one.stop - one.start for one in box)
            if group and held + size > self._window:
                yield group
                group, held = [], 0
            group.append((chunk, box))
            held += max(size, mmap.PAGESIZE)
        if group:
            yield group


def _boxes(splits: Splits) -> Iterator[tuple[slice, ...]]:
    """Where each chunk lies in the whole, in C order of the grid."""
    axes: list[Sequence[slice]] = []
    for lengths in splits:
        stops = list(itertools.accumulate(lengths))
        axes.append([slice(stop - length, stop) for stop, length in zip(stops, lengths, strict=True)])
    return itertools.product(*axes)


def _whole(box: tuple[slice, ...]) -> Any:
    """The index of a box, which gives an array where a chunk has no axes too."""
    return (*box, ...)
