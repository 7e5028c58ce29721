"""Arrays from values and from indices: `asarray`, `array`, `arange`, `eye`, `meshgrid`, ranges of datetimes.

A range is a `Generate` step: the argument is the first index of a chunk, and the reading kernel makes the elements
block by block. NumPy's functions of datetimes (business days, text) are called chunk by chunk.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.kernels.program import ChunkType, Fill, Generate, single
from jmars.tensor.buffers import layout_of, normal_copy, normal_order
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import Operand, Splits, TensorMeta, annotate, cast_dtype, check_dtype, new_data
from jmars.tensor.ops.arguments import assign_out, share, step, takes_like, trial, view
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import rechunk, rechunked
from jmars.tensor.ops.constants import check_device, known_order, shape_of
from jmars.tensor.ops.getitem import diagonal
from jmars.tensor.ops.map_blocks import map_blocks
from jmars.tensor.ops.shape import broadcast_to, concatenate, expand_dims, moveaxis, ravel, stack
from jmars.tensor.ops.ufuncs import astype, ufunc, where
from jmars.tensor.parts import Part, PartOf, around, is_box, splits_of
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.splits import ChunkSize, decide_splits, fitted_splits
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]


@offers("ascontiguousarray")
@takes_like
def ascontiguousarray(a: Any, dtype: Any = None) -> Tensor:
    """`np.ascontiguousarray`: a copy where the elements do not lie in C order; an axis or more."""
    x = asarray(a, dtype)
    return _in_order(x if x.ndim else x.reshape(1), "C")


@offers("asfortranarray")
@takes_like
def asfortranarray(a: Any, dtype: Any = None) -> Tensor:
    """`np.asfortranarray`: a copy where the elements do not lie in Fortran order; an axis or more."""
    x = asarray(a, dtype)
    return _in_order(x if x.ndim else x.reshape(1), "F")


def _in_order(x: Tensor, order: str | None) -> Tensor:
    """The tensor, or a copy where the elements do not lie in order "C" or "F"; "A", "K" and None keep any order.

    Raises
    ------
    ValueError
        If `order` is none of these.
    """
    order = normal_order(order)
    fits = order not in ("C", "F") or (x.flags.c_contiguous if order == "C" else x.flags.f_contiguous)
    return x if fits else Tensor(x.data)._laid_out_like((), order)


@offers("asarray")
@takes_like
def asarray(a: Any, dtype: Any = None, order: str | None = None, *, device: Any = None, copy: bool | None = None,
            chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.asarray`: returns a tensor as it is, takes other arrays by reference, in chunks of `chunk_size`.

    Raises
    ------
    ValueError
        If `copy` is False and dtype or order in memory need a copy.
    """
    check_device(device)
    copy = normal_copy(copy)
    if copy:
        return array(a, dtype, order=order or "K", chunk_size=chunk_size, chunks=chunks)
    if copy is False and not _is_as_asked(a, dtype, order):
        raise ValueError("Unable to avoid copy while creating an array as requested.")  # NumPy's words
    if isinstance(a, list | tuple) and _holds_tensors(a):
        a = stack([asarray(entry, dtype) for entry in a])
    if not isinstance(a, Tensor):
        return _in_order(as_tensor(a, dtype, chunk_size, chunks), order)
    x = a if a._place.is_array else _copied(a)  # of NumPy's scalars
    x = _in_order(x if dtype is None or x.dtype == cast_dtype(x.dtype, dtype) else astype(x, dtype), order)
    if chunk_size is None and chunks is None:
        return x
    cutting = step(
        lambda whole: rechunk(whole, chunk_size, chunks),
        lambda whole, part: rechunk(part, chunks=whole.chunks),
        lambda array: array,
    )
    return share(rechunk(x, chunk_size, chunks), x, cutting)


offers("asanyarray")(asarray)  # by itself, since it keeps masks


