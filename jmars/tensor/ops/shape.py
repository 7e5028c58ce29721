"""Shapes: axes permuted, added and removed; `reshape`, `concatenate`, `stack`, `split`, `roll`.

For `reshape`, groups of axes become groups of axes: (4, 6, 5) to (24, 5) leaves the last axis alone. Within a group the
chunks are rechunked to contiguous runs of elements in C order, the runs are rechunked for the new shape, then reshaped.

Concatenation copies no data: the result has the chunks of the parts. Only very small chunks are merged with their
neighbours, and slices of an array that are joined again get the splits of that array. `roll` assembles output chunks
from the overlapping chunks of the periodically repeated input, and keeps the splits, also after many rolls.
Source: `dask.array.reshape` (the grouping of axes).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.buffers import ViewStep, can_ravel, can_reshape, layout_of, normal_copy, normal_order, reshaped_layout
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import has_value
from jmars.tensor.operand import (
    Operand,
    Splits,
    TensorData,
    TensorMeta,
    cast_dtype,
    is_known,
    kind_of,
    new_data,
    result_type,
)
from jmars.tensor.ops.arguments import share, step, view, write_out
from jmars.tensor.ops.chunks import add_by_class, assemble_with_slivers, chunk_classes, overlaps, rechunk, rechunked
from jmars.tensor.ops.indexing import Slice, slice_tensor
from jmars.tensor.ops.numpy_code import offer_numpys
from jmars.tensor.ops.ufuncs import astype, cast_and_broadcast
from jmars.tensor.parts import Axis, Part, PartOf, positions, reshaped, size, splits_of, tidy, within
from jmars.tensor.protocols import offers
from jmars.tensor.splits import (
    ChunkSize,
    chunk_bytes,
    common_splits,
    decide_splits,
    evenly,
    split_axis,
    without_slivers,
)
from jmars.tensor.tensor import Tensor, as_tensor, index_step

Array = np.ndarray[Any, Any]
TILE = 256  # elements on a side of the squares in which a matrix is transposed
SMALL_TILE = 32  # for row strides of a power of two, which map to the same cache lines (measured: 3 times faster)
normal_axis = np.lib.array_utils.normalize_axis_index
normal_axes = np.lib.array_utils.normalize_axis_tuple


@dataclass(frozen=True, eq=False)
class Transpose(Operand):
    """Permutes axes to the order `axes`."""

    axes: tuple[int, ...]
    name: ClassVar[str] = "transpose"

    def token(self) -> Hashable:
        """Identifies the operand by the order of axes."""
        return ("transpose", self.axes)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf:
        """The part with the axes in the input's order."""
        return PartOf(self, [(0, tuple(kept[place] for place in np.argsort(self.axes).tolist()))])

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        (source,) = inputs
        kinds, which = chunk_classes(output.chunks)
        back = np.argsort(self.axes)

        def program(k: int) -> Program:
            chunk = ChunkType(tuple(kinds[k][i] for i in back), source.dtype)
            step = Call(permute, self.axes, (0,), ChunkType(kinds[k], output.dtype), moves=True, holds=(0,))
            return single(self.name, (chunk,), step)

        ids = source.ids.transpose(self.axes)
        return add_by_class(builder, program, which.reshape(-1), ids.reshape(-1, 1)).reshape(output.grid)


def permute(out: Array, inputs: Sequence[Array], params: tuple[int, ...], arg: Any) -> None:
    """Copies a chunk with its axes in the order `params`, tile by tile."""
    source = inputs[0].transpose(params)
    if out.ndim < 2 or params[-1] == out.ndim - 1:
        np.copyto(out, source)
        return
    axis = params.index(out.ndim - 1)  # the axis whose neighbours are neighbours in the input
    rows, lines = np.moveaxis(out, axis, -2), np.moveaxis(source, axis, -2)
    tile = SMALL_TILE if lines.strides[-1] % 1024 == 0 else TILE
    for i in range(0, rows.shape[-2], tile):
        for j in range(0, rows.shape[-1], tile):
            np.copyto(rows[..., i : i + tile, j : j + tile], lines[..., i : i + tile, j : j + tile])


