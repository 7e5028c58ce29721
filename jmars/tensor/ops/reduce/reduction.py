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
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.chunks.unknown_chunks import chunk_classes, chunk_type, length_kind, run_reduction
from jmars.tensor.ops.out_argument import assign_out
from jmars.tensor.ops.reduce.where_argument import apply_initial, apply_where, element_count, is_given, moment
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.unknown import is_known, is_open

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
    if x.dtype.kind in "SUV":
        getattr(np, name)(np.zeros(1, x.dtype))  # raises NumPy's error if text and records lack this reduction
    keepdims = bool(keepdims) and keepdims is not _NO_VALUE
    cut = x.data.chunks if _in_one_stage(x.data.chunks, axes, reducer) else x.chunks
    kept: Splits = tuple((1,) if i in axes else splits for i, splits in enumerate(cut))
    chunks = kept if keepdims else tuple(splits for i, splits in enumerate(cut) if i not in axes)
    op = Reduction(name, reducer, axes, keepdims, config.combine_size, inputs=(x.data,))
    return _assign_out(Tensor(new_data(op, tuple(map(sum, chunks)), dtype, chunks)), name, out)


def _assign_out(result: Tensor, name: str, out: Any) -> Any:
    """Returns `result`, or `out` after writing it; as in NumPy the shapes must be equal."""
    if is_given(out) and out.shape != result.shape:
        raise ValueError(f"output array of shape {out.shape} does not match the result's shape {result.shape}")
    return assign_out(result, out, name, "same_kind" if name not in ("mean", "var", "std") else "unsafe")


def _in_one_stage(chunks: Splits, axes: tuple[int, ...], reducer: Reducer) -> bool:
    """Whether a reduction needs no lengths: all unknown axes are reduced, and the reducer has an identity."""
    unknown = [i for i, axis in enumerate(chunks) if not is_known([axis])]
    plain = isinstance(reducer, UfuncReducer) and reducer.count is None and reducer.ufunc in _WITH_IDENTITY
    plain = plain or isinstance(reducer, MeanReducer | MomentReducer)
    return plain and all(i in axes for i in unknown) and not is_open(chunks)


