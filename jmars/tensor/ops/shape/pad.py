"""`np.pad`: extends arrays at both ends, axis by axis; the original chunks are not copied."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ops.create.constants import full
from jmars.tensor.ops.create.ranges import arange
from jmars.tensor.ops.elementwise.ufuncs import astype, ufunc
from jmars.tensor.ops.index.take import take_positions
from jmars.tensor.ops.shape.axes import broadcast_to
from jmars.tensor.ops.shape.concatenate import concatenate, slice_axis
from jmars.tensor.ops.written_values import assigned
from jmars.tensor.protocols import call, offers
from jmars.tensor.splits import decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["pad"]

_OPTIONS = {"constant": "constant_values", "linear_ramp": "end_values", "reflect": "reflect_type"}
_OPTIONS |= {"symmetric": "reflect_type"} | dict.fromkeys(("maximum", "minimum", "mean", "median"), "stat_length")
_FILLED = ("constant", "empty")
_MIRRORED = ("edge", "reflect", "symmetric", "wrap")
_FUNCTIONS = {"maximum": "max", "minimum": "min", "mean": "mean", "median": "median"}


@offers("pad")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    """`np.pad`: adds elements before and after each axis.

    Parameters
    ----------
    array
        The array to extend.
    pad_width
        Number of elements: an int, (before, after), a pair for each axis, or a dict of pairs by axis.
    mode
        NumPy's name of the source of the elements: "constant", "edge", "linear_ramp", "maximum", "mean", "median",
        "minimum", "reflect", "symmetric", "wrap", "empty" (zeros here).
    **kwargs
        NumPy's option of that mode: `constant_values`, `end_values`, `stat_length` or `reflect_type`.

    Raises
    ------
    ValueError, TypeError
        As NumPy raises them.
    UnsupportedError
        For a function as mode, and for odd reflections that are longer than the array.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> pad(arange(4, chunk_size=2), (2, 1), "reflect").fetch().tolist()
    [2, 1, 0, 1, 2, 3, 2]

    Source: NumPy `lib/_arraypad_impl.py`.
    """
    x = as_tensor(array)
    if callable(mode):
        raise UnsupportedError("np.pad with a function is not in jmars; pad with constants, then apply_along_axis")
    if mode not in (*_OPTIONS, *_FILLED, *_MIRRORED):
        raise ValueError(f"mode '{mode}' is not supported")
    unknown = set(kwargs) - {_OPTIONS.get(mode)}
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    given = next(iter(kwargs.values()), None if mode in _FUNCTIONS else 0)
    if mode in ("mean", "median"):
        np.pad(np.zeros((1,) * x.ndim, x.dtype), 0, mode)  # raises NumPy's errors of dtypes
    if mode in ("maximum", "minimum") and kwargs and 0 in np.ravel(cast(Any, given)):
        raise ValueError("stat_length of 0 yields no value for padding")  # NumPy's words
    odd = given == "odd" if mode in _MIRRORED else False
    options = _pairs(given, x.ndim)
    for axis, (before, behind) in enumerate(_widths(pad_width, x.ndim)):
        if mode not in _FILLED and not x.shape[axis] and (before or behind):
            raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        if mode in _MIRRORED and (before or behind):
            x = _pad_from_array(x, axis, before, behind, mode, odd)
        elif before or behind:
            ends = [_padding(x, axis, side, n, mode, options[axis][side]) for side, n in ((0, before), (1, behind))]
            x = concatenate([ends[0], x, ends[1]], axis, dtype=x.dtype, casting="unsafe")
    return Tensor(x.data)


def _pairs(given: Any, ndim: int) -> list[list[Any]]:
    """An option for both ends of each axis: of one or two values NumPy's scalars, of more Python's, as in NumPy."""
    array = np.array(given)
    if array.size in (1, 2) and array.ndim < 3 and array.shape != (2, 1):
        ends = array.ravel()
        return [[ends[0], ends[-1]]] * ndim
    return np.broadcast_to(array, (ndim, 2)).tolist()  # type: ignore[no-any-return]


def _widths(pad_width: Any, ndim: int) -> list[list[int]]:
    """Normalises `pad_width` to [before, after] for each axis."""
    if isinstance(pad_width, dict):
        found = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            found[axis] = (width, width) if isinstance(width, int) else tuple(width)
        pad_width = found
    given = np.asarray(pad_width)
    if given.size and given.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if given.size and given.min() < 0:
        raise ValueError("index can't contain negative values")
    return [[int(n) for n in pair] for pair in np.broadcast_to(given, (ndim, 2)).tolist()]


def _padding(x: Tensor, axis: int, side: int, n: int, mode: str, option: Any) -> Tensor:
    """Padding of `n` elements for the front (side 0) or the back (side 1) of an axis."""
    length = x.shape[axis]
    shape = tuple(n if i == axis else m for i, m in enumerate(x.shape))
    cut = decide_splits(shape, x.dtype, tuple("auto" if i == axis else lengths for i, lengths in enumerate(x.chunks)))
    if mode in _FILLED:
        return full(shape, assigned(option, x.dtype, x.ndim), x.dtype, chunks=cut)
    if not n:
        return slice_axis(x, axis, slice(0, 0))
    if mode == "linear_ramp":
        edge = slice_axis(x, axis, slice(length - 1, length) if side else slice(0, 1))
        return _ramp(edge, axis, side, n, option)
    if option is not None and (option < 0 or (not option and mode in ("maximum", "minimum"))):
        raise ValueError("stat_length of 0 yields no value for padding" if not option else
                         "index can't contain negative values")  # fmt: skip
    some = length if option is None else min(option, length)
    part = slice_axis(x, axis, slice(length - some, length) if side else slice(0, some))
    value = call(_FUNCTIONS[mode], part, axis=axis, keepdims=True)
    if x.dtype.kind in "iu" and value.dtype.kind == "f":
        value = ufunc("rint")(value)
    return broadcast_to(astype(value, x.dtype), shape, chunks=cut)


def _ramp(edge: Tensor, axis: int, side: int, n: int, end: Any) -> Tensor:
    """Linear ramp of `n` elements between the edge's value and `end`, as in `np.linspace`; the outermost is `end`."""
    steps = arange(n).reshape(tuple(n if i == axis else 1 for i in range(edge.ndim)))
    if side:
        steps = slice_axis(steps, axis, slice(None, None, -1))
    np.linspace(end, np.zeros(1, edge.dtype), 2, endpoint=False, dtype=edge.dtype)  # raises what NumPy raises
    start = np.float64(end) if np.isrealobj(end) else end
    wide = edge if edge.dtype.kind in "fc" else astype(edge, np.float64)
    value = steps * ((wide - start) / n) + start
    return astype(ufunc("floor")(value) if edge.dtype.kind in "iu" else value, edge.dtype)


