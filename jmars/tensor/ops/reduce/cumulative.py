"""Cumulative sums and products along an axis, and differences.

The scan of a chunk starts from the total of all chunks before. Totals are computed first and carried from chunk to
chunk, so that scans do not wait for scans. Source: Blelloch 1990 (scan in two passes).
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.ops.create.constants import full
from jmars.tensor.ops.elementwise.ufuncs import astype, native, ufunc
from jmars.tensor.ops.out_argument import assign_out, write_out
from jmars.tensor.ops.reduce.trial import is_given, loop_dtype, trial
from jmars.tensor.ops.shape.axes import broadcast_to, names_no_axis, normal_axis
from jmars.tensor.ops.shape.concatenate import concatenate, slice_axis
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.protocols import FUNCTIONS, offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff", "ediff1d"]

Array = np.ndarray[Any, Any]
BLOCK = 2**16  # elements that are added to a total at once


@dataclass(frozen=True, eq=False)
class Scan(Operand):
    """Computes `ufunc.accumulate` along an axis."""

    function: str
    ufunc: str
    axis: int
    name: ClassVar[str] = "scan"
    reads_all: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    def token(self) -> Hashable:
        """Identifies the operand by function and axis."""
        return ("scan", self.function, self.ufunc, self.axis)

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

    Of float16 it is the last element of the scan: NumPy rounds each partial result, so 1 + 1 + ... ends at 2048.
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


def _cumulate(name: str, ufunc_name: str, a: Any, axis: int | None, dtype: Any, out: Any) -> Any:
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


@offers("cumsum")
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """`np.cumsum`: cumulative sums along an axis, or of the flattened array."""
    return _cumulate("cumsum", "add", a, axis, dtype, out)


@offers("cumprod")
def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """`np.cumprod`: cumulative products along an axis, or of the flattened array."""
    return _cumulate("cumprod", "multiply", a, axis, dtype, out)


@offers("nancumsum")
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """`np.nancumsum`: cumulative sums that treat NaN as 0."""
    return cumsum(_without_nan(a, 0), axis, dtype, out)


@offers("nancumprod")
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """`np.nancumprod`: cumulative products that treat NaN as 1."""
    return cumprod(_without_nan(a, 1), axis, dtype, out)


def _without_nan(a: Any, value: int) -> Tensor:
    x = as_tensor(a)
    if x.dtype.kind not in "fc":
        return x
    result: Tensor = FUNCTIONS["where"](ufunc("isnan")(x), x.dtype.type(value), x)
    return result


@offers("diff")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Any:
    """`np.diff`: differences of neighbours along an axis, repeated `n` times."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    x = as_tensor(a)
    if n == 0:
        return x if isinstance(a, np.ndarray) else a  # as it is, in NumPy too
    if not x.ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = normal_axis(axis, x.ndim)
    ends = [_end_array(x, value, axis) for value in (prepend, append)]
    if any(end is not None for end in ends):
        x = concatenate([part for part in (ends[0], x, ends[1]) if part is not None], axis)
    for _ in range(n):
        later, earlier = slice_axis(x, axis, slice(1, None)), slice_axis(x, axis, slice(None, -1))
        x = ufunc("not_equal" if x.dtype == np.dtype(bool) else "subtract")(later, earlier)
    return Tensor(x.data)


def _end_array(x: Tensor, value: Any, axis: int) -> Tensor | None:
    """Converts `prepend` or `append` to an array with the axes of `x`; None if there is none."""
    if value is np._NoValue:
        return None
    end = as_tensor(value)
    return end if end.ndim else broadcast_to(end, tuple(1 if i == axis else n for i, n in enumerate(x.shape)))


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


@offers("cumulative_sum")
def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None,
                   include_initial: bool = False) -> Any:  # fmt: skip
    """`np.cumulative_sum`: cumulative sums, beginning with 0 if `include_initial` is true."""
    return _with_initial("cumulative_sum", cumsum, 0, x, axis, dtype, out, include_initial)


@offers("cumulative_prod")
def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None,
                    include_initial: bool = False) -> Any:  # fmt: skip
    """`np.cumulative_prod`: cumulative products, beginning with 1 if `include_initial` is true."""
    return _with_initial("cumulative_prod", cumprod, 1, x, axis, dtype, out, include_initial)


def _with_initial(name: str, function: Any, first: int, a: Any, axis: Any, dtype: Any, out: Any, initial: bool) -> Any:
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
