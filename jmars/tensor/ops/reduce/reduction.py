"""Reductions: a leaf per chunk, then a tree that combines `config.combine_size` partial results at a time.

dtypes are NumPy's; sums are pairwise, so their error grows as in NumPy.
Source: docs/explanation/seeds.md, "Choosing operands" (tree reduction); Mars `TensorReduction` (combine_size).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.config import config
from jmars.kernels.program import Call, ChunkType, Combine, Program, Reduce, single
from jmars.kernels.reducers import MeanReducer, MomentReducer, PositionReducer, Reducer, UfuncReducer, state_shape
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.operand import Operand, Splits, TensorMeta, is_known, is_open, new_data, warn_user
from jmars.tensor.ops.chunks.tiling import chunk_classes
from jmars.tensor.ops.chunks.unknown_chunks import chunk_type, length_kind, run_reduction
from jmars.tensor.ops.elementwise.ufuncs import astype_unsafe, native
from jmars.tensor.ops.out_argument import write_out
from jmars.tensor.ops.reduce.trial import is_given, loop_dtype, trial
from jmars.tensor.ops.reduce.where_argument import (
    apply_initial,
    apply_where,
    divide_by_count,
    element_count,
    is_mask,
    moment,
    warn_where,
)
from jmars.tensor.ops.shape.axes import names_no_axis
from jmars.tensor.ops.written_values import element
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor

__all__ = ["Reduction", "reduce"]

_WITH_IDENTITY = ("add", "multiply", "logical_or", "logical_and")
_NO_VALUE = getattr(np, "_NoValue", None)  # NumPy's mark for an argument that was not given


@dataclass(frozen=True, eq=False)
class Reduction(Operand):
    """Reduces the elements along `axes` by a tree over the chunks."""

    function: str
    reducer: Reducer
    axes: tuple[int, ...]
    keepdims: bool
    combine_size: int
    name: ClassVar[str] = "reduction"
    reads_all: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    def token(self) -> Hashable:
        """Identifies the operand by function, reducer, axes and tree."""
        return ("reduction", self.function, self.reducer, self.axes, self.keepdims, self.combine_size)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a leaf per chunk, then combines until a single chunk is left along the axes."""
        source = _without_empty(inputs[0], self.axes)
        kept = [axis for axis in range(len(source.splits)) if axis not in self.axes]
        order = kept + list(self.axes)
        outer = math.prod(len(source.splits[axis]) for axis in kept)
        # chunks with the reduced axes last: a row of leaves for each output chunk
        ids = source.ids.transpose(order).reshape(outer, -1)
        alone = ids.shape[1] == 1
        if is_known(source.splits):
            shapes, which = shape_classes(source.splits)
            leaves = [self._leaf(ChunkType(shape, source.dtype), alone, output.dtype) for shape in shapes]
        else:
            kinds, which = chunk_classes([[length_kind(n) for n in axis] for axis in source.splits])
            leaves = [self._unknown_leaf(chunk_type(one, source.dtype), alone, output.dtype) for one in kinds]
        which = which.transpose(order).reshape(-1)
        args = _corners(self.reducer, source, order)
        ids = builder.add_many(leaves, which, ids.reshape(-1, 1), args).reshape(outer, -1)
        kept_shapes, kind = shape_classes(tuple(source.splits[axis] for axis in kept))
        kind = kind.reshape(-1)
        while ids.shape[1] > 1:
            ids = self._add_level(builder, ids, kept_shapes, kind, output.dtype)
        return ids.reshape(output.grid)

    def _add_level(
        self,
        builder: ChunkGraphBuilder,
        ids: NDArray[np.int64],
        shapes: list[tuple[int, ...]],
        kind: NDArray[np.int64],
        dtype: np.dtype[Any],
    ) -> NDArray[np.int64]:
        """Adds one level of the tree."""
        outer, n = ids.shape
        size = max(2, self.combine_size)
        groups, rest = divmod(n, size)
        last = n <= size
        parts: list[NDArray[np.int64]] = []
        if groups:
            programs = [self._combine(shape, size, last, dtype) for shape in shapes]
            which = np.repeat(kind, groups)
            parts.append(
                builder.add_many(programs, which, ids[:, : groups * size].reshape(-1, size)).reshape(outer, -1)
            )
        if rest == 1:
            parts.append(ids[:, -1:])
        elif rest:
            programs = [self._combine(shape, rest, last, dtype) for shape in shapes]
            parts.append(builder.add_many(programs, kind, ids[:, n - rest :]).reshape(outer, -1))
        return np.concatenate(parts, axis=1)

    def _leaf(self, chunk: ChunkType, last: bool, dtype: np.dtype[Any]) -> Program:
        kept = tuple(1 if axis in self.axes else n for axis, n in enumerate(chunk.shape))
        output = self._output(kept, last, dtype)
        takes = isinstance(self.reducer, PositionReducer)
        inner = isinstance(self.reducer, PositionReducer) and self.reducer.axis not in (None, len(chunk.shape) - 1)
        work = chunk.nbytes if inner else 0  # NumPy's argmin copies to bring its axis to the end
        return single(self.function, (chunk,), Reduce(self.reducer, self.axes, (0,), output, last, takes, work))

    def _unknown_leaf(self, chunk: ChunkType, last: bool, dtype: np.dtype[Any]) -> Program:
        """Leaf for a chunk whose shape only a run can tell."""
        kept = tuple(1 if axis in self.axes else n for axis, n in enumerate(chunk.shape))
        step = Call(run_reduction, (self.reducer, self.axes, last), (0,), self._output(kept, last, dtype))
        return single(self.function, (chunk,), step)

    def _combine(self, kept: tuple[int, ...], k: int, last: bool, dtype: np.dtype[Any]) -> Program:
        lengths = iter(kept)
        shape = tuple(1 if axis in self.axes else next(lengths) for axis in range(len(kept) + len(self.axes)))
        state = ChunkType(*state_shape(self.reducer, shape))
        output = self._output(shape, last, dtype)
        return single(self.function, (state,) * k, Combine(self.reducer, tuple(range(k)), output, last))

    def _output(self, kept: tuple[int, ...], last: bool, dtype: np.dtype[Any]) -> ChunkType:
        if not last:
            return ChunkType(*state_shape(self.reducer, kept))
        shape = kept if self.keepdims else tuple(n for axis, n in enumerate(kept) if axis not in self.axes)
        return ChunkType(shape, dtype)


