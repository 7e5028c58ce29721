"""How one NumPy array is a view of another: the slices, transposes and reshapes that lead from the one to the other.

NumPy keeps addresses and strides only. The steps are guessed from them, tried on the array itself, and taken where they
give the very view.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.tensor.from_array import COPIED

Array = np.ndarray[Any, Any]
Path = Callable[[Any], Any]  # from the array to the view, for NumPy arrays and tensors
MOST_WORK = 10_000  # of NumPy's exact answer to `shares_memory`


def shares_memory(a: Array, b: Array) -> bool:
    """Whether two arrays have common elements; True where that takes long to find out."""
    try:
        return bool(np.may_share_memory(a, b) and np.shares_memory(a, b, max_work=MOST_WORK))  # type: ignore[arg-type]  # NumPy takes any number
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(array: Array) -> bool:
    """Whether elements may share memory with one another, as those of sliding windows do.

    Examples
    --------
    >>> a = np.arange(10)
    >>> overlaps_itself(a[::2]), overlaps_itself(np.lib.stride_tricks.sliding_window_view(a, 3))
    (False, True)
    """
    reach = array.itemsize
    for step, length in sorted((abs(step), n) for step, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if step < reach:
            return array.size > 0
        reach += step * (length - 1)
    return False


def root_of(array: Array) -> Array:
    """The array that owns the memory, as far as NumPy knows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def host_of(arrays: Sequence[Array]) -> Array:
    """The array of which all are views, if it is one of them or small; else the largest."""
    largest = max(arrays, key=lambda one: one.nbytes)
    if len(arrays) == 1:
        return largest
    base = root_of(largest)
    is_known = any(one is base for one in arrays) or base.nbytes <= COPIED
    return base if is_known and type(base) in (np.ndarray, np.memmap) and base.dtype == largest.dtype else largest


def path_to(whole: Array, view: Array) -> Path | None:
    """The steps from an array to a view of it; None where they are not found.

    Examples
    --------
    >>> a = np.arange(24).reshape(4, 6)
    >>> path_to(a, a[::-2, 1:4].T)(a).tolist()
    [[19, 7], [20, 8], [21, 9]]
    >>> path_to(a, a.ravel()[3:9])(a).tolist()
    [3, 4, 5, 6, 7, 8]
    >>> path_to(a.T, a[1])(a.T).tolist()
    [6, 7, 8, 9, 10, 11]
    >>> path_to(a, a.view("f8")) is None
    True
    """
    if whole.dtype != view.dtype or not view.size:
        return None
    order = sorted(range(whole.ndim), key=lambda axis: -abs(whole.strides[axis]))
    paths = [_by_axes(whole, view)]
    if (turned := whole.transpose(order)).flags.c_contiguous:
        in_order = [path for path in (_by_reshape(turned, view), _by_flat(turned, view)) if path is not None]
        paths += [_after_transpose(order, path) for path in in_order]
    return next((path for path in paths if path is not None and _leads_to(path, whole, view)), None)


def _after_transpose(order: Sequence[int], path: Path) -> Path:
    return path if list(order) == sorted(order) else lambda x: path(x.transpose(order))


def _by_axes(whole: Array, view: Array) -> Path | None:
    """A basic index, and another order of the axes."""
    offset = _address(view) - _address(whole)
    rows = sorted(range(whole.ndim), key=lambda axis: -abs(whole.strides[axis]))
    entries: list[Any] = [0] * whole.ndim
    for axis in rows:
        step, length = whole.strides[axis], whole.shape[axis]
        if step and length > 1:
            entries[axis], offset = min(max(offset // step, 0), length - 1), offset % abs(step)
    taken: list[int] = []
    for axis in (axis for axis in range(view.ndim) if view.shape[axis] > 1):
        fits = (k for k in rows if k not in taken and whole.shape[k] > 1 and whole.strides[k])
        row = next((k for k in fits if view.strides[axis] % whole.strides[k] == 0), None)
        if row is None:
            return None
        start, step = entries[row], view.strides[axis] // whole.strides[row]
        stop = start + step * (view.shape[axis] - 1) + (1 if step > 0 else -1)
        entries[row] = slice(start, stop if stop >= 0 else None, step)
        taken.append(row)
    index, order = tuple(entries), tuple(int(one) for one in np.argsort(np.argsort(taken)))
    fresh = tuple(None if length == 1 else slice(None) for length in view.shape)
    return lambda x: x[index].transpose(order)[fresh] if order != tuple(range(len(order))) else x[index][fresh]


def _by_reshape(whole: Array, view: Array) -> Path | None:
    """A reshape to axes whose strides divide those of the view, and a basic index."""
    size = whole.itemsize
    steps = sorted({abs(step) // size for n, step in zip(view.shape, view.strides, strict=True) if n > 1 and step})
    lengths, left = [], whole.size
    for step in reversed(steps):
        stride = math.gcd(step, left)
        lengths.append(left // stride)
        left = stride
    shape = (*lengths, left)
    path = _by_axes(whole.reshape(shape), view)
    return None if path is None else lambda x: path(x.reshape(shape))


def _by_flat(whole: Array, view: Array) -> Path | None:
    """A slice of all elements in their order, reshaped."""
    size = whole.itemsize
    start = (_address(view) - _address(whole)) // size
    if view.flags.c_contiguous:
        step, shape = 1, view.shape
    elif view.ndim == 1 and view.strides[0] % size == 0:
        step, shape = view.strides[0] // size, view.shape
    else:
        return None
    stop = start + step * (view.size - 1) + (1 if step > 0 else -1)
    part = slice(start, stop if stop >= 0 else None, step)
    return lambda x: x.reshape(-1)[part].reshape(shape)


def _leads_to(path: Path, whole: Array, view: Array) -> bool:
    try:
        found = path(whole)
    except (IndexError, ValueError):  # the view begins outside of the array
        return False
    if found.shape != view.shape or _address(found) != _address(view):
        return False
    return all(n == 1 or a == b for n, a, b in zip(view.shape, found.strides, view.strides, strict=True))


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
