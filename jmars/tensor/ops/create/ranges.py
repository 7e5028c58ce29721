"""Arrays computed from their indices: ranges, grids, unit matrices and triangles.

A range is a `Generate` step: its argument is the first index of a chunk, and the reading kernel makes the elements
block by block.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.kernels.program import ChunkType, Fill, Generate, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.operand import Operand, Splits, TensorMeta, annotate, cast_dtype, check_dtype, new_data
from jmars.tensor.ops.create.constants import check_device, known_order, shape_of
from jmars.tensor.ops.create.like_argument import takes_like
from jmars.tensor.ops.elementwise.ufuncs import astype, ufunc, where
from jmars.tensor.ops.index.getitem import diagonal
from jmars.tensor.ops.reduce.trial import trial
from jmars.tensor.ops.shape.axes import broadcast_to, expand_dims, moveaxis
from jmars.tensor.ops.shape.concatenate import concatenate, stack
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.splits import ChunkSize, decide_splits, fitted_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = [
    "arange",
    "diag",
    "diagflat",
    "eye",
    "identity",
    "indices",
    "linspace",
    "logspace",
    "meshgrid",
    "tri",
    "tril",
    "triu",
]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Range(Operand):
    """An arithmetic sequence; `open(params, offset, chunk type)` returns the function that writes its elements."""

    function: str
    open: Callable[[tuple[Any, ...], Any, ChunkType], Fill]
    params: tuple[Any, ...]
    splits: Splits
    name: ClassVar[str] = "range"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    def token(self) -> Hashable:
        """Identifies the operand by function, parameters and splits."""
        return (self.function, repr(self.params), self.splits)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with its offset as the argument."""
        shapes, which = shape_classes(output.chunks)
        programs = [
            single(self.function, (), Generate(self.open, self.params, ChunkType(shape, output.dtype), True))
            for shape in shapes
        ]
        offsets = np.cumsum((0,) + output.chunks[0][:-1]).tolist()
        return builder.add_many(programs, which, np.empty((which.size, 0), np.int64), list(zip(offsets)))


