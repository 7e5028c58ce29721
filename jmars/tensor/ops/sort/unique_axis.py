"""`np.unique` with `axis=`: distinct slices along an axis; the array is brought into a single chunk.

The number of distinct slices is an unknown length.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Origin, TensorMeta, new_data
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.chunks.unknown_chunks import chunk_type, length_kind
from jmars.tensor.ops.shape.axes import moveaxis, normal_axis
from jmars.tensor.protocols import call
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import new_group

__all__ = ["unique_slices"]

Array = np.ndarray[Any, Any]
_BYTES = np.dtype(np.uint8)


def unique_slices(x: Tensor, axis: int, index: bool, inverse: bool, counts: bool, *, equal_nan: bool) -> Any:
    """Distinct slices along `axis`, sorted; on request with first positions, inverse and counts."""
    axis = normal_axis(axis, x.ndim)
    wanted = (True, bool(index), bool(inverse), bool(counts))
    if not x.size:  # the result depends on the shape only
        found: Any = np.unique(np.empty(x.shape, x.dtype), *wanted[1:], axis=axis, equal_nan=equal_nan)  # type: ignore[call-overload]
        return tuple(map(as_tensor, found)) if isinstance(found, tuple) else as_tensor(found)
    lines = moveaxis(x, axis, 0)
    whole = rechunked(lines.data, tuple((n,) for n in lines.shape))
    packed = new_data(UniqueSlices(equal_nan, inputs=(whole,)), *_unknown_bytes())
    origin = Origin.of(new_group())
    results: list[Tensor] = []
    for field, is_wanted in enumerate(wanted):
        if not is_wanted:
            continue
        op = UniqueSlicesField(field, lines.shape, x.dtype, inputs=(packed,))
        if field == 2:
            results.append(Tensor(new_data(op, lines.shape[:1], np.dtype(np.intp), ((lines.shape[0],),))))
        else:
            rest = lines.shape[1:] if not field else ()
            cut = (origin.axis([None]), *((n,) for n in rest))
            dtype = x.dtype if not field else np.dtype(np.intp)
            results.append(Tensor(new_data(op, (origin.whole, *rest), dtype, cut)))
    results[0] = call("moveaxis", results[0], 0, axis)
    return results[0] if len(results) == 1 else tuple(results)


def _unknown_bytes() -> Any:
    """Shape, dtype and chunks of a 1-d array of bytes of unknown length."""
    origin = Origin.of(new_group())
    return (origin.whole,), _BYTES, (origin.axis([None]),)


@dataclass(frozen=True, eq=False)
class UniqueSlices(Operand):
    """Finds distinct slices along the first axis; packs slices, first positions, inverse and counts as bytes."""

    equal_nan: bool
    name: ClassVar[str] = "unique"

    def token(self) -> Hashable:
        """Identifies the operand by its treatment of NaN."""
        return ("unique lines", self.equal_nan)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a single operand."""
        (x,) = inputs
        chunk = ChunkType(tuple(n for (n,) in x.splits), x.dtype)
        most = 8 + chunk.nbytes + 24 * chunk.shape[0]
        step = Call(find_unique_slices, (self.equal_nan,), (0,), ChunkType((-1,), _BYTES, most), work=4 * chunk.nbytes)
        return np.array([builder.add(single(self.name, (chunk,), step), x.ids.reshape(-1).tolist())], np.int64)


@dataclass(frozen=True, eq=False)
class UniqueSlicesField(Operand):
    """Unpacks a field of `UniqueSlices`: slices (0), first positions (1), inverse (2) or counts (3)."""

    number: int
    shape: tuple[int, ...]  # of the input
    dtype: np.dtype[Any]
    name: ClassVar[str] = "unique"

    def token(self) -> Hashable:
        """Identifies the operand by its field."""
        return ("unique lines part", self.number, self.shape, self.dtype)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a single operand."""
        out = chunk_type([length_kind(cut[0]) for cut in output.chunks], output.dtype)
        step = Call(unpack_slices_field, (self.number, self.shape, self.dtype), (0,), out)
        made = builder.add(single(self.name, (ChunkType((-1,), _BYTES),), step), inputs[0].ids.tolist())
        return np.array(made, np.int64).reshape(output.grid)


# -- what executors run


def find_unique_slices(out: Any, inputs: Sequence[Array], params: tuple[bool], arg: Any) -> Array:
    """Finds the distinct slices of a chunk and packs all fields."""
    values, first, which, count = np.unique(inputs[0], True, True, True, axis=0, equal_nan=params[0])
    parts = [np.int64(len(values)), *map(np.ascontiguousarray, (values, first, which, count))]
    return np.frombuffer(b"".join(part.tobytes() for part in parts), _BYTES)


def unpack_slices_field(
    out: Array | None, inputs: Sequence[Array], params: tuple[int, tuple[int, ...], np.dtype[Any]], arg: Any
) -> Array:
    """Unpacks a field."""
    number, (lines, *rest), dtype = params
    blob = inputs[0].tobytes()
    n = int(np.frombuffer(blob, np.int64, 1)[0])
    kinds = [(dtype, (n, *rest)), (np.dtype(np.intp), (n,)), (np.dtype(np.intp), (lines,)), (np.dtype(np.intp), (n,))]
    sizes = [int(np.prod(shape)) * kind.itemsize for kind, shape in kinds]
    kind, shape = kinds[number]
    found = np.frombuffer(blob, kind, int(np.prod(shape)), 8 + sum(sizes[:number])).reshape(shape)
    if out is not None:
        np.copyto(out, found)
    return found
