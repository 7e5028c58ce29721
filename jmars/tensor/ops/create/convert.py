"""Converts arrays, lists and numbers to tensors: `asarray`, `array`, `from_dlpack`."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any, cast

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.buffers import layout_of, normal_copy, normal_order
from jmars.tensor.operand import cast_dtype
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.chunks.rechunk import rechunk, rechunked
from jmars.tensor.ops.create.constants import check_device
from jmars.tensor.ops.create.like_argument import takes_like
from jmars.tensor.ops.elementwise.ufuncs import astype, ufunc
from jmars.tensor.ops.reduce.reduction import all_
from jmars.tensor.ops.shape.concatenate import stack
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.steps import share, step, view
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["array", "asarray", "from_dlpack", "tensor"]

Array = np.ndarray[Any, Any]


_REQUIREMENTS = {letter: letter for letter in "CFAWOE"} | {
    "C_CONTIGUOUS": "C", "CONTIGUOUS": "C", "F_CONTIGUOUS": "F", "FORTRAN": "F", "ALIGNED": "A", "WRITEABLE": "W",
    "OWNDATA": "O", "ENSUREARRAY": "E",
}  # fmt: skip


@offers("ascontiguousarray")
@takes_like
def ascontiguousarray(a: Any, dtype: Any = None) -> Tensor:
    """`np.ascontiguousarray`: a copy where the elements do not lie in C order; at least one axis."""
    x = asarray(a, dtype)
    return _in_order(x if x.ndim else x.reshape(1), "C")


@offers("asfortranarray")
@takes_like
def asfortranarray(a: Any, dtype: Any = None) -> Tensor:
    """`np.asfortranarray`: a copy where the elements do not lie in Fortran order; at least one axis."""
    x = asarray(a, dtype)
    return _in_order(x if x.ndim else x.reshape(1), "F")


@offers("require")
@takes_like
def require(a: Any, dtype: Any = None, requirements: Any = None) -> Tensor:
    """`np.require`: the array, or a copy with the order in memory, ownership and writability that are required."""
    needs = {_REQUIREMENTS[one.upper()] for one in requirements or ()}
    if {"C", "F"} <= needs:
        raise ValueError('Cannot specify both "C" and "F" order')  # NumPy's words
    x = _in_order(asarray(a, dtype), next((one for one in "CF" if one in needs), None))
    fits = (x.flags.owndata or "O" not in needs) and (x.flags.writeable or "W" not in needs)
    return x if fits else Tensor(x.data)._laid_out_like((x._place,), "K", is_copy=True)


def _in_order(x: Tensor, order: str | None) -> Tensor:
    """The tensor, or a copy where its elements do not lie in order "C" or "F"; "A", "K" and None keep any order.

    Raises
    ------
    ValueError
        If `order` is none of these.
    """
    order = normal_order(order)
    fits = order not in ("C", "F") or (x.flags.c_contiguous if order == "C" else x.flags.f_contiguous)
    return x if fits else Tensor(x.data)._laid_out_like((), order)


@offers("asarray", "asanyarray")
@takes_like
def asarray(a: Any, dtype: Any = None, order: str | None = None, *, device: Any = None, copy: bool | None = None,
            chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.asarray`: returns a tensor as it is, takes other arrays by reference, in chunks of `chunk_size`.

    Raises
    ------
    ValueError
        If `copy` is False and dtype or order in memory need a copy.
    """
    check_device(device)
    copy = normal_copy(copy)
    if copy:
        return array(a, dtype, order=order or "K", chunk_size=chunk_size, chunks=chunks)
    if copy is False and not _is_as_asked(a, dtype, order):
        raise ValueError("Unable to avoid copy while creating an array as requested.")  # NumPy's words
    if isinstance(a, list | tuple) and _holds_tensors(a):
        a = stack([asarray(entry, dtype) for entry in a])
    if not isinstance(a, Tensor):
        return _in_order(as_tensor(a, dtype, chunk_size, chunks), order)
    x = a if a._place.is_array else _copied(a)  # of NumPy's scalars
    x = _in_order(x if dtype is None or x.dtype == cast_dtype(x.dtype, dtype) else astype(x, dtype), order)
    if chunk_size is None and chunks is None:
        return x
    cutting = step(
        lambda whole: rechunk(whole, chunk_size, chunks),
        lambda whole, part: rechunk(part, chunks=whole.chunks),
        lambda array: array,
    )
    return share(rechunk(x, chunk_size, chunks), x, cutting)


def _copied(x: Tensor) -> Tensor:
    """A new array, also of a scalar."""
    made = Tensor(x.data)
    made._place.buffer.is_array = True
    return made


def _is_as_asked(a: Any, dtype: Any, order: str | None) -> bool:
    """Whether an array has the dtype and the order in memory."""
    if not isinstance(a, Tensor):
        return isinstance(a, np.ndarray) and np.asarray(a, dtype, order) is a  # type: ignore[arg-type]
    of_dtype = dtype is None or a.dtype == cast_dtype(a.dtype, dtype)
    return a._place.is_array and of_dtype and _in_order(a, order) is a


@offers("asarray_chkfinite")
def asarray_chkfinite(a: Any, dtype: Any = None, order: str | None = None) -> Tensor:
    """`np.asarray_chkfinite`: computes at once whether all elements are finite; raises ValueError if not."""
    x = asarray(a, dtype, order)
    if x.dtype.kind in "fc" and not bool(all_(ufunc("isfinite")(x))):
        raise ValueError("array must not contain infs or NaNs")
    return x


