"""SharedMemory: copies arrays to and from the cluster's shared memory.

The kernel maps the same memory as the cluster, so an array goes chunk by chunk into slots that the cluster reserves,
and comes back out of pinned slots: an owned copy, or a read-only view that keeps its slot pinned. No array goes
through a socket.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import secrets
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar

import numpy as np

from jmars.client.arrays import Array, Arrays, Splits, boxes, chunk_numbers, whole
from jmars.client.connection import Connection
from jmars.errors import ClusterLostError
from jmars.kernels.dtypes import refuse_pointers

__all__ = ["SharedMemory"]

PIN_WAIT = 1.0  # seconds that `pin` waits at most
BATCH = 1000  # tensors with chunks pinned at the same time


class SharedMemory:
    """The client's mapping of a cluster's arena.

    Parameters
    ----------
    fd, size
        The memfd, which is mapped and closed, and its bytes.
    capacity
        Bytes for chunks in all; transfers hold at most a quarter of it at a time.
    """

    same_machine: ClassVar[bool] = True

    def __init__(self, connection: Connection, fd: int, size: int, capacity: int) -> None:
        self._connection = connection
        try:
            self._mapped: mmap.mmap | None = mmap.mmap(fd, size)  # stays mapped as long as a view of it lives
        finally:
            os.close(fd)
        self._window = max(1, capacity // 4)

    def upload(self, key: str, array: Array, splits: Splits) -> None:
        """Store `array` in chunks of `splits` as the tensor `key`, with its present value."""
        refuse_pointers(array.dtype)
        places = list(boxes(splits))
        self._store(key, len(places), (array[whole(box)] for box in places))

    def download(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Array:
        """A copy of the tensor `key`, assembled here chunk by chunk."""
        refuse_pointers(dtype)
        result = np.empty(tuple(map(sum, splits)), dtype)
        (chunks,) = chunk_numbers(self._connection, [key])
        for group in self._groups(zip(chunks, boxes(splits), strict=True), dtype.itemsize):
            with self._pinned([chunk for chunk, _ in group]) as offsets:
                for offset, (_, box) in zip(offsets, group, strict=True):
                    part = result[whole(box)]
                    part[...] = np.ndarray(part.shape, dtype, self._memory, offset)
        return result

    def fetch(self, key: str, dtype: np.dtype[Any], splits: Splits, copy: bool) -> Any:
        """The tensor `key`: owned; with `copy=False` read-only, a view of a single chunk."""
        if not copy and all(len(axis) == 1 for axis in splits):
            return self.view(key, dtype, tuple(map(sum, splits)))
        value = self.download(key, dtype, splits)
        if not copy:
            value.flags.writeable = False
        return value if splits or not copy else value[()]

    def fetch_each(self, wanted: Sequence[tuple[str, np.dtype[Any], Splits]]) -> list[Any]:
        """Owned values of several tensors, given by key, dtype and chunks; those of small tensors travel together."""
        for _, dtype, _ in wanted:
            refuse_pointers(dtype)
        found: list[Any] = []
        numbers = chunk_numbers(self._connection, [key for key, _, _ in wanted])
        parts = ((chunks, one) for chunks, one in zip(numbers, wanted, strict=True))
        for group in self._batches(parts):
            pinned = list(dict.fromkeys(chunk for chunks, _ in group for chunk in chunks))
            with self._pinned(pinned) as offsets:
                offset_of = dict(zip(pinned, offsets, strict=True))
                for chunks, (_, dtype, splits) in group:
                    value = np.empty(tuple(map(sum, splits)), dtype)
                    for chunk, box in zip(chunks, boxes(splits), strict=True):
                        part = value[whole(box)]
                        part[...] = np.ndarray(part.shape, dtype, self._memory, offset_of[chunk])
                    found.append(value if splits else value[()])
        return found

    def move(self, key: str, source: Arrays, dtype: np.dtype[Any], splits: Splits) -> None:
        """Copy a tensor `key` of another cluster to this cluster."""
        refuse_pointers(dtype)
        self._store(key, math.prod(map(len, splits)), source.chunks(key, dtype, splits))

    def chunks(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Iterator[Array]:
        """Own copies of the chunks of the tensor `key`, one by one, in C order."""
        (numbers,) = chunk_numbers(self._connection, [key])
        for chunk, box in zip(numbers, boxes(splits), strict=True):
            yield self._copy(chunk, dtype, box)

    def _copy(self, chunk: int, dtype: np.dtype[Any], box: tuple[slice, ...]) -> Array:
        """An own copy of a chunk, so that no pin is held while the chunk's new slot is waited for."""
        with self._pinned([chunk]) as (offset,):
            return np.ndarray(tuple(one.stop - one.start for one in box), dtype, self._memory, offset).copy()

    def _store(self, key: str, count: int, parts: Iterable[Array]) -> None:
        """Make `count` fresh chunks the tensor `key`; whatever goes wrong, an interrupt too, leaves none behind."""
        connection = self._connection
        first = connection.ask("session", "take_chunks", count)
        try:
            for chunk, part in enumerate(parts, start=first):
                offset = connection.ask("store", "reserve", chunk, part.nbytes)
                np.ndarray(part.shape, part.dtype, self._memory, offset)[...] = part
                connection.ask("store", "seal", chunk)
            connection.ask("session", "keep", key, first, count)
        except BaseException:
            connection.tell("session", "drop", [key])
            connection.tell("store", "abandon", first, count)
            raise

    @contextmanager
    def _pinned(self, chunks: Sequence[int]) -> Iterator[Sequence[int]]:
        """Offsets of chunks, which stay pinned meanwhile."""
        ticket = secrets.token_hex(8)
        try:
            yield self._connection.ask("store", "pin", ticket, chunks)
        finally:
            self._connection.tell("store", "unpin", ticket)

    def view(self, key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """A read-only view of a tensor of a single chunk; the slot is pinned until the view and all views of it are
        gone.
        """
        refuse_pointers(dtype)
        (chunk,) = chunk_numbers(self._connection, [key])
        ticket = secrets.token_hex(8)
        try:
            (offset,) = self._connection.ask("store", "pin", ticket, chunk, True)
            size = max(1, math.prod(shape) * dtype.itemsize)
            owner = (ctypes.c_char * size).from_buffer(self._memory, offset)
            weakref.finalize(owner, self._connection.tell, "store", "unpin", ticket).atexit = False
        except BaseException:
            self._connection.tell("store", "unpin", ticket)
            raise
        array: Array = np.ndarray(shape, dtype, memoryview(owner).cast("B"))
        array.flags.writeable = False
        return array

    def pin(self, key: str, dtype: np.dtype[Any], splits: Splits) -> tuple[list[Array], Callable[[], None]] | None:
        """Read-only views of the chunks of the tensor `key`, in C order, valid until the function is called.

        Raises ClusterLostError where the cluster needs more than `PIN_WAIT` seconds, as for spilled chunks.
        """
        refuse_pointers(dtype)
        (chunks,) = chunk_numbers(self._connection, [key], timeout=PIN_WAIT)
        ticket = secrets.token_hex(8)
        unpin = partial(self._connection.tell, "store", "unpin", ticket)
        try:
            offsets = self._connection.ask("store", "pin", ticket, chunks, True, timeout=PIN_WAIT)
            views = []
            for offset, box in zip(offsets, boxes(splits), strict=True):
                view = np.ndarray(tuple(one.stop - one.start for one in box), dtype, self._memory, offset)
                view.flags.writeable = False
                views.append(view)
        except BaseException:
            unpin()
            raise
        return views, unpin

    def close(self) -> None:
        """Unmap, now or when the last view is gone."""
        mapped, self._mapped = self._mapped, None
        if mapped is not None:
            with suppress(BufferError):  # the views hold it
                mapped.close()

    @property
    def _memory(self) -> mmap.mmap:
        if self._mapped is None:
            raise ClusterLostError("the cluster is gone, and its memory with it; start a new one with jmars.Cluster()")
        return self._mapped

    def _batches(self, parts: Iterable[tuple[list[int], Any]]) -> Iterator[list[tuple[list[int], Any]]]:
        """Tensors with their chunks, in batches of at most a quarter of the memory; or of a single tensor."""
        batch: list[tuple[list[int], Any]] = []
        held = 0
        for chunks, one in parts:
            _, dtype, splits = one
            size = math.prod(map(sum, splits)) * dtype.itemsize + len(chunks) * mmap.PAGESIZE
            if batch and (held + size > self._window or len(batch) == BATCH):
                yield batch
                batch, held = [], 0
            batch.append((chunks, one))
            held += size
        if batch:
            yield batch

    def _groups(self, parts: Iterator[tuple[int, tuple[slice, ...]]], itemsize: int) -> Iterator[list[tuple[int, Any]]]:
        """Chunks with their boxes, in groups of at most a quarter of the memory, or of a single chunk."""
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