def _without_empty(grid: ChunkGrid, axes: tuple[int, ...]) -> ChunkGrid:
    """Removes chunks that are empty along `axes`, since they have no minimum; keeps one if all are empty."""
    ids, splits = grid.ids, list(grid.splits)
    for axis in axes:
        full = [i for i, n in enumerate(splits[axis]) if n] or [0]
        if len(full) < len(splits[axis]):
            ids = ids.take(full, axis=axis)
            splits[axis] = tuple(splits[axis][i] for i in full)
    return ChunkGrid(ids, tuple(splits), grid.dtype)


def _corners(reducer: Reducer, grid: ChunkGrid, order: list[int]) -> list[tuple[Any, ...]] | None:
    """First index of each chunk, for reducers that return positions."""
    if not isinstance(reducer, PositionReducer):
        return None
    starts = [np.concatenate([[0], np.cumsum(axis)[:-1]]) for axis in grid.splits]
    if reducer.axis is not None:
        shape = [1] * len(starts)
        shape[reducer.axis] = -1
        begin = np.broadcast_to(starts[reducer.axis].reshape(shape), grid.ids.shape).transpose(order)
        return [(start,) for start in begin.reshape(-1).tolist()]
    mesh = [m.transpose(order).reshape(-1).tolist() for m in np.meshgrid(*starts, indexing="ij")]
    return [(corner,) for corner in zip(*mesh)] if mesh else [((),)]