def normal_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Normalises `axis` to ascending axis numbers; raises AxisError or ValueError as NumPy does."""
    if axis is None or axis is _NO_VALUE:
        return tuple(range(ndim))
    return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(axis, ndim)))


@offers("sum")
def sum_(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
         where: Any = True) -> Any:  # fmt: skip
    """`np.sum`: integers are summed in int64 or uint64 at least, booleans are counted."""
    return _accumulate("sum", "add", apply_where("sum", as_tensor(a), where, 0), axis, dtype, out, keepdims, initial)


@offers("prod")
def prod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
         where: Any = True) -> Any:  # fmt: skip
    """`np.prod`."""
    x = apply_where("prod", as_tensor(a), where, 1)
    return _accumulate("prod", "multiply", x, axis, dtype, out, keepdims, initial)


def _accumulate(name: str, ufunc: str, x: Tensor, axis: Any, dtype: Any, out: Any, keepdims: Any, initial: Any) -> Any:
    if dtype is None:
        dtype = getattr(np, ufunc).reduce(np.zeros(1, x.dtype)).dtype
    half = ufunc == "add" and np.dtype(dtype) == np.dtype("f2")  # added in float32 and rounded at the end, as in NumPy
    inner = np.dtype("f4") if half else np.dtype(dtype)
    if not is_given(initial):
        return reduce(name, x, axis, UfuncReducer(ufunc, inner), np.dtype(dtype), keepdims, out)
    total = reduce(name, x, axis, UfuncReducer(ufunc, inner), np.dtype(dtype), keepdims)
    return _assign_out(apply_initial(ufunc, total, initial), name, out)


@offers("min", "amin")
def min_(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Any:
    """`np.min`; NaN propagates."""
    return _extreme("min", "minimum", as_tensor(a), axis, out, keepdims, initial, where)


@offers("max", "amax")
def max_(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Any:
    """`np.max`; NaN propagates."""
    return _extreme("max", "maximum", as_tensor(a), axis, out, keepdims, initial, where)


@offers("nanmin")
def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Any:
    """`np.nanmin`: ignores NaN; an all-NaN slice gives NaN."""
    return _extreme("nanmin", "fmin", as_tensor(a), axis, out, keepdims, initial, where)


@offers("nanmax")
def nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Any:
    """`np.nanmax`: ignores NaN; an all-NaN slice gives NaN."""
    return _extreme("nanmax", "fmax", as_tensor(a), axis, out, keepdims, initial, where)


def _extreme(
    name: str, ufunc: str, x: Tensor, axis: Any, out: Any, keepdims: Any, initial: Any = None, where: Any = True
) -> Any:
    empty = any(x.shape[i] == 0 for i in normal_axes(axis, x.ndim))
    if not is_given(initial):
        if where is not True and is_given(where):
            raise ValueError(f"{name} has no identity, so with where= it needs initial=, its value for no elements")
        if empty:
            raise ValueError(f"zero-size array to reduction operation {ufunc} which has no identity")
        return reduce(name, x, axis, UfuncReducer(ufunc, x.dtype), x.dtype, keepdims, out)
    if empty:  # the reduction of no elements is `initial`; `logical_or` gives the shape
        nothing = reduce(name, x, axis, UfuncReducer("logical_or", np.dtype(bool)), np.dtype(bool), keepdims)
        return _assign_out(apply_where(name, nothing.astype(x.dtype), np.False_, initial), name, out)
    x = apply_where(name, x, where, initial)
    least = reduce(name, x, axis, UfuncReducer(ufunc, x.dtype), x.dtype, keepdims)
    return _assign_out(apply_initial(ufunc, least, initial), name, out)


@offers("any")
def any_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """`np.any`; NaN counts as true."""
    x = apply_where("any", as_tensor(a), where, 0)
    return reduce("any", x, axis, UfuncReducer("logical_or", np.dtype(bool)), np.dtype(bool), keepdims, out)


@offers("all")
def all_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """`np.all`; NaN counts as true."""
    x = apply_where("all", as_tensor(a), where, 1)
    return reduce("all", x, axis, UfuncReducer("logical_and", np.dtype(bool)), np.dtype(bool), keepdims, out)


@offers("mean")
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """`np.mean`: integers in float64, float16 is summed in float32."""
    x = as_tensor(a)
    inner, result = _mean_dtypes(x.dtype, dtype)
    if where is not True and is_given(where):
        total = sum_(x, axis, inner, keepdims=keepdims, where=where)
        value = total / element_count(x, axis, keepdims, where).astype(total.real.dtype)
        return _assign_out(value.astype(result), "mean", out)
    axes, counting = normal_axes(axis, x.ndim), MeanReducer(inner)
    if not is_known(x.data.chunks) and _in_one_stage(x.data.chunks, axes, counting):
        return reduce("mean", x, axis, counting, result, keepdims, out)
    count = math.prod(x.shape[i] for i in axes)
    return reduce("mean", x, axis, UfuncReducer("add", inner, count), result, keepdims, out)


def _mean_dtypes(dtype: np.dtype[Any], wanted: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """dtypes of the sum and of the mean."""
    if wanted is not None:
        return np.dtype(wanted), np.dtype(wanted)
    if dtype.kind in "biu":
        return np.dtype("f8"), np.dtype("f8")
    return (np.dtype("f4"), dtype) if dtype == np.dtype("f2") else (dtype, dtype)


@offers("var")
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
        where: Any = True, mean: Any = None, correction: Any = None) -> Any:  # fmt: skip
    """`np.var`: divides by n - ddof; moments are combined in float64."""
    return _moment("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction, root=False)


@offers("std")
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
        where: Any = True, mean: Any = None, correction: Any = None) -> Any:  # fmt: skip
    """`np.std`: the square root of `var`."""
    return _moment("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction, root=True)


def _moment(name: str, a: Any, axis: Any, dtype: Any, out: Any, ddof: float, keepdims: Any, where: Any, mean: Any,
            correction: Any, *, root: bool) -> Any:  # fmt: skip
    x = as_tensor(a)
    if is_given(correction):
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    inner, result = _mean_dtypes(x.dtype, dtype)
    result = np.empty(0, result).real.dtype
    precise = np.result_type(inner, np.float64)  # float64 also for float32, so that combining loses nothing
    if is_given(mean) or (where is not True and is_given(where)):
        value = moment(x, axis, precise, ddof, keepdims, where, mean, root=root)
        return _assign_out(value.astype(result), name, out)
    return reduce(name, x, axis, MomentReducer(precise, ddof, root), result, keepdims, out)


@offers("argmin")
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """`np.argmin`: position of the first minimum; NaN counts as the minimum."""
    return _position("argmin", a, axis, out, keepdims)


@offers("argmax")
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """`np.argmax`: position of the first maximum; NaN counts as the maximum."""
    return _position("argmax", a, axis, out, keepdims)


def _position(name: str, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    x = as_tensor(a)
    axes = normal_axes(axis, x.ndim)
    if any(x.shape[i] == 0 for i in axes):
        raise ValueError(f"attempt to get {name} of an empty sequence")
    alone = axes[0] if axis is not None else None
    return reduce(name, x, axis, PositionReducer(name, x.dtype, alone, x.shape), np.dtype(np.intp), keepdims, out)
