"""`x[index]`: normalises an index and dispatches it by kind; `x[mask]`, an array of unknown length.

`Index` is the normal form, shared with setitem.py. Slices, ints, integer arrays and NumPy's boolean arrays go to
indexing.py. Few positions of a tensor are computed at once, many stay a tensor.

A chunk of elements that a mask selects needs only the chunks of data and mask, so functions that need no lengths run in
the same stage without waiting for counts. Two arrays selected by the same mask have provably equal lengths. NumPy's
`x[mask]` takes a branch per element, and copies rows one by one through an iterator. `take` by the positions of true
elements is faster for rows, and for elements unless few or nearly all are selected. Positions are found block by block,
for little memory.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import current_engine
from jmars.tensor.operand import (
    NeedsLengthError,
    Operand,
    Origin,
    Splits,
    TensorData,
    TensorMeta,
    Unknown,
    axis_length,
    is_known,
    new_data,
)
from jmars.tensor.ops.arguments import share, step, write_out
from jmars.tensor.ops.blockwise import blockwise, no_scratch
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, chunk_starts, chunk_type, length_kind, rechunked
from jmars.tensor.ops.formula import ElementwiseOperand
from jmars.tensor.ops.indexing import MANY, checked_positions, in_bounds, slice_tensor, take_by_tensor, take_positions
from jmars.tensor.ops.records_and_objects import field, field_names, field_step
from jmars.tensor.ops.shape import (
    broadcast_arrays,
    expand_dims,
    merge_axes,
    moveaxis,
    names_no_axis,
    normal_axis,
    ravel,
    reshape,
    slice_axis,
)
from jmars.tensor.ops.ufuncs import as_bool, native
from jmars.tensor.protocols import offers
from jmars.tensor.splits import evenly, split_axis
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import Dynamic, TensorGraph, fragment, new_group, placeholders

Ints = NDArray[np.int64]
Array = np.ndarray[Any, Any]
MOST_AXES = 64  # of NumPy's arrays
_BASIC = (slice, int, np.integer)


class Index(Struct, frozen=True):
    """A normalised index: an entry per axis of the array, and None per new axis.

    Entries are slices, None, ints, integer arrays, and integer tensors of many elements; ints and arrays are in bounds
    and 0 or more.
    """

    entries: tuple[Any, ...]

    @property
    def arrays(self) -> list[int]:
        """Numbers of the entries that are arrays."""
        return [i for i, entry in enumerate(self.entries) if isinstance(entry, np.ndarray | Tensor)]

    @property
    def basic(self) -> tuple[Any, ...]:
        """The entries with full slices in place of arrays."""
        return tuple(slice(None) if isinstance(entry, np.ndarray | Tensor) else entry for entry in self.entries)

    @classmethod
    def of(cls, index: Any, shape: tuple[int, ...]) -> Index:
        """Normalises `index` for an array of `shape`.

        Raises
        ------
        IndexError
            As NumPy raises it.
        UnsupportedError
            For a bool beside other entries.
        """
        given = list(index) if isinstance(index, tuple) else [index]
        _check_number(given)
        entries: list[Any] = []
        for entry in given:
            entries += _axis_entries(entry)
        used = sum(entry is not None and entry is not Ellipsis for entry in entries)
        if used > len(shape):
            raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed")
        dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
        if len(dots) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        at = dots[0] if dots else len(entries)
        entries[at : at + 1] = [slice(None)] * (len(shape) - used)
        axis = 0
        for i, entry in enumerate(entries):
            if entry is None:
                continue
            if isinstance(entry, _Mask):
                if entry.length not in (0, shape[axis]):  # in NumPy a mask without elements fits any axis
                    raise IndexError(
                        f"boolean index did not match indexed array along axis {axis}; size of axis is {shape[axis]} "
                        f"but size of corresponding boolean axis is {entry.length}"
                    )
                entries[i] = entry.positions
            elif isinstance(entry, np.ndarray):
                entries[i] = in_bounds(entry, shape[axis], axis)
            elif isinstance(entry, int):
                if not -shape[axis] <= entry < shape[axis]:
                    raise IndexError(f"index {entry} is out of bounds for axis {axis} with size {shape[axis]}")
                entries[i] = entry % shape[axis]
            axis += 1
        arrays = [entry.ndim for entry in entries if not isinstance(entry, int | slice | None)]
        ndim = sum(entry is None or isinstance(entry, slice) for entry in entries) + max(arrays, default=0)
        if ndim > MOST_AXES:
            raise IndexError(f"number of dimensions must be within [0, {MOST_AXES}], indexing result would have {ndim}")
        return cls(tuple(entries))


def _check_number(entries: Sequence[Any]) -> None:
    """Raise IndexError for more arrays and bools than an array has axes."""
    plain = (entry is None or entry is Ellipsis or isinstance(entry, slice) or type(entry) is int for entry in entries)
    if len(entries) - sum(plain) > MOST_AXES:
        raise IndexError(f"too many advanced indices; an array has at most {MOST_AXES} axes")


class _Mask(Struct, frozen=True):
    """An axis of a boolean index array: positions of true elements, and the length of the axis."""

    positions: Ints
    length: int


def _axis_entries(entry: Any) -> list[Any]:
    """Converts an entry of a user's index to entries of single axes; tensors of few elements are computed."""
    if entry is None or entry is Ellipsis:
        return [entry]
    if isinstance(entry, slice):
        bounds = [None if e is None else operator.index(e) for e in (entry.start, entry.stop, entry.step)]
        if bounds[2] == 0:
            raise ValueError("slice step cannot be zero")
        return [slice(*bounds)]
    if isinstance(entry, bool | np.bool_):
        raise UnsupportedError("a bool beside other indices is not in jmars; use x[None] or x[:0]")
    if is_many(entry):
        return [entry]
    if isinstance(entry, Tensor):
        array = np.zeros(entry.shape, entry.dtype) if 0 in entry.data.shape else entry.fetch()
    else:
        array = np.asarray(entry)
    if array.dtype == bool and array.ndim:
        return [_Mask(at.astype(np.int64), n) for at, n in zip(np.nonzero(array), array.shape)]
    if array.ndim == 0:
        try:
            return [operator.index(array[()])]
        except TypeError:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays "
                "are valid indices"
            ) from None
    if not array.size and not isinstance(entry, np.ndarray | Tensor):
        return [array.astype(np.int64)]
    if array.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return [array]


