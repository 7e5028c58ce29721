"""Sliding windows: a chunk of windows is a strided view of a box of the input; reductions read the view.

Windows at the edge of a chunk read the next chunks too, as far as the window reaches (overlap). A slice of windows
slices the input.
Source: NumPy `lib/_stride_tricks_impl.py`; dask.array `sliding_window_view`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorData, TensorMeta, new_data
from jmars.tensor.ops.chunks.rechunk import copy_overlaps
from jmars.tensor.ops.chunks.shuffle import Overlap
from jmars.tensor.ops.chunks.tiling import chunk_classes
from jmars.tensor.ops.create.constants import zeros
from jmars.tensor.ops.index.basic_indexing import slice_tensor
from jmars.tensor.splits import chunk_bytes, evenly, refined
from jmars.tensor.tensor import Tensor

__all__ = ["SlidingWindows", "sliding_windows"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
FEW_WINDOWS = 4  # windows of a chunk along an axis, in window lengths: the overlap is at most a quarter of the chunk


def sliding_windows(x: Tensor, sizes: Shape, steps: Shape, axes: Shape) -> Tensor:
    """Windows of `sizes` elements along distinct `axes`, as new last axes.

    Parameters
    ----------
    x
        The tensor.
    sizes, steps
        Elements of a window, and elements from a window to the next, for each axis of `x`; 1 where there is no window.
    axes
        Axes of the windows, in the order of the new axes.
    """
    counts = tuple((n - size) // step + 1 for n, size, step in zip(x.shape, sizes, steps))
    shape = (*counts, *(sizes[axis] for axis in axes))
    if 0 in shape:
        return zeros(shape, x.dtype)
    positions = tuple(_positions(cut, count, step) for cut, count, step in zip(x.chunks, counts, steps))
    inner = math.prod(sizes) * x.dtype.itemsize
    splits = _cut(positions, sizes, axes, max(1, chunk_bytes() // inner))
    splits = (*splits, *((sizes[axis],) for axis in axes))
    return Tensor(new_data(SlidingWindows(sizes, steps, axes, inputs=(x.data,)), shape, x.dtype, splits))


def _positions(lengths: Sequence[int], count: int, step: int) -> tuple[int, ...]:
    """Number of windows that begin in a chunk, for the chunks with windows."""
    ends = [min(count, -(-end // step)) for end in itertools.accumulate(lengths)]
    return tuple(n for n in (end - begin for begin, end in itertools.pairwise([0, *ends])) if n)


def _cut(positions: Splits, sizes: Shape, axes: Shape, most: int) -> Splits:
    """Cuts chunks of windows until they have at most `most` windows: axes of
    windows last, since chunks overlap there.
    """
    found = list(positions)
    for axis in axes:
        windows, longest = math.prod(map(max, found)), max(found[axis])
        if windows > most:
            side = max(min(longest, FEW_WINDOWS * sizes[axis]), most * longest // windows)
            found[axis] = tuple(part for length in found[axis] for part in evenly(length, side))
    return refined(refined(tuple(found), axes, most), (), most)


@dataclass(frozen=True, eq=False)
class SlidingWindows(Operand):
    """Sliding windows of a tensor, as new last axes of a single chunk."""

    sizes: Shape
    steps: Shape
    axes: Shape
    name: ClassVar[str] = "windows"

    def token(self) -> Hashable:
        """Identifies the operand by its windows."""
        return ("windows", self.sizes, self.steps, self.axes)

    def sliced(self, output: TensorData, index: Sequence[int | slice]) -> tuple[TensorData, list[int | slice]] | None:
        """Slices the input instead of the windows."""
        (data,) = self.inputs
        boxes: list[slice] = []
        steps: list[int] = []
        rest: list[int | slice] = []
        for entry, n, size, step in zip(index, output.shape, self.sizes, self.steps):
            taken = range(n)[entry] if isinstance(entry, slice) else range(entry, entry + 1)
            if not taken:
                return None
            rest.append(0 if not isinstance(entry, slice) else slice(None, None, -1 if taken.step < 0 else None))
            taken = taken[::-1] if taken.step < 0 else taken
            boxes.append(slice(taken[0] * step, taken[-1] * step + size, 1))
            steps.append(step * taken.step if len(taken) > 1 else 1)
        if all(box == slice(0, n, 1) for box, n in zip(boxes, data.shape)) and tuple(steps) == self.steps:
            return None
        part = sliding_windows(slice_tensor(Tensor(data), boxes), self.sizes, tuple(steps), self.axes)
        return part.data, [*rest, *index[len(boxes) :]]

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk; boxes that overlap several input chunks are assembled before."""
        (source,) = inputs
        covers = [
            _covers(lengths, own, size, step)
            for lengths, own, size, step in zip(source.splits, output.chunks, self.sizes, self.steps)
        ]
        keys = [[(cover.lengths, cover.taken, n) for cover, n in zip(*pair)] for pair in zip(covers, output.chunks)]
        kinds, which = chunk_classes(keys)
        first = [np.array([cover.first for cover in axis], np.int64) for axis in covers]
        start = [np.array([cover.start for cover in axis], np.int64) for axis in covers]
        ids = np.empty(which.shape, np.int64)
        for k, kind in enumerate(kinds):
            where = np.nonzero(which == k)
            if not len(where[0]):
                continue
            places = list(itertools.product(*(range(len(lengths)) for lengths, _, _ in kind)))
            corner = [axis[i] for axis, i in zip(first, where)]
            read = np.stack([source.ids[tuple(c + at for c, at in zip(corner, place))] for place in places], axis=1)
            args = [(at,) for at in zip(*(axis[i].tolist() for axis, i in zip(start, where)))]
            zero = np.zeros(len(read), np.int64)
            box = tuple(sum(taken) for _, taken, _ in kind)
            chunk = ChunkType(tuple(lengths[0] for lengths, _, _ in kind), output.dtype)
            if len(places) > 1:
                types = [ChunkType(tuple(n[i] for (n, _, _), i in zip(kind, at)), output.dtype) for at in places]
                chunk, taken = ChunkType(box, output.dtype), tuple(taken for _, taken, _ in kind)
                step = Call(copy_overlaps, taken, tuple(range(len(places))), chunk, True, moves=True)
                read = builder.add_many([single("overlap", types, step)], zero, read, args)[:, None]
                args = [((0,) * len(box),)] * len(read)
            out = ChunkType((*(n for _, _, n in kind), *(self.sizes[axis] for axis in self.axes)), output.dtype)
            params = (box, self.sizes, self.steps, self.axes)
            windows = Call(copy_windows, params, (0,), out, True, view=view_windows, repeats=True)
            ids[where] = builder.add_many([single(self.name, (chunk,), windows)], zero, read, args)
        return ids.reshape(output.grid)


