"""`label`: connected components, labelled chunk by chunk, joined over the borders, numbered as SciPy does.

SciPy labels each chunk. Of each chunk go on: the first element of each component, by its index in the whole array, and
pairs of components that touch across the border to the chunk before, along each axis. One operand joins them, by
SciPy's `connected_components`, and numbers the joined components by their first elements in C order, as SciPy does.
A last operand per chunk replaces the numbers. A component has the name `chunk << 32 | number in the chunk`.
Source: SciPy `ndimage/_measurements.py`; dask-image `ndmeasure/_utils/_label.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from jmars.config import config
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import Operand, Origin, Splits, TensorMeta, new_data
from jmars.tensor.ops.apply import add_halos
from jmars.tensor.ops.chunks import chunk_classes, chunk_starts
from jmars.tensor.ops.map_blocks import map_blocks
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import new_group

Array = np.ndarray[Any, Any]
_INT = np.dtype(np.int64)
_NAME_BITS = 32  # of a component's number in its chunk


@offers("ndimage.label")
def label(input: Any, structure: Any = None, output: Any = None) -> Any:
    """`scipy.ndimage.label`: numbers of connected components, and how many there are.

    Examples
    --------
    >>> from jmars.tensor.ops.create import asarray
    >>> numbers, count = label(asarray([1, 1, 0, 0, 1, 0, 1], chunk_size=1))
    >>> numbers.fetch().tolist(), int(count)
    ([1, 1, 0, 0, 2, 0, 3], 3)
    """
    x, structure = as_tensor(input), as_values(structure)
    is_array = isinstance(output, Tensor | np.ndarray)
    if is_array and output.shape != x.shape:
        raise ValueError("output shape not correct")  # SciPy's words
    ndimage.label(np.zeros((1,) * x.ndim, x.dtype), structure)  # raises SciPy's errors
    dtype = np.dtype(output.dtype if is_array else output or (np.intp if x.size >= 2**31 - 2 else np.int32))
    if not x.size:
        found, count = x.astype(dtype), as_tensor(0)
    elif not x.ndim:
        numbers, number = ndimage.label(as_values(x), structure, dtype)
        found, count = as_tensor(numbers), as_tensor(number)
    else:
        near = ndimage.generate_binary_structure(x.ndim, 1) if structure is None else np.asarray(structure, bool)
        own = map_blocks(_label_block, x, dtype=np.int32, name="label", structure=near)
        depths = tuple(int(len(cut) > 1) for cut in own.chunks)
        around = add_halos(own, depths, ("none",) * x.ndim)
        offsets = tuple(tuple(int(i) - 1 for i in at) for at in np.argwhere(near) if at.any())
        origin = Origin.of(new_group())
        op = Joined(offsets, max(2, config.combine_size), inputs=(own.data, around.data))
        table = new_data(op, (origin.whole,), _INT, (origin.axis([None]),))
        found = Tensor(new_data(Renumbered(inputs=(own.data, table)), x.shape, dtype, x.chunks))
        count = Tensor(new_data(Count(inputs=(table,)), (), _INT, ()))
    if is_array:
        output[...] = found
        return count
    return found, count


def _label_block(block: Array, structure: Array) -> Array:
    found: Array = ndimage.label(block, structure, np.int32)[0]
    return found


@dataclass(frozen=True, eq=False)
class Joined(Operand):
    """The table of components, in one chunk: number of chunks, begins of their numbers, and the numbers."""

    offsets: tuple[tuple[int, ...], ...]  # from an element to those that it is connected to
    combine_size: int
    name: ClassVar[str] = "join_labels"

    def token(self) -> Hashable:
        """Identifies the operand by the structure and the tree."""
        return ("join labels", self.offsets, self.combine_size)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, then a tree that collects what they found."""
        own, around = inputs
        grid = own.ids.shape
        edges = [[(n, i > 0, i < len(cut) - 1) for i, n in enumerate(cut)] for cut in own.splits]
        kinds, which = chunk_classes(edges)
        shape = tuple(map(sum, own.splits))
        programs = []
        for kind in kinds:
            chunk = ChunkType(tuple(n for n, _, _ in kind), own.dtype)
            block = ChunkType(tuple(n + low + high for n, low, high in kind), around.dtype)
            params = (shape, grid, self.offsets, tuple((low, high) for _, low, high in kind))
            faces = [block.size // n * sum(offset[axis] == 1 for offset in self.offsets)
                     for axis, (n, (_, low, _)) in enumerate(zip(block.shape, kind)) if low]  # fmt: skip
            out = ChunkType((-1,), _INT, 24 + 8 * chunk.size + 16 * sum(faces))
            step = Call(find_borders, params, (0, 1), out, True, 24 * chunk.size + 64 * sum(faces))
            programs.append(single("borders", (chunk, block), step))
        places = itertools.product(*map(range, grid))
        corners = itertools.product(*map(chunk_starts, own.splits))
        args = [(one,) for one in zip(places, corners)]
        rows = np.stack([own.ids.reshape(-1), around.ids.reshape(-1)], axis=1)
        ids = builder.add_many(programs, which.reshape(-1), rows, args)
        while len(ids) > 1:
            groups = [ids[k : k + self.combine_size] for k in range(0, len(ids), self.combine_size)]
            ids = np.array([_add(builder, "borders", collect, group) for group in groups], np.int64)
        return np.array([_add(builder, self.name, join, ids, wide=6)], np.int64)


