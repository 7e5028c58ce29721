"""Reductions and running sums: a leaf per chunk, then a tree or a carry over the chunks' results.

The tree of a reduction combines `config.combine_size` partial results at a time. dtypes are NumPy's; sums are pairwise,
so their error grows as in NumPy. Elements that `where=` masks out are replaced by a neutral value before the reduction,
`initial=` is combined afterwards.

The scan of a chunk (`cumsum`, `cumprod`) starts from the total of all chunks before. Totals are computed first and
carried from chunk to chunk, so that scans do not wait for scans.
Source: docs/explanation/seeds.md, "Choosing operands" (tree reduction); Mars `TensorReduction` (combine_size); NumPy
`_core/_methods.py` (`_mean`, `_var`); Blelloch 1990 (scan in two passes).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.config import config
from jmars.kernels.elementwise import REDUCTIONS
from jmars.kernels.float_errors import BITS
from jmars.kernels.program import Call, ChunkType, Combine, Program, Reduce, single
from jmars.kernels.reducers import MeanReducer, MomentReducer, PositionReducer, Reducer, UfuncReducer, state_shape
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.operand import Operand, Splits, TensorMeta, Unknown, is_known, is_open, new_data, warn_user
from jmars.tensor.ops.arguments import assign_out, element, is_given, loop_dtype, trial, write_out
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, chunk_type, length_kind, run_reduction
from jmars.tensor.ops.constants import full
from jmars.tensor.ops.formula import Formula, is_ignored
from jmars.tensor.ops.numpy_code import offer_numpys
from jmars.tensor.ops.shape import concatenate, names_no_axis, normal_axis, ravel, slice_axis
from jmars.tensor.ops.ufuncs import astype, astype_unsafe, native, ufunc
from jmars.tensor.parts import Part, PartOf, touched, whole
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.tensor import Tensor, as_tensor

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
    whole: Splits | None = None  # chunks of the input, where it is a part of them
    name: ClassVar[str] = "reduction"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    def token(self) -> Hashable:
        """Identifies the operand by function, reducer, axes and tree."""
        return ("reduction", self.function, self.reducer, self.axes, self.keepdims, self.combine_size)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """The part along the kept axes; blocks are added as in whole chunks, for the same last bits."""
        (meta,) = inputs
        rest = iter(axis for i, axis in enumerate(kept) if not (self.keepdims and i in self.axes))
        own = tuple(range(n) if i in self.axes else next(rest) for i, n in enumerate(meta.shape))
        whole = None if is_exact(self.reducer) else tuple(map(touched, own, meta.chunks))
        return PartOf(replace(self, whole=whole), [(0, own)])

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a leaf per chunk, then combines until a single chunk is left along the axes."""
        source = _without_empty(inputs[0], self.axes)
        kept = [axis for axis in range(len(source.splits)) if axis not in self.axes]
        order = kept + list(self.axes)
        outer = math.prod(len(source.splits[axis]) for axis in kept)
        # chunks with the reduced axes last: a row of leaves for each output chunk
        ids = source.ids.transpose(order).reshape(outer, -1)
        alone = ids.shape[1] == 1
        if self.whole is not None:
            pairs, which = chunk_classes([list(zip(*axis)) for axis in zip(source.splits, self.whole, strict=True)])
            leaves = [
                self._leaf(ChunkType(tuple(n for n, _ in own), source.dtype), alone, output.dtype, own) for own in pairs
            ]
        elif is_known(source.splits):
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
        """Adds a level of the tree."""
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

    def _leaf(
        self, chunk: ChunkType, last: bool, dtype: np.dtype[Any], pairs: Sequence[tuple[int, int]] = ()
    ) -> Program:
        kept = tuple(1 if axis in self.axes else n for axis, n in enumerate(chunk.shape))
        output = self._output(kept, last, dtype)
        takes = isinstance(self.reducer, PositionReducer)
        inner = isinstance(self.reducer, PositionReducer) and self.reducer.axis not in (None, len(chunk.shape) - 1)
        work = chunk.nbytes if inner else 0  # NumPy's argmin copies to bring its axis to the end
        whole = tuple(n for _, n in pairs)
        whole = () if whole == chunk.shape else whole
        return single(self.function, (chunk,), Reduce(self.reducer, self.axes, (0,), output, last, takes, work, whole))

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