def is_many(positions: Any) -> bool:
    """Whether positions are a tensor of integers with too many elements to be computed at once."""
    return isinstance(positions, Tensor) and positions.dtype.kind in "iu" and positions.size > MANY


@offers("method.getitem")
def getitem(x: Tensor, index: Any) -> Tensor:
    """`x[index]`: lazy, but integer tensors of few elements in the index are computed at once."""
    if isinstance(index, str | list) and (names := field_names(index)) is not None:
        return share(field(x, names), x, field_step(names))
    entries = index if isinstance(index, tuple) else (index,)
    if len(entries) == 1 and is_bool_scalar(entries[0]):  # x[None] for True, an empty array for False
        one, entry = expand_dims(x, 0), entries[0]
        return select_by_mask(one, reshape(entry, (1,))) if isinstance(entry, Tensor) else one if entry else one[:0]
    if any(map(is_bool_scalar, entries)):
        return getitem(*without_bools(x, entries))
    masks = [i for i, entry in enumerate(entries) if isinstance(entry, Tensor) and entry.dtype == bool and entry.ndim]
    masks = [i for i in masks if 0 not in entries[i].data.shape]
    if len(masks) == 1 and all(isinstance(e, _BASIC) or e is None or e is Ellipsis or is_lazy_mask(e) for e in entries):
        return _select_by_lazy_mask(x, entries, masks[0])
    meaning = Index.of(index, x.shape)
    result = slice_tensor(x, meaning.basic)
    at = meaning.arrays
    if not at:
        return result
    advanced = [i for i, entry in enumerate(meaning.entries) if isinstance(entry, np.ndarray | Tensor | int)]
    together = advanced[-1] - advanced[0] == len(advanced) - 1
    arrays = broadcast_positions([meaning.entries[i] for i in at])
    # axes after slicing, which removed the ints
    axes = [i - sum(isinstance(entry, int) for entry in meaning.entries[:i]) for i in at]
    first = advanced[0] - sum(isinstance(entry, int) for entry in meaning.entries[: advanced[0]]) if together else 0
    return _take_jointly(result, arrays, axes, first)


def broadcast_positions(arrays: Sequence[Any]) -> Sequence[Any]:
    """Broadcast index arrays, to tensors if any is a tensor; raises IndexError as NumPy's indexing."""
    try:
        if any(isinstance(one, Tensor) for one in arrays):
            return broadcast_arrays(*map(as_tensor, arrays))
        return np.broadcast_arrays(*arrays)
    except ValueError:
        shapes = " ".join(str(one.shape) for one in arrays)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        ) from None


