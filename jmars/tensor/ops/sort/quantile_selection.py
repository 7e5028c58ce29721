"""Quantiles of all elements, exact and without sorting them: selection by ranges.

A few elements of each chunk, drawn at random places, tell between which two values each quantile must lie. Then each
chunk counts its elements below, at and above these, and gives those between: one or two in a hundred. From the counts
and these few the quantile is found exactly. Should it lie outside its range after all (which is that wide that this
happens less than once in ten million times), the line is sorted in a second stage. Used by order.py.
Source: Floyd, Rivest 1975 (selection by samples); NumPy's `quantile`, method "linear".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.dynamic import Dynamic, Literal, fragment, new_group, placeholders
from jmars.tensor.operand import Operand, TensorData, TensorMeta, new_data
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.chunks.tiling import chunk_classes
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.ops.sort.sample_sort import sort_long_axis
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import TensorGraph
from jmars.tensor.unknown import Origin

__all__ = ["MOST_QUANTILES", "QuantileRequest", "quantiles"]

Array = np.ndarray[Any, Any]
MOST_QUANTILES = 8  # quantiles at once: for more of them it is cheaper to sort
SAMPLES = 2**17  # of all chunks, about
EVERY = 128  # elements to one sample, at least
SIGMAS = 6.0  # how far a range reaches from where its quantile is expected, in standard deviations
_BLOCK = 2**15  # elements that are compared at a time
_BYTES = np.dtype(np.uint8)


@dataclass(frozen=True)
class QuantileRequest:
    """Which quantiles, and what they are to be like."""

    fractions: tuple[float, ...]  # from 0 to 1
    kind: np.dtype[Any]  # in which positions are computed
    weak: bool  # whether the user gave a Python number, which widens no dtype
    median: bool  # the mean of the two in the middle, as `np.median` takes it
    skips_nan: bool
    dtype: np.dtype[Any]  # of the result

    def positions(self, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
        """Between which of `count` elements in order each lies, and how far from the first: as NumPy computes it."""
        at = np.asarray((count - 1) * np.array(self.fractions, self.kind))
        below = np.floor(at)
        first = below.astype(np.intp)
        return first, np.minimum(first + 1, count - 1), at - below

    def between(self, below: Array, above: Array, part: Array) -> Array:
        """The values between two elements each."""
        if self.median:
            found = [np.median([a, b] if t else [a]) for a, b, t in zip(below, above, part)]
        else:
            parts = [float(t) if self.weak else np.array([t]) for t in part]
            found = [np.quantile(np.array([a, b]), t) for a, b, t in zip(below, above, parts)]
        return np.array(found).reshape(-1).astype(self.dtype)


def quantiles(name: str, x: Tensor, asked: QuantileRequest) -> Tensor:
    """Quantiles of all elements of an array of real numbers, of which no chunk is empty; a line in one chunk."""
    if not 0 < len(asked.fractions) <= MOST_QUANTILES:
        return _by_sorting(name, x, asked, x.size)
    k, sizes = len(asked.fractions), [math.prod(place) for place in itertools.product(*x.chunks)]
    every = max(EVERY, sum(sizes) // SAMPLES)
    drawn = tuple(-(-n // every) for n in sizes)
    samples = Tensor(new_data(ChunkSamples(every, inputs=(x.data,)), (sum(drawn),), x.dtype, (drawn,)))
    params = (asked.fractions, SIGMAS)
    ranges = blockwise(name, candidate_ranges, [samples.rechunk(-1)], ((2 * k,),), x.dtype, params).data
    origin = Origin.of(new_group())
    most = [8 * (4 * k + 1) + k * n * x.dtype.itemsize for n in sizes]
    within = new_data(RangeCounts(k, inputs=(x.data, ranges)), (origin.whole,), _BYTES, (origin.axis(most),))
    told = 16 + k * asked.dtype.itemsize
    found = new_data(RangeQuantiles(asked, inputs=(within, ranges)), (told,), _BYTES, ((told,),))
    result = SelectedQuantiles(group=new_group(), called=name, asked=asked, inputs=(found, x.data))
    return Tensor(new_data(result, (k,), asked.dtype, ((k,),)))


@dataclass(frozen=True, eq=False)
class ChunkSamples(Operand):
    """One element of each `every` of each chunk, wherever it lies among them; one line of all chunks."""

    every: int
    name: ClassVar[str] = "sample"

    def token(self) -> Hashable:
        """The places depend on the chunk's number alone."""
        return ("sample", self.every)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One operand for each chunk."""
        (x,) = inputs
        kinds, which = chunk_classes(x.splits)
        programs = []
        for kind in kinds:
            out = ChunkType((-(-math.prod(kind) // self.every),), x.dtype)
            step = Call(sample, (self.every,), (0,), out, True)
            programs.append(single(self.name, (ChunkType(kind, x.dtype),), step))
        numbers = [(number,) for number in range(x.ids.size)]
        return builder.add_many(programs, which.reshape(-1), x.ids.reshape(-1, 1), numbers)


def sample(out: Array, inputs: Sequence[Array], params: tuple[int], number: int) -> None:
    """One element of each `every`, at a random place; `number` is the chunk's."""
    (x,), (every,) = inputs, params
    first = np.arange(0, x.size, every)
    within = np.random.default_rng(number).integers(0, np.minimum(every, x.size - first))
    out[...] = x.reshape(-1)[first + within]


