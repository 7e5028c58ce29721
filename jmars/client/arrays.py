"""Arrays: how a client sends arrays to a cluster and gets them back.

By shared memory where client and workers map the same memory, else in pieces over the connection.

SharedMemory: copies arrays to and from the cluster's shared memory.

The kernel maps the same memory as the cluster, so an array goes chunk by chunk into slots that the cluster reserves,
and comes back out of pinned slots: an owned copy, or a read-only view that keeps its slot pinned. No array goes
through a socket.

StreamedArrays: copies arrays to and from a cluster that shares no memory with this process.

Chunks travel over the connection in pieces, several at once, so that a transfer holds some pieces and a single chunk in
memory beside the array. The actor "passing" stores and reads them; pieces have checksums.

BroughtValues: small results came with the report of their job's end and stay at their nodes; a fetch sends no message.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import secrets
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from jmars.client.connection import Connection
from jmars.errors import ClusterLostError
from jmars.kernels.program import refuse_pointers
from jmars.storage.chunks import ChunkElements, checksum, received
from jmars.tensor.operand import TensorData
from jmars.tensor.splits import chunk_boxes

KEYS = 10_000  # of tensors in a message

Array = np.ndarray[Any, Any]
Item = TypeVar("Item")
Splits = tuple[tuple[int, ...], ...]
Part = tuple[int, np.dtype[Any], tuple[int, ...]]  # of a tensor: number, dtype and shape of a chunk


class Arrays(ABC):
    """The arrays of a cluster, for a client.

    Attributes
    ----------
    same_machine
        Whether the workers run on the client's machine and read its files.
    """

    same_machine: ClassVar[bool]

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def upload(self, key: str, array: Array, splits: Splits) -> None:
        """Store `array` in chunks of `splits` as the tensor `key`, with the present values."""
        refuse_pointers(array.dtype)
        places = list(chunk_boxes(splits))
        self._store(key, len(places), (array[whole(box)] for box in places))

    def move(self, key: str, source: Arrays, dtype: np.dtype[Any], splits: Splits) -> None:
        """Copy a tensor `key` of another cluster to this cluster."""
        refuse_pointers(dtype)
        self._store(key, math.prod(map(len, splits)), source.chunks(key, dtype, splits))

    def _store(self, key: str, count: int, parts: Iterable[Array]) -> None:
        """Make `count` fresh chunks the tensor `key`; whatever goes wrong, an interrupt too, leaves none behind."""
        connection = self._connection
        first = connection.ask("session", "take_chunks", count)
        try:
            self._write(first, parts)
            connection.ask("session", "keep", key, first, count)
        except BaseException:
            connection.tell("session", "drop", [key])
            connection.tell("store", "abandon", first, count)
            raise

    @abstractmethod
    def _write(self, first: int, parts: Iterable[Array]) -> None:
        """Store fresh chunks, numbered from `first` on."""

    @abstractmethod
    def download(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Array:
        """A copy of the tensor `key`, assembled here chunk by chunk."""

    def fetch(self, key: str, dtype: np.dtype[Any], splits: Splits, copy: bool) -> Any:
        """The tensor `key`: owned, or with `copy=False` read-only."""
        value = self.download(key, dtype, splits)
        if not copy:
            value.flags.writeable = False
        return value if splits or not copy else value[()]

    @abstractmethod
    def fetch_each(self, wanted: Sequence[tuple[str, np.dtype[Any], Splits]]) -> list[Any]:
        """Owned values of several tensors, given by key, dtype and chunks; small values travel together."""

    @abstractmethod
    def read(self, parts: Sequence[Part]) -> list[Array]:
        """Own copies of chunks, given by number, dtype and shape."""

    @abstractmethod
    def chunks(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Iterator[Array]:
        """Own copies of the chunks of the tensor `key`, in turn, in C order."""

    def pin(self, key: str, dtype: np.dtype[Any], splits: Splits) -> tuple[list[Array], Callable[[], None]] | None:
        """Read-only views of the chunks of the tensor `key`, in C order, valid until the function is called; None
        where no memory is shared.
        """
        return None

    def close(self) -> None:  # noqa: B027
        """Let go of the cluster's memory."""


