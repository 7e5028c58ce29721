"""`np.unique` and set operations: distinct elements per chunk, merged by a tree; their number is an unknown length.

A chunk of the tree packs sorted distinct elements, first positions and counts as bytes, and the result is a single
chunk. Of a long array whose elements are mostly distinct, by a sample, the elements are sorted by ranges instead
(sort.py), and the results have many chunks. With `axis=` the array is brought into a single chunk.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from jmars.config import config
from jmars.errors import UnsupportedError
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, outputs
from jmars.tensor.operand import Operand, Origin, TensorData, TensorMeta, is_known, new_data
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import chunk_classes, chunk_type, corners, length_kind, rechunked
from jmars.tensor.ops.shape import moveaxis, normal_axis, ravel
from jmars.tensor.ops.sort import exceeds_chunk, put_back, sort_long_axis, sorted_records
from jmars.tensor.ops.ufuncs import astype, native
from jmars.tensor.protocols import call, offers
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import new_group

Array = np.ndarray[Any, Any]
_BYTES = np.dtype(np.uint8)
TABLE_TIMES = 4  # entries of a table for each element: a table of bytes, half as large as elements of 8 bytes
SAMPLED = 2**18, 2**20  # least and most elements that are sampled of a long array
SAMPLED_CHUNKS = 4  # chunks of a long array with sampled elements, at most: they are kept, or computed a second time
BLOCK = 2**16  # elements marked at once, in the cache
SORTED = 2**18  # elements sorted at once, to be searched


@functools.cache
def _is_shaped() -> bool:
    """Whether this NumPy version returns the inverse in the shape of the array."""
    return np.unique(np.zeros((1, 1)), return_inverse=True)[1].ndim == 2


@functools.cache
def _has_one_nat() -> bool:
    """Whether this NumPy version, as 2.3, treats NaT as equal to itself."""
    return np.unique(np.array(["NaT"] * 2, "M8[s]"), equal_nan=False).size == 1


@offers("unique")
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """`np.unique`: sorted distinct elements; on request with first positions, inverse and counts.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> [one.fetch().tolist() for one in unique(arange(7, chunk_size=3) % 3, return_counts=True)]
    [[0, 1, 2], [3, 2, 2]]
    """
    x = as_tensor(ar)
    if not x.dtype.isnative:
        wanted = (return_index, return_inverse, return_counts, axis)
        made = unique(native(x), *wanted, equal_nan=equal_nan, sorted=sorted)
        return (astype(made[0], x.dtype), *made[1:]) if isinstance(made, tuple) else astype(made, x.dtype)
    if isinstance(axis, float):
        raise TypeError("integer argument expected, got float")  # NumPy's words
    if axis is not None and x.ndim == 1:
        axis = normal_axis(operator.index(axis), 1)
    elif axis is not None:
        return unique_slices(x, axis, return_index, return_inverse, return_counts, equal_nan=equal_nan)
    if return_inverse and not equal_nan and x.dtype.kind == "c":
        raise UnsupportedError(
            "np.unique of complex numbers with return_inverse and equal_nan=False, as np.unique_inverse and "
            "np.unique_all call it, is not in jmars; use np.unique(x, return_inverse=True)"
        )
    if (return_index or return_inverse) and not is_known([x.data.shape]):
        x._resolved()
    if x.dtype.kind == "M" and _has_one_nat() and not (return_index or return_inverse or return_counts):
        equal_nan = True
    if _may_be_many(x) and (equal_nan or x.dtype.kind != "f" or not return_inverse):
        return _of_long_array(x, return_index, return_inverse, return_counts, equal_nan)
    made = _by_tree(x, return_index, return_inverse, return_counts, equal_nan)
    return made[0] if len(made) == 1 else tuple(made)


def _by_tree(x: Tensor, return_index: bool, return_inverse: bool, return_counts: bool, equal_nan: bool) -> list[Tensor]:
    origin = Origin.of(new_group())
    more = [number for number, wanted in ((1, return_index), (2, return_counts)) if wanted]
    some = [fields for n in range(len(more) + 1) for fields in itertools.combinations(more, n)]
    found = [Tensor(data) for data in outputs([_fields(x, (0, *fields), equal_nan, origin) for fields in some])]
    if return_inverse:
        which = Tensor(new_data(UniqueInverse(inputs=(x.data, found[0].data)), x.shape, np.dtype(np.intp), x.chunks))
        if not equal_nan and x.dtype.kind in "fmM":
            which = _with_nans(which, x, found[0])
        found.insert(1 + return_index, which if _is_shaped() else ravel(which))
    return found


def _may_be_many(x: Tensor) -> bool:
    """Whether distinct elements may be too many for a chunk."""
    is_wide = x.dtype.kind in "iuf" and _most_distinct(x.dtype) is None
    return is_wide and is_known([x.data.shape]) and exceeds_chunk(x, None)


def _most_distinct(dtype: np.dtype[Any]) -> int | None:
    """Number of values of integers of at most two bytes, and of bools; None for other dtypes."""
    return 2 ** (8 * dtype.itemsize) if dtype.kind in "biu" and dtype.itemsize <= 2 else None


def _are_many(x: Tensor) -> Tensor:
    """Whether the distinct elements of a long array exceed a chunk, by a sample of some chunks."""
    sizes = functools.reduce(np.multiply.outer, [np.array(axis, float) for axis in x.chunks]).ravel()
    some = min(SAMPLED_CHUNKS, (int(np.count_nonzero(sizes)) + 1) // 2)
    places = (np.arange(some) + np.random.default_rng(0).random(some)) * sizes.sum() / some  # one in each part
    chosen = np.unique(np.searchsorted(sizes.cumsum(), places, "right"))
    least, most = SAMPLED
    each = max(2, min(x.size, most, max(least, chunk_bytes() // 32)) // len(chosen))
    samples = [
        blockwise("unique", _sample, [x.blocks[np.unravel_index(k, x.numblocks)]], ((each,),), x.dtype, (int(k), each),
                  flat=True)
        for k in chosen
    ]  # fmt: skip
    sample = call("concatenate", samples).rechunk(-1)
    return blockwise("unique", _exceeds, [sample], ((1,),), bool, (x.size, len(sizes), each, chunk_bytes() // 4))


def _sample(block: Array, number: int, count: int) -> Array:
    """An element of each of `count` pieces, drawn anew in each chunk: else a copy of a chunk has the same sample."""
    line = block.reshape(-1)
    place = np.random.default_rng(number).random(count)
    place += np.arange(count)
    place *= len(line) / count
    return line[np.minimum(place.astype(np.intp), len(line) - 1)]


def _exceeds(sample: Array, count: int, chunks: int, each: int, most: int) -> Array:
    """Whether distinct elements of `count` in `chunks` may have more bytes than `most`, by `each` elements of a chunk.

    An element that occurs once in the sample stands for `count / len(sample)` distinct elements, an element that occurs
    more often, but in a single chunk, for an element of each chunk. A sample of one value says nothing of other chunks.
    """
    own = [_distinct_numbers(line, False, True)[0] for line in sample.reshape(-1, each)]
    found_in = _distinct_numbers(np.concatenate(own), True, True)[1]  # number of chunks by element
    single = int(np.count_nonzero(_distinct_numbers(sample, True, True)[1] == 1))
    shared = int(np.count_nonzero(found_in > 1))
    local = len(found_in) - shared - single
    distinct = shared + local * chunks / len(own) + single * count / len(sample)
    return np.array([len(found_in) == 1 or distinct * sample.dtype.itemsize > most])


def _of_long_array(
    x: Tensor, return_index: bool, return_inverse: bool, return_counts: bool, equal_nan: bool
) -> Tensor | tuple[Tensor, ...]:
    """The results by ranges where the elements are mostly distinct, else by the tree."""
    wanted = return_index, return_inverse, return_counts, equal_nan
    made = call("cond", _are_many(x), tuple(_by_ranges(x, *wanted)), tuple(_by_tree(x, *wanted)))
    return made[0] if len(made) == 1 else tuple(made)


def _by_ranges(
    x: Tensor, return_index: bool, return_inverse: bool, return_counts: bool, equal_nan: bool
) -> list[Tensor]:
    """Sorts the elements; the first of equal elements is the distinct element."""
    line, order = ravel(x), None
    if return_index or return_inverse:
        line, order = sorted_records(line)
    else:
        line = sort_long_axis(line)
    begins = _begins(line, equal_nan)
    found = [line[begins]]
    if order is not None and return_index:
        found.append(order[begins])
    if order is not None and return_inverse:
        inverse = put_back(call("cumsum", begins, dtype=np.intp) - 1, order)
        found.append(call("reshape", inverse, x.shape) if _is_shaped() else inverse)
    if return_counts:
        place = call("arange", x.size, chunks=line.chunks)
        start = call("method.accumulate", np.maximum, call("where", begins, place, 0))
        ends = call("concatenate", [begins[1:], call("ones", 1, dtype=bool)]).rechunk(line.chunks)
        found.append((place - start + 1)[ends])
    return found


def _begins(line: Tensor, equal_nan: bool) -> Tensor:
    """Where elements of a sorted array differ from the previous element."""
    now, before = line[1:], line[:-1]
    differ = now != before
    if equal_nan and line.dtype.kind == "f":
        differ = differ & ((now == now) | (before == before))
    return cast(Tensor, call("concatenate", [call("ones", 1, dtype=bool), differ]).rechunk(line.chunks))


def _with_nans(which: Tensor, x: Tensor, values: Tensor) -> Tensor:
    """The inverse with distinct NaNs: numbered after the other elements, in the order of the array."""
    missing, ordered = call("not_equal", x, x), call("equal", values, values).sum()
    count = call("reshape", call("cumsum", ravel(missing)), x.shape)
    found: Tensor = call("where", missing, ordered + count - 1, which)
    return found


def _fields(x: Tensor, numbers: Sequence[int], equal_nan: bool, origin: Origin) -> dict[int, TensorData]:
    """Elements, first positions or counts, by their number, all found in a single pass."""
    fields = tuple(number in numbers for number in range(3))
    packed = UniqueElements(fields, equal_nan, max(2, config.combine_size), inputs=(x.data,))
    whole = new_data(packed, *_one_chunk(Origin.of(new_group()), _BYTES))
    made = {}
    for number in numbers:
        op = UniqueField(number, fields, x.dtype, inputs=(whole,))
        made[number] = new_data(op, *_one_chunk(origin, np.dtype(np.intp) if number else x.dtype))
    return made


def _one_chunk(origin: Origin, dtype: np.dtype[Any]) -> Any:
    return (origin.whole,), dtype, (origin.axis([None]),)


@offers("intersect1d")
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """`np.intersect1d`: sorted distinct elements that occur in both arrays."""
    x, y = as_tensor(ar1), as_tensor(ar2)
    dtype = np.concatenate([np.zeros(0, x.dtype), np.zeros(0, y.dtype)]).dtype
    x, y = astype(x, dtype), astype(y, dtype)
    if assume_unique:  # elements that occur twice in both arrays together
        both = call("concatenate", [x, y], axis=None)
        order = call("argsort", both, kind="mergesort") if return_indices else None
        both = call("sort", both) if order is None else both[order]
        twice = both[1:] == both[:-1]
        return both[:-1][twice] if order is None else (both[:-1][twice], order[:-1][twice], order[1:][twice] - x.size)
    if not return_indices:
        values = call("unique", x)
        return values[call("isin", values, y)]
    values, first = call("unique", x, return_index=True)
    others, second = call("unique", y, return_index=True)
    both, here = call("isin", values, others), call("isin", others, values)
    return values[both], first[both], second[here]


@offers("setdiff1d")
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """`np.setdiff1d`: distinct elements of the first array that the second lacks, sorted unless `assume_unique`."""
    x, others = as_tensor(ar1), as_tensor(ar2)
    if not (assume_unique or _are_alike(x, others)):
        others = call("unique", others)  # the number of test elements decides how NumPy compares
    values = call("ravel", x) if assume_unique else call("unique", x)
    return values[call("isin", values, others, invert=True)]


@offers("setxor1d")
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """`np.setxor1d`: sorted distinct elements that are not common to both arrays."""
    parts = [ar1, ar2] if assume_unique else [call("unique", as_tensor(one)) for one in (ar1, ar2)]
    values, counts = call("unique", call("concatenate", parts, axis=None), return_counts=True, equal_nan=False)
    return values[counts == 1]


@dataclass(frozen=True, eq=False)
class UniqueElements(Operand):
    """Finds distinct elements by a tree; packs elements, first positions and counts as bytes in a single chunk."""

    fields: tuple[bool, ...]  # whether elements, positions, counts are packed
    equal_nan: bool
    combine_size: int
    name: ClassVar[str] = "unique"

    def token(self) -> Hashable:
        """Identifies the operand by fields, treatment of NaN and tree."""
        return ("unique", self.fields, self.equal_nan, self.combine_size)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, then a tree that merges the results."""
        (x,) = inputs
        kinds, which = chunk_classes([[length_kind(n) for n in axis] for axis in x.splits])
        shape = tuple(map(sum, x.splits)) if self.fields[1] else ()
        params = (shape, self.fields, self.equal_nan)
        size = x.dtype.itemsize + 8 * sum(self.fields[1:])
        programs = []
        for one in kinds:
            chunk = chunk_type(one, x.dtype)
            elements, values = chunk.nbytes // max(1, x.dtype.itemsize), _most_distinct(x.dtype)
            bounds = [n for n in (elements if chunk.has_bound else None, values) if n is not None]
            most = 8 + min(bounds) * size if bounds else None
            ordered = elements if values is None or self.fields[1] else min(elements, 2 * values)  # else a table
            work = chunk.nbytes + 3 * (8 + ordered * size)  # NumPy's copies, sorted and unsorted
            step = Call(find_unique, params, (0,), ChunkType((-1,), _BYTES, most), self.fields[1], work)
            programs.append(single(self.name, (chunk,), step))
        args = corners(x.splits) if self.fields[1] else None
        ids = builder.add_many(programs, which.reshape(-1), x.ids.reshape(-1, 1), args)
        while len(ids) > 1:
            groups = [ids[k : k + self.combine_size] for k in range(0, len(ids), self.combine_size)]
            ids = np.array([self._merge(builder, group, x.dtype) for group in groups], np.int64)
        return ids

    def _merge(self, builder: ChunkGraphBuilder, group: NDArray[np.int64], dtype: np.dtype[Any]) -> int:
        if len(group) == 1:
            return int(group[0])
        chunk = ChunkType((-1,), _BYTES)
        wide = 6 if any(self.fields[1:]) else 3  # NumPy's copies, sorted and unsorted, for each byte of the parts
        params, reads = (dtype, self.fields, self.equal_nan), tuple(range(len(group)))
        step = Call(join_unique, params, reads, chunk, work_per_input=wide)
        return builder.add(single(self.name, (chunk,) * len(group), step), group.tolist())