def _copied(x: Tensor) -> Tensor:
    """A new array, also of a scalar."""
    made = Tensor(x.data)
    made._place.buffer.is_array = True
    return made


def _is_as_asked(a: Any, dtype: Any, order: str | None) -> bool:
    """Whether an array has the dtype and the order in memory."""
    if not isinstance(a, Tensor):
        return isinstance(a, np.ndarray) and np.asarray(a, dtype, order) is a  # type: ignore[arg-type]
    of_dtype = dtype is None or a.dtype == cast_dtype(a.dtype, dtype)
    return bool(a._place.is_array and of_dtype and _in_order(a, order) is a)


@offers("array")
@takes_like
def array(a: Any, dtype: Any = None, *, copy: bool | None = True, order: str | None = "K", subok: bool = False,
          ndmin: int = 0, ndmax: Any = np._NoValue, chunk_size: ChunkSize = None, chunks: ChunkSize = None
          ) -> Tensor:  # fmt: skip
    """`np.array`: makes a tensor of an array, list or number; for a tensor, a copy unless `copy` is not True.

    Parameters
    ----------
    a
        With `copy` other than True a tensor is returned as it is where dtype and order fit, and an array is taken by
        reference, with its values at the time of submission.
    chunk_size, chunks
        Chunk size of the tensor; see `jmars.tensor.splits.decide_splits`.

    Examples
    --------
    >>> array([[1, 2], [3, 4]], chunk_size=1).chunks
    ((1, 1), (1, 1))
    """
    copy, ndmin = normal_copy(copy), operator.index(ndmin)
    if ndmax is not np._NoValue:
        checked = np.array(
            np.zeros((1,) * a.ndim, a.dtype) if isinstance(a, Tensor) else a, dtype, ndmin=ndmin, ndmax=ndmax
        )  # raises NumPy's errors
        a = a if isinstance(a, Tensor) or copy is False else checked
    if copy and isinstance(a, np.ndarray):
        a = a.copy(order="K")
    if copy:
        x = asarray(a, dtype, chunk_size=chunk_size, chunks=chunks)
        x = _copied(x)._laid_out_like([x._place], "K" if order is None else order, is_copy=True)
    else:
        x = asarray(a, dtype, order, copy=copy, chunk_size=chunk_size, chunks=chunks)
    return x if x.ndim >= ndmin else x.reshape((1,) * (ndmin - x.ndim) + x.shape)


@offers("method.view")
def reinterpret(x: Tensor, dtype: Any = None) -> Tensor:
    """`x.view`: reinterprets the bytes of the elements as a different dtype; of a different size, along the last axis.

    Raises
    ------
    ValueError
        NumPy's, where the elements of the last axis do not make up whole elements, or do not lie side by side.
    """
    if dtype is None:
        return view(x)
    kind = np.dtype(dtype)
    if kind.itemsize != x.dtype.itemsize:
        assert x.size >= 0  # lengths are known from here on
        shape = cast(Array, layout_of(x.state().place)).view(kind).shape  # NumPy's errors
        if len(shape) != x.ndim:
            raise UnsupportedError(f"a view as {kind}, which adds axes, is not in jmars; view the value, x.fetch()")
    own = x.dtype
    fields = kind.fields or {}
    has_gaps = bool(fields) and sum(one[0].itemsize for one in fields.values()) < kind.itemsize
    viewing = step(
        lambda whole: _viewed(whole, kind),
        None if has_gaps else lambda whole, part: Tensor(rechunked(_viewed(part, own).data, whole.data.chunks)),
        lambda array: array.view(kind),
    )
    return share(_viewed(x, kind), x, viewing)


