"""Sorting: `sort`, `argsort`, `lexsort`, `topk`: short lines in a single chunk, long lines by ranges.

Long 1-d or flattened arrays keep their chunks, and no process holds more than a few. In the first stage chunks are
sorted into runs; samples of all runs give splitters, several per output chunk, and every run counts the elements below
the splitters. In the second stage an output chunk gathers the pieces of the runs that hold the elements, with some more
at both ends, sorts them and drops the ends. So elements are spilled at most once, and output chunks do not wait for
other output chunks: an external merge sort with ranges instead of buffers. For positions, runs consist of records of
the keys and the position; it orders equal keys, so that the sort is stable.

`topk` takes the largest or smallest elements along an axis, per chunk first, then of the results.
Source: Shi, Schaeffer 1992 (parallel sorting by regular sampling); `dask.array.topk` (2025), arguments and order.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import rechunked
from jmars.tensor.ops.create import arange
from jmars.tensor.ops.indexing import scatter_by_tensor
from jmars.tensor.ops.map_blocks import map_along, single_chunk_along
from jmars.tensor.ops.records_and_objects import check_sort_order
from jmars.tensor.ops.shape import names_no_axis, normal_axis, ravel
from jmars.tensor.ops.ufuncs import astype, native
from jmars.tensor.protocols import call, offers
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import Dynamic, TensorGraph, fragment, new_group, placeholders

Array = np.ndarray[Any, Any]
LONG = 2**24  # least bytes of an array that is sorted chunk by chunk by all workers


def map_lines(name: str, function: Callable[..., Any], a: Any, axis: int | None, **kwargs: Any) -> Tensor:
    """Applies `function(block, axis=..., **kwargs)`, which keeps the shape, along an axis."""
    x = as_tensor(a)
    if axis is None or (name.startswith("arg") and names_no_axis(axis, x.ndim)):
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    check_options(function, None if 0 in x.data.shape else x.data.shape[axis], kwargs)
    dtype = np.dtype(np.intp) if name.startswith("arg") else x.dtype
    return map_along(name, function, x, [axis], dtype=dtype, axis=axis, **kwargs)


def check_options(function: Callable[..., Any], length: Any, options: dict[str, Any]) -> None:
    """Raises NumPy's errors for `kind`, `stable` and `kth` of a function that orders lines of this length."""
    options = {name: one for name, one in options.items() if name != "order"}
    if "kth" not in options:
        function(np.zeros(0), **options)
        return
    at = np.asarray(options["kth"])
    function(np.zeros(1), np.zeros_like(at), kind=options["kind"])
    if isinstance(length, int) and (wrong := at[(at < -length) | (at >= length)]).size:
        raise ValueError(f"kth(={wrong[0]}) out of bounds ({length})")


def exceeds_chunk(x: Tensor, axis: int | None) -> bool:
    """Whether a 1-d or flattened array has several chunks and is too large for a single chunk."""
    one = x.ndim == 1 and axis in (None, 0, -1) or axis is None
    return one and x.nbytes > min(LONG, chunk_bytes()) and math.prod(map(len, x.chunks)) > 1


@offers("sort")
def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """`np.sort`: sorts along an axis; NaN comes last.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> sort(-arange(5, chunk_size=2)).fetch().tolist()
    [-4, -3, -2, -1, 0]
    """
    x = as_tensor(a)
    check_sort_order(x, order)
    if exceeds_chunk(x, axis) and x.dtype.names is None:
        check_options(np.sort, None, {"kind": kind, "stable": stable})
        return astype(sort_long_axis(ravel(native(x))), x.dtype)
    return map_lines("sort", np.sort, x, axis, kind=kind, order=order, stable=stable)


@offers("argsort")
def argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """`np.argsort`: positions that sort an array along an axis."""
    x = as_tensor(a)
    check_sort_order(x, order)
    if exceeds_chunk(x, axis) and x.dtype.names is None:
        check_options(np.argsort, None, {"kind": kind, "stable": stable})
        return argsort_long_axis([ravel(native(x))])
    return map_lines("argsort", np.argsort, a, axis, kind=kind, order=order, stable=stable)


@offers("sort_complex")
def sort_complex(a: Any) -> Tensor:
    """`np.sort_complex`: sorts by real part, then by imaginary part."""
    x = as_tensor(a)
    kind = np.sort_complex(np.zeros(0, x.dtype)).dtype
    if exceeds_chunk(x, -1):
        return astype(sort(x), kind)  # times: NaT, a number among complex numbers, is the last
    return map_along("sort_complex", np.sort_complex, x, [x.ndim - 1], dtype=kind)