def is_exact(reducer: Reducer) -> bool:
    """Whether the bits do not depend on the order in which elements are reduced."""
    if isinstance(reducer, PositionReducer):
        return True
    return isinstance(reducer, UfuncReducer) and not (
        reducer.ufunc in ("add", "multiply") and reducer.state.kind in "fc"
    )


def _without_empty(grid: ChunkGrid, axes: tuple[int, ...]) -> ChunkGrid:
    """Removes chunks that are empty along `axes`, since they have no minimum; keeps a chunk if all are empty."""
    ids, splits = grid.ids, list(grid.splits)
    for axis in axes:
        full = [i for i, n in enumerate(splits[axis]) if n] or [0]
        if len(full) < len(splits[axis]):
            ids = ids.take(full, axis=axis)
            splits[axis] = tuple(splits[axis][i] for i in full)
    return ChunkGrid(ids, tuple(splits), grid.dtype)


def _corners(reducer: Reducer, grid: ChunkGrid, order: list[int]) -> list[tuple[Any, ...]] | None:
    """First indices of the chunks, for reducers that return positions."""
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
    """Makes the tensor of a reduction, or writes to `out`."""
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


_UFUNCS = {name: ufunc for ufunc, name in REDUCTIONS.items()} | {"cumsum": "add", "cumprod": "multiply"}
_UFUNCS |= {"nanmin": "fmin", "nanmax": "fmax"}


def _accumulate(name: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
                initial: Any = np._NoValue, where: Any = True) -> Any:  # fmt: skip
    ufunc = _UFUNCS[name]
    x = native(a)
    options = {"axis": axis, "keepdims": keepdims, "where": where}
    trial(name, x, dtype=dtype, out=out, initial=initial, **options)
    loop = loop_dtype(ufunc, x.dtype, dtype, out)
    return write_out(accumulated(name, ufunc, x, loop, initial=initial, **options), name, out)


sum_ = offers("sum", does="`np.sum`: integers are summed in int64 or uint64 at least, booleans are counted.")(
    partial(_accumulate, "sum")
)
prod = offers("prod", does="`np.prod`: as `sum`.")(partial(_accumulate, "prod"))


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


def _nan_extreme(name: str, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False,
                 initial: Any = np._NoValue, where: Any = True) -> Any:  # fmt: skip
    x = native(a)
    is_array = a._place.is_array if isinstance(a, Tensor) else isinstance(a, np.ndarray)
    if is_array or not is_given(initial) or x.dtype.kind not in "fc":
        return _extreme(name, x, axis, out, keepdims, initial, where)
    trial(name.removeprefix("nan"), x, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where)
    least = _extreme(name, x, axis, None, keepdims, initial, where)
    empty = all_(call("isnan", x), axis, keepdims=keepdims, where=where)  # NaN in a number or list, whatever `initial`
    return write_out(call("where", empty, least.dtype.type(np.nan), least), name, out)


def _extreme(name: str, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = np._NoValue,
             where: Any = True) -> Any:  # fmt: skip
    x, ufunc = native(a), _UFUNCS[name]
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


min_ = offers("min", "amin", does="`np.min`: NaN propagates.")(partial(_extreme, "min"))
max_ = offers("max", "amax", does="`np.max`: NaN propagates.")(partial(_extreme, "max"))
nanmin = offers("nanmin", does="`np.nanmin`: ignores NaN; an all-NaN slice gives NaN.")(partial(_nan_extreme, "nanmin"))
nanmax = offers("nanmax", does="`np.nanmax`: ignores NaN; an all-NaN slice gives NaN.")(partial(_nan_extreme, "nanmax"))


def _without_nan_slices(name: str, least: Tensor) -> Tensor:
    """Warns of all-NaN slices in `nanmin` and `nanmax`; the result is NaN."""
    if not name.startswith("nan") or least.dtype.kind not in "fcmM":
        return least
    return warn_where(call("isnan", least), least, "All-NaN slice encountered")