def _viewed(x: Tensor, kind: np.dtype[Any]) -> Tensor:
    """The bytes of the elements as a different dtype, chunk by chunk."""
    old, new = x.dtype.itemsize, kind.itemsize
    if old == new:
        return blockwise("view", _view_block, [x], x.chunks, kind, (kind,), lines=())
    unit = math.lcm(old, new) // old  # elements that make up whole elements
    ends = [end if end == x.shape[-1] else end - end % unit for end in itertools.accumulate(x.chunks[-1])]
    lengths = tuple(n for start, end in itertools.pairwise([0, *ends]) if (n := end - start)) or (0,)
    data = rechunked(x.data, (*x.chunks[:-1], lengths))
    chunks = (*x.chunks[:-1], tuple(n * old // new for n in lengths))
    return blockwise("view", _view_block, [Tensor(data)], chunks, kind, (kind,), lines=(x.ndim - 1,))


def _view_block(block: Any, kind: np.dtype[Any]) -> Any:
    return np.ascontiguousarray(block).view(kind)


@offers("tensor")
def tensor(data: Any, dtype: Any = None, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
    """Makes a tensor of an array, list or number, as in Mars."""
    found: Any = call("asarray", data, dtype, chunk_size=chunk_size, chunks=chunks)
    return Tensor(found.data) if isinstance(found, Tensor) else found


@offers("from_dlpack")
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """`np.from_dlpack`: takes an array of another library by reference; for a tensor, a view.

    Parameters
    ----------
    device
        "cpu" or None.
    copy
        True copies the memory now; None and False keep a reference.

    Raises
    ------
    BufferError
        If the array lies on a device that NumPy cannot read.

    Examples
    --------
    >>> from_dlpack(np.arange(3)).shape
    (3,)
    """
    copy = normal_copy(copy)
    if isinstance(x, Tensor):
        if not x._place.is_array:
            raise AttributeError(
                f"'numpy.{x.dtype.type.__name__}' object has no attribute '__dlpack__'"
            )  # NumPy's words
        if x.dtype.kind not in "biufc":
            raise BufferError("DLPack only supports signed/unsigned integers, float and complex dtypes.")
        if not x.dtype.isnative:
            raise BufferError("DLPack only supports native byte order.")  # NumPy's words
        check_device(device)
        there = x.to_device(device or "cpu")
        return array(there) if copy else view(there)
    return as_tensor(np.from_dlpack(x, device=device, copy=copy))


def _holds_tensors(value: Any) -> bool:
    """Whether nested lists contain a tensor."""
    return isinstance(value, Tensor) or (isinstance(value, list | tuple) and any(map(_holds_tensors, value)))


@dataclass(frozen=True, eq=False)
class Range(Operand):
    """An arithmetic sequence; `open(params, offset, chunk type)` returns the function that writes the elements."""

    function: str
    open: Callable[[tuple[Any, ...], Any, ChunkType], Fill]
    params: tuple[Any, ...]
    splits: Splits
    begin: int | None = None  # of a part; None: the whole
    name: ClassVar[str] = "range"

    @property
    def label(self) -> str:
        """The function that the user called, with a mark for a part."""
        return self.function if self.begin is None else f"{self.function}[...]"

    def token(self) -> Hashable:
        """Identifies the operand by function, parameters, splits and begin."""
        return (self.function, repr(self.params), self.splits, self.begin)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Generates neighbouring elements."""
        made = replace(self, splits=splits_of(kept, output), begin=kept[0][0])
        return PartOf(made, []) if is_box(kept) else None

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The elements from the first to the last."""
        return around(kept)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with the offset as argument."""
        shapes, which = shape_classes(output.chunks)
        programs = [
            single(self.label, (), Generate(self.open, self.params, ChunkType(shape, output.dtype), True))
            for shape in shapes
        ]
        offsets = np.cumsum((self.begin or 0,) + output.chunks[0][:-1]).tolist()
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
    params = (first, second) if kind.kind == "b" else (first, np.subtract(second, first))  # unsigned: modulo 2**n
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
        if output.dtype.kind == "u":
            i = i.astype(output.dtype)  # modulo 2**n; int64 and uint64 would meet in float64
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
    """`np.meshgrid`, with the chunks of the arguments as far as chunks of the default size allow."""
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


_CALENDAR = ("weekmask", "holidays", "busdaycal", "out")
DATETIME_FUNCTIONS = {  # by name: how many arguments are arrays, and the names of the others
    "datetime_as_string": (1, ("unit", "timezone", "casting")),
    "busday_count": (2, _CALENDAR),
    "busday_offset": (2, ("roll", *_CALENDAR)),
    "is_busday": (1, _CALENDAR),
}


def _offer_datetime_function(name: str) -> None:
    theirs: Callable[..., Any] = getattr(np, name)
    n, others = DATETIME_FUNCTIONS[name]

    @functools.wraps(theirs)
    def function(*args: Any, **kwargs: Any) -> Any:
        more = {**dict(zip(others, args[n:])), **kwargs}
        is_written, out = "out" in more, more.pop("out", None)
        more = as_values(more)
        given = [_moment(x) for x in args[:n]]
        if any(isinstance(x, Tensor) for x in given):
            given = [as_tensor(x) if np.ndim(x) else x for x in given]
        ones = [np.zeros(1, x.dtype) if isinstance(x, Tensor) else x for x in given]  # 1970-01-01, a Thursday
        dtype = theirs(*ones, **more).dtype
        if is_written and not isinstance(out, Tensor | np.ndarray):
            raise ValueError(f"{name}: must provide a NumPy array for 'out'")  # NumPy's words
        if isinstance(out, Tensor):
            theirs(*ones, **more, out=np.zeros(1, out.dtype))  # raises NumPy's error
        if not any(isinstance(x, Tensor) for x in given):
            value = theirs(*given, **more)
            return value if out is None else assign_out(as_tensor(value), out, name, "unsafe")
        if (calendar := more.pop("busdaycal", None)) is not None:  # does not pickle
            more |= {"weekmask": calendar.weekmask.astype("i1"), "holidays": calendar.holidays}
        return assign_out(map_blocks(theirs, *given, dtype=dtype, name=name, **more), out, name, "unsafe")

    offers(name)(function)


def _moment(x: Any) -> Any:
    """A number as NumPy's functions take it, of any dtype; an array without axes stays a tensor."""
    return x.fetch() if isinstance(x, Tensor) and not x._place.is_array else x


for _name in DATETIME_FUNCTIONS:
    _offer_datetime_function(_name)


@offers("method.arange_datetimes")
def arange_datetimes(start: Any, stop: Any, step: Any, dtype: Any, chunk_size: ChunkSize, chunks: ChunkSize) -> Tensor:
    """`np.arange` of datetimes or timedeltas; NumPy decides the unit.

    Raises
    ------
    TypeError, ValueError
        As NumPy raises them.
    """
    kind = _kind_of_range(start, stop, step, dtype)
    first, gap = _ticks(start, kind), _ticks(step, kind)
    relative = kind.kind == "M" and np.asarray(stop).dtype.kind not in "MSU"  # a number of units after the start
    last = _ticks(stop, kind) + (first if relative else 0)
    count = max(0, -((first - last) // gap))
    return astype(arange(first, first + count * gap, gap, chunk_size=chunk_size, chunks=chunks), kind)


def _kind_of_range(start: Any, stop: Any, step: Any, dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype of a range, by every millionth element, whose values may overflow; raises NumPy's errors."""
    made: Any
    try:
        made = np.arange(start, stop, step * 10**6, dtype=dtype)
    except OverflowError:  # of so large a step that all elements are few
        made = np.arange(start, stop, step, dtype=dtype)
    kind: np.dtype[Any] = made.dtype
    return kind


def _ticks(value: Any, kind: np.dtype[Any]) -> int:
    """Converts a datetime, timedelta or number to a count of units of `kind`."""
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        array = array.astype(kind)
    elif array.dtype.kind in "mM":
        array = array.astype(kind.str.replace(kind.char, array.dtype.char, 1))
    return int(array.astype(np.int64))
