"""Lines as signals: convolution, interpolation, slopes, areas, phases, windows.

Used as `jmars.tensor.<name>` and by NumPy's protocols.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.create.ranges import arange
from jmars.tensor.ops.elementwise.ufuncs import astype, ufunc, where
from jmars.tensor.ops.reduce.cumulative import cumsum, diff
from jmars.tensor.ops.reduce.reduction import sum_
from jmars.tensor.ops.shape.axes import moveaxis, normal_axis
from jmars.tensor.ops.shape.concatenate import concatenate, slice_axis, stack
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["convolve", "correlate", "cross", "gradient", "interp", "trapezoid", "unwrap"]

Array = np.ndarray[Any, Any]


@offers("convolve")
def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """`np.convolve` of two lines: the shorter one goes to every chunk of the longer one.

    Each output chunk reads the elements of the longer line that it needs and no more.

    Raises
    ------
    ValueError
        If a line is empty or there is no such `mode`.

    Examples
    --------
    >>> convolve(arange(5, chunk_size=2), [1, 1], "valid").fetch().tolist()
    [1, 3, 5, 7]
    """
    long, short = ravel(a), ravel(v)
    if not long.size or not short.size:
        raise ValueError(f"{'a' if not long.size else 'v'} cannot be empty")
    if long.size < short.size:
        long, short = short, long
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    n, m = long.size, short.size
    dtype = np.convolve(np.zeros(1, long.dtype), np.zeros(1, short.dtype)).dtype
    first = {"full": 0, "same": (m - 1) // 2, "valid": m - 1}[mode]
    length = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    parts, start = [], first  # output element k of "full" reads long[k - m + 1 : k + 1]
    kernel = short.rechunk(-1)
    for size in _like(long.chunks[0], length):
        low, high = max(0, start - m + 1), min(n, start + size)
        piece = Tensor(rechunked(slice_axis(long, 0, slice(low, high)).data, ((high - low,),)))
        parts.append(blockwise("convolve", _convolved, [piece, kernel], ((size,),), dtype, (start - low, size)))
        start += size
    return concatenate(parts)


def _like(cut: Sequence[int], length: int) -> list[int]:
    """A cut of `length` near to another one."""
    found: list[int] = []
    for n in cut:
        take = min(n, length - sum(found))
        if take:
            found.append(take)
    if (rest := length - sum(found)) > 0:
        if rest > max(cut):
            found.append(rest)
        else:
            found[-1:] = [found[-1] + rest] if found else [rest]
    return found or [0]


def _convolved(piece: Array, kernel: Array, first: int, size: int) -> Array:
    """Elements [first, first + size) of the full convolution."""
    return np.convolve(piece, kernel, "full")[first : first + size]


@offers("correlate")
def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """`np.correlate` of two lines: the convolution with the second one turned round and conjugated."""
    x, y = ravel(a), ravel(v)
    turned = slice_axis(y, 0, slice(None, None, -1))
    turned = turned.conj() if y.dtype.kind == "c" else turned
    if x.size >= y.size or mode == "full":
        return convolve(x, turned, mode)
    whole = convolve(x, turned, "full")  # NumPy swaps them and turns the result
    n, m = x.size, y.size
    if mode == "valid":
        return Tensor(slice_axis(whole, 0, slice(n - 1, m)).data)
    if mode != "same":
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    return Tensor(slice_axis(whole, 0, slice(n // 2, n // 2 + m)).data)


@offers("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    """`np.interp`: a line through points, read at `x`; the points are one chunk and go to every chunk of `x`."""
    data, xs, fs = as_tensor(x), as_tensor(xp).rechunk(-1), as_tensor(fp).rechunk(-1)
    if xs.ndim != 1 or xs.shape != fs.shape:
        raise ValueError(
            "fp and xp are not of the same length." if xs.ndim == fs.ndim == 1 else "Data points must be 1-D"
        )
    if not xs.size:
        raise ValueError("array of sample points is empty")
    dtype = np.complex128 if fs.dtype.kind == "c" else np.float64
    return blockwise("interp", _interp, [data, xs, fs], data.chunks, dtype, (left, right, period))


def _interp(block: Array, xp: Array, fp: Array, left: Any, right: Any, period: Any) -> Array:
    return np.asarray(np.interp(block, xp, fp, left, right, period))


@offers("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """`np.gradient`: central differences within, one-sided ones at the ends; distances as numbers or coordinates."""
    x = as_tensor(f)
    axes = range(x.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("invalid number of arguments")
    steps = list(varargs) or [1.0]
    if len(steps) == 1:
        if np.ndim(steps[0]) and len(axes) > 1:
            raise ValueError("distances must be scalars or one array for each axis")
        steps = steps * len(axes)
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    if x.dtype.kind in "biu":
        x = astype(x, np.float64)
    found = [_slope(x, i, step, edge_order) for i, step in zip(axes, steps)]
    return found[0] if len(found) == 1 else tuple(found)


def _slope(f: Tensor, axis: int, step: Any, edge_order: int) -> Tensor:
    """NumPy's formulas along one axis."""
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
            f"required and axis {axis} has {n}"
        )

    def at(start: int | None, stop: int | None) -> Tensor:
        return slice_axis(f, axis, slice(start, stop))

    if np.ndim(step):
        coordinates = as_tensor(step).fetch().astype(f.dtype if f.dtype.kind == "f" else float)
        if coordinates.ndim != 1 or len(coordinates) != n:
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        d = np.diff(coordinates)
        if (d == d[0]).all():
            step = d[0]
    if not np.ndim(step):
        inner = (at(2, None) - at(None, -2)) / (2.0 * step)
        if edge_order == 1:
            first, last = (at(1, 2) - at(0, 1)) / step, (at(-1, None) - at(-2, -1)) / step
        else:
            first = -1.5 / step * at(0, 1) + 2.0 / step * at(1, 2) + -0.5 / step * at(2, 3)
            last = 0.5 / step * at(-3, -2) + -2.0 / step * at(-2, -1) + 1.5 / step * at(-1, None)
    else:
        shape = [-1 if i == axis else 1 for i in range(f.ndim)]
        d1, d2 = d[:-1], d[1:]
        a, b, c = -d2 / (d1 * (d1 + d2)), (d2 - d1) / (d1 * d2), d1 / (d2 * (d1 + d2))
        inner = a.reshape(shape) * at(None, -2) + b.reshape(shape) * at(1, -1) + c.reshape(shape) * at(2, None)
        if edge_order == 1:
            first, last = (at(1, 2) - at(0, 1)) / d[0], (at(-1, None) - at(-2, -1)) / d[-1]
        else:
            e, g = d[0], d[1]
            first = (-(2.0 * e + g) / (e * (e + g)) * at(0, 1) + (e + g) / (e * g) * at(1, 2)
                     + -e / (g * (e + g)) * at(2, 3))  # fmt: skip
            e, g = d[-2], d[-1]
            last = (g / (e * (e + g)) * at(-3, -2) + -(g + e) / (e * g) * at(-2, -1)
                    + (2.0 * g + e) / (g * (e + g)) * at(-1, None))  # fmt: skip
    return Tensor(concatenate([first, inner, last] if n > 2 else [first, last], axis).rechunk(f.chunks).data)