def _truth(name: str, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    x, ufunc = native(a), _UFUNCS[name]
    trial(name, x, axis=axis, out=out, keepdims=keepdims, where=where)
    neutral: Any = ufunc == "logical_and"
    x = apply_where(name, x, where, "T" * neutral if x.dtype.kind in "SU" else neutral)
    return reduce(name, x, axis, UfuncReducer(ufunc, np.dtype(bool)), np.dtype(bool), keepdims, out)


any_ = offers("any", does="`np.any`: NaN counts as true.")(partial(_truth, "any"))
all_ = offers("all", does="`np.all`: NaN counts as true.")(partial(_truth, "all"))


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
    """Warns at the user's line if the slices along `axis` have at most `most` elements, if known at once."""
    lengths = [x.data.shape[i] for i in normal_axes(axis, x.ndim)]
    if is_known([lengths]) and np.all(math.prod(lengths) <= most):
        warn_user(text, RuntimeWarning)


def _moment(name: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
            keepdims: Any = False, *, where: Any = True, mean: Any = None, correction: Any = np._NoValue
            ) -> Any:  # fmt: skip
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


var = offers("var", does="`np.var`: divides by n - ddof; moments are combined in float64.")(partial(_moment, "var"))
std = offers("std", does="`np.std`: the square root of `var`.")(partial(_moment, "std"))


def _position(name: str, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    x = native(a)
    trial(name, x, axis=axis, out=out, keepdims=keepdims)
    axes = normal_axes(axis, x.ndim)
    alone = axes[0] if axis is not None and axes else None
    return reduce(name, x, axis, PositionReducer(name, x.dtype, alone, x.shape), np.dtype(np.intp), keepdims, out)


argmin = offers("argmin", does="`np.argmin`: position of the first minimum; NaN counts as the minimum.")(
    partial(_position, "argmin")
)
argmax = offers("argmax", does="`np.argmax`: position of the first maximum; NaN counts as the maximum.")(
    partial(_position, "argmax")
)


def is_mask(where: Any) -> bool:
    """Whether the argument `where=` leaves elements out; None leaves out all, as in NumPy."""
    return where is not True and (where is None or is_given(where))


def apply_where(name: str, x: Tensor, where: Any, put: Any) -> Tensor:
    """Replaces the elements of `x` by `put` where the mask is false; returns `x` itself without a mask.

    Raises
    ------
    ValueError
        If the mask does not broadcast to the shape of `x`.
    """
    if not is_mask(where):
        return x
    formula = Formula(name)
    mask, neutral = formula.read(False if where is None else where), formula.read(element(put, x.dtype))
    return formula.tensor(formula.where(mask, formula.read(x), neutral), x.shape, x.chunks)


def apply_initial(ufunc: str, result: Tensor, initial: Any) -> Tensor:
    """Combines the result of a reduction with `initial`."""
    if not is_given(initial):
        return result
    formula = Formula(ufunc)
    start = formula.read(element(initial, result.dtype))
    return formula.tensor(formula.apply(ufunc, start, formula.read(result)), result.shape)


def element_count(x: Tensor, axis: Any, keepdims: Any, where: Any) -> Any:
    """Number of elements that take part in a reduction."""
    if not is_mask(where):
        axes = range(x.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
        if not any(isinstance(x.shape[i], Unknown) for i in axes):
            return np.intp(math.prod(x.shape[i] for i in axes))
        where = True
    mask = call("broadcast_to", False if where is None else where, x.shape)
    return call("sum", mask, axis, np.intp, keepdims=keepdims)


def warn_where(condition: Any, value: Tensor, text: str) -> Tensor:
    """`value`, computed with a warning at the user's line if the condition holds for an element.

    The workers divide 0 by 0 there, and tell that as any floating point error (docs/decisions/0055), unless Python's
    filters ignore the warning now.
    """
    if is_ignored(text):
        return value
    formula = Formula("warn")
    wrong, read = formula.read(condition), formula.read(value)
    if wrong.number == -1:  # known at once
        if wrong.scalar:
            warn_user(text, RuntimeWarning)
        return value
    divisor = formula.where(wrong, formula.read(np.float64(0)), formula.read(np.float64(1)))
    formula.warns, formula.text = BITS["invalid"], text
    divided = formula.apply("divide", formula.read(np.float64(0)), divisor)
    formula.warns, formula.text = 0, ""
    return formula.tensor(formula.where(formula.apply("isnan", divided), read, read))


def divide_by_count(total: Tensor, count: Any, dtype: Any = None) -> Tensor:
    """A sum divided by a number of elements, in the sum's dtype or in `dtype`; 0 / 0 is NaN without a warning."""
    with np.errstate(all="ignore"):
        value = call("true_divide", total, count)
        return astype_unsafe(astype_unsafe(value, total.dtype), dtype or total.dtype)


def moment(
    x: Tensor, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: Any, where: Any, mean: Any, *, root: bool,
    narrow: bool = False,
) -> Tensor:  # fmt: skip
    """Variance, or with `root` the standard deviation, of the selected elements around `mean`.

    Rounds where NumPy rounds: the mean and the sum of squares to `dtype`, the latter to that of `out`, and with
    `narrow`, as `nanvar` does, distances to that of `x`. Then too few elements give NaN instead of a division by 0.
    """
    if not is_given(mean):
        mean = divide_by_count(
            call("sum", x, axis, dtype, keepdims=True, where=where), element_count(x, axis, True, where)
        )
    distance = call("subtract", x, mean)
    if narrow and distance.ndim and is_known([x.data.shape, distance.data.shape]) and distance.shape != x.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {x.shape} doesn't match the broadcast shape {distance.shape}"
        )
    distance = astype_unsafe(distance, x.dtype) if narrow else distance
    if x.dtype.kind in "iuf" or distance.dtype.kind != "c":  # NumPy looks at the dtype of `x`, but for booleans
        squares = call("square", distance)  # also where a complex dtype makes them complex
    elif narrow:
        squares = call("multiply", distance, call("conj", distance)).real
    else:
        squares = call("square", distance.real) + call("square", distance.imag)
    loop = loop_dtype("add", squares.dtype, dtype, out)
    total = call("sum", squares, axis, loop, keepdims=keepdims, where=where)
    total = astype_unsafe(total, out.dtype) if is_given(out) else total
    freedom = element_count(x, axis, keepdims, where) - ddof
    value = divide_by_count(total, freedom if narrow else call("maximum", freedom, 0))
    if narrow:
        value = call("where", freedom <= 0, value.dtype.type(np.nan), value)
    if narrow or is_mask(where):
        value = warn_where(freedom <= 0, value, "Degrees of freedom <= 0 for slice" + "." * narrow)
    return astype_unsafe(call("sqrt", value), value.dtype) if root else value


Array = np.ndarray[Any, Any]
BLOCK = 2**16  # elements that are added to a total at once


@dataclass(frozen=True, eq=False)
class Scan(Operand):
    """Computes `ufunc.accumulate` along an axis."""

    function: str
    ufunc: str
    axis: int
    name: ClassVar[str] = "scan"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    def token(self) -> Hashable:
        """Identifies the operand by function and axis."""
        return ("scan", self.function, self.ufunc, self.axis)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """The beginning of lines; not of some lines, where the last bits of the totals before depend on the other
        lines.
        """
        axis, (meta,) = self.axis, inputs
        own = kept[axis]
        is_first = isinstance(own, range) and own == range(len(own))
        return PartOf(self, [(0, kept)]) if is_first and self._is_alike(kept, meta, output) else None

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The beginning of the lines, or of all lines."""
        axis, (meta,) = self.axis, inputs
        first = (*kept[:axis], range(int(kept[axis][-1]) + 1), *kept[axis + 1 :])
        return (
            first
            if self._is_alike(first, meta, output)
            else (*whole(meta)[:axis], first[axis], *whole(meta)[axis + 1 :])
        )

    def _is_alike(self, kept: Part, meta: TensorMeta, output: TensorMeta) -> bool:
        """Whether a part has the bits of the whole: no total of floats is computed, or every total is of all lines."""
        if output.dtype.kind not in "fc":
            return True
        others = all(len(one) == n for i, (one, n) in enumerate(zip(kept, meta.shape)) if i != self.axis)
        return others or len(kept[self.axis]) <= meta.chunks[self.axis][0]

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a scan per chunk, and a running total per chunk except the last."""
        (source,) = inputs
        axis, params = self.axis, (self.ufunc, self.axis)
        lengths = source.splits[axis]
        ids = np.moveaxis(source.ids, axis, 0).reshape(len(lengths), -1)
        kinds, which = chunk_classes([s for i, s in enumerate(source.splits) if i != axis])
        which = which.reshape(-1)

        def program(k: int, function: Any, length: int, carried: int, out: int) -> Program:
            def chunk(n: int, dtype: np.dtype[Any]) -> ChunkType:
                return ChunkType((*kinds[k][:axis], n, *kinds[k][axis:]), dtype)

            types = [chunk(length, source.dtype)] + [chunk(1, output.dtype)] * carried
            work = chunk(length, output.dtype).nbytes if function is total and output.dtype == np.dtype("f2") else 0
            step = Call(function, params, tuple(range(len(types))), chunk(out, output.dtype), work=work)
            return single(self.function, types, step)

        rows: list[NDArray[np.int64]] = []
        carry: NDArray[np.int64] | None = None
        for at, length in enumerate(lengths):
            read = ids[at][:, None] if carry is None else np.stack([ids[at], carry], axis=1)
            carried = read.shape[1] - 1

            def scanned(k: int, length: int = length, carried: int = carried) -> Program:
                return program(k, scan, length, carried, length)

            def summed(k: int, length: int = length, carried: int = carried) -> Program:
                return program(k, total, length, carried, 1)

            rows.append(add_by_class(builder, scanned, which, read))
            if at + 1 < len(lengths):
                carry = add_by_class(builder, summed, which, read)
        grid = [n for i, n in enumerate(output.grid) if i != axis]
        return np.moveaxis(np.stack(rows).reshape(len(lengths), *grid), 0, axis)


def scan(out: Array, inputs: Sequence[Array], params: tuple[str, int], arg: Any) -> None:
    """Accumulates a chunk; starts from the second input, if given."""
    ufunc, axis = getattr(np, params[0]), params[1]
    source = inputs[0]
    if out.dtype == np.dtype("f2") or len(inputs) > 1:
        np.copyto(out, source, casting="unsafe")
        _begin_with(ufunc, inputs[1:], out, axis)
        source = out
    ufunc.accumulate(source, axis=axis, dtype=_dtype_argument(out), out=out)


def _begin_with(ufunc: np.ufunc, before: Sequence[Array], values: Array, axis: int) -> None:
    """Apply the ufunc to the total before and the first elements, so that no total is computed apart.

    A product that is 0 stays 0 though later elements, multiplied apart, would overflow.
    """
    if before and values.size:
        first = values[(slice(None),) * axis + (slice(0, 1),)]
        ufunc(before[0], first, out=first)


def total(out: Array, inputs: Sequence[Array], params: tuple[str, int], arg: Any) -> None:
    """Total of a chunk and of all chunks before it, the second input.

    Of float16 the total is the last element of the scan: NumPy rounds all partial results, so 1 + 1 + ... ends at 2048.
    """
    ufunc, axis = getattr(np, params[0]), params[1]
    if out.dtype == np.dtype("f2") and inputs[0].shape[axis]:
        scanned = np.empty(inputs[0].shape, out.dtype)
        scan(scanned, inputs, params, arg)
        np.copyto(out, scanned[(slice(None),) * axis + (slice(-1, None),)])
        return
    source, before = inputs[0], [*inputs[1:]]
    start = {"initial": out.dtype.type(-0.0)} if params[0] == "add" and out.dtype.kind == "f" else {}  # keeps -0.0
    length = max(1, BLOCK * source.shape[axis] // max(1, source.size))
    for at in range(0, max(1, source.shape[axis]), length):
        part = source[(slice(None),) * axis + (slice(at, at + length),)]
        if before:
            part = part.astype(out.dtype)
            _begin_with(ufunc, before, part, axis)
        ufunc.reduce(part, axis=axis, dtype=_dtype_argument(out), out=out, keepdims=True, **start)
        before = [out]


def _dtype_argument(out: Array) -> np.dtype[Any] | None:
    """dtype argument for a ufunc; None for times, for which NumPy accepts no unit there."""
    return None if out.dtype.kind in "mM" else out.dtype


def _cumulate(name: str, a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    ufunc_name = _UFUNCS[name]
    x = native(a)
    crashes = out is not None and not np.ndim(out)  # NumPy, for such an `out`
    trial(name, x, axis=axis, dtype=dtype, out=None if crashes else out)
    if crashes:
        raise ValueError("provided out is the wrong size for the accumulation.")  # NumPy's words
    if axis is None or names_no_axis(axis, x.ndim):
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim) if x.ndim else 0
    by_out = dtype is None and is_given(out)
    loop = loop_dtype(ufunc_name, x.dtype, None, out) if by_out else trial(name, x, axis=axis, dtype=dtype)
    return accumulated_along(name, ufunc_name, x, axis, loop, out)


def accumulated_along(name: str, ufunc_name: str, x: Tensor, axis: int, loop: np.dtype[Any], out: Any) -> Any:
    """Accumulates in the dtype `loop`, and writes the result to `out`, cast as needed."""
    scanned = Scan(name, ufunc_name, axis, inputs=(x.data,))
    return write_out(Tensor(new_data(scanned, x.shape, loop, x.chunks)), name, out)


cumsum = offers("cumsum", does="`np.cumsum`: cumulative sums along an axis, or of the flattened array.")(
    partial(_cumulate, "cumsum")
)
cumprod = offers("cumprod", does="`np.cumprod`: cumulative products along an axis, or of the flattened array.")(
    partial(_cumulate, "cumprod")
)


def _cumulate_others(name: str, a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    without = {"nancumsum": 0, "nancumprod": 1}[name]
    return _cumulate(name.removeprefix("nan"), _without_nan(a, without), axis, dtype, out)


offers("nancumsum", does="`np.nancumsum`: cumulative sums, NaN as 0.")(partial(_cumulate_others, "nancumsum"))
offers("nancumprod", does="`np.nancumprod`: cumulative products, NaN as 1.")(partial(_cumulate_others, "nancumprod"))


def _without_nan(a: Any, value: int) -> Tensor:
    x = as_tensor(a)
    if x.dtype.kind not in "fc":
        return x
    result: Tensor = FUNCTIONS["where"](ufunc("isnan")(x), x.dtype.type(value), x)
    return result


diff = offer_numpys("diff")


@offers("ediff1d")
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """`np.ediff1d`: differences of neighbours in the flattened array, with `to_begin` and `to_end` around them."""
    x = ravel(ary)
    parts = [ufunc("subtract")(slice_axis(x, 0, slice(1, None)), slice_axis(x, 0, slice(None, -1)))]
    for name, end, at in (("to_begin", to_begin, 0), ("to_end", to_end, 2)):
        if end is not None:
            if not np.can_cast(as_tensor(end).dtype, x.dtype, "same_kind"):
                raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
            parts.insert(at, astype(ravel(end), x.dtype))
    return concatenate(parts, dtype=x.dtype) if len(parts) > 1 else parts[0]


def _with_initial(name: str, x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None,
                  include_initial: bool = False) -> Any:  # fmt: skip
    a, initial = x, include_initial
    function, first = {"cumulative_sum": (cumsum, 0), "cumulative_prod": (cumprod, 1)}[name]
    x = as_tensor(a)
    x = x.reshape(1) if not x.ndim else x
    trial(name, x, axis=axis, dtype=dtype, out=out, include_initial=initial)
    axis = 0 if axis is None else operator.index(axis[0] if isinstance(axis, tuple) else axis)
    value = function(x, axis, dtype, None if initial else out)
    if not initial:
        return value
    axis = normal_axis(axis, x.ndim)
    head = full(tuple(1 if i == axis else n for i, n in enumerate(x.shape)), first, value.dtype)
    value = Tensor(concatenate([head, value], axis).data)
    return assign_out(value, out, name)


offers("cumulative_sum", does="`np.cumulative_sum`: cumulative sums, beginning with 0 if `include_initial` is true.")(
    partial(_with_initial, "cumulative_sum")
)
offers(
    "cumulative_prod", does="`np.cumulative_prod`: cumulative products, beginning with 1 if `include_initial` is true."
)(partial(_with_initial, "cumulative_prod"))
