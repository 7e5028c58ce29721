"""Adds and removes elements: `resize`, `insert`, `trim_zeros`."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.ops.create.constants import full
from jmars.tensor.ops.elementwise.ufuncs import as_bool
from jmars.tensor.ops.index.scatter import match_ndim
from jmars.tensor.ops.index.take import take_positions
from jmars.tensor.ops.reduce.reduction import any_, argmax
from jmars.tensor.ops.shape.axes import broadcast_to, expand_dims, moveaxis, normal_axis
from jmars.tensor.ops.shape.concatenate import concatenate, slice_axis, stack
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.ops.written_values import converted
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Insert", "insert", "resize", "resized", "trim_zeros"]

Array = np.ndarray[Any, Any]


@offers("resize")
def resize(a: Any, new_shape: Any) -> Tensor:
    """`np.resize`: fills a new shape with the elements in C order, repeated as needed."""
    x = ravel(a)
    shape = (int(new_shape),) if isinstance(new_shape, int | np.integer) else tuple(int(n) for n in new_shape)
    if min(shape, default=0) < 0:
        raise ValueError("all elements of `new_shape` must be non-negative")
    size = math.prod(shape)
    if not x.size:
        return full(shape, 0, x.dtype)
    line = concatenate([x] * -(-size // x.size))[:size] if size else x[:0]
    return line.reshape(shape, copy=True)  # type: ignore[no-any-return]


@offers("method.resized")
def resized(x: Tensor, shape: Any) -> Tensor:
    """The elements in C order in another shape, zeros behind them."""
    lengths = tuple(map(operator.index, shape)) if np.iterable(shape) else (operator.index(shape),)
    if min(lengths, default=0) < 0:
        raise ValueError("negative dimensions not allowed")
    size, line = math.prod(lengths), ravel(x)
    line = line[:size] if size <= x.size else concatenate([line, full((size - x.size,), 0, x.dtype)])
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
    """Inserts elements before ascending positions, each into the chunk that holds the position."""
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
    """Inserts elements of the second input along one axis, into each chunk its own."""

    axis: int
    parts: tuple[bytes, ...]  # for each chunk along the axis: positions before which elements are inserted (int64)
    name: ClassVar[str] = "insert"
    reads_all: ClassVar[bool] = True

    def token(self) -> Hashable:
        """Identifies the operand by axis and positions."""
        return ("insert", self.axis, self.parts)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk that gets elements; passes on the others."""
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
