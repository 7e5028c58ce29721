"""User functions of vectors and neighbourhoods: `apply_along_axis`, `map_overlap`, `sliding_window_view`.

All rechunk the input and call `map_blocks`. `map_overlap` surrounds chunks with elements of neighbouring chunks (halo
exchange): the edges of a chunk are copied once, into a small 1-d array. A block then reads a chunk and, in two
dimensions, at most eight such arrays; elements beyond the array are filled from the block itself.

A chunk of sliding windows is a strided view of a box of the input, and reductions read the view. Windows at the edge
of a chunk read the next chunks too, as far as the window reaches (overlap). A part of
windows reads a part of the input.
Source: dask.array `map_overlap`, `sliding_window_view`; NumPy `pad` (axis by axis), `lib/_stride_tricks_impl.py`.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.arguments import share
from jmars.tensor.ops.arguments import step as view_step
from jmars.tensor.ops.chunks import Overlap, chunk_classes, copy_overlaps, rechunked
from jmars.tensor.ops.constants import zeros
from jmars.tensor.ops.gufuncs import apply_gufunc
from jmars.tensor.ops.map_blocks import (
    call_with_first,
    first_element,
    map_blocks,
    pickled,
    single_chunk_along,
    unpickled,
)
from jmars.tensor.ops.resize import pad
from jmars.tensor.ops.shape import moveaxis, normal_axis
from jmars.tensor.parts import Axis, Part, PartOf, around
from jmars.tensor.protocols import offers
from jmars.tensor.splits import chunk_bytes, evenly, refined
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
_PADDING = {"reflect": "symmetric", "periodic": "wrap", "nearest": "edge"}  # boundary: NumPy's mode of padding
_GIVE_BOTH = "give apply_along_axis dtype= and shape="


@offers("apply_along_axis")
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, dtype: Any = None,
                     shape: Any = None, **kwargs: Any) -> Tensor:  # fmt: skip
    """`np.apply_along_axis`: calls `func1d(line, *args, **kwargs)` along `axis`, brought into a single chunk.

    Parameters
    ----------
    func1d
        Takes a 1-d array and returns a number or an array, whose axes replace `axis`.
    axis, arr
        The axis and the array.
    dtype, shape
        dtype and shape of a result; by default the function is called once more with the first line, as NumPy does.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> apply_along_axis(np.sum, 1, ones((3, 4), chunk_size=2)).fetch().tolist()
    [4.0, 4.0, 4.0]
    """
    x = as_tensor(arr)
    axis = normal_axis(axis, x.ndim)
    if dtype is None or shape is None:
        if 0 in (*x.shape[:axis], *x.shape[axis + 1 :]):
            raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
        first = first_element(moveaxis(x, axis, -1), core=1)
        sample = np.asarray(call_with_first(func1d, [first], _GIVE_BOTH, *args, **kwargs))
        dtype, shape = (sample.dtype if dtype is None else dtype), (sample.shape if shape is None else shape)
    shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)
    if len(shape) > 1:
        names = [f"o{i}" for i in range(len(shape))]
        function = partial(_call_line, func1d, args, kwargs)
        value = apply_gufunc(function, f"(i)->({','.join(names)})", moveaxis(x, axis, -1), output_dtypes=[dtype],
                             output_sizes=dict(zip(names, shape)), vectorize=True)  # fmt: skip
        last, first = range(value.ndim - len(shape), value.ndim), range(axis, axis + len(shape))
        return Tensor(moveaxis(value, tuple(last), tuple(first)).data)
    x = single_chunk_along(x, [axis])
    cut = tuple(((*shape, 1)[0],) if i == axis else own for i, own in enumerate(x.chunks))

    def lines(block: Array) -> Array:
        value = np.asarray(np.apply_along_axis(func1d, axis, block, *args, **kwargs))
        return value if shape else np.expand_dims(value, axis)

    value = map_blocks(lines, x, dtype=dtype, chunks=cut, name=getattr(func1d, "__name__", "apply_along_axis"))
    return value if shape else Tensor(value[tuple(0 if i == axis else slice(None) for i in range(x.ndim))].data)


def _call_line(func1d: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], line: Array) -> Any:
    return func1d(line, *args, **kwargs)


@offers("map_overlap")
def map_overlap(func: Callable[..., Any], x: Any, depth: Any = 1, boundary: Any = "reflect", *, trim: bool = True,
                dtype: Any = None, name: str | None = None, **kwargs: Any) -> Tensor:  # fmt: skip
    """Calls `func(block, **kwargs)` with blocks that overlap their neighbours, as in Dask.

    Chunks shorter than the depth are joined to neighbours.

    Parameters
    ----------
    func
        Takes a block with its halo and returns an array of the same shape.
    x
        A tensor or array.
    depth
        Elements of halo on each side: an int, a tuple with an int per axis, or a dict by axis.
    boundary
        Values beyond the array: "reflect", "periodic", "nearest", "none" (no halo: blocks at the ends are shorter), or
        a number; for all axes, or a dict by axis.
    trim
        Whether the halo is removed from the results.
    dtype
        dtype of the results; by default the function is called once with ones.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> map_overlap(lambda b: b + np.roll(b, 1), arange(6, chunk_size=3), 1, "periodic").fetch().tolist()
    [5, 1, 3, 5, 7, 9]
    """
    data = as_tensor(x)
    depths = tuple(_per_axis(depth, data.ndim, 0))
    edges = tuple(_per_axis(boundary, data.ndim, "none"))
    data = Tensor(rechunked(data.data, tuple(map(no_shorter, data.chunks, depths))))
    chunks, inner = data.chunks, list(depths)
    for axis, (n, depth, edge) in enumerate(zip(data.shape, depths, edges)):
        if n < depth:  # the whole axis has too few elements for a halo
            inner[axis] = 0
            data = data if edge == "none" else _padded(data, axis, depth, edge)
    around, whole_blocks = halo_widths(data, tuple(inner), edges), add_halos(data, tuple(inner), edges)
    for axis, (n, depth, edge) in enumerate(zip(map(sum, chunks), depths, edges)):
        if n < depth and edge != "none":
            around[axis] = [(depth, depth)]
    out = chunks if trim else whole_blocks.chunks

    def with_borders(block: Array, block_id: tuple[int, ...]) -> Array:
        value = np.asarray(func(block, **kwargs))
        if not trim:
            return value
        cut = [slice(a, value.shape[i] - b) for i, (a, b) in enumerate(w[k] for w, k in zip(around, block_id))]
        return value[tuple(cut)]

    if dtype is None:
        dtype = np.asarray(unpickled(pickled(func))(np.ones([2 * n + 1 for n in depths], data.dtype), **kwargs)).dtype
    return map_blocks(with_borders, whole_blocks, dtype=dtype, chunks=out, name=name or getattr(func, "__name__", None))


def no_shorter(lengths: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """Lengths of chunks of an axis, at least `depth`, or the whole axis.

    Examples
    --------
    >>> no_shorter((3, 3, 3, 1), 4)
    (6, 4)
    """
    found = [0]
    for n in lengths:
        if found[-1] >= max(depth, 1):
            found.append(n)
        else:
            found[-1] += n
    if len(found) > 1 and found[-1] < depth:
        found[-2:] = [sum(found[-2:])]
    return tuple(found) if min(lengths) < depth else lengths


def _padded(x: Tensor, axis: int, depth: int, edge: Any) -> Tensor:
    """`x` with the halo of both ends of an axis of few elements, in a single chunk along the axis."""
    widths = [(depth, depth) if i == axis else (0, 0) for i in range(x.ndim)]
    options = {} if edge in _PADDING else {"constant_values": edge}
    wide = pad(x, widths, _PADDING.get(edge, "constant"), **options)
    return Tensor(rechunked(wide.data, (*x.chunks[:axis], (x.shape[axis] + 2 * depth,), *x.chunks[axis + 1 :])))


def _per_axis(given: Any, ndim: int, default: Any) -> list[Any]:
    """Expands a setting to a list with an entry per axis."""
    if isinstance(given, Mapping):
        return [given.get(axis, default) for axis in range(ndim)]
    if isinstance(given, tuple | list):
        if len(given) != ndim:
            raise ValueError(f"{given!r} has {len(given)} entries and the array {ndim} axes; give one for each axis")
        return list(given)
    return [given] * ndim


@offers("lib.stride_tricks.sliding_window_view")
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False,
                        writeable: bool = False) -> Tensor:  # fmt: skip
    """`np.lib.stride_tricks.sliding_window_view`: read-only windows, so that later writes to `x` are seen.

    Reductions and elementwise functions read the windows where the elements lie; computed windows are copies.

    Raises
    ------
    UnsupportedError
        For `writeable=True`: NumPy writes an element in all windows of the element.
    """
    if writeable:
        raise UnsupportedError("windows cannot be written in jmars; leave writeable=True out, and write to the array")
    data = as_tensor(x)
    sizes = tuple(map(operator.index, window_shape if isinstance(window_shape, tuple | list) else (window_shape,)))
    axes = (
        tuple(range(data.ndim))
        if axis is None
        else np.lib.array_utils.normalize_axis_tuple(axis, data.ndim, allow_duplicate=True)
    )
    if axis is None and len(axes) != len(sizes):
        raise ValueError(f"must provide window_shape for all dimensions of `x`; got {len(sizes)} of {len(axes)}")
    if len(axes) != len(sizes):
        raise ValueError(f"Must provide matching length window_shape and axis; got {len(sizes)} and {len(axes)}")
    windowing = view_step(
        lambda whole: _all_windows(whole, sizes, axes),
        None,
        lambda layout: np.lib.stride_tricks.sliding_window_view(layout, sizes, axes),
        permutes=True,
    )
    return share(_all_windows(data, sizes, axes), data, windowing)


def _all_windows(x: Tensor, sizes: Sequence[int], axes: Sequence[int]) -> Tensor:
    """Sliding windows along several axes, as new last axes; an axis that occurs again gives windows of windows."""
    if min(sizes, default=0) < 0:
        raise ValueError("`window_shape` cannot contain negative values")
    made = Tensor(x.data)
    if not sizes:
        return made
    together = [list(axes)] if len(set(axes)) == len(axes) else [[axis] for axis in axes]
    left = iter(sizes)
    for group in together:
        own = {axis: int(next(left)) for axis in group}
        if any(size > made.shape[axis] for axis, size in own.items()):
            raise ValueError("window shape cannot be larger than input array shape")
        every = tuple(own.get(axis, 1) for axis in range(made.ndim))
        made = sliding_windows(made, every, tuple(group))
    return made


Shape = tuple[int, ...]
Neighbours = tuple[int, int | None, int | None]  # lengths along an axis: of a chunk, of the chunks before and after
BOUNDARIES = ("reflect", "periodic", "nearest", "none")


def add_halos(x: Tensor, depths: Shape, boundaries: tuple[Any, ...]) -> Tensor:
    """Surrounds the chunks of `x` with `depths` elements of the neighbours; the larger blocks lie side by side.

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
    """Elements of halo before and after a chunk, axis by axis."""
    found = []
    for cut, depth, boundary in zip(x.chunks, depths, boundaries):
        ends = 0 if boundary == "none" else depth
        last = len(cut) - 1
        found.append([(depth if i else ends, depth if i < last else ends) for i in range(last + 1)])
    return found