def candidate_ranges(samples: Array, fractions: tuple[float, ...], sigmas: float) -> Array:
    """For each fraction the two values between which that quantile of what the samples were drawn from must lie."""
    real = samples.dtype.kind == "f"
    line = np.sort(samples[~np.isnan(samples)] if real else samples)
    least, most = (-np.inf, np.inf) if real else (np.iinfo(line.dtype).min, np.iinfo(line.dtype).max)
    found = np.empty((len(fractions), 2), line.dtype)
    for row, fraction in zip(found, fractions):
        at = fraction * max(len(line) - 1, 0)
        reach = sigmas * (1 + math.sqrt(at * (1 - fraction)))
        low, high = math.floor(at - reach), math.ceil(at + reach)
        row[0] = line[low] if low >= 0 else least
        row[1] = line[high] if high < len(line) else most
    return found.reshape(-1)


@dataclass(frozen=True, eq=False)
class RangeCounts(Operand):
    """Of each chunk, as bytes: how many elements lie where with respect to each range, and those that lie within."""

    ranges: int
    name: ClassVar[str] = "count_ranges"

    def token(self) -> Hashable:
        """Equal inputs give equal bytes."""
        return ("count_ranges", self.ranges)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One operand for each chunk."""
        x, ranges = inputs
        kinds, which = chunk_classes(x.splits)
        bounds = ChunkType((2 * self.ranges,), x.dtype)
        programs = []
        for kind in kinds:
            chunk = ChunkType(kind, x.dtype)
            most = 8 * (4 * self.ranges + 1) + self.ranges * chunk.nbytes
            step = Call(count_ranges, (), (0, 1), ChunkType((-1,), _BYTES, most))
            programs.append(single(self.name, (chunk, bounds), step))
        read = np.column_stack([x.ids.reshape(-1), np.broadcast_to(ranges.ids, x.ids.size)])
        return builder.add_many(programs, which.reshape(-1), read)


def count_ranges(out: None, inputs: Sequence[Array], params: tuple[()], arg: Any) -> Array:
    """Numbers, then elements.

    The numbers are `int64`: elements that are no NaN; for each range those below its low end, those up to that, those
    below its high end, those up to that. The elements are those between the ends of the first range, then of the next.
    """
    x, ranges = inputs
    line, bounds = x.reshape(-1), ranges.reshape(-1, 2)
    numbers, counts = 0, np.zeros((len(bounds), 4), np.int64)
    some: list[list[Array]] = [[] for _ in bounds]
    for start in range(0, len(line), _BLOCK):
        block = line[start : start + _BLOCK]
        numbers += int(np.count_nonzero(block == block)) if block.dtype.kind == "f" else len(block)
        for row, (low, high), parts in zip(counts, bounds, some):
            under_high = block < high
            row[0] += np.count_nonzero(block < low)
            up_to_low = block <= low
            row[1] += np.count_nonzero(up_to_low)
            row[2] += np.count_nonzero(under_high)
            row[3] += np.count_nonzero(block <= high)
            np.greater(under_high, up_to_low, out=under_high)
            if under_high.any():
                parts.append(block[under_high])
    elements = [part.tobytes() for parts in some for part in parts]
    return np.frombuffer(b"".join([np.int64(numbers).tobytes(), counts.tobytes(), *elements]), _BYTES)


@dataclass(frozen=True, eq=False)
class RangeQuantiles(Operand):
    """As bytes: whether the quantiles lie in their ranges, how many elements are no NaN, and the quantiles."""

    asked: QuantileRequest
    name: ClassVar[str] = "quantile"

    def token(self) -> Hashable:
        """Equal inputs give equal bytes."""
        return ("quantile", self.asked)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One operand: what it reads is little."""
        within, ranges = inputs
        bounds = ChunkType((2 * len(self.asked.fractions),), ranges.dtype)
        types = (*(ChunkType((-1,), _BYTES) for _ in within.ids), bounds)
        step = Call(find_quantiles, (self.asked,), tuple(range(len(types))), ChunkType(output.shape, _BYTES))
        ids = [*within.ids.tolist(), *ranges.ids.tolist()]
        return np.array([builder.add(single(self.name, types, step), ids)], np.int64)


