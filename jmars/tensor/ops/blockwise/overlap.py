"""Halo exchange for `map_overlap`: surrounds chunks with elements of neighbouring chunks.

The edges of a chunk are copied once, into a small 1-d array. A block then reads a chunk and, in two dimensions, at most
eight such arrays; elements beyond the array are filled from the block itself.
Source: NumPy `pad` (axis by axis).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.chunks.tiling import chunk_classes
from jmars.tensor.tensor import Tensor

__all__ = ["add_halos", "halo_widths"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Neighbours = tuple[int, int | None, int | None]  # lengths along an axis: of a chunk, of the chunks before and after it
BOUNDARIES = ("reflect", "periodic", "nearest", "none")


def add_halos(x: Tensor, depths: Shape, boundaries: tuple[Any, ...]) -> Tensor:
    """Surrounds each chunk of `x` with `depths` elements of the neighbours; the larger blocks lie side by side.

    Parameters
    ----------
    x
        A tensor without chunks shorter than the depth of their axis.
    depths, edges
        For each axis the number of elements, and the values beyond the array: one of `BOUNDARIES`, or a number.

    Raises
    ------
    ValueError
        If a boundary is unknown.
    """
    for depth, boundary in zip(depths, boundaries):
        if depth and isinstance(boundary, str) and boundary not in BOUNDARIES:
            raise ValueError(f"no boundary {boundary!r}; use 'reflect', 'periodic', 'nearest', 'none' or a number")
    sizes = tuple(_edge_size(shape, depths) for shape in itertools.product(*x.chunks))
    rims = new_data(ChunkEdges(depths, inputs=(x.data,)), (sum(sizes),), x.dtype, (sizes,))
    cut = tuple(
        tuple(n + low + high for n, (low, high) in zip(axis, around))
        for axis, around in zip(x.chunks, halo_widths(x, depths, boundaries))
    )
    op = HaloExchange(depths, boundaries, inputs=(x.data, rims))
    return Tensor(new_data(op, tuple(map(sum, cut)), x.dtype, cut))


def halo_widths(x: Tensor, depths: Shape, boundaries: tuple[Any, ...]) -> list[list[tuple[int, int]]]:
    """Elements of halo before and after each chunk, axis by axis."""
    found = []
    for cut, depth, boundary in zip(x.chunks, depths, boundaries):
        ends = 0 if boundary == "none" else depth
        last = len(cut) - 1
        found.append([(depth if i else ends, depth if i < last else ends) for i in range(last + 1)])
    return found


def _edge_size(shape: Shape, depths: Shape) -> int:
    return sum(2 * depth * math.prod(shape) // n for n, depth in zip(shape, depths) if depth)


def _slabs(rim: Array, shape: Shape, depths: Shape) -> Iterator[tuple[int, Array, Array]]:
    """Views of an edge array: (axis number, low end, high end) for each axis with a depth."""
    at = 0
    for axis, depth in enumerate(depths):
        if depth:
            slab = (*shape[:axis], depth, *shape[axis + 1 :])
            size = math.prod(slab)
            yield axis, rim[at : at + size].reshape(slab), rim[at + size : at + 2 * size].reshape(slab)
            at += 2 * size


@dataclass(frozen=True, eq=False)
class ChunkEdges(Operand):
    """Copies the elements of each chunk that a neighbour may need into a 1-d array."""

    depths: Shape
    name: ClassVar[str] = "edges"
    reads_all: ClassVar[bool] = True

    def token(self) -> Hashable:
        """Identifies the operand by its depths."""
        return ("edges", self.depths)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        (x,) = inputs
        kinds, which = chunk_classes(x.splits)
        programs = []
        for kind in kinds:
            out = ChunkType((_edge_size(kind, self.depths),), x.dtype)
            programs.append(single(self.name, (ChunkType(kind, x.dtype),), Call(copy_edges, (self.depths,), (0,), out)))
        return builder.add_many(programs, which.reshape(-1), x.ids.reshape(-1, 1))


def copy_edges(out: Array, inputs: Sequence[Array], params: tuple[Shape], arg: Any) -> None:
    """Copies both ends of a chunk along each axis."""
    (x,), (depths,) = inputs, params
    for axis, low, high in _slabs(out, x.shape, depths):
        before = (slice(None),) * axis
        low[...] = x[(*before, slice(0, depths[axis]))]
        high[...] = x[(*before, slice(x.shape[axis] - depths[axis], None))]


@dataclass(frozen=True, eq=False)
class HaloExchange(Operand):
    """Surrounds the chunks of the first input with the edges of their neighbours, the second input."""

    depths: Shape
    boundaries: tuple[Any, ...]
    name: ClassVar[str] = "halo"
    reads_all: ClassVar[bool] = True

    def token(self) -> Hashable:
        """Identifies the operand by depths and boundaries; as text, since 0.0 and -0.0 differ."""
        return ("halo", self.depths, tuple(map(repr, self.boundaries)))

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        x, rims = inputs
        grid = x.ids.shape
        rim_of = rims.ids.reshape(grid)
        axes = [self._neighbours(axis, cut) for axis, cut in enumerate(x.splits)]
        kinds, which = chunk_classes(axes)
        ids = np.empty(grid, np.int64)
        for k, kind in enumerate(kinds):
            where = np.nonzero(which == k)
            if not len(where[0]):
                continue
            read = [x.ids[where]]
            types = [ChunkType(tuple(n for n, _, _ in kind), x.dtype)]
            for step in _neighbour_steps(kind):
                place = tuple((i + one) % n for i, one, n in zip(where, step, grid))
                read.append(rim_of[place])
                types.append(ChunkType((_edge_size(_shape_at(kind, step), self.depths),), x.dtype))
            out = ChunkType(tuple(output.chunks[axis][i[0]] for axis, i in enumerate(where)), output.dtype)
            step_of = Call(join_halos, (kind, self.depths, self.boundaries), tuple(range(len(types))), out)
            program = single(self.name, types, step_of)
            ids[where] = builder.add_many([program], np.zeros(len(where[0]), np.int64), np.stack(read, axis=1))
        return ids

    def _neighbours(self, axis: int, cut: Shape) -> list[Neighbours]:
        if not self.depths[axis]:
            return [(n, None, None) for n in cut]
        around = self.boundaries[axis] == "periodic"
        low = [cut[-1] if around else None, *cut[:-1]]
        high = [*cut[1:], cut[0] if around else None]
        return list(zip(cut, low, high))


def _neighbour_steps(kind: Sequence[Neighbours]) -> Iterator[Shape]:
    """Steps to the existing neighbours of a chunk, -1, 0 or 1 for each axis."""
    options = [[step for step, n in ((-1, low), (0, 0), (1, high)) if n is not None] for _, low, high in kind]
    return (step for step in itertools.product(*options) if any(step))


def _shape_at(kind: Sequence[Neighbours], step: Shape) -> Shape:
    """Shape of the neighbour at `step`."""
    return tuple(lengths[(0, 2, 1)[one]] or 0 for lengths, one in zip(kind, step))  # -1 counts from the end


def join_halos(
    out: Array, inputs: Sequence[Array], params: tuple[tuple[Neighbours, ...], Shape, tuple[Any, ...]], arg: Any
) -> None:
    """Assembles a block from the chunk, the edges of its neighbours, and the boundary values."""
    kind, depths, boundaries = params
    x, *rims = inputs
    start = [
        depth if low is not None or boundary != "none" else 0
        for (_, low, _), depth, boundary in zip(kind, depths, boundaries)
    ]
    inner = [slice(a, a + n) for a, n in zip(start, x.shape)]
    out[tuple(inner)] = x
    for step, rim in zip(_neighbour_steps(kind), rims, strict=True):
        first = next(axis for axis, one in enumerate(step) if one)
        low, high = next((low, high) for axis, low, high in _slabs(rim, _shape_at(kind, step), depths) if axis == first)
        slab = high if step[first] < 0 else low
        here, there = [], []
        for axis, one in enumerate(step):
            depth, n = depths[axis], slab.shape[axis]
            here.append(slice(None) if not one else slice(n - depth, n) if one < 0 else slice(0, depth))
            end = inner[axis].stop
            there.append(inner[axis] if not one else slice(0, depth) if one < 0 else slice(end, end + depth))
        out[tuple(there)] = slab[tuple(here)]
    for axis, ((_, before, after), depth, boundary) in enumerate(zip(kind, depths, boundaries)):
        if depth and boundary != "none":
            line = np.moveaxis(out, axis, 0)
            if before is None:
                _fill_boundary(line, depth, boundary)
            if after is None:
                _fill_boundary(line[::-1], depth, boundary)


def _fill_boundary(line: Array, depth: int, boundary: Any) -> None:
    """Fills the first `depth` elements along the first axis with boundary values."""
    if boundary == "reflect":
        line[:depth] = line[depth : 2 * depth][::-1]
    elif boundary == "nearest":
        line[:depth] = line[depth]
    else:
        line[:depth] = boundary
