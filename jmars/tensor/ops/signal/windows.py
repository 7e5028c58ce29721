"""Window functions, and the special functions `sinc` and `i0`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.errors import ObjectArrayError
from jmars.kernels.program import ChunkType
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.create.ranges import arange
from jmars.tensor.ops.elementwise.ufuncs import astype, ufunc, where
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["bartlett", "blackman", "hamming", "hanning", "i0", "kaiser", "sinc"]

Array = np.ndarray[Any, Any]
BLOCK = 2**16  # elements that are computed at once


@offers("sinc")
def sinc(x: Any) -> Tensor:
    """`np.sinc`: sin(πx) / (πx)."""
    y = ufunc("multiply")(np.pi, as_tensor(x))
    tiny = np.finfo(y.dtype).eps if y.dtype.kind == "f" else 1e-20
    y = where(y != 0, y, tiny)
    return ufunc("sin")(y) / y  # type: ignore[no-any-return]


@offers("i0")
def i0(x: Any) -> Tensor:
    """`np.i0`: modified Bessel function of the first kind, order 0."""
    data = as_tensor(x)
    if data.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    data = data if data.dtype.kind == "f" else astype(data, float)
    dtype = np.i0(np.ones(1, data.dtype)).dtype
    return blockwise("i0", _i0, [data], data.chunks, dtype, writes=True, scratch=_of_block)


def _i0(out: Array, block: Array) -> None:
    """`np.i0`, part by part: NumPy makes some ten arrays of the argument's size."""
    _in_parts(out, block, np.i0)


def _in_parts(out: Array, block: Array, function: Callable[[Array], Array]) -> None:
    line, source = out.reshape(-1), block.reshape(-1)
    for start in range(0, line.size, BLOCK):
        line[start : start + BLOCK] = function(source[start : start + BLOCK])


def _of_block(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    return 10 * min(out.nbytes, BLOCK * out.dtype.itemsize) + blocks[0].nbytes


def _window(name: str, M: Any, *options: Any) -> Tensor:
    """Makes a window of `M` points, computed from positions."""
    values = np.array([0.0, M, *options])  # numbers of any dtype, in NumPy too
    if values.dtype.hasobject:
        raise ObjectArrayError(f"np.{name} of {values.dtype!r} gives objects, which cannot be distributed")
    length, *more = values[1:]
    if length < 2:
        return as_tensor(getattr(np, name)(length, *more))
    getattr(np, name)(2, *more)  # raises NumPy's errors
    at = arange(math.ceil(length if name == "kaiser" else length - 0.5), dtype=length.dtype)
    params = (name, length, *more)
    return blockwise(name, _window_block, [at], at.chunks, at.dtype, params, writes=True, scratch=_of_block)


def _window_block(out: Array, at: Array, name: str, n: float, *more: Any) -> None:
    _in_parts(out, at, lambda part: _window_part(part, name, n, *more))


def _window_part(at: Array, name: str, n: float, *more: Any) -> Array:
    """Evaluates a window at positions `at`, with NumPy's formulas."""
    x = 2.0 * at + (1.0 - n)
    if name == "hanning":
        return 0.5 + 0.5 * np.cos(np.pi * x / (n - 1.0))
    if name == "hamming":
        return 0.54 + 0.46 * np.cos(np.pi * x / (n - 1.0))
    if name == "blackman":
        return 0.42 + 0.5 * np.cos(np.pi * x / (n - 1.0)) + 0.08 * np.cos(2.0 * np.pi * x / (n - 1.0))
    if name == "bartlett":
        return np.where(x <= 0, 1 + x / (n - 1.0), 1 - x / (n - 1.0))
    (beta,) = more
    alpha = (n - 1) / 2.0
    return np.i0(beta * np.sqrt(1 - ((at - alpha) / alpha) ** 2.0)) / np.i0(beta)


@offers("hanning")
def hanning(M: Any) -> Tensor:
    """`np.hanning`: raised cosine window."""
    return _window("hanning", M)


@offers("hamming")
def hamming(M: Any) -> Tensor:
    """`np.hamming`: raised cosine window that does not reach 0."""
    return _window("hamming", M)


@offers("blackman")
def blackman(M: Any) -> Tensor:
    """`np.blackman`: sum of three cosine terms."""
    return _window("blackman", M)


@offers("bartlett")
def bartlett(M: Any) -> Tensor:
    """`np.bartlett`: triangular window."""
    return _window("bartlett", M)


@offers("kaiser")
def kaiser(M: Any, beta: float) -> Tensor:
    """`np.kaiser`: window by a Bessel function."""
    return _window("kaiser", M, beta)