def without_bools(x: Tensor, entries: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """Bools beside other entries: arrays of a single position, or none, along new axes."""
    _check_number(entries)
    axes: list[Any] = []
    found: list[Any] = []
    for entry in entries:
        if is_bool_scalar(entry):
            axes.append(None)
            found.append(np.zeros(int(bool(entry)), np.int64))
            continue
        found.append(entry)
        if entry is Ellipsis:
            axes.append(entry)
        elif entry is not None:
            mask = not isinstance(entry, slice) and np.ndim(entry) > 1 and is_mask(entry)
            axes += [slice(None)] * (np.ndim(entry) if mask else 1)
    return getitem(x, tuple(axes)), tuple(found)


def is_mask(entry: Any) -> bool:
    """Whether an index entry is an array, list or tensor of bools."""
    return getattr(entry, "dtype", None) == np.dtype(bool) or (
        isinstance(entry, list | tuple) and np.asarray(entry).dtype == bool
    )


def is_bool_scalar(entry: Any) -> bool:
    """Whether an index entry is a bool, or a boolean array without axes."""
    return isinstance(entry, bool | np.bool_) or (
        isinstance(entry, Tensor | np.ndarray) and entry.dtype == np.dtype(bool) and not entry.ndim
    )


def is_lazy_mask(entry: Any) -> bool:
    """Whether an index entry is a boolean tensor with axes."""
    return isinstance(entry, Tensor) and entry.dtype == bool and entry.ndim > 0


def _select_by_lazy_mask(x: Tensor, entries: tuple[Any, ...], at: int) -> Tensor:
    """Indexing by a single boolean tensor, `entries[at]`, beside slices, ints and None."""
    mask = entries[at]
    if len(entries) == 1:
        return select_by_mask(x, mask)
    whole = (*entries[:at], *(slice(None),) * mask.ndim, *entries[at + 1 :])
    meaning = Index.of(whole, x.shape).entries
    before = sum(entry is not None and entry is not Ellipsis for entry in entries[:at])
    if any(entry is Ellipsis for entry in entries[:at]):
        before = x.ndim - mask.ndim - sum(entry is not None for entry in entries[at + 1 :])
    first = [i for i, entry in enumerate(meaning) if entry is not None][before]  # of the mask, among all entries
    axes = range(first, first + mask.ndim)
    advanced = [i for i, entry in enumerate(meaning) if isinstance(entry, int) or i in axes]
    together = advanced[-1] - advanced[0] == len(advanced) - 1
    ints = [i for i, entry in enumerate(meaning) if isinstance(entry, int)]
    place = advanced[0] - sum(i < advanced[0] for i in ints) if together else 0
    return select_by_mask_at(slice_tensor(x, meaning), mask, first - sum(i < first for i in ints), place)


def _take_jointly(x: Tensor, arrays: Any, axes: list[int], first: int) -> Tensor:
    """Selects elements by integer arrays of equal shape, an array per axis in `axes`; their axes end up at `first`."""
    x = moveaxis(x, axes, range(first, first + len(axes)))
    positions = joint_positions(arrays, x.shape[first : first + len(axes)], axes)
    x = merge_axes(x, first, len(axes)) if len(axes) > 1 else x
    result = (
        take_by_tensor(x, ravel(positions), first)
        if isinstance(positions, Tensor)
        else take_positions(x, positions.reshape(-1), first)
    )
    if positions.ndim == 1:
        return result
    return Tensor(reshape(result, (*x.shape[:first], *positions.shape, *x.shape[first + 1 :])).data)


def joint_positions(arrays: Sequence[Any], lengths: Sequence[int], axes: Sequence[int]) -> Any:
    """Positions in the merged axes, from broadcast index arrays, or tensors."""
    if len(arrays) == 1:
        return arrays[0]
    if not isinstance(arrays[0], Tensor) and len(arrays) <= 32:  # the most that NumPy's function takes
        return np.ravel_multi_index(arrays, lengths) if arrays[0].size else np.empty(arrays[0].shape, np.int64)
    positions: Any = 0
    for one, length, axis in zip(arrays, lengths, axes, strict=True):
        one = one if isinstance(one, np.ndarray) else checked_positions(one, length, axis)
        positions = positions * length + one
    return positions


@offers("take")
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """`np.take`: selects elements at positions along an axis, or of the flattened array; positions are computed."""
    x = as_tensor(a)
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if axis is None or names_no_axis(axis, x.ndim):
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    positions: Any = indices
    if not is_many(indices):
        positions = np.asarray(indices.fetch() if isinstance(indices, Tensor) else indices)
    rule: Any = "same_kind" if isinstance(indices, Tensor | np.ndarray) else "unsafe"
    positions = positions.astype(np.intp, casting=rule, copy=False)
    length = x.shape[axis]
    if length and 0 in x.shape[:axis] and not isinstance(positions, Tensor):
        positions = np.zeros_like(positions)  # which NumPy does not look at where there are no lines
    if mode == "wrap":
        positions = positions % length
    elif mode == "clip":
        positions = np.clip(positions, 0, length - 1)
    if isinstance(positions, Tensor):
        return write_out(_take_jointly(x, [positions], [axis], axis), "take", out, back=True)
    if positions.ndim == 0:
        result = getitem(x, (slice(None),) * axis + (positions,))
    else:
        result = _take_jointly(x, [in_bounds(positions, length, axis)], [axis], axis)
    return write_out(result if result.data.shape else native(result), "take", out, back=True)


@offers("diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """`np.diagonal`: a read-only view."""
    x = as_tensor(a)
    found = _diagonal(x, offset, axis1, axis2)
    return share(
        found,
        a,
        step(
            lambda whole: _diagonal(whole, offset, axis1, axis2),
            None,
            lambda array: np.diagonal(array, offset, axis1, axis2),
            permutes=True,
        ),
    )


def _diagonal(x: Tensor, offset: int, axis1: int, axis2: int) -> Tensor:
    if x.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = offset if offset >= 0 else -offset * columns
    flat = merge_axes(x, x.ndim - 2, 2)
    stop = start + (count - 1) * (columns + 1) + 1 if count else start
    return Tensor(slice_tensor(flat, [*[slice(None)] * (x.ndim - 2), slice(start, stop, columns + 1)]).data)


MASK_PART_ELEMENTS = 2**20  # elements of a mask that are worth an operand of their own
MASK_DEPTH = 4  # operations of a mask that are compared to find equal masks


def select_by_mask(x: Tensor, mask: Tensor, axis: int = 0) -> Tensor:
    """Selects the elements of `x` where `mask` is true; the masked axes, from `axis` on, become a single axis.

    Raises
    ------
    IndexError
        If the shape of the mask does not match the masked axes.
    NeedsLengthError
        If unknown lengths must be computed to compare the shapes.
    """
    m = mask.ndim
    shape = x.data.shape[axis : axis + m]
    if shape != mask.data.shape:
        if not is_known([shape, mask.data.shape]):
            raise NeedsLengthError("a mask and an array of unknown length may differ")
        wrong = next(i for i, n in enumerate(mask.shape) if i >= len(shape) or shape[i] != n)
        raise IndexError(
            f"boolean index did not match indexed array along axis {axis + wrong}; size of axis is "
            f"{shape[wrong] if wrong < len(shape) else 0} but size of corresponding boolean axis is {mask.shape[wrong]}"
        )
    cut = _row_splits(x.data.chunks[axis : axis + m], x.data.chunks)
    data = rechunked(x.data, (*x.data.chunks[:axis], *cut, *x.data.chunks[axis + m :]))
    parts, taken = _selected_axis(mask, cut)
    chunks = (*data.chunks[:axis], taken, *data.chunks[axis + m :])
    op = MaskSelection(axis, m, parts, inputs=(data, rechunked(mask.data, cut)))
    return Tensor(new_data(op, tuple(map(axis_length, chunks)), x.dtype, chunks))


def positions_by_mask(mask: Tensor, axis: int | None = None) -> Tensor:
    """Positions of the true elements along an axis of a mask; with None a row of positions per element."""
    cut = _row_splits(mask.chunks, mask.chunks)
    parts, taken = _selected_axis(mask, cut)
    chunks = (taken,) if axis is not None else (taken, (mask.ndim,))
    op = MaskPositions(axis, parts, inputs=(rechunked(mask.data, cut),))
    return Tensor(new_data(op, tuple(map(axis_length, chunks)), np.dtype(np.intp), chunks))


def _selected_axis(mask: Tensor, cut: Splits) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Rows per operand of the mask's only chunk, () for whole chunks; and the splits of the selected axis."""
    parts = _parts(cut)
    within = math.prod(int(n) for (n,) in cut[1:])
    most = [(n.most if isinstance(n, Unknown) else n) for n in parts]
    origin = Origin.of(_mask_key(mask, cut, parts))
    return parts if parts != cut[0] else (), origin.axis([None if n is None else n * within for n in most])


def assign_by_mask(x: Tensor, mask: Tensor, value: Tensor) -> Tensor | None:
    """Assigns to `x[mask]` a `value` that was selected by the same mask; None if the mask differs."""
    cut = _row_splits(x.chunks[: mask.ndim], x.chunks)
    parts, first = _parts(cut), value.data.chunks[0][0]
    same = isinstance(first, Unknown) and first.number is not None and first.origin.key == _mask_key(mask, cut, parts)
    rest = x.chunks[mask.ndim :]
    if not same or value.data.chunks[1:] != rest:
        return None
    data = rechunked(x.data, (*cut, *rest))
    divided = parts if parts != cut[0] else ()
    op = MaskAssignment(mask.ndim, divided, inputs=(data, rechunked(mask.data, cut), value.data))
    return Tensor(rechunked(new_data(op, data.shape, data.dtype, data.chunks), x.chunks))


def assign_rows_by_mask(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """Assigns to `x[mask]` a `value` with a row per true element; ValueError, when computed, for a wrong number.

    The true elements of the chunks are counted first, unless there is a single chunk.
    """
    cut, rest = _row_splits(x.chunks[: mask.ndim], x.chunks), x.chunks[mask.ndim :]
    data, rows = rechunked(x.data, (*cut, *rest)), Tensor(rechunked(mask.data, cut))
    if len(cut[0]) == 1:
        op: Operand = MaskAssignment(
            mask.ndim, inputs=(data, rows.data, rechunked(value.data, (value.shape[:1], *rest)))
        )
    else:
        ones = ((1,) * len(cut[0]),)
        counts = blockwise("count_nonzero", _count_true, [rows], ones, np.int64, flat=True, scratch=no_scratch)
        inputs = (data, rows.data, counts.rechunk(-1).data, value.data)
        op = RowAssignment(group=new_group(), inputs=inputs)
    return Tensor(rechunked(new_data(op, data.shape, data.dtype, data.chunks), x.chunks))


def _count_true(mask: Array) -> Array:
    return np.array([np.count_nonzero(mask)])


def _mask_key(mask: Tensor, cut: Splits, parts: tuple[Any, ...]) -> str:
    """Key of a selection: selections with equal keys have equal lengths and splits."""
    return f"{_meaning(mask.data)}:{hash((cut, parts)):x}"


def _meaning(data: TensorData, depth: int = MASK_DEPTH) -> str:
    """Text that is equal for the results of equal elementwise expressions of the same nodes, as of `x > 0` twice."""
    if not depth or not isinstance(data.op, ElementwiseOperand) or not data.op.inputs:
        return data.key
    inputs = ",".join(_meaning(one, depth - 1) for one in data.op.inputs)
    return hashlib.blake2b(f"{data.op.expression!r}({inputs})".encode(), digest_size=16).hexdigest()


def _parts(cut: Splits) -> tuple[Any, ...]:
    """Rows of the mask by operand: a chunk, or a part of the only chunk.

    The parts depend on the mask alone, so arrays selected by the same mask have provably equal lengths.
    """
    engine = current_engine()
    if engine is None or len(cut[0]) > 1 or not is_known(cut):
        return cut[0]
    rows = int(cut[0][0])
    parts = min(engine.limits()[1], math.prod(int(n) for (n,) in cut) // MASK_PART_ELEMENTS, rows)
    return evenly(rows, -(-rows // parts)) if parts > 1 else cut[0]


def _row_splits(cut: Splits, chunks: Splits) -> Splits:
    """Splits of the masked axes with only the first axis divided, so that chunks follow in C order."""
    if all(len(axis) == 1 for axis in cut[1:]):
        return cut
    row = math.prod(map(axis_length, cut[1:]))
    most = math.prod(max(axis) for axis in cut)
    return (split_axis(axis_length(cut[0]), max(1, most // max(row, 1))), *((sum(axis),) for axis in cut[1:]))


@dataclass(frozen=True, eq=False)
class MaskSelection(Operand):
    """Selects the elements of the first input where the second input, a mask, is true."""

    axis: int
    ndim: int  # of the mask
    parts: tuple[int, ...] = ()  # rows of the mask's only chunk that each operand reads; (): all rows of its chunks
    name: ClassVar[str] = "mask"

    def token(self) -> Hashable:
        """Identifies the operand by the masked axes."""
        return ("mask", self.axis, self.ndim, self.parts)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, or per part of the only chunk along the mask's rows."""
        x, mask = inputs
        first, after = self.axis, self.axis + self.ndim
        lengths = [[length_kind(n) for n in axis] for axis in x.splits]
        n_parts = max(1, len(self.parts))
        lengths[first] *= n_parts
        along = [
            (*place, length_kind(n))
            for place, n in zip(
                [(n, *(axis[0] for axis in lengths[first + 1 : after])) for n in lengths[first]],
                output.chunks[first],
                strict=True,
            )
        ]
        kinds, which = chunk_classes([*lengths[:first], along, *lengths[after:]])

        def program(k: int) -> Program:
            *before, taken = kinds[k][first]
            outer, inner = kinds[k][:first], kinds[k][first + 1 :]
            types = [chunk_type((*outer, *before, *inner), x.dtype), chunk_type(before, mask.dtype)]
            out = chunk_type((*outer, taken, *inner), x.dtype)
            work = 0 if not out.is_sized else out.nbytes
            step = Call(copy_masked, (first,), (0, 1), out, bool(self.parts), work, holds=() if self.parts else (1,))
            return single(self.name, types, step)

        shape = [1] * len(output.grid)
        shape[first] = -1
        masks = np.broadcast_to(np.repeat(mask.ids.reshape(-1), n_parts).reshape(shape), output.grid)
        rows = np.stack([np.repeat(x.ids, n_parts, axis=first).reshape(-1), masks.reshape(-1)], axis=1)
        args: Any = None
        if self.parts:
            bounds = list(zip(chunk_starts(self.parts), itertools.accumulate(self.parts), strict=True))
            args = [(bounds[k],) for k in np.broadcast_to(np.arange(n_parts).reshape(shape), output.grid).flat]
        return add_by_class(builder, program, which.reshape(-1), rows, args).reshape(output.grid)


def copy_masked(out: Array | None, inputs: Sequence[Array], params: tuple[int], arg: Any) -> Array:
    """Copies the selected elements, of the rows `arg` = (start, stop) where given; `out` is given if their number was
    known in advance.
    """
    x, mask = inputs
    if arg is not None:
        rows = slice(*arg)
        x, mask = x[(slice(None),) * params[0] + (rows,)], mask[rows]
    axis = params[0]
    _check_selected(int(np.count_nonzero(mask)), None if out is None else np.moveaxis(out, axis, 0))
    if axis == 0:
        return selected_rows(x, mask, out)
    found = np.ascontiguousarray(x[(slice(None),) * axis + (mask,)])
    if out is None:
        return found
    np.copyto(out, found)
    return out


def _check_selected(selected: int, out: Array | None) -> None:
    """Raises ValueError where a chunk was known to have a different number of true elements."""
    if out is not None and selected != len(out):
        raise ValueError(
            f"a mask has {selected} true elements in a chunk, and had {len(out)} when it was "
            "computed before; a function whose results vary must be executed once and kept"
        )


@dataclass(frozen=True, eq=False)
class MaskPositions(Operand):
    """Finds the positions of a mask's true elements along an axis, or along all, a row per element."""

    axis: int | None
    parts: tuple[int, ...] = ()  # as `MaskSelection.parts`
    name: ClassVar[str] = "nonzero"

    def token(self) -> Hashable:
        """Identifies the operand by the axis."""
        return ("nonzero", self.axis, self.parts)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk of the mask, or per part of the only chunk."""
        (mask,) = inputs
        n_parts = max(1, len(self.parts))
        shapes = [shape for shape in _row_shapes(mask.splits) for _ in range(n_parts)]
        taken = [length_kind(n) for n in output.chunks[0]]
        kinds, which = chunk_classes([list(zip(shapes, taken, strict=True))])

        def program(k: int) -> Program:
            ((shape, n),) = kinds[k]
            out = chunk_type([n, *output.shape[1:]], output.dtype)
            work = 0 if self.axis is not None and not out.is_sized else 2 * (out.most or out.nbytes)
            holds = () if self.parts else (0,)
            step = Call(find_nonzero, (self.axis,), (0,), out, True, work, holds=holds)
            return single(self.name, (ChunkType(shape, mask.dtype),), step)

        rows = self.parts or mask.splits[0]
        begins = chunk_starts(rows)
        within = [(begin, begin + n) if self.parts else (0, n) for begin, n in zip(begins, rows)]
        ids = np.repeat(mask.ids.reshape(-1, 1), n_parts, axis=0)
        args = [(one,) for one in zip(begins, within)]
        return add_by_class(builder, program, which, ids, args).reshape(output.grid)


def find_nonzero(
    out: Array | None, inputs: Sequence[Array], params: tuple[int | None], arg: tuple[int, tuple[int, int]]
) -> Array:
    """Positions of true elements along axis `params[0]`; `arg`: position of the first row, and the rows to read."""
    (axis,), (first, rows) = params, arg
    mask = inputs[0][slice(*rows)]
    flat = np.flatnonzero(mask)
    _check_selected(len(flat), out)
    if axis is None:
        found = np.empty((len(flat), mask.ndim), np.intp) if out is None else out
        for column in range(mask.ndim):
            found[:, column] = _along(flat.copy(), mask.shape, column, first)
        return found
    found = _along(flat, mask.shape, axis, first)
    if out is not None:
        np.copyto(out, found)
    return found


def _along(flat: Array, shape: tuple[int, ...], axis: int, first: int) -> Array:
    """Positions along an axis, in place of the flat positions."""
    behind = math.prod(shape[axis + 1 :])
    if behind > 1:
        np.floor_divide(flat, behind, out=flat)
    if axis:
        np.remainder(flat, shape[axis], out=flat)
    elif first:
        np.add(flat, first, out=flat)
    return flat


@dataclass(frozen=True, eq=False)
class MaskAssignment(Operand):
    """Replaces elements of the first input where the mask, the second input, is true, by elements of the third."""

    ndim: int
    parts: tuple[int, ...] = ()  # rows of the only chunk for which there is a chunk of values each; (): of all chunks
    name: ClassVar[str] = "setitem"

    def token(self) -> Hashable:
        """Identifies the operand by the number of masked axes."""
        return ("put true", self.ndim, self.parts)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        x, mask, value = inputs
        shapes = _row_shapes(x.splits[: self.ndim])
        n_parts = max(1, len(self.parts))
        taken = [length_kind(n) for n in value.splits[0]]
        rows = [(place, tuple(taken[i * n_parts : (i + 1) * n_parts])) for i, place in enumerate(shapes)]
        kinds, which = chunk_classes([rows, *x.splits[self.ndim :]])

        def program(k: int) -> Program:
            (before, lengths), *inner = kinds[k]
            chunk = chunk_type((*before, *inner), x.dtype)
            parts = [chunk_type((n, *inner), value.dtype) for n in lengths]
            types = (chunk, chunk_type(before, mask.dtype), *parts)
            return single(self.name, types, Call(write_masked, self.parts, tuple(range(2 + n_parts)), chunk))

        ids = value.ids.reshape(len(shapes), n_parts, *value.ids.shape[1:])
        each = [ids[:, k].reshape(-1) for k in range(n_parts)]
        masks = np.broadcast_to(mask.ids.reshape(-1, *[1] * (value.ids.ndim - 1)), ids[:, 0].shape)
        read = np.stack([x.ids.reshape(-1), masks.reshape(-1), *each], axis=1)
        return add_by_class(builder, program, which.reshape(-1), read).reshape(output.grid)


@dataclass(frozen=True, eq=False, kw_only=True)
class RowAssignment(Dynamic):
    """Divides values among the chunks of a mask. The inputs are the array, the mask, the counts and the values."""

    name: ClassVar[str] = "setitem"

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Wants the counts."""
        return (), (2,)

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """Becomes the assignment of values cut by the counts."""
        x, mask, _, value = placeholders(inputs)
        counts = tuple(np.asarray(values[2]).tolist())
        check_row_count(sum(counts), value.shape, len(mask.shape), x.shape)
        given = rechunked(value, (counts, *x.chunks[len(mask.shape) :]))
        op = MaskAssignment(len(mask.shape), inputs=(x, mask, given))
        return fragment([new_data(op, x.shape, x.dtype, x.chunks)], self.line)


def check_row_count(selected: int, given: Sequence[int], ndim: int, shape: Sequence[int]) -> None:
    """Raises NumPy's ValueError where a mask of `ndim` axes does not select as many elements as values are given."""
    if selected == given[0]:
        return
    if ndim < len(shape):
        raise ValueError(
            f"shape mismatch: value array of shape {_shape_text(given)} could not be broadcast to indexing result of "
            f"shape {_shape_text((selected, *shape[ndim:]))}"
        )
    raise ValueError(
        f"NumPy boolean array indexing assignment cannot assign {given[0]} input values to the {selected} output "
        "values where the mask is true"
    )


def _shape_text(shape: Sequence[int]) -> str:
    return str(tuple(map(int, shape))).replace(" ", "")


def _row_shapes(cut: Splits) -> list[tuple[int, ...]]:
    """Shapes of the chunks along the masked axes; only the first axis is divided."""
    return [(n, *(axis[0] for axis in cut[1:])) for n in cut[0]]


def write_masked(out: Array, inputs: Sequence[Array], params: tuple[int, ...], arg: Any) -> None:
    """Copies a chunk and writes the values to the positions of true mask elements; `params` are the parts."""
    x, mask, *values = inputs
    check_row_count(int(np.count_nonzero(mask)), (sum(map(len, values)), *x.shape[mask.ndim :]), mask.ndim, x.shape)
    np.copyto(out, x)
    start = 0
    for n, value in zip(params or (len(mask),), values, strict=True):
        out[start : start + n][mask[start : start + n]] = value
        start += n


@offers("extract")
def extract(condition: Any, arr: Any) -> Any:
    """`np.extract`: selects the elements of `arr` where `condition` is true, in C order."""
    return compress(ravel(as_tensor(condition)), arr)


@offers("compress")
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """`np.compress`: selects slices along an axis by a boolean array, possibly shorter than the axis."""
    x, mask = as_tensor(a), as_bool(as_tensor(condition))
    if mask.ndim != 1:
        raise ValueError("condition must be a 1-d array")
    if axis is None or names_no_axis(axis, x.ndim):
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    length = mask.shape[0]
    if length > x.shape[axis]:
        if beyond := np.flatnonzero(mask[x.shape[axis] :].fetch()).tolist():
            at = x.shape[axis] + beyond[0]
            raise IndexError(f"index {at} is out of bounds for axis {axis} with size {x.shape[axis]}")
        mask, length = mask[: x.shape[axis]], x.shape[axis]
    if length < x.shape[axis]:
        x = slice_axis(x, axis, slice(0, length))
    result = select_by_mask(x, mask, axis)
    return write_out(result, "compress", out, back=True)


def select_by_mask_at(x: Tensor, mask: Tensor, axis: int, first: int) -> Tensor:
    """Selects by a mask over the axes from `axis` on; the resulting axis stands at `first`."""
    if axis != first:
        m = mask.ndim
        x = moveaxis(x, range(axis, axis + m), range(first, first + m))
    return select_by_mask(x, mask, first)


BLOCK = 2**16  # elements of a block
DENSE = 0.9  # least share of selected elements where `x[mask]` is faster
MASK_ELEMENTS = 2**13  # largest mask, in elements, where `x[mask]` costs less than a further call


def selected_rows(x: Array, mask: Array, out: Array | None = None) -> Array:
    """`x[mask]`, in C order, written to `out` where given.

    Parameters
    ----------
    x
        An array of shape (*mask.shape, ...).
    mask
        Booleans.
    out
        An array of the result's shape and dtype in C order.

    Raises
    ------
    ValueError
        If `out` has another length than the mask has true elements.

    Examples
    --------
    >>> selected_rows(np.arange(6).reshape(3, 2), np.array([True, False, True]))
    array([[0, 1],
           [4, 5]])
    """
    if mask.ndim > 1 and x.flags.c_contiguous:
        x, mask = x.reshape(mask.size, *x.shape[mask.ndim :]), mask.reshape(-1)
    count = np.count_nonzero(mask)
    if out is not None and count != len(out):
        raise ValueError(f"the mask selects {count} rows, and there is room for {len(out)}")
    dense = x.ndim == 1 and count > DENSE * mask.size
    strided = not x.flags.c_contiguous  # `take` copies strided blocks whole
    if mask.ndim > 1 or mask.size <= MASK_ELEMENTS or dense or strided:
        found = np.ascontiguousarray(x[mask])
        if out is not None:
            np.copyto(out, found)
        return found if out is None else out
    if out is None:
        out = np.empty((count, *x.shape[1:]), x.dtype)
    step, begin = max(1, BLOCK // max(1, math.prod(x.shape[1:]))), 0
    for start in range(0, len(mask), step):
        positions = np.flatnonzero(mask[start : start + step])
        end = begin + len(positions)
        if begin < end:  # a mode other than "raise" needs no buffer
            x[start : start + step].take(positions, axis=0, out=out[begin:end], mode="clip")
        begin = end
    return out