def _covers(lengths: Sequence[int], windows: Sequence[int], size: int, step: int) -> list[Overlap]:
    """Overlaps of the chunks of windows with the input's chunks along an axis."""
    ends = np.cumsum(lengths)
    found, begin = [], 0
    for n in windows:
        low, high = begin * step, (begin + n - 1) * step + size
        first, last = (int(k) for k in np.searchsorted(ends, [low, high - 1], side="right"))
        parts = [
            min(high, int(ends[k])) - max(low, int(ends[k]) - lengths[k]) for k in range(first, last + 1)
        ]  # elements of each chunk
        found.append(
            Overlap(first, low - (int(ends[first]) - lengths[first]), tuple(lengths[first : last + 1]), tuple(parts))
        )
        begin += n
    return found


def copy_windows(out: Array, inputs: Sequence[Array], params: tuple[Shape, Shape, Shape, Shape], arg: Shape) -> None:
    """Copies the windows of a chunk."""
    np.copyto(out, view_windows(inputs[0], params, arg))


def view_windows(chunk: Array, params: tuple[Shape, Shape, Shape, Shape], arg: Shape) -> Array:
    """The windows in the box of a chunk that begins at `arg`; `params`: shape of the box, sizes, steps, axes."""
    box, sizes, steps, axes = params
    part = chunk[tuple(slice(at, at + n) for at, n in zip(arg, box))]
    whole: Array = np.lib.stride_tricks.sliding_window_view(part, [sizes[axis] for axis in axes], axes)
    return whole[tuple(slice(None, None, step) for step in steps)]