def find_quantiles(out: Array, inputs: Sequence[Array], params: tuple[QuantileRequest], arg: Any) -> None:
    """The quantiles from what the chunks told."""
    (asked,) = params
    *told, ranges = inputs
    bounds = ranges.reshape(-1, 2)
    size = 8 * (1 + 4 * len(bounds))
    headers = [np.frombuffer(one, np.int64, size // 8) for one in told]
    all_of = np.sum(headers, axis=0)
    numbers, counts = int(all_of[0]), all_of[1:].reshape(-1, 4)
    first, second, part = asked.positions(max(numbers, 1))
    pairs = np.zeros((2, len(bounds)), ranges.dtype)
    within = [np.frombuffer(one, ranges.dtype, -1, size) for one in told]
    starts = [0] * len(told)
    met = numbers > 0
    for k, (row, (low, high)) in enumerate(zip(counts, bounds)):
        # where one value is both ends, those up to it are more than those below it, and nothing lies between
        lengths = [max(int(header[4 * k + 3] - header[4 * k + 2]), 0) for header in headers]
        line = np.concatenate([one[at : at + n] for one, at, n in zip(within, starts, lengths)])
        starts = [at + n for at, n in zip(starts, lengths)]
        ranks = [int(first[k]), int(second[k])]
        met = met and all(row[0] <= rank < row[3] for rank in ranks)
        if not met:
            break
        inner = sorted({rank - int(row[1]) for rank in ranks if row[1] <= rank < row[2]})
        if inner:
            line = np.partition(line, inner)
        for pair, rank in zip(pairs, ranks):
            pair[k] = low if rank < row[1] else high if rank >= row[2] else line[rank - row[1]]
    values = asked.between(pairs[0], pairs[1], part) if met else np.zeros(len(bounds), asked.dtype)
    out[:16] = np.array([met, numbers], np.int64).view(_BYTES)
    out[16:] = values.view(_BYTES)


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectedQuantiles(Dynamic):
    """What was found, once that is known; a sort where it was not."""

    called: str
    asked: QuantileRequest
    name: ClassVar[str] = "quantile"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.called

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """What was found."""
        return (), (0,)

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """The values themselves, or the elements between which they lie, from all in order."""
        met, numbers = values[0][:16].view(np.int64).tolist()
        k = len(self.asked.fractions)
        size = math.prod(inputs[1].shape)
        if not numbers or (numbers < size and not self.asked.skips_nan):
            found = np.full(k, np.nan, self.asked.dtype)
        elif met:
            found = values[0][16:].view(self.asked.dtype)
        else:
            x = Tensor(placeholders(inputs)[1])
            return fragment([_by_sorting(self.called, x, self.asked, numbers).data])
        return fragment([TensorData(Literal(array=found), (k,), found.dtype, ((k,),))])


def _by_sorting(name: str, x: Tensor, asked: QuantileRequest, numbers: int) -> Tensor:
    """The quantiles of the first `numbers` elements in order."""
    below, above, part = asked.positions(numbers)
    pairs = sort_long_axis(ravel(x))[np.concatenate([below, above, [numbers - 1]])].rechunk(-1)
    return blockwise(name, interpolate_pairs, [pairs], ((len(part),),), asked.dtype, (asked, tuple(part.tolist())))


def interpolate_pairs(pairs: Array, asked: QuantileRequest, part: tuple[float, ...]) -> Array:
    """The values between two elements each; the last of all says whether there is a NaN."""
    k = len(part)
    if pairs.dtype.kind == "f" and np.isnan(pairs[-1]):
        return np.full(k, np.nan, asked.dtype)
    return asked.between(pairs[:k], pairs[k:-1], np.array(part, asked.kind))