def _edge_size(shape: Shape, depths: Shape) -> int:
    return sum(2 * depth * math.prod(shape) // n for n, depth in zip(shape, depths) if depth)


def _slabs(rim: Array, shape: Shape, depths: Shape) -> Iterator[tuple[int, Array, Array]]:
    """Views of an edge array: (axis number, low end, high end) per axis with a depth."""
    at = 0
    for axis, depth in enumerate(depths):
        if depth:
            slab = (*shape[:axis], depth, *shape[axis + 1 :])
            size = math.prod(slab)
            yield axis, rim[at : at + size].reshape(slab), rim[at + size : at + 2 * size].reshape(slab)
            at += 2 * size


@dataclass(frozen=True, eq=False)
class ChunkEdges(Operand):
    """Copies the elements of a chunk that a neighbour may need into a 1-d array."""

    depths: Shape
    name: ClassVar[str] = "edges"

    def token(self) -> Hashable:
        """Identifies the operand by the depths."""
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
    """Copies both ends of a chunk along all axes."""
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
    """Steps to the existing neighbours of a chunk, -1, 0 or 1 per axis."""
    options = [[step for step, n in ((-1, low), (0, 0), (1, high)) if n is not None] for _, low, high in kind]
    return (step for step in itertools.product(*options) if any(step))


def _shape_at(kind: Sequence[Neighbours], step: Shape) -> Shape:
    """Shape of the neighbour at `step`."""
    return tuple(lengths[(0, 2, 1)[one]] or 0 for lengths, one in zip(kind, step))  # -1 counts from the end


def join_halos(
    out: Array, inputs: Sequence[Array], params: tuple[tuple[Neighbours, ...], Shape, tuple[Any, ...]], arg: Any
) -> None:
    """Assembles a block from the chunk, the edges of the neighbours, and the boundary values."""
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


FEW_WINDOWS = 4  # windows of a chunk along an axis, in window lengths: the overlap is at most a quarter of the chunk


def sliding_windows(x: Tensor, sizes: Shape, axes: Shape) -> Tensor:
    """Windows of `sizes` elements along distinct `axes`, as new last axes.

    Parameters
    ----------
    x
        The tensor.
    sizes
        Elements of a window for each axis of `x`; 1 where there is no window.
    axes
        Axes of the windows, in the order of the new axes.
    """
    shape = (*(n - size + 1 for n, size in zip(x.shape, sizes)), *(sizes[axis] for axis in axes))
    if 0 in shape:
        return zeros(shape, x.dtype)
    positions = tuple(map(_positions, x.chunks, shape))
    inner = math.prod(sizes) * x.dtype.itemsize
    splits = _cut(positions, sizes, axes, max(1, chunk_bytes() // inner))
    splits = (*splits, *((sizes[axis],) for axis in axes))
    return Tensor(new_data(SlidingWindows(sizes, (1,) * x.ndim, axes, inputs=(x.data,)), shape, x.dtype, splits))


def _positions(lengths: Sequence[int], count: int) -> tuple[int, ...]:
    """Number of windows that begin in a chunk, for the chunks with windows."""
    ends = [min(count, end) for end in itertools.accumulate(lengths)]
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
        """Identifies the operand by the windows."""
        return ("windows", self.sizes, self.steps, self.axes)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Some of the windows, or of their elements; places with gaps in a window are read with what lies between."""
        inside = dict(zip(self.axes, kept[len(self.sizes) :]))
        own: list[Axis] = []
        sizes, steps = [], []
        for axis, (places, step) in enumerate(zip(kept, self.steps)):
            if axis not in self.axes:
                own.append(places)
                sizes.append(1)
                steps.append(1)
                continue
            elements = inside[axis]
            if not (isinstance(places, range) and isinstance(elements, range) and elements.step == 1):
                return None
            own.append(range(places[0] * step + elements[0], places[-1] * step + elements[-1] + 1))
            sizes.append(len(elements))
            steps.append(step * places.step if len(places) > 1 else 1)
        return PartOf(replace(self, sizes=tuple(sizes), steps=tuple(steps)), [(0, tuple(own))])

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The box around the part."""
        return around(kept)

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
