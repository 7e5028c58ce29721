"""Selection: `median`, `percentile`, `quantile`, with weights, their NaN-aware versions, `partition`, `argpartition`.

The reduced axes are brought into a single chunk. Quantiles of a long flattened array are selected without a sort:
random samples of all chunks give ranges of values that contain the quantiles. Then operands count the elements of every
chunk below, at and above the range ends and pass on the elements within, about two percent. Counts and elements
determine the quantiles exactly. If a quantile lies outside the range (less than once in ten million runs), the array is
sorted in a second stage. `partition` and `argpartition` of a long line divide chunks at such a range, and sort the
elements within.
Source: Floyd, Rivest 1975 (selection by samples); NumPy's `quantile`, method "linear".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Origin, TensorData, TensorMeta, new_data
from jmars.tensor.ops.arguments import trial, write_out
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import chunk_classes, rechunked
from jmars.tensor.ops.map_blocks import map_along, single_chunk_along
from jmars.tensor.ops.records_and_objects import check_sort_order
from jmars.tensor.ops.reduction import all_, warn_of_few, warn_where
from jmars.tensor.ops.shape import broadcast_to, expand_dims, moveaxis, ravel, reshape
from jmars.tensor.ops.sort import argsort_long_axis, check_options, exceeds_chunk, map_lines, sort_long_axis
from jmars.tensor.ops.statistics import broadcast_weights, nanmean
from jmars.tensor.ops.ufuncs import astype, native
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import Dynamic, Literal, TensorGraph, fragment, new_group, placeholders

Array = np.ndarray[Any, Any]


def _warned(name: str, x: Tensor, axis: Any, keepdims: bool, value: Tensor) -> Tensor:
    """Warns of all-NaN slices in the functions that leave NaN out."""
    if not name.startswith("nan") or x.dtype.kind not in "fc":
        return value
    axes = None if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    return warn_where(all_(call("isnan", x), axes, keepdims=keepdims), value, "All-NaN slice encountered")


def _reduce_lines(name: str, a: Any, axis: Any, keepdims: Any, out: Any, q: Any = None, **options: Any) -> Any:
    """Applies NumPy's function `name` to the axes `axis`, merged and brought into a single chunk."""
    x = as_tensor(a)
    trial(name, x, *([] if q is None else [q]), axis=axis, out=out, keepdims=keepdims, **options)
    if name.startswith("nan") and 0 in x.data.shape:
        return nanmean(x, axis, None, out, keepdims)  # NumPy's result, without the axes of `q`
    keepdims = bool(keepdims) and keepdims is not np._NoValue
    if q is None:
        warn_of_few(x, axis, 0, "Mean of empty slice")
    few = not name.startswith("nan") or np.size(q) <= MOST_QUANTILES  # sorting does not count the elements beside NaN
    if exceeds_chunk(x, axis) and options.get("method", "linear") == "linear" and x.dtype.kind in "fiu" and few:
        value = _quantiles_of_all(name, native(x), q)
        if keepdims:
            value = value.reshape((*value.shape, *(1,) * x.ndim))
        return write_out(_warned(name, x, axis, keepdims, value), name, out)
    lines, rest, axes = reduced_axes_last(x, axis)
    leading = np.shape(q) if q is not None else ()
    q = q.reshape(-1) if isinstance(q, np.ndarray) else q  # a Python number does not widen the dtype
    kind = _apply_to_lines(np.ones((1,) * min(lines.ndim, 2), x.dtype), None, name, q, options).dtype
    lengths = {len(rest): math.prod(leading)}
    more = {"kind": kind, "called": name, "q": q, "options": options}
    value = map_along(name, _apply_to_lines, lines, [len(rest)], lengths=lengths, dtype=kind, **more)
    value = reshape(moveaxis(value, -1, 0), (*leading, *(x.shape[i] for i in rest)))
    if keepdims:
        value = expand_dims(value, tuple(len(leading) + i for i in sorted(axes)))
    return write_out(_warned(name, x, axis, keepdims, Tensor(value.data)), name, out)


