"""Operands that draw random chunks, block by block, on the executors.

Values depend neither on chunks nor on blocks: doubles are taken by position from one PCG64 sequence, all other draws
are made cell by cell (random_streams.py).
Source: O'Neill 2014 (PCG, jumping ahead); NumPy's `jumped`, for the distance between cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import ChunkType, Fill, Generate, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.operand import Operand, Splits, TensorMeta
from jmars.tensor.ops.chunks import corners
from jmars.tensor.ops.random_streams import Box, Cells, Drawer, Stream, open_doubles, open_generator, sample
from jmars.tensor.parts import Part, PartOf, along, around, is_box, splits_of

Array = np.ndarray[Any, Any]
# Steps between the streams of two cells: 2^128 by the golden ratio, so that multiples stay far apart.
_CELL_DISTANCE = 0x9E3779B97F4A7C15F39CC0605CEDC835
_BAND = 1 << 15  # elements that are drawn at a time, at least


class PlaceOf(NamedTuple):
    """The place of a box in the whole array."""

    begin: tuple[int, ...]
    shape: tuple[int, ...]  # of the whole array


@dataclass(frozen=True, eq=False)
class Doubles(Operand):
    """Draws doubles in [0, 1): element i in C order is number i of a PCG64 sequence, so values equal NumPy's."""

    function: str
    stream: Stream
    scale: tuple[float, float] | None  # (low, high - low)
    splits: Splits
    place: PlaceOf | None = None  # of a part; None: the whole
    name: ClassVar[str] = "random"
    binds: ClassVar[str] = "stream"

    @property
    def label(self) -> str:
        """The function that the user called, with a mark for a part."""
        return self.function if self.place is None else f"{self.function}[...]"

    def token(self) -> Hashable:
        """Identifies the operand by stream, scale, splits and place."""
        return ("doubles", self.stream, self.scale, self.splits, self.place)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Draws a box."""
        place = PlaceOf(tuple(axis[0] for axis in kept), output.shape)
        made = replace(self, splits=splits_of(kept, output), place=place)
        return PartOf(made, []) if is_box(kept) else None

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The box around the positions."""
        return around(kept)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with the stream and the first index as argument."""
        begin, whole = self.place or PlaceOf((), output.shape)
        return _add_draws(builder, output, self.label, open_doubles, (self.scale, whole), self.stream, begin=begin)


def _add_draws(
    builder: ChunkGraphBuilder,
    output: TensorMeta,
    label: str,
    open_: Callable[..., Fill],
    params: tuple[Any, ...],
    stream: Stream,
    work: Mapping[tuple[int, ...], int] = MappingProxyType({}),
    begin: tuple[int, ...] = (),
) -> NDArray[np.int64]:
    shapes, which = shape_classes(output.chunks)
    programs = [
        single(label, (), Generate(open_, params, ChunkType(shape, output.dtype), True, work=work.get(shape, 0)))
        for shape in shapes
    ]
    none = np.empty((which.size, 0), np.int64)
    args: list[tuple[Any, ...]] = [((stream, corner),) for (corner,) in corners(output.chunks)]
    if any(begin):
        args = [((stream, tuple(map(sum, zip(begin, corner)))),) for ((_, corner),) in args]
    return builder.add_many(programs, which.reshape(-1), none, args).reshape(output.grid)


@dataclass(frozen=True, eq=False)
class Draws(Operand):
    """Draws from any distribution, cell by cell."""

    function: str
    stream: Stream
    method: str  # of numpy.random.Generator
    arguments: tuple[Any, ...]
    vector: int  # axes of a single draw: 1 for distributions of vectors, else 0
    splits: Splits
    place: PlaceOf | None = None  # of a part; None: the whole
    name: ClassVar[str] = "random"
    binds: ClassVar[str] = "stream"

    @property
    def label(self) -> str:
        """The function that the user called, with a mark for a part."""
        return self.function if self.place is None else f"{self.function}[...]"

    def token(self) -> Hashable:
        """Identifies the operand by stream, method, arguments, splits and place."""
        return ("draws", self.stream, self.method, repr(self.arguments), self.splits, self.place)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Draws a box of whole vectors."""
        place = PlaceOf(tuple(axis[0] for axis in kept), output.shape)
        made = replace(self, splits=splits_of(kept, output), place=place)
        return PartOf(made, []) if is_box(kept) and self._with_vectors(kept, output) == kept else None

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The box around the positions, of whole vectors."""
        return self._with_vectors(around(kept), output)

    def _with_vectors(self, kept: Part, output: TensorMeta) -> Part:
        return along(kept, range(len(kept) - self.vector, len(kept)), output)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with the stream and the first index as argument."""
        begin, whole = self.place or PlaceOf((), output.shape)
        cells = Cells.of(whole, self.vector)
        params = (self.method, self.arguments, cells, self.vector)
        shapes = [shape for shape in shape_classes(output.chunks)[0] if shape]
        work = {shape: min(_rows_at_a_time(shape, cells)[0], shape[0]) * math.prod(shape[1:]) for shape in shapes}
        cell = min(math.prod(cells.sides), math.prod(cells.shape))
        work = {shape: (band + cell) * output.dtype.itemsize for shape, band in work.items()}
        return _add_draws(builder, output, self.label, open_draws, params, self.stream, work, begin)