@dataclass(frozen=True, eq=False)
class Reshape(Operand):
    """Reshapes chunk by chunk: chunks keep their elements in C order."""

    splits: Splits
    name: ClassVar[str] = "reshape"

    def token(self) -> Hashable:
        """Identifies the operand by the splits."""
        return ("reshape", self.splits)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """The same elements, where they are a part of the input."""
        own = reshaped(kept, output.shape, inputs[0].shape)
        if own is None or size(own) != size(kept):
            return None
        return PartOf(replace(self, splits=splits_of(kept, output)), [(0, own)])

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The part of the output that holds the smallest part of the input around the elements."""
        own = reshaped(kept, output.shape, inputs[0].shape)
        found = None if own is None else reshaped(own, inputs[0].shape, output.shape)
        return super().hull(kept, inputs, output) if found is None else found

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk; both grids have their chunks in the same C order."""
        (source,) = inputs
        before, which = chunk_classes(source.splits)
        after, becomes = chunk_classes(output.chunks)
        kind = which.reshape(-1) * len(after) + becomes.reshape(-1)

        def program(k: int) -> Program:
            chunk = ChunkType(before[k // len(after)], source.dtype)
            out = ChunkType(after[k % len(after)], output.dtype)
            return single(self.name, (chunk,), Call(copy_reshaped, (), (0,), out, reshapes=True))

        return add_by_class(builder, program, kind, source.ids.reshape(-1, 1)).reshape(output.grid)


def copy_reshaped(out: Array, inputs: Sequence[Array], params: tuple[()], arg: Any) -> None:
    """Copies a chunk to a new shape."""
    np.copyto(out, inputs[0].reshape(out.shape))


def reshape_chunks(x: Tensor, splits: Splits) -> Tensor:
    """Reshapes `x` to `splits`; the chunks hold the same elements, in C order, as the chunks of `x`."""
    if splits == x.chunks:
        return Tensor(x.data)
    assert math.prod(map(len, splits)) == math.prod(map(len, x.chunks))
    return Tensor(new_data(Reshape(splits, inputs=(x.data,)), tuple(map(sum, splits)), x.dtype, splits))


def names_no_axis(axis: Any, ndim: int) -> bool:
    """Whether NumPy reads `axis` as None: 0 and -1 of an array without axes, in reductions, cumulative sums, sorts."""
    return not ndim and hasattr(axis, "__index__") and operator.index(axis) in (0, -1)


@offers("transpose", "permute_dims")
def transpose(a: Any, axes: Any = None) -> Tensor:
    """`np.transpose`: reverses the axes, or permutes them to the order `axes`.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> transpose(ones((4, 6), chunk_size=(2, 3))).chunks
    ((3, 3), (2, 2))
    """
    x = as_tensor(a)
    order = tuple(range(x.ndim))[::-1] if axes is None else normal_axes(axes, x.ndim)
    if len(order) != x.ndim:
        raise ValueError("axes don't match array")
    if order == tuple(range(x.ndim)):
        return view(x)
    chunks = tuple(x.chunks[i] for i in order)
    data = new_data(Transpose(order, inputs=(x.data,)), tuple(x.shape[i] for i in order), x.dtype, chunks)
    back = tuple(np.argsort(order).tolist())
    transposing = step(
        lambda whole: transpose(whole, order),
        lambda whole, part: transpose(part, back),
        lambda array: array.transpose(order),
        permutes=True,
    )
    return share(Tensor(data), a, transposing)


moveaxis = offer_numpys("moveaxis")


@offers("swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """`np.swapaxes`."""
    ndim = as_tensor(a).ndim
    order = list(range(ndim))
    first, second = normal_axis(axis1, ndim), normal_axis(axis2, ndim)
    order[first], order[second] = second, first
    return transpose(a, order)


@offers("expand_dims")
def expand_dims(a: Any, axis: Any) -> Tensor:
    """`np.expand_dims`: inserts axes of length 1."""
    x = as_tensor(a)
    ndim = x.ndim + (len(axis) if isinstance(axis, tuple | list) else 1)
    new = normal_axes(axis, ndim)
    lengths = iter(x.chunks)
    result = reshape_chunks(x, tuple((1,) if i in new else next(lengths) for i in range(ndim)))
    expanding = step(
        lambda whole: expand_dims(whole, new),
        lambda whole, part: squeeze(part, new),
        lambda array: np.expand_dims(array, new),
    )
    return share(result, a, expanding)


@offers("squeeze")
def squeeze(a: Any, axis: Any = None) -> Tensor:
    """`np.squeeze`: removes axes of length 1."""
    x = as_tensor(a)
    axis = None if names_no_axis(axis, x.ndim) else axis
    gone = [i for i, n in enumerate(x.shape) if n == 1] if axis is None else normal_axes(axis, x.ndim)
    if any(x.shape[i] != 1 for i in gone):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    if axis is None and not gone:
        return x
    result = reshape_chunks(x, tuple(lengths for i, lengths in enumerate(x.chunks) if i not in gone))
    squeezing = step(
        lambda whole: squeeze(whole, tuple(gone)),
        lambda whole, part: expand_dims(part, tuple(gone)),
        lambda array: np.squeeze(array, tuple(gone)),
    )
    return share(result, a, squeezing)


@offers("broadcast_to")
def broadcast_to(array: Any, shape: Any, subok: bool = False, *, chunk_size: ChunkSize = None,
                 chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.broadcast_to`; new axes are divided by `chunk_size`."""
    x = as_tensor(array)
    whole = tuple(operator.index(n) for n in shape) if np.iterable(shape) else (operator.index(shape),)
    if np.broadcast_shapes(x.shape, whole) != whole:
        raise ValueError(
            f"operands could not be broadcast together with remapped shapes [original->remapped]: {x.shape} and "
            f"requested shape {whole}"
        )
    cut = decide_splits(whole, x.dtype, chunk_size, chunks)
    broadcasting = step(
        lambda one: cast_and_broadcast(one, one.dtype, whole, cut),
        None,
        lambda layout: np.broadcast_to(layout, whole),
        permutes=True,
    )
    return share(cast_and_broadcast(x, x.dtype, whole, cut), array, broadcasting)


@offers("broadcast_arrays")
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    """`np.broadcast_arrays`."""
    tensors = [as_tensor(a) for a in args]
    shape = np.broadcast_shapes(*(x.shape for x in tensors))
    if all(x.shape == shape for x in tensors):
        return tuple(tensors)
    return tuple(broadcast_to(x, shape) for x in tensors)


GROWN_ELEMENTS = 2**16  # elements; chunks may grow to this size to keep rows whole
STACK_BYTES = 2**16  # of a stack of single chunks that becomes a single chunk, too
Group = tuple[tuple[int, ...], tuple[int, ...]]  # lengths of the old axes and of the new axes


@offers("reshape")
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None, chunk_size: ChunkSize = None,
            chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.reshape` in C order or, through two transposes, in Fortran order.

    Parameters
    ----------
    a
        Any array.
    shape
        The new lengths; at most one may be -1.
    order
        "C" or "F"; "A" is "F" where `a` would lie in that order in NumPy's memory and not in C order, else "C".
    chunk_size, chunks
        Chunks of the result; by default as similar to the chunks of `a` as runs of elements allow.

    Raises
    ------
    ValueError
        If the sizes differ.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> reshape(arange(12, chunk_size=6), (4, 3)).chunks
    ((2, 2), (3,))
    """
    x, copy = as_tensor(a), normal_copy(copy)
    whole = x.shape if shape is None else _full_shape(shape, x)
    order, copy = ("C", None) if shape is None else (normal_order(order, "C"), copy)  # NumPy's is a view of `a` then
    if order == "K":
        raise ValueError("order 'K' is not permitted for reshaping")
    if order == "F" or order == "A" and _is_fortran(x):
        return transpose(reshape(transpose(a), whole[::-1], copy=copy, chunk_size=chunk_size, chunks=chunks))
    if whole == x.shape:
        result = Tensor(x.data)
    elif not x.size:
        result = _empty(whole, x.dtype)
    else:
        groups = _axis_groups(x.shape, whole)
        cuts = _group_splits(x.chunks, groups)
        sizes = [math.prod(map(max, cut)) for cut in cuts]  # elements of a chunk along each group
        limit = max(math.prod(sizes), min(chunk_bytes() // x.itemsize, GROWN_ELEMENTS))
        limits = [limit * size // math.prod(sizes) for size in sizes]
        cuts = [cut if _is_contiguous(cut) else _run_splits(cut, n) for cut, n in zip(cuts, limits)]
        runs = rechunk(x, chunks=tuple(lengths for cut in cuts for lengths in cut))
        flat = tuple(map(_run_lengths, cuts))
        wanted = [_splits_of_runs(cut, after, n) for cut, (_, after), n in zip(flat, groups, limits)]
        final = tuple(lengths for cut in wanted for lengths in cut)
        between = tuple(map(_run_lengths, wanted))
        if between == flat:
            result = reshape_chunks(runs, final)
        else:
            result = reshape_chunks(rechunk(reshape_chunks(runs, flat), chunks=between), final)
    if chunk_size is not None or chunks is not None:
        result = rechunk(result, chunk_size, chunks)
    if copy or not can_reshape(x._place, whole):
        if copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")  # NumPy's words
        made = Tensor(result.data)
        made._place.buffer.is_array = True
        return made
    return share(result, a, _reshaping(whole, chunk_size, chunks))


def _reshaping(shape: tuple[int, ...], chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> ViewStep:
    def layout(array: Array) -> Array:
        found = reshaped_layout(array, shape)
        assert found is not None
        return found

    def back(whole: Tensor, part: Tensor) -> Tensor:
        return rechunk(reshape(part, whole.shape), chunks=whole.chunks)

    return step(lambda whole: reshape(whole, shape, chunk_size=chunk_size, chunks=chunks), back, layout)


def merge_axes(x: Tensor, first: int, count: int) -> Tensor:
    """Merges `count` axes from `first` on into a single axis."""
    return reshape(x, (*x.shape[:first], math.prod(x.shape[first : first + count]), *x.shape[first + count :]))


@offers("ravel")
def ravel(a: Any, order: str = "C") -> Tensor:
    """`np.ravel`: flattens an array; in order "K", as the elements would lie in NumPy's memory."""
    x = as_tensor(a)
    order = normal_order(order, "C")
    if order == "K" and (axes := _axes_in_memory(x)) != [*range(x.ndim)]:
        return ravel(transpose(a, axes))
    order = "F" if order == "A" and _is_fortran(x) else "C" if order in ("A", "K") else order
    flat = reshape(a, -1, order)
    shares = can_ravel(x._place, order)
    return flat if shares or not isinstance(a, Tensor) else Tensor(flat.data)


@offers("method.flat")
def flat_view(x: Tensor) -> Tensor:
    """`x.flat`: the elements in C order, as a view whatever the order in memory."""
    flattening = step(
        lambda whole: reshape(whole, -1),
        lambda whole, part: rechunk(reshape(part, whole.shape), chunks=whole.chunks),
        lambda array: np.empty(0, array.dtype),
        copies_parts=True,
    )
    return share(Tensor(reshape(x, -1).data), x, flattening)


def _is_fortran(x: Tensor) -> bool:
    """Whether the elements would lie in Fortran order in NumPy's memory, and not in C order."""
    layout = layout_of(x._place)
    return layout is not None and layout.flags.f_contiguous and not layout.flags.c_contiguous


def _axes_in_memory(x: Tensor) -> list[int]:
    """The axes; neighbours along the first axis would lie farthest apart in NumPy's memory."""
    layout = layout_of(x._place)
    if layout is None or layout.flags.c_contiguous:
        return [*range(x.ndim)]
    inner: list[int] = []  # axes, the nearest in memory first
    for axis in reversed(range(x.ndim)):
        place, stride = len(inner), abs(layout.strides[axis])
        for at in reversed(range(len(inner))):  # broadcast axes stay where they are, as in NumPy's iterators
            other = abs(layout.strides[inner[at]])
            if stride and other:
                if other <= stride:
                    break
                place = at
        inner.insert(place, axis)
    return inner[::-1]


def _full_shape(shape: Any, x: Tensor) -> tuple[int, ...]:
    """Normalises a new shape, with -1 replaced; raises ValueError as NumPy does."""
    whole = [operator.index(n) for n in shape] if np.iterable(shape) else [operator.index(shape)]
    whole = [max(n, -1) for n in whole]  # NumPy takes any negative length for an unknown one
    if whole.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    if -1 in whole:
        known = math.prod(n for n in whole if n != -1)
        if known:
            whole[whole.index(-1)] = x.size // known
    if math.prod(whole) != x.size or min(whole, default=0) < 0:
        np.broadcast_to(np.zeros((), bool), x.shape).reshape(shape)  # NumPy's own words
        raise ValueError(f"cannot reshape array of size {x.size} into shape {tuple(whole)}")
    return tuple(whole)


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    return as_tensor(np.empty(shape, dtype), chunks=tuple((n,) for n in shape))


def _axis_groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[Group]:
    """Divides old and new axes into the shortest groups of equal size, in order.

    Examples
    --------
    >>> _axis_groups((4, 6, 5), (24, 5))
    [((4, 6), (24,)), ((5,), (5,))]
    """
    found: list[Group] = []
    i = j = 0
    while i < len(old) or j < len(new):
        start_old, start_new = i, j
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while (left := math.prod(old[start_old:i])) != (right := math.prod(new[start_new:j])):
            if left < right:
                i += 1
            else:
                j += 1
        found.append((old[start_old:i], new[start_new:j]))
    return found


def _group_splits(splits: Splits, groups: list[Group]) -> list[Splits]:
    """Splits of the old axes by group."""
    found, at = [], 0
    for before, _ in groups:
        found.append(splits[at : at + len(before)])
        at += len(before)
    return found


def _is_contiguous(cut: Splits) -> bool:
    """Whether all chunks are contiguous in C order: chunks of length 1, then any divided axis, then undivided axes."""
    first = next((i for i, lengths in enumerate(cut) if max(lengths) > 1), len(cut))
    return all(len(lengths) == 1 for lengths in cut[first + 1 :])


def _run_splits(cut: Splits, limit: int) -> Splits:
    """Splits of the same axes into contiguous runs of about `limit` elements; keeps splits of an axis that fit."""
    shape = tuple(map(sum, cut))
    axis = 0
    while axis < len(shape) - 1 and math.prod(shape[axis + 1 :]) > limit:
        axis += 1
    row = math.prod(shape[axis + 1 :])
    fits = max(cut[axis]) * row <= limit and len(cut[axis]) > 1
    lengths = cut[axis] if fits else split_axis(shape[axis], max(1, limit // max(row, 1)))
    return (*((1,) * n for n in shape[:axis]), lengths, *((n,) for n in shape[axis + 1 :]))


def _run_lengths(cut: Splits) -> tuple[int, ...]:
    """Numbers of elements of the chunks of a group, in C order."""
    lengths = np.ones((), np.int64)
    for axis in cut:
        lengths = lengths[..., None] * np.asarray(axis, np.int64)
    return tuple(lengths.reshape(-1).tolist())


def _splits_of_runs(flat: tuple[int, ...], shape: tuple[int, ...], limit: int) -> Splits:
    """Splits of `shape` into runs of the lengths `flat` if possible, else of about `limit` elements."""
    if len(shape) == 0:
        return ()
    if shape[0] == 1 and len(shape) > 1:
        return ((1,), *_splits_of_runs(flat, shape[1:], limit))
    row = math.prod(shape[1:])
    if all(n % row == 0 for n in flat):
        return (tuple(n // row for n in flat), *((n,) for n in shape[1:]))
    return _run_splits(tuple((n,) for n in shape), limit)


@dataclass(frozen=True, eq=False)
class Concatenate(Operand):
    """Concatenates the inputs along `axis`."""

    axis: int
    name: ClassVar[str] = "concatenate"

    def token(self) -> Hashable:
        """Identifies the operand by the axis."""
        return ("concatenate", self.axis)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf:
        """Parts of all inputs that have some of the positions."""
        reads, begin = [], 0
        for number, meta in enumerate(inputs):
            end = begin + meta.shape[self.axis]
            here = within(kept[self.axis], begin, end)
            if len(here):
                reads.append((number, (*kept[: self.axis], here, *kept[self.axis + 1 :])))
            begin = end
        return PartOf(self if len(reads) > 1 else None, reads)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Passes all chunks on; adds no operand."""
        return np.concatenate([grid.ids for grid in inputs], axis=self.axis)


@offers("concatenate", "concat")
def concatenate(arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None,
                casting: Any = "same_kind") -> Tensor:  # fmt: skip
    """`np.concatenate`: joins arrays along an axis, or flattened arrays if `axis` is None.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> concatenate([ones(4, chunk_size=3), ones(2)]).chunks
    ((3, 1, 2),)
    """
    axis = None if axis is None else operator.index(axis)  # first, as NumPy: `concatenate(x, y)` is about the axis
    if out is not None and dtype is not None:
        raise TypeError("concatenate() only takes `out` or `dtype` as an argument, but both were provided.")
    np.can_cast(bool, bool, casting)  # raises NumPy's errors
    arrays = list(arrays)
    parts = [as_tensor(a) for a in arrays]
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    if not parts[0].ndim:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = normal_axis(axis, parts[0].ndim)
    for i, x in enumerate(parts):
        if x.ndim != parts[0].ndim:
            raise ValueError(
                "all the input arrays must have same number of dimensions, but the array at index 0 has "
                f"{parts[0].ndim} dimension(s) and the array at index {i} has {x.ndim} dimension(s)"
            )
        for other in range(x.ndim):
            if other != axis and x.shape[other] != parts[0].shape[other]:
                raise ValueError(
                    "all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {other}, the array at index 0 has size {parts[0].shape[other]} and the array at index "
                    f"{i} has size {x.shape[other]}"
                )
    kinds = {kind_of(x) if dtype is None else cast_dtype(y.dtype, dtype, casting) for x, y in zip(arrays, parts)}
    kind = next(iter(kinds)) if len(kinds) == 1 and dtype is not None else result_type(*kinds)
    rules = ["unsafe" if isinstance(a, int | float | complex) else casting for a in arrays]  # Python's numbers wrap
    parts = [x if x.dtype == kind else astype(x, kind, casting=rule) for x, rule in zip(parts, rules)]
    parts = [x for x in parts if x.shape[axis]] or parts[:1]
    result = join(parts, axis)
    return write_out(result, "concatenate", out, casting)  # type: ignore[no-any-return]


def join(parts: list[Tensor], axis: int) -> Tensor:
    """Joins parts of equal dtype and equal lengths along the other axes."""
    if len(parts) == 1:
        return Tensor(parts[0].data)
    cut = [common_splits([x.chunks[i] for x in parts]) for i in range(parts[0].ndim) if i != axis]
    inputs = [rechunked(x.data, (*cut[:axis], x.chunks[axis], *cut[axis:])) for x in parts]
    along = tuple(n for data in inputs for n in data.chunks[axis])
    chunks = (*cut[:axis], along, *cut[axis:])
    op = Concatenate(axis, inputs=tuple(inputs))
    data = new_data(op, tuple(map(sum, chunks)), parts[0].dtype, chunks)
    return Tensor(rechunked(data, (*chunks[:axis], _concatenated_splits(parts, axis, chunks), *chunks[axis + 1 :])))


def _concatenated_splits(parts: list[Tensor], axis: int, chunks: Splits) -> tuple[int, ...]:
    """Splits of a joined axis, chosen so that repeated concatenation does not produce ever more chunks.

    If the parts are slices of arrays, the splits of the arrays are used where that gives fewer chunks.
    """
    row = math.prod(max(cut) for i, cut in enumerate(chunks) if i != axis) * parts[0].dtype.itemsize
    most = chunk_bytes() // max(row, 1)
    sources: dict[Any, tuple[int, ...]] = {}
    for i, x in enumerate(parts):  # a whole array counts at each occurrence, all slices of an array count once
        source = _source(x.data)
        sources[i if source is x.data else source] = source.chunks[axis]
    whole = without_slivers(tuple(itertools.chain.from_iterable(sources.values())), most)
    if sum(whole) == sum(chunks[axis]) and len(whole) < len(chunks[axis]):
        return whole
    along = without_slivers(chunks[axis], most)
    return along if len(along) <= len(whole) else min(along, evenly(sum(along), max(whole)), key=len)


def _source(data: TensorData) -> TensorData:
    """Base array of a slice; `data` itself for other operands."""
    op = data.op
    if isinstance(op, Slice) and all(isinstance(entry, tuple) for entry in op.index):
        return data if op.inputs[0].has_unknown_lengths else op.inputs[0]
    return data


@offers("stack")
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    """`np.stack`: joins arrays along a new axis; small arrays of a single chunk to a chunk.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> stack([ones(2), ones(2), ones(2)]).chunks
    ((3,), (2,))
    """
    if out is not None and dtype is not None:
        raise TypeError("stack() only takes `out` or `dtype` as an argument, but both were provided.")
    parts = [as_tensor(a) for a in _sequence(arrays)]
    if not parts:
        raise ValueError("need at least one array to stack")
    if len({x.shape for x in parts}) > 1:
        raise ValueError("all input arrays must have the same shape")
    axis = normal_axis(axis, parts[0].ndim + 1)
    joined = concatenate([expand_dims(x, axis) for x in parts], axis, dtype=dtype, casting=casting)
    single = all(len(cut) == 1 for x in parts for cut in x.chunks)
    if single and is_known(joined.chunks) and joined.nbytes <= STACK_BYTES:
        joined = Tensor(rechunked(joined.data, tuple((n,) for n in joined.shape)))
    return write_out(joined, "stack", out, casting)  # type: ignore[no-any-return]


def _sequence(arrays: Any) -> Any:
    """The arrays to stack; raises TypeError for a generator, as NumPy."""
    if not hasattr(arrays, "__getitem__"):
        raise TypeError('arrays to stack must be passed as a "sequence" type such as list or tuple.')
    return arrays


@offers("column_stack")
def column_stack(tup: Any) -> Tensor:
    """`np.column_stack`."""
    parts = [as_tensor(a) for a in _sequence(tup)]
    return concatenate([x if x.ndim > 1 else expand_dims(ravel(x), 1) for x in parts], 1)


@offers("block")
def block(arrays: Any) -> Tensor:
    """`np.block`: joins nested lists of arrays, the innermost along the last axis."""

    def least(entry: Any) -> int:
        return max(map(least, entry)) if isinstance(entry, list) and entry else as_tensor(entry).ndim

    levels, empty = _depth(arrays, "arrays")
    if empty:
        raise ValueError(f"List at {empty} cannot be empty")
    ndim = max(levels, least(arrays))

    def joined(entry: Any, level: int) -> Tensor:
        if level < levels:
            return concatenate([joined(part, level + 1) for part in entry], level - levels)
        x = as_tensor(entry)
        return expand_dims(x, tuple(range(ndim - x.ndim))) if x.ndim < ndim else x

    return Tensor(joined(arrays, 0).data)


def _depth(entry: Any, path: str) -> tuple[int, str]:
    """Depth of nested lists, and where an innermost list is empty; raises as `np.block`."""
    if isinstance(entry, tuple):
        raise TypeError(
            f"{path} is a tuple. Only lists can be used to arrange blocks, and np.block does not allow implicit "
            "conversion from tuple to ndarray."
        )
    if not isinstance(entry, list):
        return 0, ""
    if not entry:
        return 1, path
    found = [_depth(part, f"{path}[{i}]") for i, part in enumerate(entry)]
    level, first = path.count("[") + 1, found[0][0]
    for i, (depth, _) in enumerate(found):
        if depth != first:
            raise ValueError(
                f"List depths are mismatched. First element was at depth {level + first}, but there is an element at "
                f"depth {level + depth} ({path}[{i}])"
            )
    return 1 + first, next((at for _, at in found if at), "")


@offers("unstack")
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """`np.unstack`: splits an array along an axis into arrays without that axis."""
    whole = as_tensor(x)
    if not x.ndim:  # which a list has not, in NumPy too
        raise ValueError("Input array must be at least 1-d.")
    (axis,) = np.lib.array_utils.normalize_axis_tuple(axis, whole.ndim)
    return tuple(whole[(slice(None),) * axis + (i,)] for i in range(whole.shape[axis]))


def slice_axis(x: Tensor, axis: int, part: slice) -> Tensor:
    """Slices `x` along an axis."""
    return slice_tensor(x, [part if i == axis else slice(None) for i in range(x.ndim)])


@offers("array_split")
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """`np.array_split`: divides an array into parts of nearly equal length, or at given indices."""
    x = as_tensor(ary)
    length = x.shape[normal_axis(axis, x.ndim)]
    if np.iterable(indices_or_sections):
        ends = [0, *(operator.index(i) for i in indices_or_sections), length]
    else:
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, longer = divmod(length, sections)
        ends = [i * each + min(i, longer) for i in range(sections + 1)]
    axis = normal_axis(axis, x.ndim)
    cuts = [(*(slice(None),) * axis, slice(low, high)) for low, high in zip(ends, ends[1:])]
    return [share(slice_axis(x, axis, cut[-1]), ary, index_step(cut)) for cut in cuts]


@offers("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """`np.roll`: shifts elements cyclically; keeps the chunks of `a`.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> x = roll(arange(6, chunk_size=4), 1)
    >>> x.chunks, x.fetch().tolist()
    (((4, 2),), [5, 0, 1, 2, 3, 4])
    """
    x = as_tensor(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape, copy=True)
    axes = np.lib.array_utils.normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    if not x.ndim:
        raise ValueError("not enough values to unpack (expected 2, got 0)")  # NumPy's words
    shifts = dict.fromkeys(axes, 0)
    for n, i in np.broadcast(shift, axes):
        shifts[int(i)] += int(n)
    by = tuple(shifts.get(i, 0) % n if n else 0 for i, n in enumerate(x.shape))
    source = x.data
    if isinstance(source.op, Roll) and not has_value(source):  # rolled along the axes in turn
        by = tuple((m + n) % length for m, n, length in zip(by, source.op.by, x.shape))
        (source,) = source.op.inputs
    if not any(by):
        return Tensor(source)
    return Tensor(new_data(Roll(by, inputs=(source,)), x.shape, x.dtype, x.chunks))


@dataclass(frozen=True, eq=False)
class Roll(Operand):
    """Moves the last elements along the axes to the front, as many as `by` says; the numbers are below the lengths."""

    by: tuple[int, ...]
    name: ClassVar[str] = "roll"

    def token(self) -> Hashable:
        """Identifies the operand by the shifts."""
        return ("roll", self.by)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf:
        """The positions before the shift, in ascending order, and the shift of the part."""
        own: list[Axis] = []
        by: list[int] = []
        for axis, shift, n in zip(kept, self.by, output.shape, strict=True):
            front, back = within(axis, 0, shift), within(axis, shift, n)  # of the last elements, and of the first
            moved = [positions(back), positions(front) + (n - shift)]
            own.append(tidy(np.concatenate(moved)) if shift else axis)
            by.append(len(front) if len(back) else 0)
        return PartOf(replace(self, by=tuple(by)), [(0, tuple(own))])

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk and per sliver; none where the shift moves whole chunks."""
        (x,) = inputs
        axes = [
            overlaps(cut * 2, (sum(cut) - n, *after))[1:] if n else overlaps(cut, after)
            for cut, n, after in zip(x.splits, self.by, output.chunks)
        ]
        return assemble_with_slivers(self.name, builder, x, axes, output)