def _apply_to_lines(block: Array, kind: Any, called: str, q: Any, options: Any) -> Array:
    """Calls NumPy's function along the last axis of a block; the results for all `q` form the new last axis."""
    function = getattr(np, called)
    empty = np.zeros(block.shape[:-1], bool)
    if called.startswith("nan") and block.dtype.kind in "fc":
        empty = np.asarray(np.isnan(block).all(axis=-1))  # NumPy would warn of these lines, here, where no user sees it
        if empty.any() and kind is not None:
            block = np.where(empty[..., None], block.dtype.type(0), block)
    if not isinstance(q, np.ndarray):
        value = np.asarray(function(block, *([] if q is None else [q]), axis=-1, keepdims=True, **options))
    else:
        value = np.moveaxis(np.asarray(function(block, q, axis=-1, **options)), 0, -1)
    if kind is None:
        return value
    value = value.astype(kind, copy=False)
    if empty.any():
        value[empty] = np.nan
    return value


def _quantiles_of_all(name: str, x: Tensor, q: Any) -> Tensor:
    """Median or quantiles of the flattened array, for arrays too large for a chunk."""
    median = name.endswith("median")
    fractions = np.asarray(0.5 if median else np.true_divide(q, 100) if name.endswith("percentile") else q)
    request = QuantileRequest(
        tuple(fractions.reshape(-1).tolist()),
        fractions.dtype,
        isinstance(q, int | float),  # a Python number does not widen the dtype
        median,
        name.startswith("nan"),
        getattr(np, name)(np.ones(2, x.dtype), *([] if median else [q])).dtype,
    )
    return Tensor(reshape(quantiles(name, x, request), fractions.shape).data)


def _median(name: str, a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
            keepdims: Any = False) -> Any:  # fmt: skip
    return _reduce_lines(name, a, axis, keepdims, out)


offers("median", does="`np.median`: median along axes, or of the flattened array.")(partial(_median, "median"))
offers("nanmedian", does="`np.nanmedian`: median without NaN.")(partial(_median, "nanmedian"))


def _quantiles(name: str, a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: Any = False, *, weights: Any = None) -> Any:  # fmt: skip
    """`np.percentile` and its like, exact.

    Raises
    ------
    ValueError
        If a `q` lies outside 0 to 100, or 0 to 1, or `method` is unknown.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> _quantiles("percentile", arange(11, chunk_size=4), [0, 25, 100]).fetch().tolist()
    [0.0, 2.5, 10.0]
    """
    q = q.fetch() if isinstance(q, Tensor) else q  # a few numbers, checked by NumPy
    q = q if isinstance(q, int | float) else np.asarray(q)
    if weights is not None:
        keepdims = bool(keepdims) and keepdims is not np._NoValue
        return write_out(weighted_quantiles(name, a, q, axis, method, keepdims, weights), name, out)
    x = as_tensor(a)
    if x.dtype.kind in "SUV":
        raise UnsupportedError(f"np.{name} of text and records is not in jmars; sort them, np.sort(x), and index")
    probe = np.zeros(0 if name.startswith("nan") and 0 in x.data.shape else 1, x.dtype)
    getattr(np, name)(probe, q, method=method)  # raises NumPy's errors
    return _reduce_lines(name, a, axis, keepdims, out, q, method=method)


for _name, _does in {
    "percentile": "exact percentiles along axes, or of the flattened array.",
    "quantile": "as `percentile`, with `q` from 0 to 1.",
    "nanpercentile": "percentiles without NaN.",
    "nanquantile": "quantiles without NaN.",
}.items():
    offers(_name, does=f"`np.{_name}`: {_does}")(partial(_quantiles, _name))


