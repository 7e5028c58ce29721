"""Permutes, adds and removes axes, chunk by chunk."""

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
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.ops.elementwise.ufuncs import cast_and_broadcast
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.steps import share, step, view
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["broadcast_to", "expand_dims", "moveaxis", "reshape_chunks", "squeeze", "swapaxes", "transpose"]

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
    reads_all: ClassVar[bool] = True

    def token(self) -> Hashable:
        """Identifies the operand by the order of axes."""
        return ("transpose", self.axes)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        (source,) = inputs
        kinds, which = chunk_classes(output.chunks)
        back = np.argsort(self.axes)

        def program(k: int) -> Program:
            chunk = ChunkType(tuple(kinds[k][i] for i in back), source.dtype)
            step = Call(permute, self.axes, (0,), ChunkType(kinds[k], output.dtype), moves=True)
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
    reads_all: ClassVar[bool] = True

    def token(self) -> Hashable:
        """Identifies the operand by its splits."""
        return ("reshape", self.splits)

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
    """Reshapes `x` to `splits`, whose chunks hold the same elements, in C order, as the chunks of `x`."""
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
    >>> from jmars.tensor.ops.create.constants import ones
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


@offers("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x: Any) -> Tensor:
    """`np.matrix_transpose`: swaps the last two axes."""
    if (ndim := as_tensor(x).ndim) < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {ndim}")  # NumPy's words
    return swapaxes(x, -1, -2)


@offers("swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """`np.swapaxes`."""
    ndim = as_tensor(a).ndim
    order = list(range(ndim))
    first, second = normal_axis(axis1, ndim), normal_axis(axis2, ndim)
    order[first], order[second] = second, first
    return transpose(a, order)


@offers("moveaxis")
def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """`np.moveaxis`."""
    ndim = as_tensor(a).ndim
    here = np.lib.array_utils.normalize_axis_tuple(source, ndim, "source")
    there = np.lib.array_utils.normalize_axis_tuple(destination, ndim, "destination")
    if len(there) != len(here):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [i for i in range(ndim) if i not in here]
    for to, axis in sorted(zip(there, here)):
        order.insert(to, axis)
    return transpose(a, order)


@offers("rollaxis")
def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    """`np.rollaxis`."""
    ndim = a.ndim
    axis, start = normal_axis(axis, ndim), start + ndim if start < 0 else start
    start = axis if start == axis else operator.index(start)
    if not 0 <= start <= ndim:
        words = "'%s' arg requires %d <= %s < %d, but %d was passed in"  # NumPy's
        raise np.exceptions.AxisError(words % ("start", -ndim, "start", ndim + 1, start))
    return moveaxis(a, axis, start - 1 if axis < start else start)


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


def _at_least(ndim: int, arrays: tuple[Any, ...]) -> Any:
    results = []
    for a in arrays:
        x = as_tensor(a)
        missing = ndim - x.ndim
        if missing > 0:
            new = {(1, 0): (0,), (2, 0): (0, 1), (2, 1): (0,), (3, 0): (0, 1, 2), (3, 1): (0, 2), (3, 2): (2,)}
            x = expand_dims(a, new[ndim, x.ndim])
        results.append(x)
    return results[0] if len(results) == 1 else tuple(results)


@offers("atleast_1d")
def atleast_1d(*arys: Any) -> Any:
    """`np.atleast_1d`."""
    return _at_least(1, arys)


@offers("atleast_2d")
def atleast_2d(*arys: Any) -> Any:
    """`np.atleast_2d`."""
    return _at_least(2, arys)


@offers("atleast_3d")
def atleast_3d(*arys: Any) -> Any:
    """`np.atleast_3d`."""
    return _at_least(3, arys)


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
