"""A line of many chunks in order, with no process holding more than a few chunks: sorting by samples.

Each chunk is sorted; samples of all chunks give the values at which the line is cut; how many elements of each sorted
chunk lie below each of these is known when the first stage ends. In the second stage each part of the result is
merged from the pieces that belong to it, whose sizes are known then, and the parts are cut as the input was.
Used by order.py. Source: Shi, Schaeffer 1992 (parallel sorting by regular sampling).
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
from jmars.tensor.graph import TensorGraph
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.rechunk import rechunked
from jmars.tensor.tensor import Tensor

__all__ = ["sorted_line"]

Array = np.ndarray[Any, Any]
SAMPLES = 8  # of each chunk for each part


def sorted_line(x: Tensor) -> Tensor:
    """The elements of a line in order, NaN last, cut as `x`; of equal elements none is told from another."""
    chunks = x.chunks
    filled = tuple(n for n in chunks[0] if n)
    if filled and filled != chunks[0]:  # an empty chunk has no samples
        return Tensor(rechunked(sorted_line(Tensor(rechunked(x.data, (filled,)))).data, chunks))
    parts = len(chunks[0])
    runs = blockwise("sort", _sorted, [x], chunks, x.dtype)
    samples = blockwise("sort", _sampled, [runs], ((SAMPLES * parts,) * parts,), x.dtype, (SAMPLES * parts,), flat=True)
    cuts = blockwise("sort", _cuts, [samples.rechunk(-1)], ((parts - 1,),), x.dtype, (parts,))
    below = blockwise("sort", _below, [runs, cuts], ((parts - 1,) * parts,), np.intp, flat=True).rechunk(-1)
    op = Merged(group=new_group(), inputs=(runs.data, below.data))
    return Tensor(new_data(op, x.shape, x.dtype, chunks))


def _sorted(block: Array) -> Array:
    return np.sort(block)


def _sampled(run: Array, count: int) -> Array:
    """Elements of a run at regular distances, some of them again where it is short."""
    found: Array = run[np.linspace(0, len(run) - 1, count).astype(np.intp)]
    return found


def _cuts(samples: Array, parts: int) -> Array:
    """The values between the parts."""
    ordered = np.sort(samples)
    found: Array = ordered[np.arange(1, parts) * len(ordered) // parts]
    return found


def _below(run: Array, cuts: Array) -> Array:
    """Elements of a run below each of the cuts, where equal elements are shared among cuts that are equal."""
    low, high = np.searchsorted(run, cuts, "left"), np.searchsorted(run, cuts, "right")
    first = np.searchsorted(cuts, cuts, "left")
    count = np.searchsorted(cuts, cuts, "right") - first + 1
    found: Array = low + (high - low) * (np.arange(len(cuts)) - first + 1) // count
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Merged(Dynamic):
    """Runs in order and the elements of each below each cut; becomes their merge once these are known."""

    name: ClassVar[str] = "sort"

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """How many elements of each run belong to each part."""
        return (), (1,)

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """The parts, cut as the runs were."""
        runs = placeholders(inputs)[0]
        lengths = inputs[0].chunks[0]
        ends = np.asarray(values[1], np.int64).reshape(len(lengths), -1)
        edges = np.column_stack([np.zeros(len(lengths), np.int64), ends, np.array(lengths, np.int64)])
        sizes = np.diff(edges, axis=1).sum(axis=0)
        splits: Splits = (tuple(int(n) for n in sizes if n),)
        merge = MergeParts(tuple(map(tuple, edges.tolist())), inputs=(runs,))
        merged = new_data(merge, runs.shape, runs.dtype, splits)
        return fragment([rechunked(merged, inputs[0].chunks)])


@dataclass(frozen=True, eq=False)
class MergeParts(Operand):
    """Part j of the result: elements [edges[i][j], edges[i][j + 1]) of each run i, in order."""

    edges: tuple[tuple[int, ...], ...]
    name: ClassVar[str] = "merge"

    def token(self) -> Hashable:
        """Equal edges of equal runs are equal."""
        return ("merge", self.edges)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """The pieces that are not empty, then one merge for each part."""
        (runs,) = inputs
        dtype = runs.dtype
        edges = np.array(self.edges, np.int64)
        sizes = np.diff(edges, axis=1)
        run, part = np.nonzero(sizes)
        # pieces of about one size share a program: their slots are taken for the largest of them
        bound = 2 ** np.ceil(np.log2(sizes[run, part])).astype(np.int64)
        kinds, which = np.unique(np.column_stack([np.array(runs.splits[0], np.int64)[run], bound]), axis=0,
                                 return_inverse=True)  # fmt: skip
        programs = []
        for length, most in kinds.tolist():
            piece = ChunkType((-1,), dtype, min(length, most) * dtype.itemsize)
            step = Call(take_piece, (), (0,), piece, True)
            programs.append(single("cut", (ChunkType((length,), dtype),), step))
        bounds = zip(edges[run, part].tolist(), edges[run, part + 1].tolist())
        pieces = builder.add_many(programs, which.reshape(-1), runs.ids[run].reshape(-1, 1), [(one,) for one in bounds])
        ids = []
        for j, length in zip(np.unique(part).tolist(), output.chunks[0]):
            own = np.flatnonzero(part == j)
            read = [ChunkType((-1,), dtype, programs[which.reshape(-1)[k]].output.most) for k in own.tolist()]
            out = ChunkType((length,), dtype)
            step = Call(merge_pieces, (), tuple(range(len(read))), out, False, out.nbytes)
            ids.append(builder.add(single(self.name, read, step), pieces[own].tolist()))
        return np.array(ids, np.int64)


def take_piece(out: Any, inputs: Sequence[Array], params: tuple[()], arg: tuple[int, int]) -> Array:
    """A part of a run."""
    return inputs[0][arg[0] : arg[1]]


def merge_pieces(out: Array, inputs: Sequence[Array], params: tuple[()], arg: Any) -> None:
    """Runs in one order."""
    np.concatenate(inputs, out=out)
    out.sort(kind="stable")  # which merges runs that are in order