def _add(builder: ChunkGraphBuilder, name: str, function: Any, ids: NDArray[np.int64], wide: int = 1) -> int:
    if len(ids) == 1 and function is collect:
        return int(ids[0])
    chunk = ChunkType((-1,), _INT)
    step = Call(function, (), tuple(range(len(ids))), chunk, work_per_input=wide)
    return builder.add(single(name, (chunk,) * len(ids), step), ids.tolist())


@dataclass(frozen=True, eq=False)
class Renumbered(Operand):
    """The components' numbers in the whole array."""

    name: ClassVar[str] = "label"

    def token(self) -> Hashable:
        """Identifies the operand by the kind alone."""
        return ("renumbered labels",)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        own, table = inputs
        kinds, which = chunk_classes(own.splits)

        def program(shape: tuple[int, ...]) -> Program:
            types, out = (ChunkType(shape, own.dtype), ChunkType((-1,), _INT)), ChunkType(shape, output.dtype)
            return single(self.name, types, Call(renumber, (), (0, 1), out, True, out.nbytes))

        ids = own.ids.reshape(-1)
        rows = np.stack([ids, np.full_like(ids, table.ids[0])], axis=1)
        args = [(k,) for k in range(len(ids))]
        return builder.add_many([program(shape) for shape in kinds], which.reshape(-1), rows, args).reshape(output.grid)