def reduce(
    name: str, x: Tensor, axis: Any, reducer: Reducer, dtype: np.dtype[Any], keepdims: Any, out: Any = None
) -> Any:
    """Makes the tensor of a reduction, or writes it to `out`."""
    axes = normal_axes(axis, x.ndim)
    keepdims = bool(keepdims) and keepdims is not _NO_VALUE
    cut = x.data.chunks if _in_one_stage(x.data.chunks, axes, reducer) else x.chunks
    kept: Splits = tuple((1,) if i in axes else splits for i, splits in enumerate(cut))
    chunks = kept if keepdims else tuple(splits for i, splits in enumerate(cut) if i not in axes)
    op = Reduction(name, reducer, axes, keepdims, config.combine_size, inputs=(x.data,))
    return write_out(Tensor(new_data(op, tuple(map(sum, chunks)), dtype, chunks)), name, out)


def _in_one_stage(chunks: Splits, axes: tuple[int, ...], reducer: Reducer) -> bool:
    """Whether a reduction needs no lengths: all unknown axes are reduced, and the reducer has an identity."""
    unknown = [i for i, axis in enumerate(chunks) if not is_known([axis])]
    plain = isinstance(reducer, UfuncReducer) and reducer.count is None and reducer.ufunc in _WITH_IDENTITY
    plain = plain or isinstance(reducer, MeanReducer | MomentReducer)
    return plain and all(i in axes for i in unknown) and not is_open(chunks)


