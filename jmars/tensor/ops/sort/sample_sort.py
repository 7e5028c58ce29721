"""A line of many chunks in order, with no process holding more than a few chunks: sorting by samples.

Each chunk is sorted; samples of all chunks give values at which the line may be cut, several for each part of the
result; how many elements of each sorted chunk lie below each of these is known when the first stage ends. In the second
stage each chunk of the result is made from the pieces that hold its elements, and a few more at both ends: they are
gathered from wherever the sorted chunks lie, sorted, and the ends are left out. So each element goes to disk once, and
no chunk of the result waits for another. Used by order.py.
Source: Shi, Schaeffer 1992 (parallel sorting by regular sampling); external merge sort with ranges instead of buffers.
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
FINE = 8  # values at which the line may be cut, for each part: what a part reads beside its own is about 1/8
MOST_COUNTS = 2**18  # elements of all chunks below all cuts, about; where there are more chunks, cuts are fewer


def sort_long_axis(x: Tensor) -> Tensor:
    """The elements of a line in order, NaN last, cut as `x`; of equal elements none is told from another."""
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
    """Elements of a run at regular distances, some of them again where it is short."""
    found: Array = run[np.linspace(0, len(run) - 1, count).astype(np.intp)]
    return found


def _splitters(samples: Array, parts: int) -> Array:
    """The values between the parts."""
    ordered = np.sort(samples)
    found: Array = ordered[np.arange(1, parts) * len(ordered) // parts]
    return found


def _count_below(run: Array, cuts: Array) -> Array:
    """Elements of a run below each of the cuts, where equal elements are shared among cuts that are equal."""
    low, high = np.searchsorted(run, cuts, "left"), np.searchsorted(run, cuts, "right")
    first = np.searchsorted(cuts, cuts, "left")
    count = np.searchsorted(cuts, cuts, "right") - first + 1
    found: Array = low + (high - low) * (np.arange(len(cuts)) - first + 1) // count
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleSort(Dynamic):
    """Runs in order and the elements of each below each cut; becomes their merge once these are known."""

    name: ClassVar[str] = "sort"

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """How many elements of each run belong to each part."""
        return (), (1,)

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """The parts, cut as the runs were."""
        runs = placeholders(inputs)[0]
        lengths = np.array(inputs[0].chunks[0], np.int64)
        below = np.asarray(values[1], np.int64).reshape(len(lengths), -1)
        edges = np.column_stack([np.zeros(len(lengths), np.int64), below, lengths])
        total = edges.sum(axis=0)  # elements below each cut, ascending
        ends = np.cumsum(lengths)
        first = np.searchsorted(total, ends - lengths, "right") - 1  # the last cut that is not behind a part's begin
        last = np.searchsorted(total, ends, "left")  # the first that is not before its end
        op = MergeParts(
            edges[:, first].T.tobytes(),
            edges[:, last].T.tobytes(),
            tuple((ends - lengths - total[first]).tolist()),
            inputs=(runs,),
        )
        return fragment([new_data(op, runs.shape, runs.dtype, inputs[0].chunks)])


@dataclass(frozen=True, eq=False)
class MergeParts(Operand):
    """Part j of the result: of elements [starts[j][i], stops[j][i]) of all runs i, in order, those behind `skip[j]`.

    `starts` and `stops` are the bytes of `int64` arrays of shape (parts, runs).
    """

    starts: bytes
    stops: bytes
    skip: tuple[int, ...]
    name: ClassVar[str] = "merge"

    def token(self) -> Hashable:
        """Equal pieces of equal runs are equal."""
        return ("merge", self.starts, self.stops, self.skip)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One merge for each part, that reads a piece of each run."""
        (runs,) = inputs
        kind = ChunkType((-1,), runs.dtype)
        parts, ids = len(self.skip), runs.ids.reshape(-1)
        starts, stops = (np.frombuffer(one, np.int64).reshape(parts, len(ids)) for one in (self.starts, self.stops))
        most = int((stops - starts).sum(axis=1).max()) * runs.dtype.itemsize  # one size for all: parts share programs
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
    """Pieces of runs in one order, without what belongs to the parts before and behind."""
    skip, bounds = arg
    pieces = np.frombuffer(bounds, np.int64).reshape(-1, 2)
    line = inputs[0]
    gathered = line.flags.writeable and not any(map(len, inputs[1:]))
    if not gathered or len(line) != (pieces[:, 1] - pieces[:, 0]).sum():
        line = np.concatenate([run[start:stop] for run, (start, stop) in zip(inputs, pieces, strict=True)])
    line.sort()
    out[...] = line[skip : skip + len(out)]