@dataclass(frozen=True, eq=False)
class Count(Operand):
    """The number of components."""

    name: ClassVar[str] = "count_labels"

    def token(self) -> Hashable:
        """Identifies the operand by the kind alone."""
        return ("count labels",)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a single operand."""
        step = Call(count_labels, (), (0,), ChunkType((), _INT))
        return np.array(builder.add(single(self.name, (ChunkType((-1,), _INT),), step), inputs[0].ids.tolist()))


# -- what executors run


def find_borders(out: Any, inputs: Sequence[Array], params: tuple[Any, ...], arg: tuple[Splits, Splits]) -> Array:
    """A record of a chunk: its number, how many components and pairs follow; first elements; pairs of names."""
    (own, around), (shape, grid, offsets, ends), (place, corner) = inputs, params, arg
    number = int(np.ravel_multi_index(place, grid))
    flat = own.reshape(-1)
    places = np.flatnonzero(flat)
    count = int(flat.max(initial=0))
    first = np.zeros(count + 1, np.int64)
    first[flat[places[::-1]]] = places[::-1]  # the last one written stays
    at = np.unravel_index(first[1:], own.shape)
    first = np.ravel_multi_index(tuple(i + start for i, start in zip(at, corner)), shape)
    pairs = [np.zeros((0, 2), np.int64)]
    strides = [math.prod(grid[axis + 1 :]) for axis in range(len(grid))]
    for axis, (low, _) in enumerate(ends):
        if not low:
            continue
        slab = around[(slice(None),) * axis + (slice(0, 2),)].astype(np.int64)
        names = np.full(slab.shape, number, np.int64)
        for one, (before, after) in enumerate(ends):
            step = np.zeros(slab.shape[one], np.int64)
            step[: int(before)] = -strides[one]
            if after and one != axis:
                step[-1:] = strides[one]
            names += step.reshape([-1 if i == one else 1 for i in range(slab.ndim)])
        names = np.where(slab > 0, names << _NAME_BITS | slab, 0)
        for offset in offsets:
            if offset[axis] == 1:
                pairs.append(_touching(names, offset))
    found = np.unique(np.concatenate(pairs), axis=0)
    return np.concatenate([[number, count, len(found)], first, found.reshape(-1)]).astype(np.int64)


def _touching(names: Array, offset: Sequence[int]) -> Array:
    """Pairs of components of which elements lie `offset` apart."""
    here = tuple(slice(max(0, -step), n - max(0, step)) for step, n in zip(offset, names.shape))
    there = tuple(slice(max(0, step), n - max(0, -step)) for step, n in zip(offset, names.shape))
    pairs = np.stack([names[here].reshape(-1), names[there].reshape(-1)], axis=1)
    return pairs[(pairs > 0).all(axis=1)]


def collect(out: Any, inputs: Sequence[Array], params: tuple[()], arg: Any) -> Array:
    """The records of several chunks, one after the other."""
    return np.concatenate(inputs)


def _records(line: Array) -> Iterator[tuple[int, Array, Array]]:
    at = 0
    while at < len(line):
        number, count, touching = line[at : at + 3].tolist()
        middle, at = at + 3 + count, at + 3 + count + 2 * touching
        yield number, line[middle - count : middle], line[middle:at].reshape(-1, 2)


def join(out: Any, inputs: Sequence[Array], params: tuple[()], arg: Any) -> Array:
    """The table of `Joined`."""
    records = sorted(_records(inputs[0]), key=lambda record: record[0])
    begins = np.concatenate([[0], np.cumsum([len(first) for _, first, _ in records])])
    firsts = np.concatenate([first for _, first, _ in records])
    pairs = np.concatenate([pairs for _, _, pairs in records])
    ends = begins[pairs >> _NAME_BITS] + (pairs & (2**_NAME_BITS - 1)) - 1
    n = len(firsts)
    graph = coo_array((np.ones(len(ends), bool), (ends[:, 0], ends[:, 1])), shape=(n, n))
    many, which = connected_components(graph, directed=False)
    least = np.full(many, np.iinfo(np.int64).max)
    np.minimum.at(least, which, firsts)
    numbers = np.empty(many, np.int64)
    numbers[np.argsort(least)] = np.arange(1, many + 1)
    return np.concatenate([[len(records)], begins, numbers[which]]).astype(np.int64)


def renumber(out: Array, inputs: Sequence[Array], params: tuple[()], arg: int) -> None:
    """Replaces the numbers of the components of the chunk with the number `arg`."""
    own, table = inputs
    count = int(table[0])
    begins, numbers = table[1 : count + 2], table[count + 2 :]
    mine = numbers[begins[arg] : begins[arg + 1]]
    known = np.concatenate([[0], mine]).astype(out.dtype)
    if (known[1:] != mine).any():
        raise RuntimeError("insufficient bit-depth in requested output type")  # SciPy's words
    np.take(known, own, out=out, mode="clip")


def count_labels(out: Array, inputs: Sequence[Array], params: tuple[()], arg: Any) -> None:
    """The largest number in the table."""
    (table,) = inputs
    out[...] = table[int(table[0]) + 2 :].max(initial=0)
