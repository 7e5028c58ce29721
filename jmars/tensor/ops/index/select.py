"""Selection by conditions, numbers or positions: `select`, `choose`, `piecewise`, `take_along_axis`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.kernels.program import ChunkType
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import kind_of, result_type
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.blockwise.single_chunk import single_chunk_along
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.create.constants import zeros
from jmars.tensor.ops.elementwise.ufuncs import astype, ufunc, where
from jmars.tensor.ops.index.scatter import match_ndim
from jmars.tensor.ops.out_argument import write_out
from jmars.tensor.ops.shape.axes import broadcast_arrays, broadcast_to, normal_axis
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.ops.written_values import converted, copied
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["choose", "piecewise", "put_along_axis", "select", "take_along_axis"]

Array = np.ndarray[Any, Any]


@offers("select")
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """`np.select`: takes elements from the first array with a true condition.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> x = arange(5, chunk_size=2)
    >>> select([x < 2, x > 3], [x, x * 10], -1).fetch().tolist()
    [0, 1, -1, -1, 40]
    """
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    for i, condition in enumerate(condlist):
        if as_tensor(condition).dtype != np.dtype(bool):
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    values = [x if np.isscalar(x) else as_tensor(x) for x in (*choicelist, default)]
    kind = result_type(*(kind_of(x) for x in values))
    *arrays, result = [x if isinstance(x, Tensor) else np.asarray(x) for x in values]  # numbers are not weak
    result = copied(result, kind, "unsafe")
    for condition, value in zip(reversed(condlist), reversed(arrays)):
        result = where(condition, copied(value, kind, "same_kind"), result)
    return as_tensor(result)


@offers("choose")
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """`np.choose`: takes elements from several arrays; `a` holds the number of the array.

    With mode "raise" a number without an array raises a ValueError when the chunk is computed.
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    given = choices if isinstance(choices, tuple | list) else list(as_tensor(choices))
    dtype = result_type(*(kind_of(x) for x in given))  # Python numbers are weak here, and wrap
    rules = ["unsafe" if isinstance(x, int | float | complex) else "same_kind" for x in given]
    arrays = [astype(as_tensor(x), dtype, casting=rule) for x, rule in zip(given, rules)]
    which, *arrays = broadcast_arrays(as_tensor(a), *arrays)
    inputs = [which, *(Tensor(rechunked(x.data, which.chunks)) for x in arrays)]
    made = blockwise("choose", _choose, inputs, which.chunks, dtype, (mode,), scratch=_of_choice)
    if not isinstance(choices, tuple | list):  # rows of one array, whose byte order stays
        made = astype(made, as_tensor(choices).dtype, copy=False)
    return write_out(made, "choose", out)


def _of_choice(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    return out.nbytes


def _choose(which: Array, *more: Any) -> Array:
    *arrays, mode = more
    return np.choose(which, arrays, mode=mode)


@offers("piecewise")
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Tensor:
    """`np.piecewise`: evaluates a function or number where its condition holds.

    A function is called with the elements `x[condition]`, also if there are none, which NumPy's does not.
    """
    data = as_tensor(x)
    is_alone = not isinstance(condlist, list | tuple) and not np.ndim(condlist)
    if is_alone or (data.ndim and not isinstance(condlist[0], list) and not np.ndim(condlist[0])):
        condlist = [condlist]
    conditions = [astype(as_tensor(c), bool) for c in condlist]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        other = ufunc("logical_not")(functools.reduce(ufunc("logical_or"), conditions))
        conditions.append(other)
    elif len(functions) != len(conditions):
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are "
            "expected"
        )
    result = zeros(data.shape, data.dtype, chunks=data.chunks)
    for condition, function in zip(conditions, functions):  # later conditions win, as in NumPy
        if data.ndim:
            result[condition] = function(data[condition], *args, **kw) if callable(function) else function
            continue
        value = function(data, *args, **kw) if callable(function) else function
        result = where(condition, converted(value, data.dtype), result)
    return result


@offers("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tensor:
    """`np.take_along_axis`: selects elements by positions along an axis, which is brought into a single chunk."""
    x, at = as_tensor(arr), as_tensor(indices)
    if axis is None:
        x, axis = ravel(x), 0
    if indices.dtype.kind not in "iu":  # a list has no dtype, in NumPy too
        raise IndexError("`indices` must be an integer array")
    if x.ndim != at.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = normal_axis(axis, x.ndim)
    if x.ndim == 1:
        return call("method.getitem", x, at)  # type: ignore[no-any-return]
    shape = np.broadcast_shapes(*(tuple(1 if i == axis else n for i, n in enumerate(y.shape)) for y in (x, at)))
    x, at = (single_chunk_along(_broadcast_other_axes(y, shape, axis), [axis]) for y in (x, at))
    at = Tensor(rechunked(at.data, tuple((at.shape[i],) if i == axis else cut for i, cut in enumerate(x.chunks))))
    return blockwise("take_along_axis", np.take_along_axis, [x, at], at.chunks, x.dtype, (axis,))


def _broadcast_other_axes(x: Tensor, shape: tuple[int, ...], axis: int) -> Tensor:
    """Broadcasts `x` along all axes except `axis`."""
    wanted = tuple(x.shape[i] if i == axis else n for i, n in enumerate(shape))
    return x if x.shape == wanted else broadcast_arrays(x, np.broadcast_to(np.zeros((), bool), wanted))[0]


@offers("put_along_axis")
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """`np.put_along_axis`: writes values at positions along an axis of a tensor."""
    if not isinstance(arr, Tensor):
        np.put_along_axis(arr, as_values(indices), as_values(values), axis)  # NumPy's array in this process
        return
    x = arr if axis is not None else ravel(arr)
    along = normal_axis(0 if axis is None else axis, x.ndim)
    at = as_tensor(indices)
    if axis is None and at.ndim != 1:
        raise ValueError("when axis=None, `indices` must have a single dimension.")  # NumPy's words
    if indices.dtype.kind not in "iu":  # a list has no dtype, in NumPy too
        raise IndexError("`indices` must be an integer array")
    if at.ndim != x.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    if any(n == 1 < m for i, (n, m) in enumerate(zip(x.shape, at.shape)) if i != along):
        raise UnsupportedError("np.put_along_axis with several positions for an axis of length 1 is not in jmars")
    x = single_chunk_along(x, [along])
    cut = tuple((at.shape[i],) if i == along else own for i, own in enumerate(x.chunks))
    full = tuple(map(sum, cut))
    put = as_tensor(converted(values, arr.dtype))
    put = broadcast_to(match_ndim(put, full), full)
    try:
        at = broadcast_to(at, full) if at.shape != full else at
    except ValueError:
        raise IndexError("shape mismatch: indexing arrays could not be broadcast together with shapes "
                         f"{x.shape} {at.shape}") from None  # fmt: skip
    inputs = [x, Tensor(rechunked(at.data, cut)), Tensor(rechunked(put.data, cut))]
    value = blockwise("put_along_axis", _put_along_axis, inputs, x.chunks, x.dtype, (along,))
    arr[...] = value if axis is not None else value.reshape(arr.shape)


def _put_along_axis(block: Array, indices: Array, values: Array, axis: int) -> Array:
    result = block.copy()
    np.put_along_axis(result, indices, values, axis)
    return result
