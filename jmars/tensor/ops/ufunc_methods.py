"""Methods of ufuncs, as `np.add.reduce`, `accumulate`, `outer` and `at`; ufuncs of other libraries on tensors.

Associative functions are reduced by trees of chunks; for other functions the axis is brought into a single chunk.

A ufunc of `scipy.special`, `numba.vectorize` or `np.frompyfunc` becomes a node of an elementwise expression, as NumPy's
own do, and fuses; workers call the library's function and so give the library's bits.
Source: NumPy reference, "ufunc methods"; NEP 13.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from jmars.errors import UnsupportedError
from jmars.kernels.expression import UfuncReference
from jmars.kernels.reducers import UfuncReducer
from jmars.tensor.operand import new_data
from jmars.tensor.ops.arguments import assign_out, is_given, loop_dtype, trial, write_out
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import rechunked
from jmars.tensor.ops.formula import Formula
from jmars.tensor.ops.getitem import broadcast_positions, is_many, joint_positions
from jmars.tensor.ops.indexing import as_positions, in_bounds
from jmars.tensor.ops.map_blocks import map_along
from jmars.tensor.ops.matrix_operands import along_core_axes
from jmars.tensor.ops.records_and_objects import python_objects
from jmars.tensor.ops.reduction import (
    Scan,
    all_,
    any_,
    apply_initial,
    apply_where,
    is_mask,
    max_,
    min_,
    nanmax,
    nanmin,
    normal_axes,
    prod,
    reduce,
    sum_,
)
from jmars.tensor.ops.setitem import apply_at, ravelled
from jmars.tensor.ops.shape import broadcast_to, normal_axis, reshape, slice_axis, squeeze
from jmars.tensor.ops.ufuncs import UfuncKeywords, astype, native, ufunc
from jmars.tensor.protocols import PythonUfunc, call, offers
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]

_NAMED: dict[str, Any] = {"add": sum_, "multiply": prod, "minimum": min_, "maximum": max_, "fmin": nanmin}
_NAMED |= {"fmax": nanmax, "logical_or": any_, "logical_and": all_}
_TREES = {"bitwise_and", "bitwise_or", "bitwise_xor", "logical_xor", "gcd", "lcm", "hypot", "logaddexp", "logaddexp2"}


@offers("method.reduce")
def ufunc_reduce(theirs: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False,
                 initial: Any = np._NoValue, where: Any = True) -> Any:  # fmt: skip
    """`ufunc.reduce`; functions that are not associative, as `subtract`, reduce along a single axis only."""
    name, x = theirs.__name__, native(array)
    out = out[0] if isinstance(out, tuple) else out
    axis = tuple(range(x.ndim)) if axis is None else axis
    trial(f"{name}.reduce", x, axis=axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where)
    function = _NAMED.get(name)
    if function in (any_, all_):
        met = function(x, axis, keepdims=keepdims, where=where)
        return write_out(apply_initial(name, met, initial), name, out)
    if function is not None:
        given: dict[str, Any] = {"where": where, "initial": initial}
        if dtype is not None and function in (sum_, prod):
            return function(x, axis, dtype, out, keepdims, **given)
        return function(x if dtype is None else astype(x, dtype), axis, out=out, keepdims=keepdims, **given)
    kind = _dtype_of(theirs, "reduce", x, dtype, out)
    axes = normal_axes(axis, x.ndim)
    if name not in _TREES and len(axes) > 1:
        raise ValueError(f"reduction operation '{name}' is not reorderable, so at most one axis may be specified")
    if is_mask(where) and theirs.identity is None:
        raise UnsupportedError(f"np.{name}.reduce with where= is not in jmars, since the function has no identity")
    x = apply_where(name, astype(x, kind), where, theirs.identity)
    if name in _TREES and axes:
        result = apply_initial(name, reduce(name, x, axes, UfuncReducer(name, kind), kind, keepdims), initial)
    else:
        result = _reduce_in_one_chunk(theirs, x, axes, keepdims, initial)
    return write_out(result, name, out)


def _reduce_in_one_chunk(theirs: np.ufunc, x: Tensor, axes: tuple[int, ...], keepdims: Any, initial: Any) -> Tensor:
    """Reduces along an axis, brought into a single chunk; without axes returns `x` combined with `initial`."""
    if not axes:
        return apply_initial(theirs.__name__, x, initial)
    (axis,) = axes
    more = {"initial": initial} if is_given(initial) else {}
    options: dict[str, Any] = {"theirs": theirs, "axis": axis, "more": more, "raises": _raising()}
    value = map_along(theirs.__name__, _reduce_block, x, [axis], lengths={axis: 1}, dtype=x.dtype, **options)
    return value if keepdims else squeeze(value, axis)


def _raising() -> dict[str, Any]:
    """The floating point errors that raise at present, as keywords of `np.errstate`."""
    return {kind: action for kind, action in np.geterr().items() if action == "raise"}


def _reduce_block(block: Array, theirs: np.ufunc, axis: int, more: dict[str, Any], raises: dict[str, Any]) -> Array:
    with np.errstate(**raises):
        return np.asarray(theirs.reduce(block, axis=axis, keepdims=True, **more))


def _dtype_of(theirs: np.ufunc, method: str, x: Tensor, dtype: Any, out: Any) -> np.dtype[Any]:
    """dtype of NumPy's method for two elements; raises NumPy's errors for this dtype."""
    if dtype is None and is_given(out):
        return loop_dtype(theirs.__name__, x.dtype, None, out)
    with np.errstate(all="ignore"):
        kind: np.dtype[Any] = getattr(theirs, method)(np.ones(2, x.dtype), dtype=dtype).dtype
    return kind


@offers("method.accumulate")
def accumulate(theirs: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    """`ufunc.accumulate`: cumulative results along an axis."""
    name, x = theirs.__name__, native(array)
    if not x.ndim:
        raise TypeError("cannot accumulate on a scalar")
    out = out[0] if isinstance(out, tuple) else out
    axis = tuple(range(x.ndim)) if axis is None else axis
    trial(f"{name}.accumulate", x, axis=axis, dtype=dtype, out=out)
    axis = normal_axis(axis[0] if isinstance(axis, tuple) else axis, x.ndim)
    kind = _dtype_of(theirs, "accumulate", x, dtype, out)
    if name in _TREES or name in _NAMED:
        x = x if name in ("add", "multiply") else astype(x, kind)
        result = Tensor(new_data(Scan(f"{name}.accumulate", name, axis, inputs=(x.data,)), x.shape, kind, x.chunks))
    else:
        result = map_along(
            f"{name}.accumulate",
            _accumulate_block,
            x,
            [axis],
            dtype=kind,
            theirs=theirs,
            axis=axis,
            kind=kind,
            raises=_raising(),
        )
    return write_out(result, name, out)


def _accumulate_block(block: Array, theirs: np.ufunc, axis: int, kind: Any, raises: dict[str, Any]) -> Array:
    with np.errstate(**raises):
        return np.asarray(theirs.accumulate(block, axis=axis, dtype=None if kind.kind == "m" else kind))


@offers("method.reduceat")
def reduceat(theirs: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """`ufunc.reduceat`: reduces slices of an axis that begin at `indices`.

    Ascending indices cut the axis; of others, the axis is brought into a single chunk.
    """
    x, at = as_tensor(array), np.asarray(as_positions(indices))
    axis = normal_axis(axis, x.ndim)
    wrong = [int(i) for i in at.reshape(-1) if not 0 <= i < x.shape[axis]]
    if at.ndim != 1 or wrong:
        raise IndexError(f"index {wrong[:1]} out-of-bounds in {theirs.__name__}.reduceat [0, {x.shape[axis]})")
    with np.errstate(all="ignore"):
        kind = theirs.reduceat(np.ones(2, x.dtype), [0], dtype=dtype).dtype
    options: dict[str, Any] = {
        "theirs": theirs,
        "at": at.astype(np.intp),
        "axis": axis,
        "kind": kind,
        "raises": _raising(),
    }
    if len(x.chunks[axis]) > 1 and len(at) and (np.diff(at) > 0).all():
        return assign_out(_reduceat_by_chunks(x, axis, options), out, theirs.__name__)
    result = map_along(
        f"{theirs.__name__}.reduceat", _reduceat_block, x, [axis], lengths={axis: len(at)}, dtype=kind, **options
    )
    return assign_out(result, out, theirs.__name__)


def _reduceat_by_chunks(x: Tensor, axis: int, options: dict[str, Any]) -> Tensor:
    """Reduces slices in chunks that begin where slices begin."""
    at, n = options["at"], x.shape[axis]
    ends = np.cumsum(x.chunks[axis])[:-1]
    first = np.unique(np.concatenate([[0], np.maximum(np.searchsorted(at, ends, "right") - 1, 0)]))
    starts, counts = at[first], np.diff(np.append(first, len(at)))
    cut = tuple(np.diff(np.append(starts, n)).tolist())
    line = slice_axis(x, axis, slice(int(at[0]), None))
    chunks = tuple(cut if i == axis else own for i, own in enumerate(line.chunks))
    shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))
    within = (at - np.repeat(starts, counts)).reshape(shape)
    places = as_tensor(within, chunks=tuple(tuple(counts.tolist()) if i == axis else (1,) for i in range(x.ndim)))
    made = tuple(tuple(counts.tolist()) if i == axis else own for i, own in enumerate(chunks))
    theirs = options["theirs"]
    params = (theirs, axis, options["kind"], tuple(options["raises"].items()))
    inputs = [Tensor(rechunked(line.data, chunks)), places]
    return blockwise(f"{theirs.__name__}.reduceat", _reduceat_chunk, inputs, made, options["kind"], params)


def _reduceat_chunk(block: Array, at: Array, theirs: np.ufunc, axis: int, kind: Any, raises: Any) -> Array:
    return _reduceat_block(block, theirs, at.reshape(-1), axis, kind, dict(raises))


def _reduceat_block(block: Array, theirs: np.ufunc, at: Array, axis: int, kind: Any, raises: dict[str, Any]) -> Array:
    with np.errstate(**raises):
        return np.asarray(theirs.reduceat(block, at, axis=axis, dtype=None if kind == block.dtype else kind))


@offers("method.outer")
def outer(theirs: np.ufunc, a: Any, b: Any, /, **kwargs: Any) -> Any:
    """`ufunc.outer`: applies the function to all pairs of elements of two arrays."""
    x, y = as_tensor(a), as_tensor(b)
    return ufunc(theirs.__name__)(reshape(x, x.shape + (1,) * y.ndim), y, **kwargs)


@offers("method.at")
def at(theirs: np.ufunc, a: Any, indices: Any, b: Any = None, /) -> None:
    """`ufunc.at`: applies the function in place, repeatedly for repeated positions.

    Few positions of a tensor are computed at once.

    Parameters
    ----------
    theirs
        NumPy's ufunc.
    a
        The tensor or array to write to.
    indices
        An index, or a tuple of indices of the first axes: ints, integer arrays, a boolean array, or slices.
    b
        Second argument, which broadcasts to `a[indices]`; only for functions of two arguments.
    """
    more = () if b is None else (b if isinstance(b, Tensor) else np.asarray(b),)
    given_entries = indices if isinstance(indices, tuple) else (indices,)
    first, *others = (np.ones(1, as_tensor(one).dtype) for one in (a, *more))
    theirs.at(first, [], *others)  # raises NumPy's errors of dtypes
    if not isinstance(a, Tensor):
        theirs.at(a, tuple(map(_fetch, given_entries)), *map(np.asarray, more))
        return
    entries = tuple(one if is_many(one) else _fetch(one) for one in given_entries)
    if any(getattr(one, "dtype", np.dtype(int)).kind not in "biu" for one in entries):
        raise IndexError("arrays used as indices must be of integer (or boolean) type")  # NumPy's words
    plain = [not isinstance(one, slice) and one is not None and one is not Ellipsis for one in entries]
    if not any(plain) or any(isinstance(one, bool) or getattr(one, "dtype", None) == np.bool for one in entries):
        there = a[entries]
        if any(one.ndim > there.ndim for one in more):
            raise ValueError("array is not broadcastable to correct shape")  # NumPy's words
        a[entries] = ufunc(theirs.__name__)(there, *more, dtype=None).astype(a.dtype)  # no position is repeated
        return
    if not all(plain):
        raise IndexError(f"{theirs.__name__}.at takes arrays or slices in jmars, not both; write the slices as arrays")
    k = len(entries)
    lines = broadcast_positions([one if isinstance(one, Tensor) else np.asarray(one) for one in entries])
    lines = [one if isinstance(one, Tensor) else in_bounds(one, a.shape[i], i) for i, one in enumerate(lines)]
    where = joint_positions(lines, a.shape[:k], range(k))
    flat = reshape(Tensor(a.data), (int(np.prod(a.shape[:k])), *a.shape[k:]))
    given = []
    for one in map(as_tensor, more):
        if one.ndim <= a.ndim - k:  # a row for all positions
            given.append(broadcast_to(one, (1, *a.shape[k:])))
        else:
            given.append(reshape(broadcast_to(one, (*lines[0].shape, *a.shape[k:])), (where.size, *a.shape[k:])))
    if where.size:
        a[...] = reshape(apply_at(flat, ravelled(where), given[0] if given else None, theirs), a.shape)


def _fetch(index: Any) -> Any:
    if isinstance(index, Tensor):
        return index.fetch()
    return np.asarray(index, None if index else np.intp) if isinstance(index, list) else index


@offers("method.library_ufunc")
def library_ufunc(reference: UfuncReference | PythonUfunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Calls a ufunc, or the method `outer`, with tensors among the arguments.

    Raises
    ------
    UnsupportedError
        For other methods, and for keywords of ufuncs that work along axes.
    """
    if isinstance(reference, PythonUfunc):
        return python_objects(reference, method, inputs, kwargs)
    if method == "outer":
        x, y = map(as_tensor, inputs)
        inputs = (call("reshape", x, x.shape + (1,) * y.ndim), y)
    elif method != "__call__":
        raise UnsupportedError(
            f"{reference.name}.{method} is not in jmars; compute it on the value, x.fetch(), or use NumPy's functions"
        )
    signature = getattr(reference.load(), "signature", None)
    if isinstance(signature, str):
        return _along_axes(reference.load(), inputs, **kwargs)
    name = reference.name.rpartition(".")[2]
    keywords = UfuncKeywords.of(name, reference.nin, reference.nout, inputs, kwargs)
    outputs = [replace(reference, part=part) for part in range(reference.nout)]
    return keywords.apply(Formula(name), outputs)


def _along_axes(
    theirs: Any, inputs: tuple[Any, ...], *, out: Any = None, axes: Any = None, axis: Any = None, keepdims: Any = False
) -> Any:
    """Calls a ufunc that works along axes."""
    outs = inputs[theirs.nin :] or (out if isinstance(out, tuple) else (out,))

    def function(*given: Any) -> Any:
        return call("apply_gufunc", theirs, theirs.signature, *given)

    return along_core_axes(theirs, function, inputs[: theirs.nin], outs, axes, axis, keepdims)