def chunk_numbers(connection: Connection, keys: Sequence[str], timeout: float | None = None) -> list[list[int]]:
    """Chunk numbers of tensors on the cluster, each in C order of the grid.

    Raises ChunkLostError where a tensor is not there, ClusterLostError where an answer takes more than `timeout`
    seconds.
    """
    groups = [keys[first : first + KEYS] for first in range(0, len(keys), KEYS)]
    answers = [connection.ask("session", "chunks", group, timeout=timeout) for group in groups]
    return [list(numbers) for answer in answers for numbers in answer]


def whole(box: tuple[slice, ...]) -> Any:
    """Index of a box, which gives an array for a chunk without axes too."""
    return (*box, ...)


PIN_WAIT = 1.0  # seconds that `pin` waits at most
BATCH = 1000  # tensors, or chunks of a tensor, pinned at the same time


class SharedMemory(Arrays):
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
        super().__init__(connection)
        try:
            self._mapped: mmap.mmap | None = mmap.mmap(fd, size)  # stays mapped as long as a view of it lives
        finally:
            os.close(fd)
        self._window = max(1, capacity // 4)

    def download(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Array:
        """A copy of the tensor `key`, assembled here chunk by chunk."""
        refuse_pointers(dtype)
        result = np.empty(tuple(map(sum, splits)), dtype)
        (chunks,) = chunk_numbers(self._connection, [key])
        places = zip(chunks, chunk_boxes(splits), strict=True)
        for group in self._groups(
            (max(result[whole(box)].nbytes, mmap.PAGESIZE), (chunk, box)) for chunk, box in places
        ):
            with self._pinned([chunk for chunk, _ in group]) as offsets:
                for offset, (_, box) in zip(offsets, group, strict=True):
                    part = result[whole(box)]
                    part[...] = np.ndarray(part.shape, dtype, self._memory, offset)
        return result

    def fetch(self, key: str, dtype: np.dtype[Any], splits: Splits, copy: bool) -> Any:
        """The tensor `key`: owned; with `copy=False` read-only, a view of a single chunk."""
        if not copy and all(len(axis) == 1 for axis in splits):
            return self.view(key, dtype, tuple(map(sum, splits)))
        return super().fetch(key, dtype, splits, copy)

    def fetch_each(self, wanted: Sequence[tuple[str, np.dtype[Any], Splits]]) -> list[Any]:
        """Owned values of several tensors, given by key, dtype and chunks; small values travel together."""
        for _, dtype, _ in wanted:
            refuse_pointers(dtype)
        found: list[Any] = []
        numbers = chunk_numbers(self._connection, [key for key, _, _ in wanted])
        sizes = (math.prod(map(sum, splits)) * dtype.itemsize for _, dtype, splits in wanted)
        parts = zip(numbers, wanted, strict=True)
        for group in self._groups(
            (size + len(one[0]) * mmap.PAGESIZE, one) for size, one in zip(sizes, parts, strict=True)
        ):
            pinned = list(dict.fromkeys(chunk for chunks, _ in group for chunk in chunks))
            with self._pinned(pinned) as offsets:
                offset_of = dict(zip(pinned, offsets, strict=True))
                for chunks, (_, dtype, splits) in group:
                    value = np.empty(tuple(map(sum, splits)), dtype)
                    for chunk, box in zip(chunks, chunk_boxes(splits), strict=True):
                        part = value[whole(box)]
                        part[...] = np.ndarray(part.shape, dtype, self._memory, offset_of[chunk])
                    found.append(value if splits else value[()])
        return found

    def read(self, parts: Sequence[Part]) -> list[Array]:
        """Own copies of chunks, given by number, dtype and shape."""
        found: list[Array] = []
        for group in self._groups((math.prod(shape) * dtype.itemsize, (k, dtype, shape)) for k, dtype, shape in parts):
            with self._pinned([chunk for chunk, _, _ in group]) as offsets:
                places = zip(group, offsets, strict=True)
                found += [np.ndarray(shape, dtype, self._memory, at).copy() for (_, dtype, shape), at in places]
        return found

    def chunks(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Iterator[Array]:
        """Own copies of the chunks of the tensor `key`, in turn, in C order."""
        (numbers,) = chunk_numbers(self._connection, [key])
        for chunk, box in zip(numbers, chunk_boxes(splits), strict=True):
            yield self._copy(chunk, dtype, box)

    def _copy(self, chunk: int, dtype: np.dtype[Any], box: tuple[slice, ...]) -> Array:
        """An own copy of a chunk, so that no pin is held while the chunk's new slot is waited for."""
        with self._pinned([chunk]) as (offset,):
            return np.ndarray(tuple(one.stop - one.start for one in box), dtype, self._memory, offset).copy()

    def _write(self, first: int, parts: Iterable[Array]) -> None:
        for chunk, part in enumerate(parts, start=first):
            offset = self._connection.ask("store", "reserve", chunk, part.nbytes)
            np.ndarray(part.shape, part.dtype, self._memory, offset)[...] = part
            self._connection.ask("store", "seal", chunk)

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
            for offset, box in zip(offsets, chunk_boxes(splits), strict=True):
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

    def _groups(self, parts: Iterable[tuple[int, Item]]) -> Iterator[list[Item]]:
        """Items with bytes to pin, in groups of at most a quarter of the memory; or of a single item."""
        group: list[Item] = []
        held = 0
        for size, item in parts:
            if group and (held + size > self._window or len(group) == BATCH):
                yield group
                group, held = [], 0
            group.append(item)
            held += size
        if group:
            yield group


PIECE = 4 * 2**20  # bytes
UNDER_WAY = 8 * PIECE

Call = tuple[int, tuple[Any, ...]]


class StreamedArrays(Arrays):
    """Arrays of a cluster over a connection.

    Parameters
    ----------
    piece
        Bytes of a message, at most.
    """

    same_machine: ClassVar[bool] = False

    def __init__(self, connection: Connection, piece: int = PIECE) -> None:
        super().__init__(connection)
        self._piece = piece

    def download(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Array:
        """A copy of the tensor `key`, assembled here chunk by chunk."""
        refuse_pointers(dtype)
        result = np.empty(tuple(map(sum, splits)), dtype)
        for box, chunk in zip(chunk_boxes(splits), self.chunks(key, dtype, splits), strict=True):
            result[whole(box)] = chunk
        return result

    def fetch_each(self, wanted: Sequence[tuple[str, np.dtype[Any], Splits]]) -> list[Any]:
        """Owned values of several tensors; a request does not wait for earlier requests."""
        for _, dtype, _ in wanted:
            refuse_pointers(dtype)
        numbers = chunk_numbers(self._connection, [key for key, _, _ in wanted])
        parts = [part for one, (_, dtype, splits) in zip(numbers, wanted) for part in self._parts(one, dtype, splits)]
        chunks = self._read(parts)
        found: list[Any] = []
        for _, dtype, splits in wanted:
            value = np.empty(tuple(map(sum, splits)), dtype)
            for box in chunk_boxes(splits):
                value[whole(box)] = next(chunks)
            found.append(value if splits else value[()])
        return found

    def chunks(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Iterator[Array]:
        """Own copies of the chunks of the tensor `key`, in turn, in C order."""
        refuse_pointers(dtype)
        (numbers,) = chunk_numbers(self._connection, [key])
        return self._read(self._parts(numbers, dtype, splits))

    def read(self, parts: Sequence[Part]) -> list[Array]:
        """Own copies of chunks, given by number, dtype and shape."""
        return list(self._read(parts))

    def _parts(self, numbers: Sequence[int], dtype: np.dtype[Any], splits: Splits) -> list[Part]:
        shapes = [tuple(one.stop - one.start for one in box) for box in chunk_boxes(splits)]
        return [(number, dtype, shape) for number, shape in zip(numbers, shapes, strict=True)]

    def _read(self, parts: Sequence[Part]) -> Iterator[Array]:
        """Own copies of chunks, one by one; several pieces are under way."""
        sizes = [math.prod(shape) * dtype.itemsize for _, dtype, shape in parts]
        calls = (call for (number, _, _), size in zip(parts, sizes, strict=True) for call in self._reads(number, size))
        answers = self._connection.ask_each(calls, UNDER_WAY)
        for (number, dtype, shape), size in zip(parts, sizes, strict=True):
            data, at = bytearray(size), 0
            while at < size:
                piece, sent = next(answers)
                data[at : at + len(piece)] = received(piece, sent, f"chunk {number}")
                at += len(piece)
            yield np.frombuffer(data, dtype).reshape(shape) if size else np.empty(shape, dtype)

    def _reads(self, chunk: int, size: int) -> Iterator[Call]:
        """Calls that read a chunk in pieces; none for a chunk without bytes."""
        for start in range(0, size, self._piece):
            length = min(self._piece, size - start)
            yield length, ("passing", "gather", ChunkElements.first(chunk, length, start))

    def _write(self, first: int, parts: Iterable[Array]) -> None:
        calls = (call for chunk, part in enumerate(parts, start=first) for call in self._writes(chunk, part))
        for _ in self._connection.ask_each(calls, UNDER_WAY):
            pass

    def _writes(self, chunk: int, part: Array) -> Iterator[Call]:
        """Calls that store a chunk, one for each piece."""
        data = memoryview(part.tobytes())
        for start in range(0, len(data) or 1, self._piece):
            piece = data[start : start + self._piece]
            yield len(piece), ("passing", "put", chunk, start, len(data), piece, checksum(piece))


def arrays_of(connection: Connection, fd: int, size: int, capacity: int) -> Arrays:
    """The arrays of a cluster: in its shared memory `fd`, or over the connection where `fd` is -1."""
    return SharedMemory(connection, fd, size, capacity) if fd >= 0 else StreamedArrays(connection)


MOST_BROUGHT = 2**24  # bytes of values at nodes


class BroughtValues:
    """Bounds the bytes that came with reports: beyond `most` the oldest values leave their nodes, and are fetched.

    Values of nodes that are gone count until they are the oldest.
    """

    def __init__(self, most: int = MOST_BROUGHT) -> None:
        self._most = most
        self._nodes: deque[tuple[weakref.ref[TensorData], int]] = deque()  # with the bytes of each
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, data: Sequence[TensorData], values: Mapping[str, list[bytes]]) -> None:
        """Nodes get the chunks of their keys."""
        with self._lock:
            for node in data:
                node.brought = chunks = values.get(node.key)  # none may come with a value that is computed again
                if chunks is not None:
                    size = sum(map(len, chunks))
                    self._nodes.append((weakref.ref(node), size))
                    self._bytes += size
            while self._bytes > self._most:
                oldest, size = self._nodes.popleft()
                self._bytes -= size
                if (old := oldest()) is not None:
                    old.brought = None


def brought_value(node: TensorData, copy: bool = True) -> Any:
    """The value that came to a node: owned, or read-only with `copy=False`; None where there is none."""
    chunks = node.brought
    if chunks is None or node.has_unknown_lengths:
        return None
    if len(chunks) == 1:
        value: Array = np.ndarray(node.shape, node.dtype, bytearray(chunks[0]) if copy else chunks[0])
        return value if node.shape or not copy else value[()]
    value = np.empty(node.shape, node.dtype)
    for chunk, box in zip(chunks, chunk_boxes(node.chunks), strict=True):
        part = value[whole(box)]
        part[...] = np.ndarray(part.shape, node.dtype, chunk)
    value.flags.writeable = copy
    return value
