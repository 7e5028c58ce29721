"""Removes elements at positions along one axis: `delete`.

A chunk gets the positions that are removed, or bits. A large tensor of positions, or a mask, selects what stays.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes, chunk_starts
from jmars.tensor.ops.create.constants import ones
from jmars.tensor.ops.index.basic_indexing import slice_tensor
from jmars.tensor.ops.index.boolean_mask import select_by_mask
from jmars.tensor.ops.index.take import MANY, in_bounds
from jmars.tensor.ops.shape.axes import normal_axis
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["delete"]

Array = np.ndarray[Any, Any]
# removed from a chunk: start, stop and step, or behind a tag positions (int64), or bits of a mask
Part = tuple[int, int, int] | bytes
POSITIONS, MASK = b"p", b"m"
Gone = range | NDArray[Any]  # ascending positions, or a mask of the axis


@offers("delete")
def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    """`np.delete`: removes elements at positions along an axis.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
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


def _removed_between(gone: Gone, low: int, high: int) -> Part:
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


def _count(part: Part) -> int:
    if isinstance(part, tuple):
        return len(range(*part))
    if part.startswith(POSITIONS):
        return len(part) // 8
    return int(np.bitwise_count(np.frombuffer(part, np.uint8, offset=1)).sum())


@dataclass(frozen=True, eq=False)
class Delete(Operand):
    """Removes elements along one axis, from each chunk its own."""

    axis: int
    parts: tuple[Part, ...]  # for each chunk along the axis
    name: ClassVar[str] = "delete"

    def token(self) -> Hashable:
        """Identifies the operand by axis and removed positions."""
        return ("delete", self.axis, self.parts)

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


def remove(out: Array, inputs: Sequence[Array], params: tuple[int], arg: Part) -> None:
    """Copies what stays of a chunk."""
    (x,), (axis,) = inputs, params
    if isinstance(arg, tuple):
        gone: Any = slice(*arg)
    elif arg.startswith(POSITIONS):
        gone = np.frombuffer(arg, np.int64, offset=1)
    else:
        gone = np.unpackbits(np.frombuffer(arg, np.uint8, offset=1), count=x.shape[axis]).astype(bool)
    out[...] = np.delete(x, gone, axis)