MOST_QUANTILES = 8  # more quantiles at once are cheaper by sorting
SAMPLES = 2**17  # samples of all chunks together, about
EVERY = 128  # elements per sample, at least
SIGMAS = 6.0  # half width of a range around the expected quantile, in standard deviations
_BLOCK = 2**16  # elements compared at a time
_BYTES = np.dtype(np.uint8)


class QuantileRequest(Struct, frozen=True):
    """The requested quantiles and how NumPy computes them."""

    fractions: tuple[float, ...]  # from 0 to 1
    kind: np.dtype[Any]  # dtype of computed positions
    weak: bool  # whether the user gave a Python number, which widens no dtype
    median: bool  # mean of the two middle elements, as `np.median`
    skips_nan: bool
    dtype: np.dtype[Any]  # of the result

    def positions(self, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
        """Positions of the neighbours of the quantiles among `count` sorted elements, and the fraction between them."""
        at = np.asarray((count - 1) * np.array(self.fractions, self.kind))
        below = np.floor(at)
        first = below.astype(np.intp)
        return first, np.minimum(first + 1, count - 1), at - below

    def between(self, below: Array, above: Array, part: Array) -> Array:
        """Interpolates quantiles between their two neighbours, as NumPy does."""
        if self.median:
            found = [np.median([a, b] if t else [a]) for a, b, t in zip(below, above, part)]
        else:
            parts = [float(t) if self.weak else np.array([t]) for t in part]
            found = [np.quantile(np.array([a, b]), t) for a, b, t in zip(below, above, parts)]
        return np.array(found).reshape(-1).astype(self.dtype)


def quantiles(name: str, x: Tensor, request: QuantileRequest) -> Tensor:
    """Quantiles of the flattened array, as a 1-d tensor of a single chunk; `x` is real and has no empty chunks."""
    if not 0 < len(request.fractions) <= MOST_QUANTILES:
        return _by_sorting(name, x, request, x.size)
    k, sizes = len(request.fractions), [math.prod(place) for place in itertools.product(*x.chunks)]
    ranges, drawn = _sampled_ranges(name, x, request.fractions)
    origin = Origin.of(new_group())
    most = [8 * (4 * k + 1) + k * n * x.dtype.itemsize for n in sizes]
    counts = RangeCounts(k, drawn, inputs=(x.data, ranges))
    within = new_data(counts, (origin.whole,), _BYTES, (origin.axis(most),))
    nbytes = 16 + k * request.dtype.itemsize
    found = new_data(RangeQuantiles(request, inputs=(within, ranges)), (nbytes,), _BYTES, ((nbytes,),))
    result = SelectedQuantiles(group=new_group(), called=name, request=request, inputs=(found, x.data))
    return Tensor(new_data(result, (k,), request.dtype, ((k,),)))


def _sampled_ranges(name: str, x: Tensor, fractions: tuple[float, ...]) -> tuple[TensorData, int]:
    """Ranges that hold the quantiles with high probability, and the number of samples."""
    sizes = [math.prod(place) for place in itertools.product(*x.chunks)]
    every = max(EVERY, sum(sizes) // SAMPLES)
    drawn = tuple(-(-n // every) for n in sizes)
    samples = Tensor(new_data(ChunkSamples(every, inputs=(x.data,)), (sum(drawn),), x.dtype, (drawn,)))
    cut = ((2 * len(fractions),),)
    ranges = blockwise(name, candidate_ranges, [samples.rechunk(-1)], cut, x.dtype, (fractions, SIGMAS))
    return ranges.data, sum(drawn)


@dataclass(frozen=True, eq=False)
class ChunkSamples(Operand):
    """Samples a random element of every `every` elements of all chunks."""

    every: int
    name: ClassVar[str] = "sample"

    def token(self) -> Hashable:
        """Identifies the operand by the sampling rate; positions depend on the chunk number only."""
        return ("sample", self.every)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with the chunk's number as argument."""
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
    """Samples a random element of every `every` elements; the chunk number is the seed."""
    (x,), (every,) = inputs, params
    first = np.arange(0, x.size, every)
    within = np.random.default_rng(number).integers(0, np.minimum(every, x.size - first))
    out[...] = x.reshape(-1)[first + within]


def candidate_ranges(samples: Array, fractions: tuple[float, ...], sigmas: float) -> Array:
    """Range (low, high) that contains a quantile with high probability, from samples; flat, shape (2 * k,)."""
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
    """Counts a chunk's elements relative to all ranges and collects the elements within, as bytes."""

    ranges: int
    samples: int  # of all chunks, from which the ranges were made
    name: ClassVar[str] = "count_ranges"

    def token(self) -> Hashable:
        """Identifies the operand by the number of ranges and of samples."""
        return ("count_ranges", self.ranges, self.samples)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        x, ranges = inputs
        kinds, which = chunk_classes(x.splits)
        bounds = ChunkType((2 * self.ranges,), x.dtype)
        programs = []
        for kind in kinds:
            chunk = ChunkType(kind, x.dtype)
            most = 8 * (4 * self.ranges + 1) + self.ranges * chunk.nbytes
            likely = expected_nbytes(chunk.nbytes, self.ranges, self.samples)
            step = Call(count_ranges, (), (0, 1), ChunkType((-1,), _BYTES, most, likely))
            programs.append(single(self.name, (chunk, bounds), step))
        read = np.column_stack([x.ids.reshape(-1), np.broadcast_to(ranges.ids, x.ids.size)])
        return builder.add_many(programs, which.reshape(-1), read)


def expected_nbytes(nbytes: int, ranges: int, samples: int) -> int:
    """Bytes that `count_ranges` writes for a chunk of `nbytes`, if all quantiles are medians, with the widest range."""
    share = min(1.0, SIGMAS / math.sqrt(samples))
    return 8 * (4 * ranges + 1) + math.ceil(share * ranges * nbytes)


def count_ranges(out: None, inputs: Sequence[Array], params: tuple[()], arg: Any) -> Array:
    """Counts elements relative to ranges; returns the counts, then the elements within the ranges, as bytes.

    The counts are int64: elements that are not NaN; then per range (low, high) the elements < low, <= low, < high and
    <= high. The elements strictly between low and high follow range by range.
    """
    x, ranges = inputs
    line, bounds = x.reshape(-1), ranges.reshape(-1, 2)
    numbers, counts = 0, np.zeros((len(bounds), 4), np.int64)
    some: list[list[Array]] = [[] for _ in bounds]
    for start in range(0, len(line), _BLOCK):
        block = line[start : start + _BLOCK]
        n = int(np.count_nonzero(block == block)) if block.dtype.kind == "f" else len(block)
        numbers += n
        for row, (low, high), parts in zip(counts, bounds, some):
            from_low = block >= low
            below = n - np.count_nonzero(from_low)
            np.logical_and(from_low, block <= high, out=from_low)
            inside = block.compress(from_low)
            is_low, is_high = inside == low, inside == high
            up_to_high = below + len(inside)
            n_low, n_high = np.count_nonzero(is_low), np.count_nonzero(is_high)
            row += (below, below + n_low, up_to_high - n_high, up_to_high)
            if n_low or n_high:
                inside = inside[~(is_low | is_high)]
            if len(inside):
                parts.append(inside)
    elements = [part.tobytes() for parts in some for part in parts]
    return np.frombuffer(b"".join([np.int64(numbers).tobytes(), counts.tobytes(), *elements]), _BYTES)


@dataclass(frozen=True, eq=False)
class RangeQuantiles(Operand):
    """Computes quantiles from all counts; packs as bytes: whether all lie within the ranges, element count, values."""

    request: QuantileRequest
    name: ClassVar[str] = "quantile"

    def token(self) -> Hashable:
        """Identifies the operand by the request."""
        return ("quantile", self.request)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a single operand, since the inputs are small."""
        within, ranges = inputs
        bounds = ChunkType((2 * len(self.request.fractions),), ranges.dtype)
        types = (*(ChunkType((-1,), _BYTES) for _ in within.ids), bounds)
        step = Call(find_quantiles, (self.request,), tuple(range(len(types))), ChunkType(output.shape, _BYTES))
        ids = [*within.ids.tolist(), *ranges.ids.tolist()]
        return np.array([builder.add(single(self.name, types, step), ids)], np.int64)


def find_quantiles(out: Array, inputs: Sequence[Array], params: tuple[QuantileRequest], arg: Any) -> None:
    """Finds the quantiles from the counts and elements of all chunks."""
    (request,) = params
    *counted, ranges = inputs
    bounds = ranges.reshape(-1, 2)
    size = 8 * (1 + 4 * len(bounds))
    headers = [np.frombuffer(one, np.int64, size // 8) for one in counted]
    all_of = np.sum(headers, axis=0)
    numbers, counts = int(all_of[0]), all_of[1:].reshape(-1, 4)
    first, second, part = request.positions(max(numbers, 1))
    pairs = np.zeros((2, len(bounds)), ranges.dtype)
    within = [np.frombuffer(one, ranges.dtype, -1, size) for one in counted]
    starts = [0] * len(counted)
    complete = numbers > 0
    for k, (row, (low, high)) in enumerate(zip(counts, bounds)):
        # if low == high, more elements are <= high than < high, and no element lies between
        lengths = [max(int(header[4 * k + 3] - header[4 * k + 2]), 0) for header in headers]
        line = np.concatenate([one[at : at + n] for one, at, n in zip(within, starts, lengths)])
        starts = [at + n for at, n in zip(starts, lengths)]
        ranks = [int(first[k]), int(second[k])]
        complete = complete and all(row[0] <= rank < row[3] for rank in ranks)
        if not complete:
            break
        inner = sorted({rank - int(row[1]) for rank in ranks if row[1] <= rank < row[2]})
        if inner:
            line = np.partition(line, inner)
        for pair, rank in zip(pairs, ranks):
            pair[k] = low if rank < row[1] else high if rank >= row[2] else line[rank - row[1]]
    values = request.between(pairs[0], pairs[1], part) if complete else np.zeros(len(bounds), request.dtype)
    out[:16] = np.array([complete, numbers], np.int64).view(_BYTES)
    out[16:] = values.view(_BYTES)


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectedQuantiles(Dynamic):
    """Becomes the quantiles once they are known, or a sort if a quantile lies outside the range."""

    called: str
    request: QuantileRequest
    name: ClassVar[str] = "quantile"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.called

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Wants the result of `RangeQuantiles`."""
        return (), (0,)

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """Becomes the values, or a sort of the whole array."""
        complete, numbers = values[0][:16].view(np.int64).tolist()
        k = len(self.request.fractions)
        size = math.prod(inputs[1].shape)
        if not numbers or (numbers < size and not self.request.skips_nan):
            found = np.full(k, np.nan, self.request.dtype)
        elif complete:
            found = values[0][16:].view(self.request.dtype)
        else:
            x = Tensor(placeholders(inputs)[1])
            return fragment([_by_sorting(self.called, x, self.request, numbers).data], self.line)
        return fragment([TensorData(Literal(array=found), (k,), found.dtype, ((k,),))], self.line)


def _by_sorting(name: str, x: Tensor, request: QuantileRequest, numbers: int) -> Tensor:
    """Quantiles of the first `numbers` elements of the sorted array."""
    below, above, part = request.positions(numbers)
    pairs = sort_long_axis(ravel(x))[np.concatenate([below, above, [numbers - 1]])].rechunk(-1)
    return blockwise(name, interpolate_pairs, [pairs], ((len(part),),), request.dtype, (request, tuple(part.tolist())))


def interpolate_pairs(pairs: Array, request: QuantileRequest, part: tuple[float, ...]) -> Array:
    """Interpolates between pairs of sorted elements; the last element of `pairs` is the maximum, or NaN."""
    k = len(part)
    if pairs.dtype.kind == "f" and np.isnan(pairs[-1]):
        return np.full(k, np.nan, request.dtype)
    return request.between(pairs[:k], pairs[k:-1], np.array(part, request.kind))


def reduced_axes_last(x: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """Merges the axes `axis` into a last axis; returns the tensor, the kept axes and the merged axes."""
    axes = tuple(range(x.ndim)) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    lines = x.transpose((*rest, *axes))
    if len(axes) != 1:
        lines = reshape(lines, (*(x.shape[i] for i in rest), math.prod(x.shape[i] for i in axes)))
    return lines, rest, axes


def weighted_quantiles(name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, weights: Any) -> Tensor:
    """`np.<name>(a, q, axis, method=method, keepdims=keepdims, weights=weights)`.

    Raises
    ------
    ValueError, TypeError
        As NumPy: at once for methods other than "inverted_cdf" and weights of a wrong shape; when it is computed for
        negative weights and for slices whose weights are all 0.
    """
    x, given = native(a), native(weights)
    probe = np.ones(1, x.dtype)
    kind = np.asarray(getattr(np, name)(probe, q, method=method, weights=np.ones(1, given.dtype))).dtype
    if given.shape != x.shape:
        given = broadcast_to(broadcast_weights(given, x, axis), x.shape)
    lines, rest, axes = reduced_axes_last(x, axis)
    lines = single_chunk_along(lines, [len(rest)])
    counts = Tensor(rechunked(reduced_axes_last(given, axis)[0].data, lines.chunks))
    leading = np.shape(q)
    flat = (tuple(q.reshape(-1).tolist()), q.dtype) if isinstance(q, np.ndarray) else q
    cut = (*lines.chunks[:-1], (math.prod(leading),))
    value = blockwise(name, _quantile_block, [lines, counts], cut, kind, (name, flat, method))
    value = reshape(moveaxis(value, -1, 0), (*leading, *(x.shape[i] for i in rest)))
    if keepdims:
        value = expand_dims(value, tuple(len(leading) + i for i in sorted(axes)))
    return Tensor(value.data)


def _quantile_block(block: Array, weights: Array, called: str, q: Any, method: str) -> Array:
    """Calls NumPy's function along the last axis of a block; the results for all `q` form the new last axis."""
    if not isinstance(q, tuple):
        return np.expand_dims(getattr(np, called)(block, q, axis=-1, method=method, weights=weights), -1)
    several = np.array(q[0], q[1])
    return np.moveaxis(getattr(np, called)(block, several, axis=-1, method=method, weights=weights), 0, -1)


def _partition(name: str, a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
               ) -> Tensor:  # fmt: skip
    x, theirs = as_tensor(a), getattr(np, name)
    check_sort_order(x, order)
    if exceeds_chunk(x, axis) and x.dtype.names is None:
        check_options(theirs, x.size, {"kth": kth, "kind": kind})
        return _partitioned(name, x, kth)
    return map_lines(name, theirs, a, axis, kth=kth, kind=kind, order=order)


offers("partition", does="`np.partition`: puts element `kth` at the sorted position, smaller elements before.")(
    partial(_partition, "partition")
)
offers("argpartition", does="`np.argpartition`: positions that partition an array along an axis.")(
    partial(_partition, "argpartition")
)


def _partitioned(name: str, x: Tensor, kth: Any) -> Tensor:
    """The flattened array divided at a position, or the positions; sorted for several positions and other dtypes."""
    line, at = ravel(native(x)), np.asarray(kth)
    if at.size != 1 or x.dtype.kind not in "iuf":
        return astype(sort_long_axis(line), x.dtype) if name == "partition" else argsort_long_axis([line])
    rank = int(at.reshape(-1)[0]) % line.size
    filled = Tensor(rechunked(line.data, (tuple(n for n in line.chunks[0] if n),)))
    ranges, _ = _sampled_ranges(name, filled, (rank / max(line.size - 1, 1),))
    cut = ((len(GROUPS),) * len(filled.chunks[0]),)
    counts = blockwise(name, _group_counts, [filled, Tensor(ranges)], cut, np.int64, flat=True, scratch=_of_block)
    dtype = line.dtype if name == "partition" else np.dtype(np.intp)
    inputs = (filled.data, ranges, counts.rechunk(-1).data)
    op = SelectedPartition(group=new_group(), called=name, rank=rank, inputs=inputs)
    made = Tensor(rechunked(new_data(op, line.shape, dtype, filled.chunks), line.chunks))
    return astype(made, x.dtype) if name == "partition" else made


# elements below a range, at its low end, within, at its high end, above it or NaN
GROUPS: tuple[Callable[[Array, Any, Any], Array], ...] = (
    lambda block, low, high: block < low,
    lambda block, low, high: block == low,
    lambda block, low, high: (block > low) & (block < high),
    lambda block, low, high: (block == high) & (high != low),
    lambda block, low, high: ~(block <= high),
)
WITHIN = 2  # number of the group within a range


def _of_block(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    return 16 * _BLOCK


def _group_counts(block: Array, ranges: Array) -> Array:
    """Number of elements per group."""
    counts = np.zeros(len(GROUPS), np.int64)
    for start in range(0, len(block), _BLOCK):
        counts += [np.count_nonzero(group(block[start : start + _BLOCK], *ranges)) for group in GROUPS]
    return counts


def _group_of(out: Array, block: Array, ranges: Array, first: Array, number: int, by_position: bool) -> None:
    """Writes the elements of a group, or their positions from `first` on."""
    place = 0
    for start in range(0, len(block), _BLOCK):
        part = block[start : start + _BLOCK]
        found = np.flatnonzero(GROUPS[number](part, *ranges))
        into = out[place : place + len(found)]
        place += len(found)
        if by_position:
            np.add(found, start + first[0], out=into)
        else:
            part.take(found, out=into, mode="clip")


def _in_order(positions: Array, elements: Array) -> Array:
    return positions[np.argsort(elements, kind="stable")]


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectedPartition(Dynamic):
    """Becomes the groups in turn, or a sort if the position lies outside the range.

    The inputs are the line, the range and the counts of groups by chunk.
    """

    called: str
    rank: int
    name: ClassVar[str] = "partition"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.called

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Wants the counts."""
        return (), (2,)

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """Becomes the groups: parts of the grouped chunks, with the range's elements in order."""
        line, ranges, _ = map(Tensor, placeholders(inputs))
        lengths = line.chunks[0]
        by_position = self.called == "argpartition"
        counts = np.asarray(values[2], np.int64).reshape(-1, len(GROUPS))
        group = int(np.searchsorted(np.cumsum(counts.sum(axis=0)), self.rank, "right"))
        if group in (0, len(GROUPS) - 1):
            whole = argsort_long_axis([line]) if by_position else sort_long_axis(line)
            return fragment([whole.data], self.line)
        first = as_tensor(np.cumsum(lengths) - lengths, chunks=((1,) * len(lengths),))

        def made(number: int, by_position: bool) -> Tensor:
            cut, params = (tuple(counts[:, number].tolist()),), (number, by_position)
            dtype = np.dtype(np.intp) if by_position else line.dtype
            inputs = [line, ranges, first]
            return blockwise(self.called, _group_of, inputs, cut, dtype, params, writes=True, scratch=_of_block)

        parts = [made(number, by_position) for number in range(len(GROUPS))]
        if group == WITHIN:
            elements, inside = made(WITHIN, False).rechunk(-1), parts[WITHIN].rechunk(-1)
            function, more = (_in_order, [elements]) if by_position else (np.sort, [])
            parts[WITHIN] = blockwise(self.called, function, [inside, *more], inside.chunks, inside.dtype)
        parts = [part for part in parts if part.size]
        return fragment([call("concatenate", parts).rechunk(line.chunks).data], self.line)