@offers("array")
@takes_like
def array(a: Any, dtype: Any = None, *, copy: bool | None = True, order: str | None = "K", subok: bool = False,
          ndmin: int = 0, ndmax: Any = np._NoValue, chunk_size: ChunkSize = None, chunks: ChunkSize = None
          ) -> Tensor:  # fmt: skip
    """`np.array`: makes a tensor of an array, list or number; for a tensor, a copy unless `copy` is not True.

    Parameters
    ----------
    a
        With `copy` other than True a tensor is returned as it is where dtype and order fit, and an array is taken by
        reference, with its values at the time of submission.
    chunk_size, chunks
        Chunk size of the tensor; see `jmars.tensor.splits.decide_splits`.

    Examples
    --------
    >>> array([[1, 2], [3, 4]], chunk_size=1).chunks
    ((1, 1), (1, 1))
    """
    copy, ndmin = normal_copy(copy), operator.index(ndmin)
    if ndmax is not np._NoValue:
        checked = np.array(
            np.zeros((1,) * a.ndim, a.dtype) if isinstance(a, Tensor) else a, dtype, ndmin=ndmin, ndmax=ndmax
        )  # raises NumPy's errors
        a = a if isinstance(a, Tensor) or copy is False else checked
    if copy and isinstance(a, np.ndarray):
        a = a.copy(order="K")
    if copy:
        x = asarray(a, dtype, chunk_size=chunk_size, chunks=chunks)
        x = _copied(x)._laid_out_like([x._place], "K" if order is None else order, is_copy=True)
    else:
        x = asarray(a, dtype, order, copy=copy, chunk_size=chunk_size, chunks=chunks)
    return x if x.ndim >= ndmin else x.reshape((1,) * (ndmin - x.ndim) + x.shape)


@offers("method.view")
def reinterpret(x: Tensor, dtype: Any = None) -> Tensor:
    """`x.view`: reinterprets the bytes of the elements as another dtype; of another size, along the last axis.

    Raises
    ------
    ValueError
        NumPy's, where the elements of the last axis do not make up whole elements, or do not lie side by side.
    """
    if dtype is None:
        return view(x)
    kind = np.dtype(dtype)
    if kind.itemsize != x.dtype.itemsize:
        assert x.size >= 0  # lengths are known from here on
        shape = cast(Array, layout_of(x.state().place)).view(kind).shape  # NumPy's errors
        if len(shape) != x.ndim:
            raise UnsupportedError(f"a view as {kind}, which adds axes, is not in jmars; view the value, x.fetch()")
    own = x.dtype
    fields = kind.fields or {}
    has_gaps = bool(fields) and sum(one[0].itemsize for one in fields.values()) < kind.itemsize
    viewing = step(
        lambda whole: _viewed(whole, kind),
        None if has_gaps else lambda whole, part: Tensor(rechunked(_viewed(part, own).data, whole.data.chunks)),
        lambda array: array.view(kind),
    )
    return share(_viewed(x, kind), x, viewing)


def _viewed(x: Tensor, kind: np.dtype[Any]) -> Tensor:
    """The bytes of the elements as another dtype, each chunk alone."""
    old, new = x.dtype.itemsize, kind.itemsize
    if old == new:
        return blockwise("view", _view_block, [x], x.chunks, kind, (kind,))
    unit = math.lcm(old, new) // old  # elements that make up whole elements
    ends = [end if end == x.shape[-1] else end - end % unit for end in itertools.accumulate(x.chunks[-1])]
    lengths = tuple(n for start, end in itertools.pairwise([0, *ends]) if (n := end - start)) or (0,)
    data = rechunked(x.data, (*x.chunks[:-1], lengths))
    chunks = (*x.chunks[:-1], tuple(n * old // new for n in lengths))
    return blockwise("view", _view_block, [Tensor(data)], chunks, kind, (kind,))


def _view_block(block: Any, kind: np.dtype[Any]) -> Any:
    return np.ascontiguousarray(block).view(kind)


@offers("tensor")
def tensor(data: Any, dtype: Any = None, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
    """Makes a tensor of an array, list or number, as in Mars."""
    return Tensor(asarray(data, dtype, chunk_size=chunk_size, chunks=chunks).data)


@offers("from_dlpack")
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """`np.from_dlpack`: takes an array of another library by reference; for a tensor, a view.

    Parameters
    ----------
    device
        "cpu" or None.
    copy
        True copies the memory now; None and False keep a reference.

    Raises
    ------
    BufferError
        If the array lies on a device that NumPy cannot read.

    Examples
    --------
    >>> from_dlpack(np.arange(3)).shape
    (3,)
    """
    copy = normal_copy(copy)
    if isinstance(x, Tensor):
        if not x._place.is_array:
            raise AttributeError(
                f"'numpy.{x.dtype.type.__name__}' object has no attribute '__dlpack__'"
            )  # NumPy's words
        if x.dtype.kind not in "biufc":
            raise BufferError("DLPack only supports signed/unsigned integers, float and complex dtypes.")
        if not x.dtype.isnative:
            raise BufferError("DLPack only supports native byte order.")  # NumPy's words
        check_device(device)
        there = x.to_device(device or "cpu")
        return array(there) if copy else view(there)
    return as_tensor(np.from_dlpack(x, device=device, copy=copy))


def _holds_tensors(value: Any) -> bool:
    """Whether nested lists contain a tensor."""
    return isinstance(value, Tensor) or (isinstance(value, list | tuple) and any(map(_holds_tensors, value)))
