"""Selection and writing by conditions, numbers or flat positions: `select`, `choose`, `put`, `delete`, `nonzero`.

A chunk of `delete` gets the positions that are removed, or bits. A large tensor of positions, or a mask, selects the
elements that stay. Positions of nonzero elements are index arrays selected by a boolean mask, so their number may stay
unknown.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.errors import ObjectArrayError, UnsupportedError
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import can_compute
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import Operand, TensorMeta, kind_of, new_data, result_type
from jmars.tensor.ops.arguments import converted, copied, write_out
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, chunk_starts, rechunked
from jmars.tensor.ops.constants import ones, zeros
from jmars.tensor.ops.create import arange
from jmars.tensor.ops.getitem import is_many, positions_by_mask, select_by_mask
from jmars.tensor.ops.indexing import MANY, as_positions, in_bounds, slice_tensor
from jmars.tensor.ops.map_blocks import single_chunk_along
from jmars.tensor.ops.reduction import any_, cumsum
from jmars.tensor.ops.resize import resize
from jmars.tensor.ops.setitem import match_ndim
from jmars.tensor.ops.shape import broadcast_arrays, broadcast_to, normal_axis, ravel, reshape
from jmars.tensor.ops.ufuncs import as_bool, astype, ufunc, where
from jmars.tensor.parts import LISTED, Part, PartOf, along, positions, tidy, within
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]


@offers("select")
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """`np.select`: takes elements from the first array with a true condition.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
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
    made = blockwise("choose", _choose, inputs, which.chunks, dtype, (mode,), scratch=_of_choice, lines=())
    if not isinstance(choices, tuple | list):  # rows of an array; its byte order stays
        made = astype(made, as_tensor(choices).dtype, copy=False)
    return write_out(made, "choose", out)


