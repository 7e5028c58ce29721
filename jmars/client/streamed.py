"""StreamedArrays: copies arrays to and from a cluster that shares no memory with this process.

Chunks travel over the connection in pieces, several at once, so that a transfer holds some pieces and a single chunk in
memory beside the array. The actor "passing" stores and reads them; pieces have checksums.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from jmars.client.arrays import Array, Arrays, Splits, boxes, chunk_numbers, whole
from jmars.client.connection import Connection
from jmars.client.shared import SharedMemory
from jmars.kernels.dtypes import refuse_pointers
from jmars.storage.chunk_checksums import checksum, received

__all__ = ["StreamedArrays", "arrays_of"]

PIECE = 4 * 2**20  # bytes
UNDER_WAY = 8 * PIECE

Call = tuple[int, tuple[Any, ...]]
Part = tuple[int, np.dtype[Any], tuple[int, ...]]  # of a tensor: number, dtype and shape of a chunk


class StreamedArrays:
    """Arrays of a cluster over a connection; has the methods of SharedMemory that `Arrays` lists.

    Parameters
    ----------
    piece
        Bytes of a message, at most.
    """

    same_machine: ClassVar[bool] = False

    def __init__(self, connection: Connection, piece: int = PIECE) -> None:
        self._connection, self._piece = connection, piece

    def upload(self, key: str, array: Array, splits: Splits) -> None:
        """Store `array` in chunks of `splits` as the tensor `key`, with its present value."""
        refuse_pointers(array.dtype)
        places = list(boxes(splits))
        self._store(key, len(places), (array[whole(box)] for box in places))

    def download(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Array:
        """A copy of the tensor `key`, assembled here chunk by chunk."""
        refuse_pointers(dtype)
        result = np.empty(tuple(map(sum, splits)), dtype)
        for box, chunk in zip(boxes(splits), self.chunks(key, dtype, splits), strict=True):
            result[whole(box)] = chunk
        return result

    def fetch(self, key: str, dtype: np.dtype[Any], splits: Splits, copy: bool) -> Any:
        """The tensor `key`: owned, or with `copy=False` read-only; a copy in both cases."""
        value = self.download(key, dtype, splits)
        if not copy:
            value.flags.writeable = False
        return value if splits or not copy else value[()]

    def fetch_each(self, wanted: Sequence[tuple[str, np.dtype[Any], Splits]]) -> list[Any]:
        """Owned values of several tensors; what is asked for does not wait for what came before."""
        for _, dtype, _ in wanted:
            refuse_pointers(dtype)
        numbers = chunk_numbers(self._connection, [key for key, _, _ in wanted])
        parts = [part for one, (_, dtype, splits) in zip(numbers, wanted) for part in self._parts(one, dtype, splits)]
        chunks = self._read(parts)
        found: list[Any] = []
        for _, dtype, splits in wanted:
            value = np.empty(tuple(map(sum, splits)), dtype)
            for box in boxes(splits):
                value[whole(box)] = next(chunks)
            found.append(value if splits else value[()])
        return found

    def move(self, key: str, source: Arrays, dtype: np.dtype[Any], splits: Splits) -> None:
        """Copy a tensor `key` of another cluster to this cluster."""
        refuse_pointers(dtype)
        self._store(key, math.prod(map(len, splits)), source.chunks(key, dtype, splits))

    def chunks(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Iterator[Array]:
        """Own copies of the chunks of the tensor `key`, one by one, in C order."""
        refuse_pointers(dtype)
        (numbers,) = chunk_numbers(self._connection, [key])
        return self._read(self._parts(numbers, dtype, splits))

    def pin(self, key: str, dtype: np.dtype[Any], splits: Splits) -> tuple[list[Array], Callable[[], None]] | None:
        """None: no memory is shared."""
        return None

    def close(self) -> None:
        """No effect: nothing is held here."""

    def _parts(self, numbers: Sequence[int], dtype: np.dtype[Any], splits: Splits) -> list[Part]:
        shapes = [tuple(one.stop - one.start for one in box) for box in boxes(splits)]
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
            yield length, ("passing", "gather", chunk, start, 1, (length,), (1,))

    def _store(self, key: str, count: int, parts: Iterable[Array]) -> None:
        """Make `count` fresh chunks the tensor `key`; whatever goes wrong, an interrupt too, leaves none behind."""
        connection = self._connection
        first = connection.ask("session", "take_chunks", count)
        calls = (call for chunk, part in enumerate(parts, start=first) for call in self._writes(chunk, part))
        try:
            for _ in connection.ask_each(calls, UNDER_WAY):
                pass
            connection.ask("session", "keep", key, first, count)
        except BaseException:
            connection.tell("session", "drop", [key])
            connection.tell("store", "abandon", first, count)
            raise

    def _writes(self, chunk: int, part: Array) -> Iterator[Call]:
        """Calls that store a chunk: a single call, or one for each piece of a large chunk."""
        data = memoryview(part.tobytes())
        if len(data) <= self._piece:
            yield len(data), ("passing", "put", chunk, data, checksum(data))
            return
        for start in range(0, len(data), self._piece):
            piece = data[start : start + self._piece]
            yield len(piece), ("passing", "put_piece", chunk, start, len(data), piece, checksum(piece))


def arrays_of(connection: Connection, fd: int, size: int, capacity: int) -> Arrays:
    """The arrays of a cluster: in its shared memory `fd`, or over the connection where `fd` is -1."""
    return SharedMemory(connection, fd, size, capacity) if fd >= 0 else StreamedArrays(connection)