def normal_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Normalises `axis` to ascending axis numbers; raises AxisError or ValueError as NumPy does."""
    if axis is None or axis is _NO_VALUE or names_no_axis(axis, ndim):
        return tuple(range(ndim))
    return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(axis, ndim)))


@offers("sum")
def sum_(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
         initial: Any = np._NoValue, where: Any = True) -> Any:  # fmt: skip
    """`np.sum`: integers are summed in int64 or uint64 at least, booleans are counted."""
    return _accumulate("sum", "add", a, axis, dtype, out, keepdims, initial, where)


@offers("prod")
def prod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
         initial: Any = np._NoValue, where: Any = True) -> Any:  # fmt: skip
    """`np.prod`."""
    return _accumulate("prod", "multiply", a, axis, dtype, out, keepdims, initial, where)


def _accumulate(
    name: str, ufunc: str, a: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, initial: Any, where: Any
) -> Any:
    x = native(a)
    options = {"axis": axis, "keepdims": keepdims, "where": where}
    trial(name, x, dtype=dtype, out=out, initial=initial, **options)
    loop = loop_dtype(ufunc, x.dtype, dtype, out)
    return write_out(accumulated(name, ufunc, x, loop, initial=initial, **options), name, out)


def accumulated(
    name: str,
    ufunc: str,
    x: Tensor,
    loop: np.dtype[Any],
    axis: Any,
    keepdims: Any,
    where: Any,
    initial: Any = np._NoValue,
) -> Tensor:
    """Sum ("add") or product ("multiply") in the dtype `loop`; that of float16 is rounded once, at the end."""
    given = x
    x = apply_where(name, x, where, 0 if ufunc == "add" else 1)
    inner = loop
    if loop == np.dtype("f2"):  # NumPy computes in float32
        inner = np.dtype("f4")
        x = astype_unsafe(x, loop)
    total: Tensor = reduce(name, x, axis, UfuncReducer(ufunc, inner), inner if is_given(initial) else loop, keepdims)
    total = astype_unsafe(apply_initial(ufunc, total, initial), loop)
    if ufunc == "add" and loop.kind == "f" and _keeps_sign(initial, loop):
        negative = (given == 0) & call("signbit", given) if given.dtype.kind == "f" else given != given
        total = call("where", all_(negative, axis, keepdims=keepdims, where=where), loop.type(-0.0), total)
    return total


def _keeps_sign(initial: Any, loop: np.dtype[Any]) -> bool:
    """Whether a sum of negative zeros is a negative zero: for `initial` of -0.0 or None."""
    if initial is None or not is_given(initial):
        return initial is None
    start = element(initial, loop)
    return bool(start == 0 and np.signbit(start))


@offers("min", "amin")
def min_(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True
) -> Any:
    """`np.min`; NaN propagates."""
    return _extreme("min", "minimum", native(a), axis, out, keepdims, initial, where)


@offers("max", "amax")
def max_(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True
) -> Any:
    """`np.max`; NaN propagates."""
    return _extreme("max", "maximum", native(a), axis, out, keepdims, initial, where)


@offers("nanmin")
def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True
) -> Any:
    """`np.nanmin`: ignores NaN; an all-NaN slice gives NaN."""
    return _nan_extreme("nanmin", "fmin", a, axis, out, keepdims, initial, where)


@offers("nanmax")
def nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True
) -> Any:
    """`np.nanmax`: ignores NaN; an all-NaN slice gives NaN."""
    return _nan_extreme("nanmax", "fmax", a, axis, out, keepdims, initial, where)


def _nan_extreme(name: str, ufunc: str, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    x = native(a)
    is_array = a._place.is_array if isinstance(a, Tensor) else isinstance(a, np.ndarray)
    if is_array or not is_given(initial) or x.dtype.kind not in "fc":
        return _extreme(name, ufunc, x, axis, out, keepdims, initial, where)
    trial(name.removeprefix("nan"), x, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where)
    least = _extreme(name, ufunc, x, axis, None, keepdims, initial, where)
    empty = all_(call("isnan", x), axis, keepdims=keepdims, where=where)  # NaN in a number or list, whatever `initial`
    return write_out(call("where", empty, least.dtype.type(np.nan), least), name, out)


def _extreme(
    name: str, ufunc: str, x: Tensor, axis: Any, out: Any, keepdims: Any, initial: Any = np._NoValue, where: Any = True
) -> Any:
    trial(name, x, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where)
    loop = loop_dtype(ufunc, x.dtype, None, out)
    if not is_given(initial):
        least = reduce(name, x, axis, UfuncReducer(ufunc, loop), loop, keepdims)
        return write_out(_without_nan_slices(name, least), name, out)
    if any(x.shape[i] == 0 for i in normal_axes(axis, x.ndim)):
        # the reduction of no elements is `initial`; `logical_or` gives the shape
        if is_mask(where):
            call("broadcast_to", False if where is None else where, x.shape)  # raises NumPy's error
        nothing = reduce(name, x, axis, UfuncReducer("logical_or", np.dtype(bool)), np.dtype(bool), keepdims)
        return write_out(apply_where(name, nothing.astype(loop), np.False_, initial), name, out)
    x = astype_unsafe(x, loop)
    least = reduce(name, apply_where(name, x, where, initial), axis, UfuncReducer(ufunc, loop), loop, keepdims)
    return write_out(_without_nan_slices(name, apply_initial(ufunc, least, initial)), name, out)


def _without_nan_slices(name: str, least: Tensor) -> Tensor:
    """Warns of all-NaN slices in `nanmin` and `nanmax`, which give NaN."""
    if not name.startswith("nan") or least.dtype.kind not in "fcmM":
        return least
    return warn_where(call("isnan", least), least, "All-NaN slice encountered")


@offers("any")
def any_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """`np.any`; NaN counts as true."""
    return _truth("any", "logical_or", native(a), axis, out, keepdims, where)


@offers("all")
def all_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """`np.all`; NaN counts as true."""
    return _truth("all", "logical_and", native(a), axis, out, keepdims, where)


def _truth(name: str, ufunc: str, x: Tensor, axis: Any, out: Any, keepdims: Any, where: Any) -> Any:
    trial(name, x, axis=axis, out=out, keepdims=keepdims, where=where)
    neutral: Any = ufunc == "logical_and"
    x = apply_where(name, x, where, "T" * neutral if x.dtype.kind in "SU" else neutral)
    return reduce(name, x, axis, UfuncReducer(ufunc, np.dtype(bool)), np.dtype(bool), keepdims, out)


@offers("mean")
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """`np.mean`: integers in float64, float16 is summed in float32."""
    x = native(a)
    result = trial("mean", x, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where)
    if dtype is None and x.dtype.kind in "biu":
        dtype = np.dtype("f8")
    elif dtype is None and x.dtype == np.dtype("f2"):
        dtype = np.dtype("f4")
    loop = loop_dtype("add", x.dtype, dtype, out)
    masked = is_mask(where)
    if not masked:
        warn_of_few(x, axis, 0, "Mean of empty slice")
    if masked or loop == np.dtype("f2") or (is_given(out) and out.dtype != loop):  # NumPy divides a rounded sum
        total = accumulated("mean", "add", x, loop, axis, keepdims, where)
        total = astype_unsafe(total, out.dtype) if is_given(out) else total
        count = element_count(x, axis, keepdims, where)
        value = divide_by_count(total, count, result)
        return write_out(warn_where(count == 0, value, "Mean of empty slice") if masked else value, "mean", out)
    axes, counting = normal_axes(axis, x.ndim), MeanReducer(loop)
    if not is_known(x.data.chunks) and _in_one_stage(x.data.chunks, axes, counting):
        return reduce("mean", x, axis, counting, result, keepdims, out)
    count = math.prod(x.shape[i] for i in axes)
    return reduce("mean", x, axis, UfuncReducer("add", loop, count), result, keepdims, out)


def warn_of_few(x: Tensor, axis: Any, most: Any, text: str) -> None:
    """Warns at the user's line if the slices along `axis` have at most `most` elements, which is known at once."""
    lengths = [x.data.shape[i] for i in normal_axes(axis, x.ndim)]
    if is_known([lengths]) and np.all(math.prod(lengths) <= most):
        warn_user(text, RuntimeWarning)