def _of_choice(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    return out.nbytes


def _choose(which: Array, *more: Any) -> Array:
    *arrays, mode = more
    return np.choose(which, arrays, mode=mode)


@offers("piecewise")
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Tensor:
    """`np.piecewise`: evaluates a function or number where the condition holds.

    A function is called with the elements `x[condition]`, also if there are none, unlike in NumPy.
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
    """`np.take_along_axis`: selects elements by positions along an axis, brought into a single chunk."""
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
    return blockwise("take_along_axis", np.take_along_axis, [x, at], at.chunks, x.dtype, (axis,), lines=(axis,))


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
    value = blockwise("put_along_axis", _put_along_axis, inputs, x.chunks, x.dtype, (along,), lines=(along,))
    arr[...] = value if axis is not None else value.reshape(arr.shape)


def _put_along_axis(block: Array, indices: Array, values: Array, axis: int) -> Array:
    result = block.copy()
    np.put_along_axis(result, indices, values, axis)
    return result


@offers("putmask")
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """`np.putmask`: writes values where a mask is true; values of a different shape are repeated cyclically."""
    x = _require_tensor("putmask", a)
    if not x._place.is_array:
        raise TypeError("putmask: first argument must be an array")  # NumPy's words
    if np.size(mask) != x.size:
        raise ValueError("putmask: mask and data must be the same size")
    put = as_tensor(converted(values, x.dtype, "safe"))
    if not put.size:
        return
    x[...] = where(as_tensor(mask).astype(bool).reshape(x.shape), _fill_cyclically(put, x.shape), x)


@offers("place")
def place(arr: Any, mask: Any, vals: Any) -> None:
    """`np.place`: writes consecutive values where a mask is true, repeated cyclically."""
    x = _require_tensor("place", arr)
    if np.size(mask) != x.size:
        raise ValueError("place: mask and data must be the same size")
    put = ravel(as_tensor(converted(vals, x.dtype, "safe")))
    holds = as_tensor(mask).astype(bool).reshape(x.shape)
    if not put.size:
        if any_(holds):  # computed at once
            raise ValueError("Cannot insert from an empty array!")
        return
    number = cumsum(holds.astype(np.intp)).reshape(x.shape) - 1
    x[...] = where(holds, _cycle_values(put, number), x)


def _cycle_values(values: Tensor, number: Tensor) -> Tensor:
    """`values[number % len(values)]`, with the values in a single chunk."""
    return blockwise("place", _take_cyclically, [number, values.rechunk(-1)], number.chunks, values.dtype)


def _take_cyclically(number: Array, values: Array) -> Array:
    found: Array = values[number % len(values)]
    return found


def _fill_cyclically(put: Tensor, shape: tuple[int, ...]) -> Tensor:
    if not put.ndim or put.shape == shape:
        return put
    return _cycle_values(ravel(put), arange(math.prod(shape)).reshape(shape))


@offers("put")
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """`np.put`: writes values cyclically at flat positions; few positions of a tensor are computed at once.

    Raises
    ------
    IndexError
        If a position is out of bounds and `mode` is "raise".
    """
    x = _require_tensor("put", a)
    x = x if x._place.is_array else call("array", x)  # of a scalar of NumPy's, which stays as it is
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    at: Any = as_positions(ind)
    at = ravel(at) if is_many(at) else np.asarray(at).reshape(-1)
    values = ravel(as_tensor(converted(v, x.dtype)))
    if at.size and not x.size:
        raise IndexError("cannot replace elements of an empty array")
    if not at.size or not values.size:
        return
    if mode != "raise":
        at = np.clip(at, 0, x.size - 1) if mode == "clip" else at % x.size
    flat = Tensor(ravel(x).data)
    flat[at] = values if values.size == 1 else resize(values, len(at))
    x[...] = reshape(flat, x.shape)


@offers("method.set_flat")
def set_flat(x: Tensor, value: Any) -> None:
    """`x.flat = value`: writes values in C order, repeated cyclically; nothing if there are none."""
    values = cyclic(value, x.shape, x.dtype)
    if values is not None:
        x[...] = values


@offers("method.cyclic")
def cyclic(value: Any, shape: tuple[int, ...], dtype: Any) -> Tensor | None:
    """Values in C order, repeated cyclically, as `x.flat[index] = value` writes them; None if there are none."""
    values = ravel(as_tensor(converted(value, dtype)))
    return reshape(resize(values, (math.prod(shape),)), shape) if values.size else None


@offers("fill_diagonal")
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """`np.fill_diagonal`: writes a number, or numbers cyclically, to the main diagonal of a tensor."""
    x = _require_tensor("fill_diagonal", a)
    if x.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    step = x.shape[1] + 1 if x.ndim == 2 else 1 + int(np.cumprod(x.shape[:-1]).sum())
    end = x.shape[1] * x.shape[1] if x.ndim == 2 and not wrap else x.size
    values = ravel(as_tensor(converted(val, x.dtype)))
    if values.size:
        at = arange(x.size).reshape(x.shape)
        inputs = [Tensor(x.data), Tensor(rechunked(at.data, x.chunks)), values.rechunk(-1)]
        x[...] = blockwise("fill diagonal", _fill_diagonal_block, inputs, x.chunks, x.dtype, (step, end))


def _fill_diagonal_block(block: Array, at: Array, values: Array, step: int, end: int) -> Array:
    result, on = block.copy(), (at % step == 0) & (at < end)
    result[on] = values[at[on] // step % len(values)]
    return result


def _require_tensor(name: str, x: Any) -> Tensor:
    if isinstance(x, np.ndarray):  # NumPy's function writes, at once
        raise ObjectArrayError(f"np.{name} writes into tensors in jmars where no value can be computed")
    if not isinstance(x, Tensor):
        raise UnsupportedError(f"np.{name} writes into tensors in jmars; give one, np.asarray(x)")
    return x


# removed from a chunk: start, stop and step, or behind a tag positions (int64), or bits of a mask
Removed = tuple[int, int, int] | bytes
POSITIONS, MASK = b"p", b"m"
Gone = range | NDArray[Any]  # ascending positions, or a mask of the axis


@offers("delete")
def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    """`np.delete`: removes elements at positions along an axis.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> delete(arange(12, chunk_size=4), [1, 4, 5, 6, 7]).chunks
    ((3, 4),)
    """
    x = as_tensor(arr)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    if isinstance(obj, Tensor) and obj.dtype.kind in "iub" and obj.size > MANY:
        return select_by_mask(x, _kept(obj, x.chunks[axis]), axis)
    gone = _removed(obj.fetch() if isinstance(obj, Tensor) else obj, x.shape[axis], axis)
    starts = chunk_starts(x.chunks[axis])
    parts = tuple(_removed_between(gone, low, low + n) for low, n in zip(starts, x.chunks[axis]))
    left = [n - _count(part) for n, part in zip(x.chunks[axis], parts)]
    if not sum(left):
        return Tensor(slice_tensor(x, [slice(0, 0) if i == axis else slice(None) for i in range(x.ndim)]).data)
    splits = tuple(n for n in left if n)
    chunks = (*x.chunks[:axis], splits, *x.chunks[axis + 1 :])
    return Tensor(new_data(Delete(axis, parts, inputs=(x.data,)), tuple(map(sum, chunks)), x.dtype, chunks))


def _kept(obj: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """Mask of the elements that stay on an axis."""
    if obj.dtype == bool:
        _check_mask(obj, sum(lengths))
        return call("logical_not", obj)  # type: ignore[no-any-return]
    kept = ones(sum(lengths), bool, chunks=(lengths,))
    call("put", kept, obj, False)
    return kept


def _check_mask(mask: Any, length: int) -> None:
    if mask.shape != (length,):
        raise ValueError(
            f"boolean array argument obj to delete must be one dimensional and match the axis length of {length}"
        )


def _removed(obj: Any, length: int, axis: int) -> Gone:
    """Positions that `obj` names on an axis; raises what `np.delete` raises."""
    if isinstance(obj, slice):
        found = range(length)[obj]
        return found if found.step > 0 else found[::-1]
    at = np.asarray(obj)
    if not at.size and not isinstance(obj, np.ndarray):
        at = at.astype(np.intp)
    if at.dtype == bool:
        _check_mask(at, length)
        return at
    if at.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return np.unique(in_bounds(at, length, axis if at.size == 1 else 0))


def _removed_between(gone: Gone, low: int, high: int) -> Removed:
    """Removed positions of a chunk, counted from its start."""
    if isinstance(gone, range):
        first = max(0, -(-(low - gone.start) // gone.step))
        after = max(0, -(-(high - gone.start) // gone.step))
        part = gone[first:after]
        return (part.start - low, part.start - low + len(part) * part.step, part.step)
    if gone.dtype == bool:
        mask = gone[low:high]
        return _encoded(np.flatnonzero(mask), high - low)
    begin, end = np.searchsorted(gone, [low, high])
    return _encoded(gone[begin:end] - low, high - low)


def _encoded(positions: NDArray[Any], length: int) -> bytes:
    """Positions in a chunk, or a mask of the chunk in bits: the shorter of both."""
    if 64 * len(positions) <= length:
        return POSITIONS + positions.astype(np.int64).tobytes()
    mask = np.zeros(length, bool)
    mask[positions] = True
    return MASK + np.packbits(mask).tobytes()


def _count(part: Removed) -> int:
    if isinstance(part, tuple):
        return len(range(*part))
    if part.startswith(POSITIONS):
        return len(part) // 8
    return int(np.bitwise_count(np.frombuffer(part, np.uint8, offset=1)).sum())


@dataclass(frozen=True, eq=False)
class Delete(Operand):
    """Removes elements along an axis, chunk by chunk."""

    axis: int
    parts: tuple[Removed, ...]  # for each chunk along the axis
    name: ClassVar[str] = "delete"

    def token(self) -> Hashable:
        """Identifies the operand by axis and removed positions."""
        return ("delete", self.axis, self.parts)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """The positions that stay; all that are removed, too, where most of the axis is kept."""
        axis, (source,) = self.axis, inputs
        if len(kept[axis]) == output.shape[axis]:
            return PartOf(self, [(0, along(kept, (axis,), source))])
        if len(kept[axis]) > LISTED:
            return None
        begin, places = 0, []
        for start, length, part in zip(chunk_starts(source.chunks[axis]), source.chunks[axis], self.parts):
            end = begin + length - _count(part)
            here = within(kept[axis], begin, end)
            if len(here):
                places.append(start + np.delete(np.arange(length), _gone(part, length))[positions(here)])
            begin = end
        return PartOf(None, [(0, (*kept[:axis], tidy(np.concatenate(places)), *kept[axis + 1 :]))])

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The lines whole."""
        return along(kept, (self.axis,), output)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk that loses some elements; passes on chunks that lose none."""
        (source,) = inputs
        axis = self.axis
        columns = np.moveaxis(source.ids, axis, 0)
        others = [s for i, s in enumerate(source.splits) if i != axis]
        kinds, which = chunk_classes(others)
        made = []
        for ids, length, part in zip(columns, source.splits[axis], self.parts):
            count = _count(part)
            if count == length:
                continue
            if not count:
                made.append(ids)
                continue

            def program(k: int, length: int = length, count: int = count) -> Program:
                shapes = [(*kinds[k][:axis], n, *kinds[k][axis:]) for n in (length, length - count)]
                given, left = (ChunkType(shape, source.dtype) for shape in shapes)
                return single(self.name, (given,), Call(remove, (axis,), (0,), left, True, left.nbytes + length))

            rows = ids.reshape(-1, 1)
            left = add_by_class(builder, program, which.reshape(-1), rows, [(part,)] * len(rows))
            made.append(left.reshape(ids.shape))
        return np.moveaxis(np.stack(made), 0, axis)


def remove(out: Array, inputs: Sequence[Array], params: tuple[int], arg: Removed) -> None:
    """Copies the elements of a chunk that stay."""
    (x,), (axis,) = inputs, params
    out[...] = np.delete(x, _gone(arg, x.shape[axis]), axis)


def _gone(part: Removed, length: int) -> Any:
    """Removed positions of a chunk, as `np.delete` takes them."""
    if isinstance(part, tuple):
        return slice(*part)
    if part.startswith(POSITIONS):
        return np.frombuffer(part, np.int64, offset=1)
    return np.unpackbits(np.frombuffer(part, np.uint8, offset=1), count=length).astype(bool)


@offers("unravel_index")
def unravel_index(indices: Any, shape: Any, order: Any = "C") -> tuple[Any, ...]:
    """`np.unravel_index`: converts flat positions to an array of positions per axis.

    A single position, such as `x.argmax()`, is computed at once if values can be, and gives NumPy's scalars. A position
    out of bounds raises NumPy's ValueError in the computation.
    """
    lengths = (shape,) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
    x = as_tensor(indices)
    _check_indices(indices, x)
    if not lengths or not x.ndim and (can_compute() or not isinstance(indices, Tensor)):
        return tuple(np.unravel_index(x.fetch() if isinstance(indices, Tensor) else indices, lengths, order))
    found = [blockwise("unravel_index", _unravel_index, [x], x.chunks, np.intp, (i, lengths, order), lines=())
             for i in range(len(lengths))]  # fmt: skip
    return tuple(found)


def _check_indices(given: Any, x: Tensor) -> None:
    """Raise NumPy's error where indices are not integers."""
    if x.dtype.kind not in "biu":
        if isinstance(given, list | tuple) and not len(given):
            raise TypeError("indices must be integral: the provided empty sequence was inferred as float")
        raise TypeError("only int indices permitted")


def _unravel_index(*more: Any) -> Array:
    at, axis, lengths, order = more
    return np.asarray(np.unravel_index(at, lengths, order)[axis])


@offers("ravel_multi_index")
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Tensor:
    """`np.ravel_multi_index`: converts positions per axis to flat positions; errors are raised in the computation."""
    for one in multi_index:
        _check_indices(one, as_tensor(one))
    at = broadcast_arrays(*(as_tensor(x) for x in multi_index))
    if not at:
        return as_tensor(_ravel_multi_index(dims, mode, order))
    dims = (dims,) if isinstance(dims, int | np.integer) else dims
    params = (tuple(int(n) for n in dims), mode, order)
    return blockwise("ravel_multi_index", _ravel_multi_index, [at[0], *(x.rechunk(at[0].chunks) for x in at[1:])],
                     at[0].chunks, np.intp, params, lines=())  # fmt: skip


def _ravel_multi_index(*more: Any) -> Array:
    *at, dims, mode, order = more
    return np.asarray(np.ravel_multi_index(tuple(at), dims, mode, order))


@offers("nonzero")
def nonzero(a: Any) -> tuple[Tensor, ...]:
    """`np.nonzero`: an array of positions per axis, all of the same unknown length."""
    mask = as_bool(as_tensor(a))
    if not mask.ndim:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead. "
            "If the context of this error is of the form `arr[nonzero(cond)]`, just use `arr[cond]`."
        )
    return tuple(positions_by_mask(mask, axis) for axis in range(mask.ndim))


@offers("argwhere")
def argwhere(a: Any) -> Tensor:
    """`np.argwhere`: a row of positions per nonzero element."""
    mask = as_bool(as_tensor(a))
    if not mask.ndim:
        return select_by_mask(zeros((1, 0), np.intp), reshape(mask, (1,)))
    return positions_by_mask(mask)


@offers("ix_")
def ix_(*args: Any) -> tuple[Any, ...]:
    """`np.ix_`: an open mesh of positions along the axes; the number of positions of a mask is computed."""
    if not any(isinstance(one, Tensor) for one in args):
        return np.ix_(*args)
    found = []
    for axis, one in enumerate(args):
        x = as_tensor(one)
        if x.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if x.dtype == bool:
            x = nonzero(x)[0]
        elif not isinstance(one, Tensor | np.ndarray) and not x.size:
            x = astype(x, np.intp)
        shape = [1] * len(args)
        shape[axis] = x.size
        found.append(reshape(x, shape))
    return tuple(found)
