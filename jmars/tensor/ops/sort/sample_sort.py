"""Sample sort of a 1-d array of many chunks; no process holds more than a few chunks.

In the first stage chunks are sorted into runs; samples of all runs give splitters, several per output chunk, and every
run counts the elements below each splitter. In the second stage an output chunk gathers the pieces of the runs that
hold its elements, with some more at both ends, sorts them and drops the ends. So elements are spilled at most once, and
output chunks do not wait for each other: an external merge sort with ranges instead of buffers.
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
from jmars.tensor.dynamic import Dynamic, fragment, new_group, placeholders
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["sort_long_axis"]

Array = np.ndarray[Any, Any]
FINE = 8  # splitters per output chunk: it reads about 1/8 more than its own elements
MOST_COUNTS = 2**18  # counts of all runs, about; with more chunks there are fewer splitters


def sort_long_axis(x: Tensor) -> Tensor:
    """Sorts a 1-d array, NaN last, and keeps its chunks; equal elements are interchangeable."""
    chunks = x.chunks
    filled = tuple(n for n in chunks[0] if n)
    if filled and filled != chunks[0]:  # an empty chunk has no samples
        return Tensor(rechunked(sort_long_axis(Tensor(rechunked(x.data, (filled,)))).data, chunks))
    parts = len(chunks[0])
    fine = parts * max(2, min(FINE, MOST_COUNTS // parts**2))
    runs = blockwise("sort", _sorted, [x], chunks, x.dtype)
    samples = blockwise("sort", _sample_run, [runs], ((2 * fine,) * parts,), x.dtype, (2 * fine,), flat=True)
    cuts = blockwise("sort", _splitters, [samples.rechunk(-1)], ((fine - 1,),), x.dtype, (fine,))
    below = blockwise("sort", _count_below, [runs, cuts], ((fine - 1,) * parts,), np.intp, flat=True).rechunk(-1)
    op = SampleSort(group=new_group(), inputs=(runs.data, below.data))
    return Tensor(new_data(op, x.shape, x.dtype, chunks))


def _sorted(block: Array) -> Array:
    return np.sort(block)


def _sample_run(run: Array, count: int) -> Array:
    """Samples `count` elements of a run at regular distances; repeats elements of a short run."""
    found: Array = run[np.linspace(0, len(run) - 1, count).astype(np.intp)]
    return found


def _splitters(samples: Array, parts: int) -> Array:
    """Splitters between `parts` parts of about equal size."""
    ordered = np.sort(samples)
    found: Array = ordered[np.arange(1, parts) * len(ordered) // parts]
    return found


def _count_below(run: Array, cuts: Array) -> Array:
    """Number of elements of a run below each splitter; equal elements are divided among equal splitters."""
    low, high = np.searchsorted(run, cuts, "left"), np.searchsorted(run, cuts, "right")
    first = np.searchsorted(cuts, cuts, "left")
    count = np.searchsorted(cuts, cuts, "right") - first + 1
    found: Array = low + (high - low) * (np.arange(len(cuts)) - first + 1) // count
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleSort(Dynamic):
    """Becomes `MergeParts` once the counts below each splitter are known."""

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
        return fragment([new_data(op, runs.shape, runs.dtype, inputs[0].chunks)], self.line)


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
        most = int((stops - starts).sum(axis=1).max()) * runs.dtype.itemsize  # for all, to share programs
        merges = []
        for j, length in enumerate(output.chunks[0]):
            own = np.flatnonzero(stops[j] > starts[j])
            bounds = np.column_stack([starts[j][own], stops[j][own]]).tobytes()
            out = ChunkType((length,), runs.dtype)
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
    line.sort()
    out[...] = line[skip : skip + len(out)]