@offers("arange")
@takes_like
def arange(start_or_stop: Any = np._NoValue, /, stop: Any = None, step: Any = 1, dtype: Any = None, *,
           start: Any = None, device: Any = None, gpu: bool | None = None, chunk_size: ChunkSize = None,
           chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.arange`, in chunks of `chunk_size`; `gpu` as for `jmars.annotate`.

    Examples
    --------
    >>> arange(10, chunk_size=4).chunks
    ((4, 4, 2),)
    """
    check_device(device)
    is_given = start_or_stop is not np._NoValue
    if stop is None and not is_given:
        raise TypeError("arange() requires stop to be specified.")  # NumPy's words
    if is_given and start is not None:
        raise TypeError("argument for arange() given by name ('start') and position (position 0)")  # NumPy's words
    start = start_or_stop if is_given else 0 if start is None else start
    if start is None:
        raise TypeError("unsupported operand type(s) for -: 'int' and 'NoneType'")  # NumPy's words
    if stop is None:
        if dtype is not None and np.dtype(dtype).kind == "M":
            np.arange(0, dtype=dtype)  # raises NumPy's error
        start, stop = 0, start
    start, stop, step = given = [one.fetch() if isinstance(one, Tensor) else one for one in (start, stop, step)]
    kinds = [np.asarray(value).dtype.kind for value in given]
    if dtype is not None and np.dtype(dtype).kind in "mM" and "f" not in kinds or {*kinds} & {*"mMSU"}:
        return cast(Tensor, call("method.arange_datetimes", start, stop, step, dtype, chunk_size, chunks))
    if {*kinds} - {*"biuf"}:
        raise UnsupportedError("np.arange of other than real numbers is not in jmars; use asarray(numpy.arange(...))")
    if step == 0:
        raise ZeroDivisionError("division by zero")
    if "S" in kinds or "U" in kinds:
        cast(Any, np.arange)(start, stop, step, dtype)  # raises NumPy's error
    count = (stop - start) / step
    if not math.isfinite(count):
        raise ValueError("arange: cannot compute length" if math.isnan(count) else "Maximum allowed size exceeded")
    length = max(0, math.ceil(count))
    if not count and stop != start:  # divided by an infinite step, or less than the smallest number
        length = int(math.copysign(1, count) > 0)
    kind = check_dtype(np.result_type(int, *map(np.asarray, given)) if dtype is None else dtype)
    first = second = _element(start if length else 0, kind)
    if length > 1:  # the gap of the first two, as in NumPy
        second = _element(start + step, kind)
    if kind.kind == "b" and length > 2:
        raise TypeError("arange() is only supported for booleans when the result has at most length 2.")
    params = (first, second) if kind.kind == "b" else (first, second - first)
    if kind.kind in "mM" and any(np.asarray(value).dtype.kind == "f" for value in given):
        raise ValueError("Could not convert object to NumPy timedelta")  # NumPy's words
    splits = decide_splits((length,), kind, chunk_size, chunks)
    with annotate(gpu=gpu):
        return Tensor(new_data(Range("arange", open_arange, params, splits), (length,), kind, splits))


def _element(value: Any, kind: np.dtype[Any]) -> Any:
    """A number as a scalar of `kind`; an integer that does not fit raises an OverflowError with NumPy's words."""
    return np.array(value.item() if isinstance(value, np.generic) else value, kind)[()]


def open_arange(params: tuple[Any, ...], offset: int, output: ChunkType) -> Fill:
    """Returns the function that writes first + i * gap in the dtype of the range, as NumPy's fill functions do."""
    first, gap = params

    def fill(out: Array, start: int) -> None:
        begin = offset + start
        if output.dtype.kind == "b":
            out[...] = np.array([first, gap])[begin : begin + out.size]
            return
        i = np.arange(begin, begin + out.size)
        with np.errstate(over="ignore"):
            np.multiply(i, gap, out=out, casting="unsafe")
            np.add(out, first, out=out, casting="unsafe")
        if not begin:
            out[:1] = first  # 0 * gap + -0.0 is 0.0

    return fill


@offers("linspace")
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
             axis: int = 0, *, device: Any = None, gpu: bool | None = None, chunk_size: ChunkSize = None,
             chunks: ChunkSize = None) -> Any:  # fmt: skip
    """`np.linspace` between two numbers or arrays, in chunks of `chunk_size`; `gpu` as for `jmars.annotate`.

    Examples
    --------
    >>> linspace(0, 1, 5, chunk_size=2).fetch().tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    check_device(device)
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    if np.ndim(start) or np.ndim(stop):
        result, step = _between_arrays(start, stop, num, endpoint, dtype, axis)
        if chunk_size is not None or chunks is not None:
            result = call("rechunk", result, chunk_size, chunks)
        return (result, step) if retstep else result
    np.moveaxis(np.zeros(1), 0, axis)  # raises NumPy's errors
    parts = num - 1 if endpoint else num
    like = [np.zeros((), one.dtype) if isinstance(one, Tensor) else one for one in (start, stop)]
    start, stop = (one.fetch() if isinstance(one, Tensor) else one for one in (start, stop))
    inner = np.linspace(start, stop, 0).dtype  # Python's numbers are weak
    start, stop = np.asarray(start)[()], np.asarray(stop)[()]
    kind = np.linspace(like[0], like[1], 0).dtype if dtype is None else cast_dtype(inner, dtype)
    splits = decide_splits((num,), check_dtype(kind), chunk_size, chunks)
    params = (inner.str, start, stop, num, parts, bool(endpoint))
    with annotate(gpu=gpu):
        result = Tensor(new_data(Range("linspace", open_linspace, params, splits), (num,), kind, splits))
    step = np.subtract(stop, start, dtype=inner) / parts if parts > 0 else np.nan
    return (result, step) if retstep else result


def _between_arrays(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int) -> tuple[Tensor, Any]:
    """Values between the elements of arrays, by NumPy's sequence of operations, and their distance."""
    first, last = (one if isinstance(one, int | float | complex) else as_tensor(one) for one in (start, stop))
    inner = np.result_type(*(one.dtype if isinstance(one, Tensor) else one for one in (first, last)), 0.0)
    delta = astype(as_tensor(last), inner) - astype(as_tensor(first), inner)
    numbers = arange(num).reshape((num,) + (1,) * delta.ndim)
    y, parts = astype(numbers, inner), num - 1 if endpoint else num
    step: Any = delta / parts if parts > 0 else np.nan
    y = where((step == 0).any(), y / parts * delta, y * step) if parts > 0 else y * delta
    y = y + first
    if endpoint and num > 1:
        y = where(numbers == num - 1, last, y)
    y = moveaxis(y, 0, axis)
    kind = trial("linspace", start, stop, num=0) if dtype is None else cast_dtype(inner, dtype)
    return astype(ufunc("floor")(y) if kind.kind in "ium" else y, kind), step


def open_linspace(params: tuple[Any, ...], offset: int, output: ChunkType) -> Fill:
    """Returns the function that writes a part of `np.linspace`, with NumPy's sequence of operations."""
    inner, start, stop, num, parts, endpoint = params
    delta = np.subtract(stop, start, dtype=inner)
    step = delta / parts if parts > 0 else np.nan

    def fill(out: Array, begin: int) -> None:
        first = offset + begin
        y = np.arange(first, first + out.size).astype(inner)
        if parts > 0:
            y = y / parts * delta if step == 0 else y * step
        else:
            y = y * delta
        y += start
        if endpoint and num > 1 and first <= num - 1 < first + out.size:
            y[num - 1 - first] = stop
        if output.dtype.kind in "ium":  # NumPy counts timedeltas among the integers
            np.floor(y, out=y)
        np.copyto(out, y, casting="unsafe")

    return fill


@offers("logspace")
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None,
             axis: int = 0, *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.logspace` between two powers, in chunks of `chunk_size`."""
    if np.ndim(base):
        most = max(map(np.ndim, (start, stop, base)))
        start, stop, base = (call("array", one, ndmin=most) for one in (start, stop, base))
        base = expand_dims(base, axis)
    exponents = linspace(start, stop, num, endpoint, axis=axis, chunk_size=chunk_size, chunks=chunks)
    result = base**exponents
    return result if dtype is None else astype(result, dtype)


def _compare_positions(comparison: str, n: int, m: int, shift: Any, splits: Splits) -> Tensor:
    """Compares row number + shift with the column number, in an (n, m) boolean matrix."""
    if isinstance(shift, int | np.integer):
        shift = min(max(shift, -n), m)  # a larger shift changes no element, and might not fit into int64
        rows, columns = arange(shift, n + shift, chunks=(splits[0],)), arange(m, chunks=(splits[1],))
    else:  # as NumPy reads a shift by a part of an element
        rows, columns = arange(n, chunks=(splits[0],)), arange(-shift, m - shift, dtype=np.intp, chunks=(splits[1],))
    result: Tensor = getattr(expand_dims(rows, 1), comparison)(expand_dims(columns, 0))
    return result


@offers("eye")
@takes_like
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, order: str = "C", *, device: Any = None,
        chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.eye`: a matrix with ones on a diagonal, in chunks of `chunk_size`."""
    check_device(device)
    known_order(order)
    n, m = shape_of((N, N if M is None else M))
    kind = check_dtype(dtype)
    is_one = _compare_positions("__eq__", n, m, k, decide_splits((n, m), kind, chunk_size, chunks))
    made = astype(is_one, kind) if kind.kind in "biufc" else where(is_one, np.ones((), kind), np.zeros((), kind))
    return made._laid_out_like((), order or "C")


@offers("identity")
@takes_like
def identity(n: int, dtype: Any = None, *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
    """`np.identity`, in chunks of `chunk_size`."""
    return eye(n, dtype=dtype, chunk_size=chunk_size, chunks=chunks)


@offers("tri")
@takes_like
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float, *, chunk_size: ChunkSize = None,
        chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.tri`: a matrix with ones at and below a diagonal, in chunks of `chunk_size`."""
    n, m = (max(math.ceil(one), 0) for one in (N, N if M is None else M))
    kind = cast_dtype(np.dtype(bool), dtype)
    return astype(_compare_positions("__ge__", n, m, k, decide_splits((n, m), kind, chunk_size, chunks)), kind)


def _triangle(m: Any, k: int, lower: bool) -> Tensor:
    x = as_tensor(m)
    if x.ndim == 1:
        x = broadcast_to(x, (x.size, x.size), chunks=x.chunks * 2)
    below = _compare_positions("__ge__", x.shape[-2], x.shape[-1], k if lower else k - 1, x.chunks[-2:])
    zero = np.zeros((), x.dtype)[()]  # also for datetimes
    return where(below, x, zero) if lower else where(below, zero, x)


@offers("tril")
def tril(m: Any, k: int = 0) -> Tensor:
    """`np.tril`: sets elements above a diagonal to zero."""
    return _triangle(m, k, lower=True)


@offers("triu")
def triu(m: Any, k: int = 0) -> Tensor:
    """`np.triu`: sets elements below a diagonal to zero."""
    return _triangle(m, k, lower=False)


@offers("diag")
def diag(v: Any, k: int = 0) -> Tensor:
    """`np.diag`: makes a matrix with `v` on a diagonal, or returns the diagonal of a matrix."""
    x = as_tensor(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = x.size + abs(k)
    rest = arange(abs(k)).astype(x.dtype)
    line = concatenate([x, rest], dtype=x.dtype, casting="unsafe")
    on = _compare_positions("__eq__", n, n, k, line.chunks * 2)
    return astype(where(on, expand_dims(line, 1 if k >= 0 else 0), np.zeros((), x.dtype)), x.dtype)


@offers("meshgrid")
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    """`np.meshgrid`, with the chunks of its arguments as far as chunks of the default size allow."""
    return _meshgrid(xi, copy, sparse, indexing, fitted_splits)


def _meshgrid(
    xi: Sequence[Any], copy: bool, sparse: bool, indexing: str, cuts: Callable[[Splits, int], Splits]
) -> tuple[Tensor, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    lines = [as_tensor(x).reshape(-1) for x in xi]
    place = list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        place[:2] = [1, 0]
    order = sorted(place, key=place.__getitem__)
    shape = tuple(lines[i].size for i in order)
    cut = cuts(tuple(lines[i].chunks[0] for i in order), max((x.itemsize for x in lines), default=1))
    found = [expand_dims(x, tuple(i for i in range(len(lines)) if i != at)) for x, at in zip(lines, place)]
    whole = found if sparse else [broadcast_to(x, shape, chunks=cut) for x in found]
    return tuple(Tensor(x.data) for x in whole) if copy else tuple(whole)


@offers("indices")
def indices(dimensions: Any, dtype: Any = int, sparse: bool = False, *, chunk_size: ChunkSize = None,
            chunks: ChunkSize = None) -> Any:  # fmt: skip
    """`np.indices`: an index array per axis, stacked; `chunk_size` is the chunk size of a single index array."""
    if sparse:  # lines alone, of any length, as by `arange`
        return meshgrid(*(arange(n, dtype=dtype) for n in dimensions), sparse=True, indexing="ij")
    dtype = np.dtype(dtype)
    shape = shape_of(tuple(dimensions))
    if not shape:
        return FUNCTIONS["empty"](0, dtype)
    splits = decide_splits(shape, check_dtype(dtype), chunk_size, chunks)
    lines = [arange(n, dtype=dtype, chunks=(cut,)) for n, cut in zip(shape, splits)]
    return stack(_meshgrid(lines, True, False, "ij", lambda cut, _: cut), dtype=dtype)


@offers("fromfunction")
@takes_like
def fromfunction(function: Any, shape: Any, *, dtype: Any = float, chunk_size: ChunkSize = None,
                 chunks: ChunkSize = None, **kwargs: Any) -> Any:  # fmt: skip
    """`np.fromfunction`: calls a function with index arrays, given as tensors."""
    whole = shape_of(shape)
    splits = decide_splits(whole, check_dtype(dtype), chunk_size, chunks)
    lines = [arange(n, dtype=dtype, chunks=(cut,)) for n, cut in zip(whole, splits)]
    return function(*_meshgrid(lines, True, False, "ij", lambda cut, _: cut), **kwargs)


@offers("diagflat")
def diagflat(v: Any, k: int = 0) -> Tensor:
    """`np.diagflat`: makes a matrix with the flattened array on a diagonal."""
    return diag(ravel(v), operator.index(k))