@offers("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """`np.lexsort`: positions that sort by several keys along an axis; the last key is the primary key."""
    rows = [as_tensor(x) for x in (keys if isinstance(keys, tuple | list) else list(as_tensor(keys)))]
    if not rows:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if not rows[0].ndim:
        normal_axis(operator.index(axis), 1)  # as if there were an axis
        return cast(Tensor, call("zeros", (), np.intp))
    axis = normal_axis(axis, rows[0].ndim)
    if exceeds_chunk(rows[0], axis) and all(x.shape == rows[0].shape for x in rows):
        return argsort_long_axis([native(x) for x in rows[::-1]])
    rows = [single_chunk_along(x, [axis]) for x in rows]
    rows = [x.rechunk(rows[0].chunks) for x in rows]
    return blockwise("lexsort", _lexsort, rows, rows[0].chunks, np.intp, (axis,), lines=(axis,))


def _lexsort(*more: Any) -> Array:
    *keys, axis = more
    return np.asarray(np.lexsort(keys, axis))


FINE = 8  # splitters per output chunk: it reads about 1/8 more than its own elements
MOST_COUNTS = 2**18  # counts of all runs, about; with more chunks there are fewer splitters


def sort_long_axis(x: Tensor) -> Tensor:
    """Sorts a 1-d array, NaN last, and keeps the chunks; equal elements are interchangeable."""
    filled = _filled(x)
    return _merged(blockwise("sort", _sorted, [filled], filled.chunks, x.dtype), x.dtype, x.chunks)


def argsort_long_axis(keys: Sequence[Tensor]) -> Tensor:
    """Positions that sort by 1-d keys, the primary key first; the sort is stable."""
    runs = _record_runs(keys)
    return _merged(runs, np.dtype(np.intp), keys[0].chunks)


def sorted_records(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sorted elements of a 1-d array, and their positions; the sort is stable."""
    runs = _record_runs([x])
    found = _merged(runs, runs.dtype, x.chunks)
    return (
        blockwise("sort", _field, [found], x.chunks, x.dtype, ("k0",)),
        blockwise("sort", _field, [found], x.chunks, np.intp, ("p",)),
    )


def put_back(found: Tensor, order: Tensor) -> Tensor:
    """Puts values of sorted elements to the positions of the elements."""
    target = call("empty", found.shape, found.dtype, chunks=found.chunks)
    return scatter_by_tensor(target, order, 0, found)


def _filled(x: Tensor) -> Tensor:
    """Without empty chunks, since they have no samples."""
    return Tensor(rechunked(x.data, (tuple(n for n in x.chunks[0] if n) or (0,),)))


def _merged(runs: Tensor, dtype: np.dtype[Any], chunks: Splits) -> Tensor:
    """Merges sorted runs; for the dtype of positions, gives the positions of records."""
    parts = len(runs.chunks[0])
    fine = parts * max(2, min(FINE, MOST_COUNTS // parts**2))
    samples = blockwise("sort", _sample_run, [runs], ((2 * fine,) * parts,), runs.dtype, (2 * fine,), flat=True)
    cuts = blockwise("sort", _splitters, [samples.rechunk(-1)], ((fine - 1,),), runs.dtype, (fine,))
    below = blockwise("sort", _count_below, [runs, cuts], ((fine - 1,) * parts,), np.intp, flat=True).rechunk(-1)
    op = SampleSort(group=new_group(), dtype=dtype, inputs=(runs.data, below.data))
    return Tensor(rechunked(new_data(op, runs.shape, dtype, runs.chunks), chunks))


def _record_runs(keys: Sequence[Tensor]) -> Tensor:
    """Sorted runs of records: the keys `k0`, `k1` ..., and the position `p`."""
    first = _filled(keys[0])
    n, chunks = len(first), first.chunks
    columns = [Tensor(rechunked(one.data, chunks)) for one in keys] + [arange(n, dtype=np.int64, chunks=chunks)]
    dtype = np.dtype([*((f"k{k}", one.dtype) for k, one in enumerate(keys)), ("p", np.int64)])
    return blockwise("argsort", _sort_records, columns, chunks, dtype, writes=True, scratch=_of_records)


def _of_records(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    return _scratch(out.dtype, out.size)


def _scratch(dtype: np.dtype[Any], n: int) -> int:
    """Bytes for sorting n records: the order, NumPy's half of it or packed positions, and a column twice."""
    return n * max(20, 12 + 2 * max(dtype[name].itemsize for name in dtype.names or ()))


def _sort_records(out: Array, *columns: Array) -> None:
    order = _order(columns[:-1])
    for name, column in zip(out.dtype.names or (), columns, strict=True):
        out[name] = column[order]


def _order(columns: Sequence[Array]) -> NDArray[np.intp]:
    """Positions that sort by columns, the primary column first; stable."""
    if len(columns) > 1:
        return np.lexsort(columns[::-1])
    (column,) = columns
    if column.dtype.kind in "biu" and column.itemsize <= 2:
        return np.argsort(column, kind="stable")  # by radix
    if (packed := _packed_order(column)) is not None:
        return packed
    order = np.argsort(column)  # by vector instructions: a third of the time of a stable sort
    return np.argsort(column, kind="stable") if _is_tied(column[order]) else order


def _packed_order(column: Array) -> NDArray[np.intp] | None:
    """Stable order of integers within a short range: packed with positions into 64 bits, and sorted by vector
    instructions, in a tenth of a stable sort's time.
    """
    if column.dtype.kind not in "iu" or not column.size:
        return None
    low, bits = column.min(), np.uint64(len(column).bit_length())
    if (int(column.max()) - int(low)).bit_length() + int(bits) > 64:
        return None
    unsigned = np.dtype(f"u{column.itemsize}")  # differences wrap, and are right
    packed = (column.view(unsigned) - np.asarray(low).view(unsigned)).astype(np.uint64)
    packed <<= bits
    packed |= np.arange(len(column), dtype=np.uint64)
    packed.sort()
    packed &= (np.uint64(1) << bits) - np.uint64(1)
    order: NDArray[np.intp] = packed.view(np.intp)
    return order


def _is_tied(ordered: Array) -> bool:
    """Whether a sorted array has equal elements, or NaN."""
    return bool((ordered[1:] == ordered[:-1]).any() or (len(ordered) > 1 and ordered[-2] != ordered[-2]))


def _order_of_records(records: Array) -> NDArray[np.intp]:
    """Positions that sort records; equal keys have ascending positions already."""
    return _order([np.ascontiguousarray(records[name]) for name in (records.dtype.names or ())[:-1]])


def _field(records: Array, name: str) -> Array:
    return np.ascontiguousarray(records[name])


def _sorted(block: Array) -> Array:
    return np.sort(block)


def _sample_run(run: Array, count: int) -> Array:
    """Samples `count` elements of a run at regular distances; repeats elements of a short run."""
    found: Array = run[np.linspace(0, len(run) - 1, count).astype(np.intp)]
    return found


def _splitters(samples: Array, parts: int) -> Array:
    """Splitters between `parts` parts of about equal size."""
    ordered = np.sort(samples) if samples.dtype.names is None else samples[_order_of_records(samples)]
    found: Array = ordered[np.arange(1, parts) * len(ordered) // parts]
    return found


def _count_below(run: Array, cuts: Array) -> Array:
    """Numbers of elements of a run below the splitters; equal elements are divided among equal splitters, records by
    their position.
    """
    if run.dtype.names is not None:
        return _count_records_below(run, cuts)
    low, high = np.searchsorted(run, cuts, "left"), np.searchsorted(run, cuts, "right")
    first = np.searchsorted(cuts, cuts, "left")
    count = np.searchsorted(cuts, cuts, "right") - first + 1
    found: Array = low + (high - low) * (np.arange(len(cuts)) - first + 1) // count
    return found


def _count_records_below(run: Array, cuts: Array) -> Array:
    low, high = np.zeros(len(cuts), np.intp), np.full(len(cuts), len(run), np.intp)
    for number, name in enumerate(run.dtype.names or ()):
        column, wanted = np.ascontiguousarray(run[name]), cuts[name]
        if not number:
            low, high = np.searchsorted(column, wanted, "left"), np.searchsorted(column, wanted, "right")
            continue
        for k in np.flatnonzero(high > low).tolist():
            line = column[low[k] : high[k]]
            start, stop = np.searchsorted(line, wanted[k], "left"), np.searchsorted(line, wanted[k], "right")
            low[k], high[k] = low[k] + start, low[k] + stop
    return low


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleSort(Dynamic):
    """Becomes `MergeParts` once the counts below the splitters are known."""

    dtype: np.dtype[Any]
    name: ClassVar[str] = "sort"

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Wants the counts of all runs."""
        return (), (1,)

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """Becomes the merge, with the chunks of the runs."""
        runs = placeholders(inputs)[0]
        lengths = np.array(inputs[0].chunks[0], np.int64)
        below = np.asarray(values[1], np.int64).reshape(len(lengths), -1)
        edges = np.column_stack([np.zeros(len(lengths), np.int64), below, lengths])
        total = edges.sum(axis=0)  # elements below each splitter, ascending
        ends = np.cumsum(lengths)
        first = np.searchsorted(total, ends - lengths, "right") - 1  # last splitter at or before a part's start
        last = np.searchsorted(total, ends, "left")  # first splitter at or after its end
        op = MergeParts(
            edges[:, first].T.tobytes(),
            edges[:, last].T.tobytes(),
            tuple((ends - lengths - total[first]).tolist()),
            inputs=(runs,),
        )
        return fragment([new_data(op, runs.shape, self.dtype, inputs[0].chunks)], self.line)


@dataclass(frozen=True, eq=False)
class MergeParts(Operand):
    """Merges pieces of runs into output chunks.

    Output chunk j consists of the elements [starts[j][i], stops[j][i]) of all runs i, sorted, from number `skip[j]` on.
    `starts` and `stops` are the bytes of int64 arrays of shape (output chunks, runs).
    """

    starts: bytes
    stops: bytes
    skip: tuple[int, ...]
    name: ClassVar[str] = "merge"

    def token(self) -> Hashable:
        """Identifies the operand by the merged ranges."""
        return ("merge", self.starts, self.stops, self.skip)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a merge per output chunk, which gathers a range of every run."""
        (runs,) = inputs
        kind = ChunkType((-1,), runs.dtype)
        parts, ids = len(self.skip), runs.ids.reshape(-1)
        starts, stops = (np.frombuffer(one, np.int64).reshape(parts, len(ids)) for one in (self.starts, self.stops))
        count = int((stops - starts).sum(axis=1).max())  # for all, to share programs
        most = count * runs.dtype.itemsize + (0 if runs.dtype.names is None else _scratch(runs.dtype, count))
        merges = []
        for j, length in enumerate(output.chunks[0]):
            own = np.flatnonzero(stops[j] > starts[j])
            bounds = np.column_stack([starts[j][own], stops[j][own]]).tobytes()
            out = ChunkType((length,), output.dtype)
            step = Call(merge_pieces, (), tuple(range(len(own))), out, True, most, alone=True, gathers=True)
            merges.append(builder.add(single(self.name, [kind] * len(own), step), ids[own].tolist(),
                                      ((self.skip[j], bounds),)))  # fmt: skip
        return np.array(merges, np.int64)


def merge_pieces(out: Array, inputs: Sequence[Array], params: tuple[()], arg: tuple[int, bytes]) -> None:
    """Merges pieces of runs and copies the elements of this output chunk."""
    skip, bounds = arg
    pieces = np.frombuffer(bounds, np.int64).reshape(-1, 2)
    line = inputs[0]
    gathered = line.flags.writeable and not any(map(len, inputs[1:]))
    if not gathered or len(line) != (pieces[:, 1] - pieces[:, 0]).sum():
        line = np.concatenate([run[start:stop] for run, (start, stop) in zip(inputs, pieces, strict=True)])
    if line.dtype.names is None:
        line.sort()
        out[...] = line[skip : skip + len(out)]
    else:
        order = _order_of_records(line)[skip : skip + len(out)]
        out[...] = (line if out.dtype.names else line["p"])[order]


@offers("topk")
def topk(a: Any, k: int, axis: int = -1) -> Tensor:
    """Returns the `k` largest elements along an axis, in descending order.

    Parameters
    ----------
    a
        Any array; NaN counts as the largest value, as in sorting.
    k
        Number of elements; -k asks for the k smallest in ascending order. A shorter axis is returned completely.
    axis
        The axis.

    Examples
    --------
    >>> topk([3, 1, 4, 1, 5, 9], 2).fetch().tolist(), topk([3, 1, 4, 1, 5, 9], -2).fetch().tolist()
    ([9, 5], [1, 1])

    Source: `dask.array.topk`.
    """
    x, k = as_tensor(a), operator.index(k)
    axis = np.lib.array_utils.normalize_axis_index(axis, x.ndim)
    if len(x.chunks[axis]) > 1:
        x = single_chunk_along(_topk_of_chunks(x, k, axis), [axis])
    return _topk_of_chunks(x, k, axis)


def _topk_of_chunks(x: Tensor, k: int, axis: int) -> Tensor:
    """Takes the largest elements of the chunks."""
    cut = tuple(tuple(min(n, abs(k)) for n in lengths) if i == axis else lengths for i, lengths in enumerate(x.chunks))
    return blockwise("topk", largest_elements, [x], cut, x.dtype, (k, axis))


def largest_elements(block: Array, k: int, axis: int) -> Array:
    """Takes the `k` largest elements of a block along an axis, descending; for negative `k` the smallest, ascending."""
    n = min(abs(k), block.shape[axis])
    if 0 < n < block.shape[axis]:
        block = np.partition(block, -n if k > 0 else n - 1, axis)
    lines = np.moveaxis(block, axis, 0)
    part = np.sort(lines[len(lines) - n :] if k > 0 else lines[:n], axis=0)
    return np.moveaxis(part[::-1] if k > 0 else part, 0, axis)
