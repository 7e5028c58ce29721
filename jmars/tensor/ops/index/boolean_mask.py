"""Boolean mask indexing, `x[mask]`: arrays of unknown length.

A chunk of selected elements needs only the chunks of data and mask, so functions that need no lengths run in the same
stage without waiting for counts. Two arrays selected by the same mask have provably equal lengths.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.ops.chunks.unknown_chunks import chunk_type, length_kind
from jmars.tensor.ops.elementwise.ufuncs import astype
from jmars.tensor.ops.out_argument import assign_out
from jmars.tensor.ops.shape.axes import moveaxis, normal_axis
from jmars.tensor.ops.shape.concatenate import slice_axis
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.protocols import offers
from jmars.tensor.splits import split_axis
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.unknown import NeedsLengthError, Origin, Unknown, axis_length, is_known

__all__ = ["as_bool", "assign_by_mask", "select_by_mask", "select_by_mask_at"]

Array = np.ndarray[Any, Any]


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
    most = [(n.most if isinstance(n, Unknown) else n) for n in cut[0]]
    origin = Origin.of(_mask_key(mask, cut))
    taken = origin.axis([None if n is None else n * within for n in most])
    chunks = (*data.chunks[:axis], taken, *data.chunks[axis + m :])
    op = MaskSelection(axis, m, inputs=(data, rows))
    return Tensor(new_data(op, tuple(map(axis_length, chunks)), x.dtype, chunks))


def assign_by_mask(x: Tensor, mask: Tensor, value: Tensor) -> Tensor | None:
    """Assigns to `x[mask]` a `value` that was selected by the same mask; None if the mask differs."""
    cut = _row_splits(x.chunks[: mask.ndim], x.chunks)
    first = value.data.chunks[0][0]
    same = isinstance(first, Unknown) and first.number is not None and first.origin.key == _mask_key(mask, cut)
    rest = x.chunks[mask.ndim :]
    if not same or value.data.chunks[1:] != rest:
        return None
    data = rechunked(x.data, (*cut, *rest))
    op = MaskAssignment(mask.ndim, inputs=(data, rechunked(mask.data, cut), value.data))
    return Tensor(rechunked(new_data(op, data.shape, data.dtype, data.chunks), x.chunks))


def _mask_key(mask: Tensor, cut: Splits) -> str:
    """Key of a selection: selections with equal keys have equal lengths and splits."""
    return f"{mask.data.key}:{hash(cut):x}"


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
    name: ClassVar[str] = "mask"

    def token(self) -> Hashable:
        """Identifies the operand by the masked axes."""
        return ("mask", self.axis, self.ndim)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        x, mask = inputs
        first, after = self.axis, self.axis + self.ndim
        lengths = [[length_kind(n) for n in axis] for axis in x.splits]
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
            return single(self.name, types, Call(copy_masked, (first,), (0, 1), out, False, work))

        shape = [1] * len(output.grid)
        shape[first] = -1
        masks = np.broadcast_to(mask.ids.reshape(shape), output.grid)
        rows = np.stack([x.ids.reshape(-1), masks.reshape(-1)], axis=1)
        return add_by_class(builder, program, which.reshape(-1), rows).reshape(output.grid)


def copy_masked(out: Array | None, inputs: Sequence[Array], params: tuple[int], arg: Any) -> Array:
    """Copies the selected elements; `out` is given if their number was known in advance."""
    x, mask = inputs
    found = np.ascontiguousarray(x[(slice(None),) * params[0] + (mask,)])
    if out is None:
        return found
    if found.shape != out.shape:
        raise ValueError(
            f"a mask has {found.shape[params[0]]} true elements in a chunk, and had {out.shape[params[0]]} when it was "
            "computed before; a function whose results vary must be executed once and kept"
        )
    np.copyto(out, found)
    return out


@dataclass(frozen=True, eq=False)
class MaskAssignment(Operand):
    """Replaces elements of the first input where the mask, the second input, is true, by those of the third."""

    ndim: int
    name: ClassVar[str] = "setitem"

    def token(self) -> Hashable:
        """Identifies the operand by the number of masked axes."""
        return ("put true", self.ndim)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        x, mask, value = inputs
        rows = [
            (*place, length_kind(n))
            for place, n in zip(_row_shapes(x.splits[: self.ndim]), value.splits[0], strict=True)
        ]
        kinds, which = chunk_classes([rows, *x.splits[self.ndim :]])

        def program(k: int) -> Program:
            *before, taken = kinds[k][0]
            inner = kinds[k][1:]
            chunk = chunk_type((*before, *inner), x.dtype)
            types = (chunk, chunk_type(before, mask.dtype), chunk_type((taken, *inner), value.dtype))
            return single(self.name, types, Call(write_masked, (), (0, 1, 2), chunk))

        masks = np.broadcast_to(mask.ids.reshape(-1, *[1] * len(kinds[0][1:])), value.ids.shape)
        read = np.stack([x.ids.reshape(-1), masks.reshape(-1), value.ids.reshape(-1)], axis=1)
        return add_by_class(builder, program, which.reshape(-1), read).reshape(output.grid)


def _row_shapes(cut: Splits) -> list[tuple[int, ...]]:
    """Shape of each chunk along the masked axes; only the first axis is divided."""
    return [(n, *(axis[0] for axis in cut[1:])) for n in cut[0]]


def write_masked(out: Array, inputs: Sequence[Array], params: tuple[()], arg: Any) -> None:
    """Copies a chunk and writes the values to the positions of true mask elements."""
    x, mask, value = inputs
    np.copyto(out, x)
    out[mask] = value


@offers("extract")
def extract(condition: Any, arr: Any) -> Tensor:
    """`np.extract`: selects the elements of `arr` where `condition` is true, in C order."""
    return select_by_mask(ravel(as_tensor(arr)), as_bool(ravel(as_tensor(condition))))


@offers("compress")
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """`np.compress`: selects slices along an axis by a boolean array, which may be shorter than the axis."""
    x, mask = as_tensor(a), as_bool(as_tensor(condition))
    if mask.ndim != 1:
        raise ValueError("condition must be a 1-d array")
    if axis is None:
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    length = mask.shape[0]
    if length > x.shape[axis]:
        raise IndexError(f"index {length - 1} is out of bounds for axis {axis} with size {x.shape[axis]}")
    if length < x.shape[axis]:
        x = slice_axis(x, axis, slice(0, length))
    result = select_by_mask(x, mask, axis)
    return assign_out(result, out, "compress")


def as_bool(x: Tensor) -> Tensor:
    """Casts a tensor to bool."""
    return x if x.dtype == bool else astype(x, np.dtype(bool))


def select_by_mask_at(x: Tensor, mask: Tensor, axis: int, first: int) -> Tensor:
    """Selects by a mask over the axes from `axis` on; the resulting axis stands at `first`."""
    if axis != first:
        m = mask.ndim
        x = moveaxis(x, range(axis, axis + m), range(first, first + m))
    return select_by_mask(x, mask, first)
