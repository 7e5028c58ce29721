"""Sorting: `sort`, `argsort`, `partition`, `lexsort`: short lines in a single chunk, long lines by ranges.

Long 1-d or flattened arrays keep their chunks (sample_sort.py); the order of equal elements is stable then.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.blockwise.single_chunk import map_along, single_chunk_along
from jmars.tensor.ops.elementwise.ufuncs import astype, native
from jmars.tensor.ops.index.structured import check_sort_order
from jmars.tensor.ops.shape.axes import names_no_axis, normal_axis
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.ops.sort.sample_sort import argsort_long_axis, sort_long_axis
from jmars.tensor.protocols import call, offers
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["argpartition", "argsort", "exceeds_chunk", "lexsort", "partition", "sort"]

Array = np.ndarray[Any, Any]
LONG = 2**24  # bytes from which on an array is sorted chunk by chunk by all workers


def _map_lines(name: str, function: Callable[..., Any], a: Any, axis: int | None, **kwargs: Any) -> Tensor:
    """Applies `function(block, axis=..., **kwargs)`, which keeps the shape, along one axis."""
    x = as_tensor(a)
    if axis is None or (name.startswith("arg") and names_no_axis(axis, x.ndim)):
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    _check_options(function, None if 0 in x.data.shape else x.data.shape[axis], kwargs)
    dtype = np.dtype(np.intp) if name.startswith("arg") else x.dtype
    return map_along(name, function, x, [axis], dtype=dtype, axis=axis, **kwargs)


def _check_options(function: Callable[..., Any], length: Any, options: dict[str, Any]) -> None:
    """Raises NumPy's errors for `kind`, `stable` and `kth` of a function that orders lines of this length."""
    options = {name: one for name, one in options.items() if name != "order"}
    if "kth" not in options:
        function(np.zeros(0), **options)
        return
    at = np.asarray(options["kth"])
    function(np.zeros(1), np.zeros_like(at), kind=options["kind"])
    if isinstance(length, int) and (wrong := at[(at < -length) | (at >= length)]).size:
        raise ValueError(f"kth(={wrong[0]}) out of bounds ({length})")


def exceeds_chunk(x: Tensor, axis: int | None) -> bool:
    """Whether a 1-d or flattened array has several chunks and is too large for one chunk."""
    one = x.ndim == 1 and axis in (None, 0, -1) or axis is None
    return one and x.nbytes > min(LONG, chunk_bytes()) and math.prod(map(len, x.chunks)) > 1


@offers("sort")
def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """`np.sort`: sorts along an axis; NaN comes last.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> sort(-arange(5, chunk_size=2)).fetch().tolist()
    [-4, -3, -2, -1, 0]
    """
    x = as_tensor(a)
    check_sort_order(x, order)
    if exceeds_chunk(x, axis) and x.dtype.names is None:
        _check_options(np.sort, None, {"kind": kind, "stable": stable})
        return astype(sort_long_axis(ravel(native(x))), x.dtype)
    return _map_lines("sort", np.sort, x, axis, kind=kind, order=order, stable=stable)


@offers("argsort")
def argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """`np.argsort`: positions that sort an array along an axis."""
    x = as_tensor(a)
    check_sort_order(x, order)
    if exceeds_chunk(x, axis) and x.dtype.names is None:
        _check_options(np.argsort, None, {"kind": kind, "stable": stable})
        return argsort_long_axis([ravel(native(x))])
    return _map_lines("argsort", np.argsort, a, axis, kind=kind, order=order, stable=stable)


@offers("partition")
def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """`np.partition`: puts element `kth` at the sorted position, smaller elements before; sorts a long line."""
    x = as_tensor(a)
    check_sort_order(x, order)
    if exceeds_chunk(x, axis) and x.dtype.names is None:
        _check_options(np.partition, x.size, {"kth": kth, "kind": kind})
        return sort(x, axis)
    return _map_lines("partition", np.partition, a, axis, kth=kth, kind=kind, order=order)


@offers("argpartition")
def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """`np.argpartition`: positions that partition an array along an axis; those that sort a long line."""
    x = as_tensor(a)
    check_sort_order(x, order)
    if exceeds_chunk(x, axis) and x.dtype.names is None:
        _check_options(np.argpartition, x.size, {"kth": kth, "kind": kind})
        return argsort(x, axis)
    return _map_lines("argpartition", np.argpartition, a, axis, kth=kth, kind=kind, order=order)


@offers("sort_complex")
def sort_complex(a: Any) -> Tensor:
    """`np.sort_complex`: sorts by real part, then by imaginary part."""
    x = as_tensor(a)
    kind = np.sort_complex(np.zeros(0, x.dtype)).dtype
    if exceeds_chunk(x, -1):
        return astype(sort(x), kind)  # times: NaT, a number among complex numbers, is the last
    return map_along("sort_complex", np.sort_complex, x, [x.ndim - 1], dtype=kind)


@offers("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """`np.lexsort`: positions that sort by several keys along an axis; the last key is the primary key."""
    rows = [as_tensor(x) for x in (keys if isinstance(keys, tuple | list) else list(as_tensor(keys)))]
    if not rows:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if not rows[0].ndim:
        normal_axis(operator.index(axis), 1)  # as if there were an axis
        return cast(Tensor, call("zeros", (), np.intp))
    axis = normal_axis(axis, rows[0].ndim)
    if exceeds_chunk(rows[0], axis) and all(x.shape == rows[0].shape for x in rows):
        return argsort_long_axis([native(x) for x in rows[::-1]])
    rows = [single_chunk_along(x, [axis]) for x in rows]
    rows = [x.rechunk(rows[0].chunks) for x in rows]
    return blockwise("lexsort", _lexsort, rows, rows[0].chunks, np.intp, (axis,))


def _lexsort(*more: Any) -> Array:
    *keys, axis = more
    return np.asarray(np.lexsort(keys, axis))
