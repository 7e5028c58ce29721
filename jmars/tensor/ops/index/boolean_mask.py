"""Boolean mask indexing, `x[mask]`: arrays of unknown length.

A chunk of selected elements needs only the chunks of data and mask, so functions that need no lengths run in the same
stage without waiting for counts. Two arrays selected by the same mask have provably equal lengths.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import current_engine
from jmars.tensor.operand import (
    NeedsLengthError,
    Operand,
    Origin,
    Splits,
    TensorMeta,
    Unknown,
    axis_length,
    is_known,
    new_data,
)
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes, chunk_starts
from jmars.tensor.ops.chunks.unknown_chunks import chunk_type, length_kind
from jmars.tensor.ops.elementwise.ufuncs import as_bool
from jmars.tensor.ops.index.selected_rows import selected_rows
from jmars.tensor.ops.out_argument import write_out
from jmars.tensor.ops.shape.axes import moveaxis, names_no_axis, normal_axis
from jmars.tensor.ops.shape.concatenate import slice_axis
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.protocols import offers
from jmars.tensor.splits import evenly, split_axis
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["assign_by_mask", "select_by_mask", "select_by_mask_at"]

Array = np.ndarray[Any, Any]
PART = 2**20  # elements of a mask that are worth an operand of their own


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
    rows = rechunked(mask.data, cut)
    within = math.prod(int(n) for (n,) in cut[1:])
    parts = _parts(cut)
    most = [(n.most if isinstance(n, Unknown) else n) for n in parts]
    origin = Origin.of(_mask_key(mask, cut, parts))
    taken = origin.axis([None if n is None else n * within for n in most])
    chunks = (*data.chunks[:axis], taken, *data.chunks[axis + m :])
    op = MaskSelection(axis, m, parts if parts != cut[0] else (), inputs=(data, rows))
    return Tensor(new_data(op, tuple(map(axis_length, chunks)), x.dtype, chunks))


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


def _mask_key(mask: Tensor, cut: Splits, parts: tuple[Any, ...]) -> str:
    """Key of a selection: selections with equal keys have equal lengths and splits."""
    return f"{mask.data.key}:{hash((cut, parts)):x}"


def _parts(cut: Splits) -> tuple[Any, ...]:
    """Rows of the mask that an operand reads, for each operand: a chunk, or a part of one that is the only one.

    The parts depend on the mask alone, so arrays that are selected by one mask have provably equal lengths.
    """
    engine = current_engine()
    if engine is None or len(cut[0]) > 1 or not is_known(cut):
        return cut[0]
    rows = int(cut[0][0])
    parts = min(engine.limits()[1], math.prod(int(n) for (n,) in cut) // PART, rows)
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
    reads_all: ClassVar[bool] = True

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
    selected = np.count_nonzero(mask)
    if out is not None and selected != out.shape[axis]:
        raise ValueError(
            f"a mask has {selected} true elements in a chunk, and had {out.shape[axis]} when it was "
            "computed before; a function whose results vary must be executed once and kept"
        )
    if axis == 0:
        return selected_rows(x, mask, out)
    found = np.ascontiguousarray(x[(slice(None),) * axis + (mask,)])
    if out is None:
        return found
    np.copyto(out, found)
    return out


@dataclass(frozen=True, eq=False)
class MaskAssignment(Operand):
    """Replaces elements of the first input where the mask, the second input, is true, by those of the third."""

    ndim: int
    parts: tuple[int, ...] = ()  # rows of the only chunk for which there is a chunk of values each; (): of all chunks
    name: ClassVar[str] = "setitem"
    reads_all: ClassVar[bool] = True

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


def _row_shapes(cut: Splits) -> list[tuple[int, ...]]:
    """Shape of each chunk along the masked axes; only the first axis is divided."""
    return [(n, *(axis[0] for axis in cut[1:])) for n in cut[0]]


def write_masked(out: Array, inputs: Sequence[Array], params: tuple[int, ...], arg: Any) -> None:
    """Copies a chunk and writes the values to the positions of true mask elements; `params` are the parts."""
    x, mask, *values = inputs
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
    """`np.compress`: selects slices along an axis by a boolean array, which may be shorter than the axis."""
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
