"""Constant arrays: `ones`, `zeros`, `empty`, `full` and their `_like` versions."""

from __future__ import annotations

import math
import operator
from typing import Any, cast

import numpy as np

from jmars.kernels.expression import Expression, constant
from jmars.tensor.buffers import Buffer, SmallValues
from jmars.tensor.operand import annotate, check_dtype, new_data
from jmars.tensor.ops.arguments import copied, takes_like
from jmars.tensor.ops.formula import ElementwiseOperand
from jmars.tensor.ops.ufuncs import cast_and_broadcast
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor


def shape_of(shape: Any) -> tuple[int, ...]:
    """Normalises a shape, given as an int or a sequence, to a tuple; raises ValueError for negative lengths."""
    whole = tuple(operator.index(n) for n in shape) if np.iterable(shape) else (operator.index(shape),)
    if any(n < 0 for n in whole):
        raise ValueError("negative dimensions are not allowed")
    return whole


def check_device(device: Any) -> None:
    """Raises ValueError for a device other than "cpu" or None."""
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')  # NumPy's words


def _constant(name: str, shape: Any, value: Any, dtype: Any, chunk_size: ChunkSize, chunks: ChunkSize) -> Tensor:
    """Makes a constant array: an expression without inputs; fusion joins it to readers."""
    whole, dtype = shape_of(shape), check_dtype(dtype)
    if name in ("zeros", "empty"):
        value = np.zeros((), dtype)  # of text "", not "0"
    splits = decide_splits(whole, dtype, chunk_size, chunks)
    is_lazy = any(isinstance(one, Tensor) for one in (shape if isinstance(shape, tuple | list) else [shape]))
    if is_lazy and all(len(axis) == 1 for axis in splits) and math.prod(whole) * dtype.itemsize <= SmallValues.chosen:
        return Tensor.at(Buffer.of(np.full(whole, value, dtype)))  # as of a shape that is known
    op = ElementwiseOperand(name, Expression((), (constant(value, dtype),)), splits)
    made = Tensor(new_data(op, whole, dtype, splits))
    made._place = Buffer(made.data, is_array=True)
    return made


@offers("ones")
@takes_like
def ones(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, gpu: bool | None = None,
         chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.ones`, in chunks of `chunk_size`; `gpu` as for `jmars.annotate`.

    Examples
    --------
    >>> ones(100, chunk_size=30).chunks
    ((30, 30, 30, 10),)
    """
    check_device(device)
    with annotate(gpu=gpu):
        return _constant("ones", shape, 1, dtype, chunk_size, chunks)._laid_out_like((), known_order(order))


@offers("zeros")
@takes_like
def zeros(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, gpu: bool | None = None,
          chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.zeros`, in chunks of `chunk_size`."""
    check_device(device)
    with annotate(gpu=gpu):
        return _constant("zeros", shape, 0, dtype, chunk_size, chunks)._laid_out_like((), known_order(order))


@offers("empty")
@takes_like
def empty(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, gpu: bool | None = None,
          chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.empty`, filled with zeros, so that repeated runs agree."""
    check_device(device)
    with annotate(gpu=gpu):
        return _constant("empty", shape, 0, dtype, chunk_size, chunks)._laid_out_like((), known_order(order))


@offers("full")
@takes_like
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None,
         gpu: bool | None = None, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.full`, in chunks of `chunk_size`; `fill_value` may be an array or tensor that broadcasts."""
    check_device(device)
    with annotate(gpu=gpu):
        return _filled(shape, fill_value, dtype, order, chunk_size, chunks)


def _filled(shape: Any, fill_value: Any, dtype: Any, order: str, chunk_size: ChunkSize, chunks: ChunkSize) -> Tensor:
    """Makes the array of `full`."""
    value: Any = copied(fill_value, check_dtype(dtype), "unsafe") if dtype is not None else fill_value
    if isinstance(value, Tensor) or np.ndim(value):
        value, whole = as_tensor(value), shape_of(shape)
        while value.ndim > len(whole) and value.shape[0] == 1:  # as `np.copyto`
            value = value[0]
        made = cast_and_broadcast(value, value.dtype, whole, decide_splits(whole, value.dtype, chunk_size, chunks))
    else:
        value = np.asarray(value)
        made = _constant("full", shape, value, value.dtype, chunk_size, chunks)
    return made._laid_out_like((), known_order(order))


def _constant_like(
    name: str, a: Any, value: Any, dtype: Any, order: str, shape: Any, chunk_size: ChunkSize, chunks: ChunkSize
) -> Tensor:
    """Makes a constant array; shape, dtype, order and chunks default to `a`'s."""
    x = as_tensor(a)
    if shape is None and chunk_size is None and chunks is None:
        chunks = x.chunks
    made = _constant(name, x.shape if shape is None else shape, value, x.dtype if dtype is None else dtype, chunk_size,
                   chunks)  # fmt: skip
    return _in_order_of(x, made, order)


def _in_order_of(x: Tensor, made: Tensor, order: str) -> Tensor:
    """Lay out a new array as NumPy's `_like` functions do; with a different number of axes, "K" is "C"."""
    return made._laid_out_like([x._place], "C" if order == "K" and made.ndim != x.ndim else order, is_copy=True)


def known_order(order: str | None) -> str:
    """The order of a new array, "C" or "F".

    Raises
    ------
    TypeError, ValueError
        NumPy's, for others.
    """
    np.empty(0, order=cast(Any, order))  # raises NumPy's errors
    if order not in ("C", "F", None):
        raise ValueError("only 'C' or 'F' order is permitted")
    return order or "C"


@offers("ones_like")
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
              device: Any = None, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.ones_like`, with the chunks of `a` by default."""
    check_device(device)
    return _constant_like("ones", a, 1, dtype, order, shape, chunk_size, chunks)


@offers("zeros_like")
def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
               device: Any = None, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.zeros_like`, with the chunks of `a` by default."""
    check_device(device)
    return _constant_like("zeros", a, 0, dtype, order, shape, chunk_size, chunks)


@offers("empty_like")
def empty_like(prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
               device: Any = None, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.empty_like`, filled with zeros, with the chunks of `prototype` by default."""
    check_device(device)
    return _constant_like("empty", prototype, 0, dtype, order, shape, chunk_size, chunks)


@offers("full_like")
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
              device: Any = None, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.full_like`, with the chunks of `a` by default; `fill_value` is cast as in an assignment."""
    check_device(device)
    x = as_tensor(a)
    kind = x.dtype if dtype is None else check_dtype(dtype)
    cut = x.chunks if shape is None and chunk_size is None and chunks is None else chunks
    made = full(x.shape if shape is None else shape, fill_value, kind, chunk_size=chunk_size, chunks=cut)
    return _in_order_of(x, made, order)
