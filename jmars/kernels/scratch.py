"""Memory of a thread that kernels use again: block buffers, and arrays that ended (`spares`).

A large array that the C library just mapped costs 2 to 9 times as much to write as an array whose pages are there.
Dask's workers give every array back to the system at once (`MALLOC_TRIM_THRESHOLD_`), so chunks that do not leave a
kernel or a group are kept here for the next chunk of the same type. A thread has such spares only between
`open_spares` and `close_spares`: in a kernel, in a group, or for good in a worker of an engine and, a few, in a client
that computes small values.
"""

from __future__ import annotations

import math
import threading
from collections.abc import MutableSequence
from sys import getrefcount
from typing import Any

import numpy as np

__all__ = ["close_spares", "give_back", "open_spares", "scratch", "spare_array"]

Array = np.ndarray[Any, Any]
SPARE_BYTES = 3 * 2**25  # of arrays that a thread keeps: of two chunks of 32 MiB, each a little longer or shorter
SMALL = 2**16  # bytes of an array that the C library keeps by itself

_own = threading.local()


def scratch(slot: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Buffer number `slot` of this thread as an array with arbitrary content."""
    size = math.prod(shape) * dtype.itemsize
    buffers: dict[Any, Array] = _own.__dict__
    buffer = buffers.get(slot)
    if buffer is None or buffer.nbytes < size:
        buffer = buffers[slot] = np.empty(max(size, 64), np.uint8)
    return buffer[:size].view(dtype).reshape(shape)


class _Spares:
    """Arrays that were given back, by shape and dtype; the type that was given back longest ago is dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most  # bytes
        self._arrays: dict[tuple[tuple[int, ...], np.dtype[Any]], list[Array]] = {}
        self._nbytes = 0

    def add(self, array: Array) -> None:
        """Keep an array, unless it is too large."""
        if array.nbytes > self._most:
            return
        kind = array.shape, array.dtype
        alike = self._arrays.pop(kind, [])
        alike.append(array)
        self._arrays[kind] = alike
        self._nbytes += array.nbytes
        while self._nbytes > self._most:
            oldest = next(iter(self._arrays))
            self._nbytes -= self._arrays[oldest].pop(0).nbytes
            if not self._arrays[oldest]:
                del self._arrays[oldest]

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """The newest array of a type, which is kept no more; None if there is none."""
        alike = self._arrays.get((shape, dtype))
        if alike is None:
            return None
        array = alike.pop()
        if not alike:
            del self._arrays[shape, dtype]
        self._nbytes -= array.nbytes
        return array


def open_spares(most: int = SPARE_BYTES) -> bool:
    """Keep at most `most` bytes of arrays that are given back from now on; False where this thread does so already."""
    if "spare" in _own.__dict__:
        return False
    _own.__dict__["spare"] = _Spares(most)
    return True


def close_spares() -> None:
    """Free the arrays that were given back, and keep no more."""
    del _own.__dict__["spare"]


def spare_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array with arbitrary content: a given back array of this thread, or a new array."""
    spares: _Spares | None = _own.__dict__.get("spare")
    found = None if spares is None else spares.take(shape, dtype)
    return np.empty(shape, dtype) if found is None else found


def give_back(arrays: MutableSequence[Any], place: int) -> None:
    """Remove `arrays[place]`, and keep the memory for `spare_array` unless there are other references.

    Examples
    --------
    >>> opened, arrays = open_spares(), [np.zeros(10**5)]
    >>> was = arrays[0].ctypes.data
    >>> give_back(arrays, 0)
    >>> arrays, spare_array((10**5,), np.dtype("f8")).ctypes.data == was
    ([None], True)
    >>> close_spares()
    """
    array, arrays[place] = arrays[place], None
    spares: _Spares | None = _own.__dict__.get("spare")
    if spares is None:
        return
    if type(array) is np.ndarray and type(array.base) is np.ndarray:
        array = array.base  # the last view of an array
    if type(array) is not np.ndarray or array.nbytes <= SMALL or array.dtype.hasobject:
        return
    held = [array]
    del array
    if held[0].flags.owndata and _references(held) == _ALONE:
        held[0].setflags(write=True)
        spares.add(held[0])


def _references(held: list[Any]) -> int:
    """References to the entry of a list: from the list, and from this call, whose number differs between Pythons."""
    return getrefcount(held[0])


_ALONE = _references([object()])