@dataclass(frozen=True, eq=False)
class UniqueField(Operand):
    """Unpacks a field of `UniqueElements`: elements (0), first positions (1) or counts (2)."""

    number: int
    fields: tuple[bool, ...]
    dtype: np.dtype[Any]  # of the elements
    name: ClassVar[str] = "unique"

    def token(self) -> Hashable:
        """Identifies the operand by the field."""
        return ("unique field", self.number, self.fields, self.dtype)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a single operand."""
        chunk = ChunkType((-1,), _BYTES)
        out = chunk_type([length_kind(n) for n in output.chunks[0]], output.dtype)
        step = Call(field, (self.number, self.fields, self.dtype), (0,), out)
        return np.array([builder.add(single(self.name, (chunk,), step), inputs[0].ids.tolist())], np.int64)


@dataclass(frozen=True, eq=False)
class UniqueInverse(Operand):
    """Positions of the elements of the first input among the distinct elements, the second input."""

    name: ClassVar[str] = "unique"

    def token(self) -> Hashable:
        """Identifies the operand by the kind alone."""
        return ("unique inverse",)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        x, values = inputs
        kinds, which = chunk_classes(x.splits)
        known = chunk_type([length_kind(n) for n in values.splits[0]], values.dtype)

        def program(shape: tuple[int, ...]) -> Program:
            out = ChunkType(shape, output.dtype)
            work = out.nbytes + min(SORTED, math.prod(shape)) * (x.dtype.itemsize + 16)
            return single(
                self.name, (ChunkType(shape, x.dtype), known), Call(find_positions, (), (0, 1), out, False, work)
            )

        ids = x.ids.reshape(-1)
        rows = np.stack([ids, np.full_like(ids, values.ids[0])], axis=1)
        return builder.add_many([program(shape) for shape in kinds], which.reshape(-1), rows).reshape(output.grid)


# -- what executors run


def _pack(parts: Sequence[Array | None]) -> Array:
    """Packs arrays of equal length as bytes, the length first."""
    there = [np.ascontiguousarray(part) for part in parts if part is not None]
    packed, at = np.empty(8 + sum(part.nbytes for part in there), _BYTES), 8
    packed[:8].view(np.int64)[0] = len(there[0])
    for part in filter(lambda one: one.nbytes, there):
        packed[at : at + part.nbytes] = part.view(_BYTES)
        at += part.nbytes
    return packed


def _unpack(packed: Array, fields: Sequence[bool], dtype: np.dtype[Any]) -> list[Array | None]:
    """Unpacks elements, positions and counts; None for missing fields."""
    n = int(packed[:8].view(np.int64)[0])
    found: list[Array | None] = []
    at = 8
    for kind, there in zip((dtype, np.dtype(np.intp), np.dtype(np.intp)), fields, strict=True):
        found.append(packed[at : at + n * kind.itemsize].view(kind) if there else None)
        at += n * kind.itemsize if there else 0
    return found


def find_unique(
    out: Any, inputs: Sequence[Array], params: tuple[tuple[int, ...], tuple[bool, ...], bool], arg: Any
) -> Array:
    """Finds the distinct elements of a chunk that begins at index `arg` of an array of shape `params[0]`."""
    shape, (_, index, counts), equal_nan = params
    (x,) = inputs
    values, first, count = _distinct(x.reshape(-1), index, counts, equal_nan)
    if first is not None and x.shape[1:] == shape[1:]:
        first += arg[0] * math.prod(shape[1:]) if shape else 0
    elif first is not None and x.size:
        at = np.unravel_index(first, x.shape)
        first = np.ravel_multi_index(tuple(i + start for i, start in zip(at, arg)), shape)
    return _pack([values, first, count])


def _distinct(line: Array, index: bool, counts: bool, equal_nan: bool) -> tuple[Array, Array | None, Array | None]:
    """Distinct elements, first positions and counts; without positions a table may do."""
    if not index and line.dtype.kind in "biumM" and line.size:
        values, count = _distinct_numbers(line, counts, equal_nan)
        return values, None, count if counts else None
    if index:
        order, at = _groups(line, equal_nan)
        first = _firsts(order, at, line.dtype)
        return line[first], first, np.diff(at, append=len(line)) if counts else None
    if counts:
        values, count = np.unique(line, return_counts=True, equal_nan=equal_nan)
        return values, None, count
    return np.unique(line, equal_nan=equal_nan), None, None


def _order(line: Array, equal_nan: bool) -> NDArray[np.intp]:
    """Order of the elements; stable where missing elements are distinct, or where a stable sort takes less time."""
    is_quick = equal_nan and line.dtype.kind in "iuf" and line.dtype.itemsize > 2  # by vector instructions
    return np.argsort(line, kind=None if is_quick else "stable")


def _groups(line: Array, equal_nan: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Order of the elements, and where equal elements begin in it."""
    order = _order(line, equal_nan)
    ordered = line[order]
    begins = np.ones(len(line), bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    if equal_nan and line.dtype.kind in "fcmM":
        begins[1:] &= (ordered == ordered)[:-1]  # missing elements are last
    return order, np.flatnonzero(begins)


def _firsts(positions: Array, at: Array, dtype: np.dtype[Any]) -> Array:
    """First position of each group of the sorted elements; of complex NaNs, of the least in NumPy's order."""
    return positions[at] if dtype.kind == "c" else np.minimum.reduceat(positions, at)


def _distinct_numbers(line: Array, counts: bool, equal_nan: bool) -> tuple[Array, Array]:
    """Distinct integers, with counts where asked, by a table with an entry per integer from the least to the largest;
    distinct times, and integers far apart, by sorting: NumPy's hash table takes 30 times as long for many distinct
    elements.
    """
    if line.dtype.kind in "biu":
        low, high = line.min(), line.max()
        width = int(high) - int(low) + 1
        if width <= (TABLE_TIMES * line.size // 8 if counts else TABLE_TIMES * line.size):
            unsigned = np.dtype(f"u{line.itemsize}")  # differences wrap, and are right
            start, table = np.asarray(low).view(unsigned), np.zeros(width, np.intp if counts else bool)
            step = max(BLOCK, width) if counts else BLOCK
            for at in range(0, line.size, step):
                place = (line[at : at + step].view(unsigned) - start).astype(np.intp)
                if counts:
                    table += np.bincount(place, minlength=width)
                else:
                    table[place] = True
            place = np.flatnonzero(table)
            return (place.astype(unsigned) + start).view(line.dtype), table[place]
    return np.unique(line, return_counts=True, equal_nan=equal_nan)


def join_unique(
    out: Any, inputs: Sequence[Array], params: tuple[np.dtype[Any], tuple[bool, ...], bool], arg: Any
) -> Array:
    """Merges the distinct elements of several chunks."""
    dtype, fields, equal_nan = params
    parts = [_unpack(one, fields, dtype) for one in inputs]
    values, firsts, counts = (
        np.concatenate([part[i] for part in parts if part[i] is not None]) if there else None
        for i, there in enumerate(fields)
    )
    assert values is not None
    if firsts is None and counts is None:
        return _pack([_distinct(values, False, False, equal_nan)[0], None, None])
    if firsts is not None and dtype.kind == "c":  # a stable sort then has the first of equal forms of NaN first
        by_place = np.argsort(firsts)
        values, firsts, counts = values[by_place], firsts[by_place], None if counts is None else counts[by_place]
    order, at = _groups(values, equal_nan)
    different, first, count = values[order[at]], None, None
    if firsts is not None:
        first = _firsts(firsts[order], at, dtype)
        if not equal_nan or dtype.names is not None:  # NaNs, which are distinct, in the order of the array
            first = first[np.lexsort((first, np.searchsorted(different, different)))]
    if counts is not None:
        count = np.add.reduceat(counts[order], at)
    return _pack([different, first, count])


def field(
    out: Array | None, inputs: Sequence[Array], params: tuple[int, tuple[bool, ...], np.dtype[Any]], arg: Any
) -> Array:
    """Unpacks a field."""
    number, fields, dtype = params
    found = _unpack(inputs[0], fields, dtype)[number]
    assert found is not None
    if out is not None:
        np.copyto(out, found)
    return found


def find_positions(out: Array, inputs: Sequence[Array], params: tuple[()], arg: Any) -> None:
    """Looks up positions among sorted distinct elements, of integers within a short range in a table; NaN is last."""
    x, values = inputs
    if x.dtype.names is not None and (x != x).any():
        raise UnsupportedError(
            "np.unique of records with NaN and return_inverse=True is not in jmars; use their fields"
        )
    if x.dtype.kind in "biu" and len(values) and int(values[-1]) - int(values[0]) < x.size:
        unsigned = np.dtype(f"u{x.itemsize}")  # differences wrap, and are right
        line, start, found = x.reshape(-1).view(unsigned), values[:1].view(unsigned), out.reshape(-1)
        table = np.zeros(int(values[-1]) - int(values[0]) + 1, np.int32)
        table[(values.view(unsigned) - start).astype(np.intp)] = np.arange(len(values))
        for at in range(0, len(line), BLOCK):
            found[at : at + BLOCK] = table[(line[at : at + BLOCK] - start).astype(np.intp)]
        return
    line, found = x.reshape(-1), out.reshape(-1)
    for at in range(0, len(line), SORTED):  # sorted elements are searched along the values, others all over the memory
        block = line[at : at + SORTED]
        order = _order(block, True)
        found[at : at + SORTED][order] = np.searchsorted(values, block[order])
    if x.dtype.kind in "fcmM":
        out[np.isnat(x) if x.dtype.kind in "mM" else np.isnan(x)] = len(values) - 1


@offers("isin")
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
         kind: Any = None) -> Tensor:  # fmt: skip
    """`np.isin`: tests elements for membership in `test_elements`; the distinct test elements are a single chunk."""
    x, others = native(element), ravel(native(test_elements))
    if _may_be_many(others) and kind is None and x.dtype == others.dtype and is_known([x.data.shape]):
        made = call("cond", _are_many(others), _isin_by_ranges(x, others, invert), _isin_few(x, others, invert, kind))
        return cast(Tensor, made)
    return _isin_few(x, others, invert, kind)


def _isin_few(x: Tensor, others: Tensor, invert: bool, kind: Any) -> Tensor:
    np.isin(np.zeros(1, x.dtype), np.zeros(0, others.dtype), kind=kind)  # raises NumPy's errors
    params = (bool(invert), kind, _one_by_one(x, others))
    if len(others.data.chunks[0]) > 1:
        others = Tensor(_fields(others, (0,), True, Origin.of(new_group()))[0])
    return blockwise("isin", _isin, [x, others], x.chunks, bool, params, scratch=_isin_scratch, lines=(), tables=1)


def _isin_scratch(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    """Two copies of all; a number of test elements that is not known counts as a chunk of them."""
    return 2 * (out.nbytes + sum(one.nbytes if one.has_bound else chunk_bytes() for one in blocks))


def _one_by_one(x: Tensor, others: Tensor) -> bool | None:
    """Whether NumPy compares with the test elements in turn; None where both ways find the same, or sizes are unknown.

    NumPy compares so with few test elements, and sorts many in the common dtype, where the number 1 is the text "1".

    Raises
    ------
    TypeError
        NumPy's, if there is no common dtype.
    """
    if _are_alike(x, others) or not is_known([x.data.shape, others.data.shape]):
        return None
    if others.size < 10 * x.size**0.145:
        return True
    np.result_type(x.dtype, others.dtype)
    return False


def _are_alike(x: Tensor, others: Tensor) -> bool:
    return x.dtype == others.dtype or {x.dtype.kind, others.dtype.kind} <= {*"biufc"}


def _isin_by_ranges(x: Tensor, others: Tensor, invert: bool) -> Tensor:
    """Sorts both arrays together, the test elements first: they decide membership of equal elements that follow."""
    both, order = sorted_records(call("concatenate", [others, ravel(x)]))
    place = call("arange", len(both), chunks=both.chunks)
    code = call("where", _begins(both, False), 2 * place + (order < len(others)), 0)
    found = call("method.accumulate", np.maximum, code) % 2 != int(invert)
    inside = put_back(found, order)[len(others) :]
    return cast(Tensor, call("reshape", inside, x.shape).rechunk(x.chunks))


def _isin(block: Array, others: Array, invert: bool, kind: Any, one_by_one: bool | None) -> Array:
    if one_by_one:
        met = np.zeros(block.shape, bool)
        for one in others:
            met |= block == one
        return ~met if invert else met
    if one_by_one is False:
        common = np.result_type(block, others)
        block, others = block.astype(common), others.astype(common)
    return np.isin(block, others, invert=invert, kind=kind)


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
        """Identifies the operand by the treatment of NaN."""
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
        """Identifies the operand by the field."""
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
