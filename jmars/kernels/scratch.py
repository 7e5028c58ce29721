"""Memory of a thread that kernels use again: block buffers, and arrays that ended (`spares`).

A large array that the C library just mapped costs 2 to 9 times as much to write as an array whose pages are there.
Dask's workers give every array back to the system at once (`MALLOC_TRIM_THRESHOLD_`), so chunks that do not leave a
kernel or a group are kept here for the next chunk of the same type. A thread has such spares only between
`open_spares` and `close_spares`: in a kernel, in a group, or for good in a worker of an engine.
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
SPARE_BYTES = 2**26  # of arrays that a thread keeps
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


def open_spares() -> bool:
    """Keep arrays that are given back from now on; False where this thread does so already."""
    if "spare" in _own.__dict__:
        return False
    _own.__dict__["spare"] = []
    return True


def close_spares() -> None:
    """Free the arrays that were given back, and keep no more."""
    del _own.__dict__["spare"]


def spare_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array with arbitrary content: one that was given back to this thread, or a new one."""
    found: list[Array] | None = _own.__dict__.get("spare")
    if found:
        for place in range(len(found) - 1, -1, -1):
            if found[place].shape == shape and found[place].dtype == dtype:
                return found.pop(place)
    return np.empty(shape, dtype)


def give_back(arrays: MutableSequence[Any], place: int) -> None:
    """Remove `arrays[place]`, and keep its memory for `spare_array` unless anything else still refers to it.

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
    spare: list[Array] | None = _own.__dict__.get("spare")
    if spare is None:
        return
    if type(array) is np.ndarray and type(array.base) is np.ndarray:
        array = array.base  # the last view of an array
    if type(array) is not np.ndarray or not SMALL < array.nbytes <= SPARE_BYTES or array.dtype.hasobject:
        return
    if array.flags.owndata and getrefcount(array) == 2:  # `array`, and the argument
        array.setflags(write=True)
        spare.append(array)
        while sum([one.nbytes for one in spare]) > SPARE_BYTES:
            del spare[0]  # given back longest ago
