"""Sample sort of a 1-d array of many chunks; no process holds more than a few chunks.

In the first stage chunks are sorted into runs; samples of all runs give splitters, several per output chunk, and every
run counts the elements below each splitter. In the second stage an output chunk gathers the pieces of the runs that
hold its elements, with some more at both ends, sorts them and drops the ends. So elements are spilled at most once, and
output chunks do not wait for each other: an external merge sort with ranges instead of buffers. For positions, runs
consist of records of the keys and the position, which orders equal keys, so that the sort is stable.
Source: Shi, Schaeffer 1992 (parallel sorting by regular sampling).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.create.ranges import arange
from jmars.tensor.ops.index.exchange import scatter_by_tensor
from jmars.tensor.protocols import call
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import Dynamic, TensorGraph, fragment, new_group, placeholders

__all__ = ["argsort_long_axis", "put_back", "sort_long_axis", "sorted_records"]

Array = np.ndarray[Any, Any]
FINE = 8  # splitters per output chunk: it reads about 1/8 more than its own elements
MOST_COUNTS = 2**18  # counts of all runs, about; with more chunks there are fewer splitters


def sort_long_axis(x: Tensor) -> Tensor:
    """Sorts a 1-d array, NaN last, and keeps its chunks; equal elements are interchangeable."""
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
    """Without empty chunks, which have no samples."""
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
    """Bytes for sorting n records: the order, NumPy's half of it, and a column twice."""
    return n * (12 + 2 * max(dtype[name].itemsize for name in dtype.names or ()))


def _sort_records(out: Array, *columns: Array) -> None:
    order = _order(columns[:-1])
    for name, column in zip(out.dtype.names or (), columns, strict=True):
        out[name] = column[order]


def _order(columns: Sequence[Array]) -> NDArray[np.intp]:
    """Positions that sort by columns, the primary column first; stable."""
    if len(columns) > 1:
        return np.lexsort(columns[::-1])
    (column,) = columns
    order = np.argsort(column)  # by vector instructions: a third of the time of a stable sort
    return np.argsort(column, kind="stable") if _is_tied(column[order]) else order


def _is_tied(ordered: Array) -> bool:
    """Whether a sorted array has equal elements, or NaN."""
    return bool((ordered[1:] == ordered[:-1]).any() or (len(ordered) > 1 and ordered[-2] != ordered[-2]))


def _order_of_records(records: Array) -> NDArray[np.intp]:
    """Positions that sort records, whose equal keys have ascending positions already."""
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
    """Number of elements of a run below each splitter; equal elements are divided among equal splitters, records by
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
    """Becomes `MergeParts` once the counts below each splitter are known."""

    dtype: np.dtype[Any]
    name: ClassVar[str] = "sort"

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Wants the counts of each run."""
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
        """Identifies the operand by the ranges that it merges."""
        return ("merge", self.starts, self.stops, self.skip)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a merge per output chunk, which gathers a range of each run."""
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