@offers("trapezoid")
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """`np.trapezoid`: the area under lines."""
    data = as_tensor(y)
    axis = normal_axis(axis, data.ndim)
    d: Any = dx
    if x is not None:
        points = as_tensor(x)
        d = diff(points) if points.ndim == 1 else diff(points, axis=axis)
        if points.ndim == 1:
            d = d.reshape([-1 if i == axis else 1 for i in range(data.ndim)])
    both = slice_axis(data, axis, slice(1, None)) + slice_axis(data, axis, slice(None, -1))
    return sum_(d * both / 2.0, axis)  # type: ignore[no-any-return]


@offers("unwrap")
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 6.283185307179586) -> Tensor:
    """`np.unwrap`: phases without jumps by a whole period."""
    x = as_tensor(p)
    axis = normal_axis(axis, x.ndim)
    dd = diff(x, axis=axis)
    discont = period / 2 if discont is None else discont
    kind = (
        np.result_type(dd.dtype, type(period)(0))
        if isinstance(period, np.generic)
        else np.result_type(dd.dtype, period)
    )
    if np.issubdtype(kind, np.integer):
        high, rest = divmod(period, 2)
        ambiguous = rest == 0
    else:
        ambiguous, high = True, period / 2
    low = -high
    ddmod = ufunc("mod")(dd - low, period) + low
    if ambiguous:
        ddmod = where((ddmod == low) & (dd > 0), high, ddmod)
    correction = where(abs(dd) < discont, 0, ddmod - dd)
    rest_ = slice_axis(x, axis, slice(1, None)) + cumsum(correction, axis)
    return Tensor(astype(concatenate([astype(slice_axis(x, axis, slice(0, 1)), kind), rest_], axis), kind).data)


@offers("sinc")
def sinc(x: Any) -> Tensor:
    """`np.sinc`: sin(πx) / (πx)."""
    y = ufunc("multiply")(np.pi, as_tensor(x))
    tiny = np.finfo(y.dtype).eps if y.dtype.kind == "f" else 1e-20
    y = where(y != 0, y, tiny)
    return ufunc("sin")(y) / y  # type: ignore[no-any-return]


@offers("i0")
def i0(x: Any) -> Tensor:
    """`np.i0`: the modified Bessel function of order 0."""
    data = as_tensor(x)
    if data.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    data = data if data.dtype.kind == "f" else astype(data, float)
    return blockwise("i0", np.i0, [data], data.chunks, np.i0(np.ones(1, data.dtype)).dtype)


def _window(name: str, M: Any, *more: Any) -> Tensor:
    """A window of M points: NumPy's function of the positions."""
    n = operator.index(int(M))
    if n < 1:
        return as_tensor(getattr(np, name)(n, *more))
    at = arange(n)
    return blockwise(name, _window_part, [at], at.chunks, np.float64, (name, n, *more))


def _window_part(at: Array, name: str, n: int, *more: Any) -> Array:
    """The points of a window at some positions; NumPy computes each point from its position alone."""
    if n == 1:
        return np.ones(1)
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
    """`np.hanning`: a raised cosine."""
    return _window("hanning", M)


@offers("hamming")
def hamming(M: Any) -> Tensor:
    """`np.hamming`: a raised cosine that does not reach 0."""
    return _window("hamming", M)


@offers("blackman")
def blackman(M: Any) -> Tensor:
    """`np.blackman`: three cosines."""
    return _window("blackman", M)


@offers("bartlett")
def bartlett(M: Any) -> Tensor:
    """`np.bartlett`: a triangle."""
    return _window("bartlett", M)


@offers("kaiser")
def kaiser(M: Any, beta: float) -> Tensor:
    """`np.kaiser`: a Bessel function."""
    return _window("kaiser", M, float(beta))


@offers("cross", "linalg.cross")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    """`np.cross`: vector products of three components."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = as_tensor(a), as_tensor(b)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise UnsupportedError(
            f"np.cross of vectors of {x.shape[-1]} and {y.shape[-1]} components is not in jmars; give three of each"
        )
    p, q = [x[..., i] for i in range(3)], [y[..., i] for i in range(3)]
    value = stack([p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]], -1)
    return moveaxis(value, -1, axisc)