@offers("var")
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
        where: Any = True, mean: Any = None, correction: Any = np._NoValue) -> Any:  # fmt: skip
    """`np.var`: divides by n - ddof; moments are combined in float64."""
    return _moment("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


@offers("std")
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
        where: Any = True, mean: Any = None, correction: Any = np._NoValue) -> Any:  # fmt: skip
    """`np.std`: the square root of `var`."""
    return _moment("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


def _moment(name: str, a: Any, axis: Any, dtype: Any, out: Any, ddof: float, keepdims: Any, where: Any, mean: Any,
            correction: Any) -> Any:  # fmt: skip
    x = native(a)
    result = trial(name, x, axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims, where=where, mean=mean,
                   correction=correction)  # fmt: skip
    ddof = correction if is_given(correction) else ddof
    dtype = np.dtype("f8") if dtype is None and x.dtype.kind in "biu" else dtype
    loop = loop_dtype("add", x.dtype, dtype)
    if not is_mask(where):
        warn_of_few(x, axis, ddof, "Degrees of freedom <= 0 for slice")
    in_one_pass = (
        not is_given(mean)
        and not is_mask(where)
        and isinstance(ddof, int | float | np.integer | np.floating)
        and loop.kind in "fc"
        and loop.itemsize > 2  # of float16 NumPy rounds the mean and each square
        and (loop.kind == "c" or x.dtype.kind != "c")  # by a mean without imaginary part
        and (not is_given(out) or out.dtype == trial(name, x, axis=axis, dtype=dtype))
    )
    if not in_one_pass:
        return write_out(moment(x, axis, dtype, out, ddof, keepdims, where, mean, root=name == "std"), name, out)
    precise = np.result_type(loop, np.float64)  # float64 also for float32, so that combining loses nothing
    precise = precise if x.dtype.kind == "c" else np.empty(0, precise).real.dtype
    return reduce(name, x, axis, MomentReducer(precise, ddof, name == "std"), result, keepdims, out)


@offers("argmin")
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """`np.argmin`: position of the first minimum; NaN counts as the minimum."""
    return _position("argmin", a, axis, out, keepdims)


@offers("argmax")
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """`np.argmax`: position of the first maximum; NaN counts as the maximum."""
    return _position("argmax", a, axis, out, keepdims)


def _position(name: str, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    x = native(a)
    trial(name, x, axis=axis, out=out, keepdims=keepdims)
    axes = normal_axes(axis, x.ndim)
    alone = axes[0] if axis is not None and axes else None
    return reduce(name, x, axis, PositionReducer(name, x.dtype, alone, x.shape), np.dtype(np.intp), keepdims, out)
