"""Interpolation, numerical derivatives and integrals: `interp`, `gradient`, `trapezoid`, `unwrap`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.kernels.program import ChunkType
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.elementwise.ufuncs import astype, ufunc, where
from jmars.tensor.ops.index.take import MANY
from jmars.tensor.ops.reduce.cumulative import cumsum, diff
from jmars.tensor.ops.reduce.reduction import sum_
from jmars.tensor.ops.shape.axes import normal_axis
from jmars.tensor.ops.shape.concatenate import concatenate, slice_axis
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["gradient", "interp", "trapezoid", "unwrap"]

Array = np.ndarray[Any, Any]


@offers("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    """`np.interp`: linear interpolation at `x`; all chunks read the data points, brought into a single chunk."""
    if isinstance(x, complex):
        np.asarray(x, np.float64)  # raises NumPy's error
    data, xs, fs = as_tensor(x), as_tensor(xp), as_tensor(fp)
    if xs.ndim != 1 or xs.shape != fs.shape:
        raise ValueError(
            "fp and xp are not of the same length." if xs.ndim == fs.ndim == 1 else "Data points must be 1-D"
        )
    if not xs.size:
        raise ValueError("array of sample points is empty")
    dtype = np.complex128 if fs.dtype.kind == "c" else np.float64
    data, xs, fs = _as_read(data), _as_read(xs).rechunk(-1), _as_read(fs, dtype).rechunk(-1)
    scratch = None if period is not None else _interp_scratch
    return blockwise("interp", _interp, [data, xs, fs], data.chunks, dtype, (left, right, period), scratch=scratch)


def _as_read(x: Tensor, dtype: Any = np.float64) -> Tensor:
    """`x` in the dtype in which `np.interp` reads it, so that no block converts it again."""
    return astype(x, dtype) if x.dtype != dtype and np.can_cast(x.dtype, dtype) else x


def _interp_scratch(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    """The result, and the slopes between the data points, which NumPy keeps unless there are more points than `x`."""
    x, xp, fp = blocks
    return out.nbytes + (fp.nbytes if xp.nbytes <= x.nbytes else 0)


def _interp(block: Array, xp: Array, fp: Array, left: Any, right: Any, period: Any) -> Array:
    return np.asarray(np.interp(block, xp, fp, left, right, period))


@offers("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """`np.gradient`: central differences inside, one-sided differences at the ends, for numbers or coordinates."""
    x = as_tensor(f)
    axes = range(x.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    steps: list[Any] = list(varargs) or [1.0]
    if len(steps) == 1 and not np.ndim(steps[0]):
        steps *= len(axes)
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    steps = [_spacing(step, x.shape[i]) for i, step in zip(axes, steps)]
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    kind = x.dtype
    if kind.kind == "M":
        kind = np.dtype(kind.str.replace("M8", "m8"))
        x = x.view(kind)
    elif kind.kind in "iu":
        x = astype(x, np.float64)
    kind = kind if kind.kind in "mfc" else np.dtype(np.float64)
    found = [_gradient_along(x, i, step, edge_order, kind) for i, step in zip(axes, steps)]
    return found[0] if len(found) == 1 else tuple(found)


def _spacing(distances: Any, length: int) -> Any:
    """A number, or the differences of coordinates, in the dtype of the coordinates.

    Computes few coordinates at once, and of many whether the differences are equal.
    """
    if not np.ndim(distances):
        return distances
    is_long = isinstance(distances, Tensor) and distances.size > MANY
    coordinates: Any = distances if is_long else np.asarray(as_tensor(distances).fetch())
    if coordinates.ndim != 1:
        raise ValueError("distances must be either scalars or 1d")
    if len(coordinates) != length:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    if coordinates.dtype.kind in "ium":
        coordinates = coordinates.astype(np.float64)  # as NumPy: differences of integers may wrap
    d: Any = np.diff(coordinates)
    if is_long:
        return d[0].fetch() if (d == d[0]).all().fetch() else d
    return d[0] if (d == d[0]).all() else d


def _gradient_along(f: Tensor, axis: int, step: Any, edge_order: int, kind: np.dtype[Any]) -> Tensor:
    """Computes NumPy's formulas along an axis; casts the parts to `kind`, as NumPy writes them into the result."""
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
            f"required and axis {axis} has {n}"
        )

    def at(start: int | None, stop: int | None) -> Tensor:
        return slice_axis(f, axis, slice(start, stop))

    if not np.ndim(step):
        inner = (at(2, None) - at(None, -2)) / (2.0 * step)
    else:
        shape = [-1 if i == axis else 1 for i in range(f.ndim)]
        d1, d2 = step[:-1], step[1:]
        a, b, c = -d2 / (d1 * (d1 + d2)), (d2 - d1) / (d1 * d2), d1 / (d2 * (d1 + d2))
        inner = a.reshape(shape) * at(None, -2) + b.reshape(shape) * at(1, -1) + c.reshape(shape) * at(2, None)
    if edge_order == 1:
        before, after = (step[0], step[-1]) if np.ndim(step) else (step, step)
        first, last = (at(1, 2) - at(0, 1)) / before, (at(-1, None) - at(-2, -1)) / after
    else:
        (a, b, c), (d, e, g) = _edge_factors(step)
        first = a * at(0, 1) + b * at(1, 2) + c * at(2, 3)
        last = d * at(-3, -2) + e * at(-2, -1) + g * at(-1, None)
    parts = [astype(part, kind) for part in ([first, inner, last] if n > 2 else [first, last])]
    return Tensor(concatenate(parts, axis, dtype=kind).rechunk(f.chunks).data)


def _edge_factors(step: Any) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Factors of the first three and of the last three elements in derivatives of second order at the ends."""
    if not np.ndim(step):
        return (-1.5 / step, 2.0 / step, -0.5 / step), (0.5 / step, -2.0 / step, 1.5 / step)
    d, e = step[0], step[1]
    first = (-(2.0 * d + e) / (d * (d + e)), (d + e) / (d * e), -d / (e * (d + e)))
    d, e = step[-2], step[-1]
    return first, (e / (d * (d + e)), -(e + d) / (d * e), (2.0 * e + d) / (e * (d + e)))


@offers("trapezoid")
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """`np.trapezoid`: integral along an axis by the trapezoidal rule."""
    data, given = as_tensor(y), axis
    axis = normal_axis(axis, data.ndim)
    d: Any = dx
    if x is not None:
        points = as_tensor(x)
        d = diff(points, axis=-1 if points.ndim == 1 else given)
        if points.ndim == 1:
            d = d.reshape([-1 if i == axis else 1 for i in range(data.ndim)])
    both = slice_axis(data, axis, slice(1, None)) + slice_axis(data, axis, slice(None, -1))
    return sum_(d * both / 2.0, given)  # type: ignore[no-any-return]


@offers("unwrap")
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 6.283185307179586) -> Tensor:
    """`np.unwrap`: removes jumps by multiples of the period."""
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