def cell_generators(stream: Stream, cells: Cells) -> Callable[[int], Drawer]:
    """Returns a function from a cell's number to its generator; a single cell uses the stream itself."""
    drawer = open_generator(stream)
    if cells.is_one:
        return lambda number: open_generator(stream)
    bits, state = drawer.bit_generator, drawer.bit_generator.state

    def placed(number: int) -> Drawer:
        bits.state = state
        bits.advance(number * _CELL_DISTANCE % 2**128)
        return drawer

    return placed


def _rows_at_a_time(shape: tuple[int, ...], cells: Cells) -> tuple[int, int]:
    """Rows of a chunk drawn at a time, a multiple of the cell side; and the number of elements per row."""
    width = math.prod(shape[1:])
    return max(1, _BAND // max(1, cells.sides[0] * width)) * cells.sides[0], width


def open_draws(params: tuple[Any, ...], arg: tuple[Stream, tuple[int, ...]], output: ChunkType) -> Fill:
    """Returns the function that writes the draws of a chunk, rows of cells at a time; keeps rows for later blocks."""
    method, arguments, cells, vector = params
    stream, corner = arg
    shape = output.shape
    if len(shape) == vector:  # a number or a vector alone
        cells, corner, shape = Cells((1, *cells.shape), (1, *cells.sides)), (0, *corner), (1, *shape)
    drawer_of = cell_generators(stream, cells)
    tall, width = _rows_at_a_time(shape, cells)
    side, first, end = cells.sides[0], corner[0], corner[0] + shape[0]
    across = Cells(cells.shape[1:], cells.sides[1:])
    behind = list(across.over(tuple((c, c + n) for c, n in zip(corner[1:], shape[1:]))))
    chunk = tuple((c, c + n) for c, n in zip(corner[1:], shape[1:]))
    parts = [  # for each cell in a row of cells: number, shape, needed part, target part
        (one.number, one.shape[: len(one.shape) - vector], box_index(both, one.begin), box_index(both, corner[1:]))
        for one, both in ((one, one.overlap(chunk)) for one in behind)
    ]
    per_row = math.prod(-(-n // s) for n, s in zip(across.shape, across.sides))
    held: Array | None = None  # buffer of rows drawn together
    held_number = -1

    def draw(target: Array, low: int, high: int) -> None:
        """Draws rows `low` to `high` of the array for this chunk."""
        for row in range(low // side, -(-high // side)):
            begin = row * side
            top, bottom = max(low, begin), min(high, begin + side)
            rows = slice(top - low, bottom - low)
            for number, cell, source, place in parts:
                # rows of the cell beyond the last needed row are not drawn
                drawer = drawer_of(row * per_row + number)
                values = sample(drawer, method, arguments, (bottom - begin, *cell), output.dtype)
                target[(rows, *place)] = values[(slice(top - begin, None), *source)]

    def fill(out: Array, start: int) -> None:
        nonlocal held, held_number
        while out.size:
            number = (first + start // width) // tall
            low, high = max(first, number * tall), min(end, (number + 1) * tall)
            begin, size = (low - first) * width, (high - low) * width
            if start == begin and out.size >= size:
                n = size
                draw(out[:n].reshape(high - low, *shape[1:]), low, high)
            else:
                if held is None:
                    held = np.empty(min(tall, end - first) * width, output.dtype)
                if number != held_number:
                    held_number = number
                    draw(held[:size].reshape(high - low, *shape[1:]), low, high)
                n = min(begin + size - start, out.size)
                out[:n] = held[start - begin : start - begin + n]
            start, out = start + n, out[n:]

    return fill


def box_index(box: Box, begin: Sequence[int]) -> tuple[slice, ...]:
    """Converts a box to an index into an array with the first index `begin`."""
    return tuple(slice(lo - a, hi - a) for (lo, hi), a in zip(box, begin))
