"""Selects elements at integer positions along one axis, for integer-array indexing and `take`.

Few positions are known when the graph is built, so an output chunk reads only the input chunks that hold its elements.
Many positions, and positions all over an array, are a tensor: exchange.py.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.ops.index.basic_indexing import slice_tensor
from jmars.tensor.ops.index.exchange import HELD, take_by_tensor
from jmars.tensor.splits import chunk_bytes, split_axis
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["MANY", "Take", "as_positions", "in_bounds", "positions_in_chunks", "take_positions"]

MANY = 2**17  # positions that are a tensor on the cluster; fewer travel in the graph

Array = np.ndarray[Any, Any]
Ints = NDArray[np.int64]


def in_bounds(positions: Any, length: int, axis: int) -> Ints:
    """Normalises positions along an axis to 0 .. length - 1; raises IndexError as NumPy does."""
    found = np.asarray(positions)
    if found.dtype.kind not in "iu" and found.size:
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    found = found.astype(np.int64)
    wrong = found[(found < -length) | (found >= length)]
    if wrong.size:
        raise IndexError(f"index {wrong.flat[0]} is out of bounds for axis {axis} with size {length}")
    return np.where(found < 0, found + length, found)


def as_positions(value: Any) -> Any:
    """Positions, or counts, as int64; lists and numbers are converted, arrays are cast safely.

    Raises
    ------
    TypeError
        If the dtype of an array has no safe cast.
    """
    is_array = value._place.is_array if isinstance(value, Tensor) else isinstance(value, np.ndarray)
    if is_array and not np.can_cast(value.dtype, np.intp):
        raise TypeError(f"Cannot cast array data from {value.dtype!r} to dtype('int64') according to the rule 'safe'")
    return value.astype(np.intp) if isinstance(value, Tensor) else np.asarray(value).astype(np.intp)


def take_positions(x: Tensor, positions: Ints, axis: int) -> Tensor:
    """Selects elements at `positions` (1-d, in bounds) along an axis.

    Many positions in a short axis make as many chunks as that axis has, of `chunk_bytes` at most.
    """
    if len(positions) and not x.data.computed:
        low, high = int(positions.min()), int(positions.max()) + 1
        part = x.data.op.sliced(x.data, [slice(low, high) if i == axis else slice(None) for i in range(x.ndim)])
        if part is not None and high - low <= x.shape[axis] // 2:
            return take_positions(slice_tensor(Tensor(part[0]), part[1]), positions - low, axis)
    most = max(x.chunks[axis])
    is_leaf = isinstance(x.data.op, FromArray)
    if len(positions) > MANY and not is_leaf:
        return take_by_tensor(x, as_tensor(positions), axis)
    ends = np.cumsum(x.chunks[axis])
    counts = np.bincount(np.searchsorted(ends, positions, "right"), minlength=len(ends)).tolist()
    across = math.prod(max(cut) for i, cut in enumerate(x.chunks) if i != axis) * x.dtype.itemsize
    ascending = bool((np.diff(positions) >= 0).all())
    if ascending and max(counts) <= max(most, 1):  # an output chunk per input chunk
        splits = tuple(n for n in counts if n) or (0,)
    else:
        like_source = -(-len(positions) // len(ends))
        splits = split_axis(len(positions), max(most, min(like_source, chunk_bytes() // max(across, 1)), 1))
        if not is_leaf and sum(n for n, count in zip(x.chunks[axis], counts) if count) * across > HELD * chunk_bytes():
            return take_by_tensor(x, as_tensor(positions), axis)
    chunks = (*x.chunks[:axis], splits, *x.chunks[axis + 1 :])
    shape = tuple(map(sum, chunks))
    leaf = None
    if isinstance(x.data.op, FromArray):
        leaf = x.data.op.part((*[slice(None)] * axis, positions), math.prod(shape) * x.dtype.itemsize)
    return Tensor(new_data(leaf or Take(positions, axis, inputs=(x.data,)), shape, x.dtype, chunks))


def positions_in_chunks(positions: Ints, lengths: Sequence[int]) -> list[tuple[int, bytes, bytes]]:
    """Groups positions by chunk: (chunk, indices into `positions`, positions within the chunk), as bytes of int64."""
    ends = np.cumsum(lengths)
    chunk = np.searchsorted(ends, positions, "right")
    found = []
    for k in np.unique(chunk).tolist():
        there = np.flatnonzero(chunk == k)
        here = positions[there] - (ends[k] - lengths[k])
        found.append((k, there.astype(np.int64).tobytes(), here.astype(np.int64).tobytes()))
    return found


@dataclass(frozen=True, eq=False)
class Take(Operand):
    """Selects elements along one axis, in any order and possibly repeated."""

    positions: Ints
    axis: int
    name: ClassVar[str] = "take"

    def token(self) -> Hashable:
        """Identifies the operand by axis and positions."""
        return ("take", self.axis, self.positions.tobytes())

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per output chunk, reading the input chunks that hold its elements."""
        (source,) = inputs
        axis = self.axis
        lengths = source.splits[axis]
        ids = np.empty(output.grid, np.int64)
        others = [s for i, s in enumerate(source.splits) if i != axis]
        kinds, which = chunk_classes(others)
        rows = np.moveaxis(source.ids, axis, 0).reshape(len(lengths), -1)
        begin = 0
        for at, count in enumerate(output.chunks[axis]):
            found = positions_in_chunks(self.positions[begin : begin + count], lengths) or [(0, b"", b"")]
            begin += count
            read = [lengths[k] for k, _, _ in found]

            def program(k: int, read: list[int] = read, count: int = count) -> Program:
                shapes = [(*kinds[k][:axis], n, *kinds[k][axis:]) for n in (*read, count)]
                types = [ChunkType(shape, source.dtype) for shape in shapes]
                work = types[-1].nbytes  # NumPy gathers the elements before it assigns them
                step = Call(gather, (axis,), tuple(range(len(read))), types[-1], True, work)
                return single(self.name, types[:-1], step)

            arg = (tuple((there, here) for _, there, here in found),)
            taken_from = rows[[k for k, _, _ in found]].T
            made = add_by_class(builder, program, which.reshape(-1), taken_from, [arg] * len(taken_from))
            np.moveaxis(ids, axis, 0)[at] = made.reshape(which.shape)
        return ids


def gather(out: Array, inputs: Sequence[Array], params: tuple[int], arg: tuple[tuple[bytes, bytes], ...]) -> None:
    """Copies the elements `here` of each input to the positions `there` of the output."""
    target = np.moveaxis(out, params[0], 0)
    for x, (there, here) in zip(inputs, arg):
        source = np.moveaxis(x, params[0], 0)
        target[np.frombuffer(there, np.int64)] = source[np.frombuffer(here, np.int64)]
