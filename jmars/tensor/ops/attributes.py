"""Shape, dtype and text of tensors, by NumPy's function names; only the text computes values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.tensor.buffers import layout_of
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor


@offers("ndim")
def ndim(a: Any) -> int:
    """`np.ndim`."""
    return a.ndim if isinstance(a, Tensor) else np.ndim(a)


@offers("shape")
def shape(a: Any) -> tuple[int, ...]:
    """`np.shape`."""
    return a.shape if isinstance(a, Tensor) else np.shape(a)


@offers("size")
def size(a: Any, axis: Any = None) -> int:
    """`np.size`."""
    if axis is None:
        return math.prod(shape(a))
    axes = np.lib.array_utils.normalize_axis_tuple(axis, ndim(a))
    return math.prod(shape(a)[i] for i in axes)


@offers("isscalar")
def isscalar(element: Any) -> bool:
    """`np.isscalar`: also of tensors without axes where NumPy has a scalar."""
    return not (element.ndim or element._place.is_array) if isinstance(element, Tensor) else np.isscalar(element)


@offers("iscomplexobj")
def iscomplexobj(x: Any) -> bool:
    """`np.iscomplexobj`."""
    return x.dtype.kind == "c" if isinstance(x, Tensor) else np.iscomplexobj(x)


@offers("isrealobj")
def isrealobj(x: Any) -> bool:
    """`np.isrealobj`."""
    return not iscomplexobj(x)


def _dtype_of(value: Any) -> Any:
    return value.dtype if isinstance(value, Tensor) else value


@offers("result_type")
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """`np.result_type`."""
    return np.result_type(*map(_dtype_of, arrays_and_dtypes))


@offers("can_cast")
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """`np.can_cast`."""
    if isinstance(to, Tensor) and not to._place.is_array:
        to = to.dtype
    if isinstance(to, Tensor | np.ndarray):
        raise TypeError("Cannot construct a dtype from an array")  # NumPy's words
    return np.can_cast(_dtype_of(from_), to, casting)


@offers("common_type")
def common_type(*arrays: Any) -> Any:
    """`np.common_type`."""
    return np.common_type(*(np.empty(0, _dtype_of(a)) if isinstance(a, Tensor) else a for a in arrays))


@offers("array_str")
def array_str(a: Any, *args: Any, **kwargs: Any) -> str:
    """`np.array_str`: computes the tensor; for a large tensor without options only the corners."""
    return np.array_str(np.asarray(a), *args, **kwargs) if args or kwargs else str(a)


@offers("array2string")
def array2string(a: Any, *args: Any, **kwargs: Any) -> str:
    """`np.array2string`: computes the tensor; for a large tensor without options only the corners."""
    return str(a) if a.ndim and not args and not kwargs else np.array2string(np.asarray(a), *args, **kwargs)


@offers("array_repr")
def array_repr(arr: Any, *args: Any, **kwargs: Any) -> str:
    """`np.array_repr`: computes the tensor."""
    return np.array_repr(np.asarray(arr.fetch()), *args, **kwargs)


@offers("shares_memory")
def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """`np.shares_memory`: whether a write to a tensor is seen in the other tensor; False for a tensor and an array."""
    np.shares_memory(np.zeros(0), np.zeros(0), max_work)  # raises NumPy's errors
    return _overlap(np.shares_memory, a, b)


@offers("may_share_memory")
def may_share_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """`np.may_share_memory`: whether the parts of a buffer between first and last elements overlap."""
    np.may_share_memory(np.zeros(0), np.zeros(0), max_work)  # raises NumPy's errors
    return _overlap(np.may_share_memory, a, b)


def _overlap(asked: Callable[[Any, Any], bool], a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):  # of text, never lazy
        return asked(a, b)
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or a._place.buffer is not b._place.buffer:
        return False
    known = [one for one in (a._place.memory, b._place.memory) if one is not None]
    if len(known) == 2:
        return asked(*known)
    layouts = layout_of(a._place), layout_of(b._place)
    return None in [None if one is None else 0 for one in layouts] or asked(*layouts)
