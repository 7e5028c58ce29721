"""Adds and removes elements: `repeat`, `tile`, `pad`, `resize`, `insert`, `trim_zeros`, `packbits`.

A result chunk of `repeat` has elements of a single input chunk. Counts are rechunked to the input's chunks; their sums,
the lengths of the result's chunks, are computed at once. `pad` extends arrays at both ends, axis by axis; the original
chunks are not copied.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.arguments import assigned, converted
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, chunk_starts, rechunked
from jmars.tensor.ops.constants import full, zeros
from jmars.tensor.ops.create import arange
from jmars.tensor.ops.getitem import is_many
from jmars.tensor.ops.indexing import as_positions, take_positions
from jmars.tensor.ops.map_blocks import map_blocks
from jmars.tensor.ops.numpy_code import offer_numpys
from jmars.tensor.ops.reduction import any_, argmax
from jmars.tensor.ops.setitem import match_ndim
from jmars.tensor.ops.shape import (
    broadcast_to,
    concatenate,
    expand_dims,
    join,
    merge_axes,
    moveaxis,
    names_no_axis,
    normal_axis,
    ravel,
    slice_axis,
    stack,
)
from jmars.tensor.ops.ufuncs import as_bool, astype, ufunc
from jmars.tensor.parts import Part, PartOf, along, whole
from jmars.tensor.protocols import call, offers
from jmars.tensor.splits import chunk_bytes, decide_splits, split_axis
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]


resize = offer_numpys("resize")


@offers("method.resized")
def resized(x: Tensor, shape: Any) -> Tensor:
    """The elements in C order in a different shape, then zeros."""
    lengths = tuple(map(operator.index, shape)) if np.iterable(shape) else (operator.index(shape),)
    if min(lengths, default=0) < 0:
        raise ValueError("negative dimensions not allowed")
    size, line = math.prod(lengths), ravel(x)
    line = line[:size] if size <= x.size else concatenate([line, zeros((size - x.size,), x.dtype)])
    return Tensor(line.reshape(lengths).data)


@offers("insert")
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """`np.insert`: inserts `values` before the positions `obj` (an int, a slice or a list of ints)."""
    x = as_tensor(arr)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    n = x.shape[axis]
    at = np.arange(*obj.indices(n)) if isinstance(obj, slice) else np.asarray(obj)
    if at.ndim > 1:
        raise ValueError("index array argument obj to insert must be one dimensional or scalar")
    if at.dtype.kind == "b":
        if at.ndim != 1:
            raise ValueError("boolean array argument obj to insert must be one dimensional")
        at = np.flatnonzero(at)
    elif at.size == 0 and isinstance(obj, list | tuple):
        at = at.astype(int)
    elif at.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    if at.size and (at.max() > n or at.min() < -n):
        raise IndexError(f"index {at.max()} is out of bounds for axis {axis} with size {n}")
    put = as_tensor(converted(values, x.dtype))
    single = at.size == 1
    where_ = np.where(at < 0, at + n, at).reshape(-1).astype(int)
    if single:
        put = expand_dims(put, tuple(range(x.ndim - put.ndim)))
    if not at.size and x.ndim == 1 and put.shape[-1:] == (0,):  # of any number of axes, in NumPy
        return Tensor(x.data)
    if at.ndim == 0:  # NumPy broadcasts values as if the axis came first
        put = moveaxis(put, 0, axis)
    count = put.shape[axis] if single else len(where_)
    shape = tuple(count if i == axis else m for i, m in enumerate(x.shape))
    put = broadcast_to(match_ndim(put, shape), shape)
    if single:
        place = int(where_[0])
        pieces = [slice_axis(x, axis, slice(0, place)), put, slice_axis(x, axis, slice(place, None))]
        return Tensor(concatenate([p for p in pieces if p.shape[axis]] or pieces[:1], axis, dtype=x.dtype).data)
    order = np.argsort(where_, kind="stable")
    if (np.diff(order) < 0).any():
        put, where_ = take_positions(put, order, axis), where_[order]
    return _inserted(x, where_, put, axis) if count else Tensor(x.data)


def _inserted(x: Tensor, places: NDArray[np.int64], put: Tensor, axis: int) -> Tensor:
    """Inserts elements before ascending positions, into the chunks that hold the positions."""
    lengths = x.chunks[axis]
    ends = np.cumsum(lengths)
    into = np.minimum(np.searchsorted(ends, places, "right"), len(lengths) - 1)
    counts = np.bincount(into, minlength=len(lengths)).tolist()
    own = np.split(places - (ends - lengths)[into], np.cumsum(counts)[:-1])
    parts = tuple(one.astype(np.int64).tobytes() for one in own)
    cut = (*x.chunks[:axis], tuple(n for n in counts if n), *x.chunks[axis + 1 :])
    chunks = (*x.chunks[:axis], tuple(map(operator.add, lengths, counts)), *x.chunks[axis + 1 :])
    op = Insert(axis, parts, inputs=(x.data, rechunked(put.data, cut)))
    return Tensor(new_data(op, tuple(map(sum, chunks)), x.dtype, chunks))


@dataclass(frozen=True, eq=False)
class Insert(Operand):
    """Inserts elements of the second input along an axis, chunk by chunk."""

    axis: int
    parts: tuple[bytes, ...]  # for each chunk along the axis: positions before which elements are inserted (int64)
    name: ClassVar[str] = "insert"

    def token(self) -> Hashable:
        """Identifies the operand by axis and positions."""
        return ("insert", self.axis, self.parts)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Some of the lines along the axis."""
        if len(kept[self.axis]) < output.shape[self.axis]:
            return None
        return PartOf(self, [(k, along(kept, (self.axis,), x)) for k, x in enumerate(inputs)])

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The lines whole."""
        return along(kept, (self.axis,), output)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk that gets elements; passes on all others."""
        x, put = inputs
        axis = self.axis
        kinds, which = chunk_classes([s for i, s in enumerate(x.splits) if i != axis])
        given = iter(np.moveaxis(put.ids, axis, 0))
        made = []
        for ids, length, part in zip(np.moveaxis(x.ids, axis, 0), x.splits[axis], self.parts):
            if not part:
                made.append(ids)
                continue

            def program(k: int, lengths: tuple[int, ...] = (length, len(part) // 8)) -> Program:
                shapes = [(*kinds[k][:axis], n, *kinds[k][axis:]) for n in (*lengths, sum(lengths))]
                chunk, some, out = (ChunkType(shape, x.dtype) for shape in shapes)
                return single(
                    self.name, (chunk, some), Call(write_between, (axis,), (0, 1), out, True, 16 * sum(lengths))
                )

            rows = np.stack([ids.reshape(-1), next(given).reshape(-1)], axis=1)
            added = add_by_class(builder, program, which.reshape(-1), rows, [(part,)] * len(rows))
            made.append(added.reshape(ids.shape))
        return np.moveaxis(np.stack(made), 0, axis)


def write_between(out: Array, inputs: Sequence[Array], params: tuple[int], arg: bytes) -> None:
    """Copies a chunk, and the inserted elements before their positions."""
    x, put = (np.moveaxis(one, params[0], 0) for one in inputs)
    target = np.moveaxis(out, params[0], 0)
    places = np.frombuffer(arg, np.int64) + np.arange(len(put))
    stays = np.ones(len(target), bool)
    stays[places] = False
    target[places], target[stays] = put, x


@offers("trim_zeros")
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """`np.trim_zeros`: a view without the zeros at the ends of axes; computes at once how many."""
    x, trim = as_tensor(filt), trim.lower()
    if isinstance(filt, list | tuple) and x.ndim > 1 and axis != ():
        raise TypeError("list indices must be integers or slices, not tuple")  # NumPy's words
    if trim not in {"fb", "bf", "f", "b"}:
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    axes = range(x.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    is_filled = as_bool(x)
    lines = [any_(is_filled, tuple(j for j in range(x.ndim) if j != i)) for i in axes]
    ends = [end for line in lines if x.size for end in (any_(line), argmax(line), argmax(line[::-1]))]
    found = stack(ends).fetch().tolist() if ends else [0] * 3 * len(lines)
    cut = slice(None)
    for k, i in enumerate(axes):
        some, first, last = found[3 * k : 3 * k + 3]
        low, high = (first if "f" in trim else 0, x.shape[i] - (last if "b" in trim else 0)) if some else (0, 0)
        cut = slice(low, high)
        x = x[(*[slice(None)] * i, cut)]
    if isinstance(filt, list | tuple):
        return filt[cut] if axis != () and x.ndim == 1 else filt
    return x


@offers("repeat")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """`np.repeat`: repeats elements, by a common count or a count per element."""
    x = as_tensor(a)
    if axis is None or names_no_axis(axis, x.ndim):
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    counts: Any = as_positions(repeats)
    counts = counts if is_many(counts) else np.asarray(counts)
    if counts.ndim < 2 and counts.size == 1:
        return _repeated(x, int(counts.reshape(())), axis)
    if counts.ndim > 1:
        raise ValueError("object too deep for desired array")
    n = x.shape[axis]
    if counts.shape != (n,):
        raise ValueError(f"operands could not be broadcast together with shape {(n,)} {counts.shape}")
    return _repeated_by_counts(x, counts, axis)


def _repeated_by_counts(x: Tensor, counts: Any, axis: int) -> Tensor:
    cut = (x.chunks[axis],)
    if isinstance(counts, Tensor):
        counts = Tensor(rechunked(counts.data, cut))
        totals = blockwise("repeat", _total, [counts], ((1,) * len(cut[0]),), np.int64, flat=True).fetch().tolist()
    else:
        starts = chunk_starts(cut[0])
        totals = [int(_total(counts[start : start + n])[0]) for start, n in zip(starts, cut[0])]
    across = math.prod(max(own) for i, own in enumerate(x.chunks) if i != axis) * x.dtype.itemsize
    most = max(*x.chunks[axis], chunk_bytes() // max(across, 1), 1)
    parts = []
    for k, total in enumerate(totals):
        ends = np.cumsum(split_axis(total, most)).tolist() if total else []
        parts += [(k, begin, end) for begin, end in zip([0, *ends], ends)]
    if not parts:
        return Tensor(slice_axis(x, axis, slice(0, 0)).data)
    chunks = (*x.chunks[:axis], tuple(end - begin for _, begin, end in parts), *x.chunks[axis + 1 :])
    op = Repeat(axis, tuple(parts), inputs=(x.data, as_tensor(counts, chunks=cut).data))
    return Tensor(new_data(op, tuple(map(sum, chunks)), x.dtype, chunks))


def _total(counts: Array) -> Array:
    """Sum of the counts of a chunk."""
    if counts.size and counts.dtype.kind == "i" and counts.min() < 0:
        raise ValueError("repeats may not contain negative values.")
    return np.array([counts.sum(dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Repeat(Operand):
    """Repeats elements of the first input along an axis, by the counts in the second."""

    axis: int
    parts: tuple[tuple[int, int, int], ...]  # for each chunk of the result: chunk, and elements of it repeated
    name: ClassVar[str] = "repeat"

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Some of the lines along the axis."""
        if len(kept[self.axis]) < output.shape[self.axis]:
            return None
        return PartOf(self, [(0, along(kept, (self.axis,), inputs[0])), (1, whole(inputs[1]))])

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The lines whole."""
        return along(kept, (self.axis,), output)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk of the result."""
        x, counts = inputs
        axis, lengths = self.axis, x.splits[self.axis]
        kinds, which = chunk_classes([cut for i, cut in enumerate(x.splits) if i != axis])
        columns = np.moveaxis(x.ids, axis, 0)
        made = []
        for k, begin, end in self.parts:

            def program(c: int, n: int = lengths[k], taken: int = end - begin) -> Program:
                given, out = (ChunkType((*kinds[c][:axis], m, *kinds[c][axis:]), x.dtype) for m in (n, taken))
                step = Call(copy_repeated, (axis,), (0, 1), out, True, out.nbytes + 24 * n)
                return single(self.name, (given, ChunkType((n,), counts.dtype)), step)

            ids = columns[k].reshape(-1)
            read = np.stack([ids, np.full_like(ids, counts.ids[k])], axis=1)
            added = add_by_class(builder, program, which.reshape(-1), read, [((begin, end),)] * len(ids))
            made.append(added.reshape(columns[k].shape))
        return np.moveaxis(np.stack(made), 0, axis)


def copy_repeated(out: Array, inputs: Sequence[Array], params: tuple[int], arg: tuple[int, int]) -> None:
    """Copies the elements [begin, end) of a repeated chunk."""
    x, counts = inputs
    (axis,), (begin, end) = params, arg
    ends = np.cumsum(counts, dtype=np.int64)
    first, last = np.searchsorted(ends, [begin, end - 1], "right").tolist()
    some = counts[first : last + 1].astype(np.int64)
    some[0] -= begin - (ends[first] - counts[first])
    some[-1] -= ends[last] - end
    out[...] = np.repeat(x[(slice(None),) * axis + (slice(first, last + 1),)], some, axis)


def _repeated(x: Tensor, count: int, axis: int) -> Tensor:
    """Repeats elements `count` times along an axis, chunk by chunk: a new axis behind `axis`, merged with `axis`."""
    if count < 0 and (x.size or x.shape[axis]):
        raise ValueError("repeats may not contain negative values.")
    if count <= 0 or not x.shape[axis]:
        return Tensor(slice_axis(x, axis, slice(0, 0)).data)
    across = math.prod(max(cut) for i, cut in enumerate(x.chunks) if i != axis) * x.dtype.itemsize
    most = max(*x.chunks[axis], chunk_bytes() // max(across, 1))  # elements of an output chunk along the axis
    pieces = tuple(n for length in x.chunks[axis] for n in split_axis(length, max(most // count, 1)) if n)
    cut = (*x.chunks[:axis], pieces, *x.chunks[axis + 1 :])
    spread = expand_dims(Tensor(rechunked(x.data, cut)), axis + 1)
    shape = (*x.shape[: axis + 1], count, *x.shape[axis + 1 :])
    chunks = (*cut[: axis + 1], split_axis(count, most), *cut[axis + 1 :])
    return Tensor(merge_axes(broadcast_to(spread, shape, chunks=chunks), axis, 2).data)


@offers("tile")
def tile(A: Any, reps: Any) -> Tensor:
    """`np.tile`: repeats an array, without copies of large chunks."""
    x = as_tensor(A)
    counts = [operator.index(n) for n in reps] if np.iterable(reps) else [operator.index(reps)]
    if len(counts) > x.ndim:
        x = expand_dims(x, tuple(range(len(counts) - x.ndim)))
    counts = [1] * (x.ndim - len(counts)) + counts
    if any(n * count < 0 for n, count in zip(x.shape, counts)):
        raise ValueError("negative dimensions are not allowed")
    for axis, count in enumerate(counts):
        x = _tiled(x, count, axis) if count > 0 else slice_axis(x, axis, slice(0, 0))
    return Tensor(x.data)


def _tiled(x: Tensor, count: int, axis: int) -> Tensor:
    """Repeats the whole axis `count` times: small repetitions share chunks of the default size."""
    length = x.shape[axis]
    across = math.prod(max(cut, default=0) for i, cut in enumerate(x.chunks) if i != axis) * x.dtype.itemsize
    most = chunk_bytes() // max(across, 1) // max(length, 1)  # repetitions in a chunk
    if count == 1 or most < 2 or not x.size:
        return join([x] * count, axis)
    whole = Tensor(rechunked(x.data, (*x.chunks[:axis], (length,), *x.chunks[axis + 1 :])))
    shape = (*x.shape[:axis], count, *x.shape[axis:])
    chunks = (*whole.chunks[:axis], split_axis(count, most), *whole.chunks[axis:])
    return Tensor(merge_axes(broadcast_to(expand_dims(whole, axis), shape, chunks=chunks), axis, 2).data)


_OPTIONS = {"constant": "constant_values", "linear_ramp": "end_values", "reflect": "reflect_type"}
_OPTIONS |= {"symmetric": "reflect_type"} | dict.fromkeys(("maximum", "minimum", "mean", "median"), "stat_length")
_FILLED = ("constant", "empty")
_MIRRORED = ("edge", "reflect", "symmetric", "wrap")
_FUNCTIONS = {"maximum": "max", "minimum": "min", "mean": "mean", "median": "median"}


@offers("pad")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    """`np.pad`: adds elements before and after the axes.

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
    >>> from jmars.tensor.ops.create import arange
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
    """An option for both ends of all axes: NumPy's scalars for one or two values, Python's for more, as in NumPy."""
    array = np.array(given)
    if array.size in (1, 2) and array.ndim < 3 and array.shape != (2, 1):
        ends = array.ravel()
        return [[ends[0], ends[-1]]] * ndim
    return np.broadcast_to(array, (ndim, 2)).tolist()  # type: ignore[no-any-return]


def _widths(pad_width: Any, ndim: int) -> list[list[int]]:
    """Normalises `pad_width` to [before, after] per axis."""
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
    np.linspace(end, np.zeros(1, edge.dtype), 2, endpoint=False, dtype=edge.dtype)  # raises NumPy's errors
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


@offers("packbits")
def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> Tensor:
    """`np.packbits`: packs eight booleans into a byte, chunk by chunk."""
    x = as_tensor(a)
    if x.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    x, axis = (ravel(x), 0) if axis is None or names_no_axis(axis, x.ndim) else (x, normal_axis(axis, x.ndim))
    own = x.chunks[axis]
    if any(n % 8 for n in own[:-1]):
        own = split_axis(x.shape[axis], max(8, max(own) // 8 * 8))
    return _mapped("packbits", x, axis, own, tuple(-(-n // 8) for n in own), bitorder=bitorder)


@offers("unpackbits")
def unpackbits(a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Tensor:
    """`np.unpackbits`: unpacks bytes into bits, chunk by chunk."""
    x = as_tensor(a)
    if x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    x, axis = (ravel(x), 0) if axis is None or names_no_axis(axis, x.ndim) else (x, normal_axis(axis, x.ndim))
    n = 8 * x.shape[axis]
    n = n if count is None else count if count >= 0 else n + count
    if not x.shape[axis] and n > 0:  # NumPy returns uninitialised memory here
        return zeros(tuple(n if i == axis else m for i, m in enumerate(x.shape)), np.uint8)
    own = tuple(part for length in x.chunks[axis] for part in split_axis(length, max(1, -(-max(x.chunks[axis]) // 8))))
    bits = _mapped("unpackbits", x, axis, own, tuple(8 * length for length in own), bitorder=bitorder)
    if n > bits.shape[axis]:
        more = zeros(tuple(n - m if i == axis else m for i, m in enumerate(bits.shape)), np.uint8)
        return concatenate([bits, more], axis)
    return bits if n == bits.shape[axis] else slice_axis(bits, axis, slice(0, max(n, 0)))


def _mapped(name: str, x: Tensor, axis: int, own: tuple[int, ...], made: tuple[int, ...], **kwargs: Any) -> Tensor:
    """Calls NumPy's function chunk by chunk; `own` are the chunks of the axis, `made` the chunks of the result."""
    cut, chunks = ((*x.chunks[:axis], one, *x.chunks[axis + 1 :]) for one in (own, made))
    line = Tensor(rechunked(x.data, cut))
    return map_blocks(getattr(np, name), line, dtype=np.uint8, chunks=chunks, name=name, axis=axis, **kwargs)