def _pad_from_array(x: Tensor, axis: int, before: int, behind: int, mode: str, odd: bool) -> Tensor:
    """Extends an axis by existing elements, in modes like "reflect"; `np.pad` of the positions selects them."""
    length = x.shape[axis]
    at = np.pad(np.arange(length), (before, behind), mode)  # type: ignore[call-overload]
    ends = [_select_run(x, axis, at[:before]), _select_run(x, axis, at[before + length :])]
    if odd and length > 1:
        if max(before, behind) > length - (mode == "reflect"):
            raise UnsupportedError(f"np.pad with odd {mode} by more than the array is long is not in jmars; pad twice")
        edges = [slice_axis(x, axis, slice(0, 1)), slice_axis(x, axis, slice(length - 1, length))]
        ends = [2 * edge - end for edge, end in zip(edges, ends)]
    return concatenate([ends[0], x, ends[1]], axis, dtype=x.dtype, casting="unsafe")


def _select_run(x: Tensor, axis: int, at: Any) -> Tensor:
    """Selects elements at positions along an axis, by a slice where the positions are consecutive."""
    steps = np.diff(at)
    if len(at) > 1 and steps[0] in (1, -1) and (steps == steps[0]).all():
        low, high = int(at.min()), int(at.max()) + 1
        part = slice_axis(x, axis, slice(low, high))
        return part if steps[0] == 1 else slice_axis(part, axis, slice(None, None, -1))
    return take_positions(x, at.astype(np.int64), axis)
