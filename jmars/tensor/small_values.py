"""Small values of a cell: NumPy computes them at once, in this process, and no node is made.

The rule holds for a call where all arguments are Python's numbers, lists of them, NumPy's arrays and scalars, and
tensors with elements in this process, and where the result is small too. NumPy's own function computes the result, with
NumPy's bits, errors and warnings. Other calls make nodes, and so do all calls outside of cells.

The memory order of a result that is made as a node is NumPy's too: NumPy's own function, called on arrays of few
elements, tells where elements would lie. `x.flags`, `x.strides`, `ravel("K")` and `tobytes("A")` depend on the order.
Only results of arrays that do not lie in C order can lie in a different order; other calls pay a look at the arguments.
Source: docs/decisions/0060-small-values.md.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, ValuesView
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from jmars.config import config
from jmars.tensor.buffers import Buffer, SmallValues, layout_of, small_layout, strides_in_order
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.protocols import set_layout_hook, set_small_hook
from jmars.tensor.small_parts import AwayError, apply_small, here, raise_warnings, repeated, rows
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
SMALL = 2**22  # bytes of a value that stays in this process
PERHAPS_SMALL = 2**26  # most bytes of a value of unknown length that is computed before a call that needs the length
_WRITEABLE, _FLAGS = 0x400, 0x80000400  # in flags.num; NumPy warns at a write to an array with the highest bit

# Functions of which the result is a view of the first argument, unless it is a copy: with all of those whose views may
# only be read, and those of several views.
_READ_ONLY = frozenset({"diag", "diagonal", "linalg.diagonal"})
_WRITES = frozenset({"copyto", "fill_diagonal", "method.fill", "place", "put", "put_along_axis", "putmask"})
_PARTS = frozenset({"array_split", "dsplit", "hsplit", "split", "unstack", "vsplit"})
_VIEWS = (
    _READ_ONLY
    | _PARTS
    | frozenset(
        """atleast_1d atleast_2d atleast_3d broadcast_arrays expand_dims flip fliplr flipud linalg.matrix_transpose
    matrix_transpose moveaxis permute_dims ravel reshape rollaxis rot90 squeeze swapaxes transpose""".split()  # noqa: SIM905
    )
)


def _compute(
    name: str, theirs: Callable[..., Any], ours: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a call that stays here; NotImplemented for a call that makes a node."""
    out, options = None, kwargs
    if name in _WRITES:
        return None if args and apply_small(theirs, *args, **kwargs) else NotImplemented
    try:
        is_masked = name[:3] == "ma."
        take = _masked_here if is_masked else here if name != "piecewise" else _called_here
        given = [take(one) for one in args]
        if kwargs:
            if "chunk_size" in kwargs or "chunks" in kwargs or kwargs.get("like") is not None:
                return NotImplemented
            options = {key: take(one) for key, one in kwargs.items() if key != "out" or one is None}
            out = kwargs.get("out")
            if is_masked and out is not None:
                return NotImplemented
    except AwayError:
        is_view = name in _VIEWS and all(map(_is_text, args))
        return theirs(*args, **kwargs) if is_view else NotImplemented
    if out is not None:
        return _compute_into(out, theirs, given, options)
    if SmallValues.largest() < SmallValues.limit and _nbytes(given) > SmallValues.largest():
        return NotImplemented
    if not _fits(name, theirs, given, options):
        SmallValues.count(1)
        try:
            found = ours(*args, **kwargs)
        finally:
            SmallValues.count(-1)
        results = found if isinstance(found, tuple | list) else (found,)
        if not all(map(_is_small, results)) or any(one is other for one in results for other in args):
            return found  # also where it was written to an argument
    raise_warnings()
    try:
        result = theirs(*given, **options)
    except Warning as warning:
        result = repeated(warning, theirs, *given, **options)
    except ValueError as error:
        if "read-only" in str(error):  # of a function that writes to an argument
            return NotImplemented
        raise
    if name in _VIEWS and given and args[0].__class__ is Tensor:
        parts = [result] if result.__class__ is np.ndarray else result if name in _PARTS else ()
        if parts and all(_shares(one, given[:1]) for one in parts if one.size or one is result):
            views = [_view(args[0], ours, given, options, one, k, name) for k, one in enumerate(parts)]
            return views[0] if parts is not result else type(result)(views)
    values = (*args, *kwargs.values())
    found = _wrapped(result, [*given, *options.values()] if options else given, values)
    if found is NotImplemented and not _has_tensor(values) and (name in _VIEWS or any(map(_is_text, args))):
        return result  # a view of an array that the cell has as NumPy's
    return found


def _masked_here(value: Any) -> Any:
    """NumPy's value of an argument of a function of `np.ma`; raises AwayError as `here`."""
    kind = value.__class__
    if kind is SmallValues.masked:
        if (found := value.here()) is None:
            raise AwayError
        return found
    return kind(map(_masked_here, value)) if kind is list or kind is tuple else here(value)


def _called_here(value: Any) -> Any:
    """NumPy's value of an argument, or a function of the user, called with tensors; raises AwayError as `here`."""
    kind = value.__class__
    if callable(value) and not isinstance(value, type | Tensor):
        return lambda x, *args, **kwargs: as_values(value(_tensor(x), *args, **kwargs))
    return kind(map(_called_here, value)) if kind is list or kind is tuple else here(value)


def _compute_into(out: Any, theirs: Callable[..., Any], given: list[Any], options: dict[str, Any]) -> Any:
    """Write a result to the memory of `out`."""
    if out.__class__ is tuple and len(out) == 1 and theirs.__class__ is np.ufunc:
        (out,) = out
    if out.__class__ is not Tensor:
        return NotImplemented
    if not out.ndim and theirs.__class__ is not np.ufunc:
        return NotImplemented  # NumPy's cumsum and cumprod crash

    def compute(memory: Array) -> None:
        if theirs is operator.pow:
            memory **= given[1]
        else:
            theirs(*given, out=memory, **options)

    return out if apply_small(compute, out) else NotImplemented


def _is_small(found: Any) -> bool:
    """Whether a result that makes a node would be small."""
    return isinstance(found, Tensor) and not found.data.has_unknown_lengths and found.nbytes <= SmallValues.largest()


def _fits(name: str, theirs: Any, given: list[Any], options: dict[str, Any]) -> bool:
    """Whether a result is certainly small, by the sizes of the arguments."""
    limit = SmallValues.largest() // 16
    if theirs.__class__ is np.ufunc and theirs.signature is None or name == "where":
        arrays = [
            one for one in given if one.__class__ is np.ndarray or one.__class__ is list or one.__class__ is tuple
        ]
        try:
            return len(arrays) < 2 or math.prod(np.broadcast_shapes(*map(np.shape, arrays))) <= limit
        except ValueError:  # NumPy's function says it in words of its own
            return True
    if name.startswith(("char.", "strings.")):  # an integer among the arguments may be the length of the texts
        return _product((given, options.values())) <= limit
    most = _MOST.get(name.removeprefix("linalg.").removeprefix("ma."))
    if most is None and name.startswith("ma."):
        with suppress(ValueError):  # of arrays that do not broadcast, as the function does not
            if _joint(*(one for one in given if isinstance(one, np.ndarray))) > limit:
                return False
    if most is None:  # arrays in a list, as of `np.stack`, may be many
        lists = (one for one in given if one.__class__ in (list, tuple) and one)
        return all(
            one[0].__class__ not in (np.ndarray, list, tuple) or _nbytes(one) <= SmallValues.limit for one in lists
        )
    try:
        return bool(most(*given, **options) <= limit)
    except (TypeError, ValueError, LookupError, OverflowError):  # of arguments that NumPy refuses, too
        return False


def _nbytes(values: Iterable[Any]) -> int:
    """Bytes of arrays among arguments and in lists of them; of a number, about an element's."""
    return sum(
        one.nbytes if isinstance(one, np.ndarray)
        else _nbytes(one) if one.__class__ is list or one.__class__ is tuple
        else 8
        for one in values
    )  # fmt: skip


def _product(values: Iterable[Any]) -> int:
    """Product of the sizes of arrays and the integers among arguments."""
    found = 1
    for one in values:
        kind = one.__class__
        if kind is np.ndarray:
            found *= max(1, one.size)
        elif kind is int or isinstance(one, np.integer):
            found *= abs(int(one)) + 1
        elif kind is list or kind is tuple or isinstance(one, ValuesView):
            found *= _product(one)
    return found


# Most elements of the results, and of arrays made on the way, of functions whose results may be much larger than their
# arguments. Parameters are NumPy's.


def _size(value: Any) -> int:
    """Elements of an array, or of arrays and numbers in a list."""
    if isinstance(value, np.ndarray):
        return int(value.size)
    return sum(map(_size, value)) if value.__class__ is list or value.__class__ is tuple else 1


def _sizes(*values: Any, **options: Any) -> int:
    """Product of the sizes of arguments."""
    return math.prod(map(_size, (*values, *options.values())))


def _count(shape: Any, *_: Any, **options: Any) -> int:
    """Elements of an array of a shape, a number or a sequence."""
    entries = shape if shape.__class__ is list or shape.__class__ is tuple else np.ravel(shape).tolist()
    return math.prod(max(0, operator.index(one)) for one in entries)


def _joint(*values: Any, **options: Any) -> int:
    """Elements of arrays that are broadcast together."""
    return math.prod(np.broadcast_shapes(*map(np.shape, (*values, *options.values()))))


def _steps(*given: Any, **options: Any) -> Any:
    """Of `np.arange`."""
    if options or not all(isinstance(one, int | float | np.number) for one in given) or not 1 <= len(given) <= 3:
        return math.inf
    start, stop, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
    return (stop - start) / step + 1 if step else math.inf


def _like(a: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None, **_: Any) -> int:
    return _size(a) if shape is None else _count(shape)


def _full_like(a: Any, fill_value: Any, *rest: Any, **options: Any) -> int:
    return _like(a, *rest, **options)


def _grid(N: Any, M: Any = None, *_: Any, **options: Any) -> int:
    return 2 * operator.index(N) * operator.index(N if M is None else M)


def _below(n: Any, k: Any = 0, m: Any = None) -> int:
    return _grid(n, m)


def _spaced(start: Any, stop: Any, num: Any = 50, endpoint: Any = True, base: Any = 10, *_: Any, **options: Any) -> int:
    return operator.index(num) * _sizes(start, stop, base)


def _powers(x: Any, N: Any = None, increasing: Any = False) -> int:
    return _size(x) * (_size(x) if N is None else operator.index(N))


def _diagonal(v: Any, k: Any = 0) -> int:
    return _size(v) if np.ndim(v) > 1 else (_size(v) + abs(operator.index(k))) ** 2


def _repeated(a: Any, repeats: Any, axis: Any = None) -> int:
    return _size(a) * int(np.max(repeats, initial=0))


def _tiled(A: Any, reps: Any) -> int:
    return _size(A) * _count(reps)


def _taken(a: Any, indices: Any, axis: Any = None, *_: Any, **options: Any) -> Any:
    return _size(indices) * (1 if axis is None else _size(a) / max(1, np.shape(a)[axis]))


def _padded(array: Any, pad_width: Any, *_: Any, **options: Any) -> int:
    most = 2 * int(np.max(pad_width, initial=0))
    return math.prod(n + most for n in np.shape(array))


def _unpacked(a: Any, axis: Any = None, count: Any = None, bitorder: Any = "big") -> int:
    return _size(a) * max(8, 0 if count is None else operator.index(count))


def _dot(a: Any, b: Any, **options: Any) -> Any:
    return math.prod(np.shape(a)[:-1]) * math.prod((*np.shape(b)[:-2], *np.shape(b)[-1:][: np.ndim(b) > 1]))


def _inner(a: Any, b: Any) -> Any:
    return math.prod((*np.shape(a)[:-1], *np.shape(b)[:-1]))


def _matmul(a: Any, b: Any, **options: Any) -> int:
    a_shape, b_shape = np.shape(a), np.shape(b)
    return math.prod((*np.broadcast_shapes(a_shape[:-2], b_shape[:-2]), *a_shape[-2:-1], *b_shape[1:][-1:]))


def _matvec(a: Any, b: Any, **options: Any) -> int:
    a_shape = np.shape(a)
    return math.prod((*np.broadcast_shapes(a_shape[:-2], np.shape(b)[:-1]), *a_shape[-2:-1]))


def _vecmat(a: Any, b: Any, **options: Any) -> int:
    b_shape = np.shape(b)
    return math.prod((*np.broadcast_shapes(np.shape(a)[:-1], b_shape[:-2]), *b_shape[-1:]))


def _vecdot(a: Any, b: Any, **options: Any) -> int:
    return math.prod(np.broadcast_shapes(np.shape(a)[:-1], np.shape(b)[:-1]))


def _solved(a: Any, b: Any) -> int:
    return _size(b) if np.ndim(a) == 2 else _sizes(a, b)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    if not isinstance(axes, int):
        return _sizes(a, b)
    return math.prod((*np.shape(a)[: np.ndim(a) - axes], *np.shape(b)[axes:]))


def _einsum(subscripts: Any, *operands: Any, **options: Any) -> int:
    if not isinstance(subscripts, str) or "." in subscripts or options:
        return _sizes(*operands)
    terms, arrow, kept = subscripts.replace(" ", "").partition("->")
    lengths: dict[str, int] = {}
    for term, one in zip(terms.split(","), operands, strict=True):
        lengths |= {letter: n for letter, n in zip(term, np.shape(one), strict=True) if lengths.get(letter, 1) == 1}
    kept = kept if arrow else "".join(one for one in lengths if terms.count(one) == 1)
    return math.prod(lengths[letter] for letter in kept)


def _covariance(m: Any, y: Any = None, rowvar: Any = True, *_: Any, **options: Any) -> int:
    many = [1 if np.ndim(one) < 2 else np.shape(one)[0 if rowvar else 1] for one in (m, y) if one is not None]
    return int(sum(many)) ** 2


def _svd(a: Any, full_matrices: Any = True, compute_uv: Any = True, hermitian: Any = False) -> int:
    *stack, m, n = np.shape(a)
    return math.prod(stack) * (m * m + n * n) if full_matrices and compute_uv else 2 * _size(a)


def _qr(a: Any, mode: Any = "reduced") -> int:
    *stack, m, n = np.shape(a)
    return math.prod(stack) * m * (m + n) if mode == "complete" else 2 * _size(a)


def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    return _size(b) + int(np.shape(a)[1]) * math.prod(np.shape(b)[1:])


def _evaluated(p: Any, x: Any) -> int:
    return _size(x) if np.ndim(p) == 1 else _sizes(p, x)


def _polyfit(x: Any, y: Any, deg: Any, *_: Any, **options: Any) -> int:
    return (int(np.max(deg)) + 1) * _size(y)


def _transformed(a: Any, n: Any = None, *_: Any, s: Any = None, **options: Any) -> int:
    n = s if n is None else n
    if n is None:
        return 2 * _size(a)
    lengths = n if n.__class__ is list or n.__class__ is tuple else [n]
    rest = 1 if np.ndim(a) <= len(lengths) else _size(a)
    return 2 * rest * math.prod(one if (one := operator.index(n)) > 0 else _size(a) for n in lengths)


def _is_sequence(value: Any) -> bool:
    return value.__class__ is list or value.__class__ is tuple or bool(getattr(value, "ndim", 0))


def _bins(bins: Any) -> int:
    return (_size(bins) if _is_sequence(bins) else operator.index(bins)) + 2


def _bins2d(x: Any, y: Any, bins: Any = 10, *_: Any, **options: Any) -> int:
    if _is_sequence(bins) and len(bins) == 2:
        return math.prod(map(_bins, bins))
    return _bins(bins) ** 2


def _binsdd(sample: Any, bins: Any = 10, *_: Any, **options: Any) -> Any:
    axes = (*np.shape(sample), 1)[1] if sample.__class__ is np.ndarray else len(sample)
    if axes > 64:
        return math.inf
    return math.prod(map(_bins, bins if _is_sequence(bins) else [bins] * axes))


def _histogram(a: Any, bins: Any = 10, range: Any = None, *_: Any, **options: Any) -> Any:
    if not isinstance(bins, str):
        return _bins(bins)
    values = np.ravel(a)
    if range is not None or not values.size or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return math.inf
    with np.errstate(all="ignore"):
        low, first, third, high = np.quantile(values.astype(float), [0, 0.25, 0.75, 1])
        many = values.size ** (1 / 3)
        widths = 2 * (third - first) / many, 3 * values.std(dtype=float) / many, (high - low) / (values.size + 100)
        return (high - low) / min([one for one in widths if one > 0], default=math.inf) + 1  # least width of all rules


def _counted(x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    return max(int(np.max(x, initial=0)) + 1, operator.index(minlength))


def _quantiles(a: Any, q: Any, axis: Any = None, *_: Any, **options: Any) -> int:
    return _size(q) * (1 if axis is None else _size(a))


_MOST: dict[str, Callable[..., Any]] = {
    "allclose": _joint, "arange": _steps, "bincount": _counted,
    "choose": lambda a, choices, *_, **options: _joint(a, *choices), "clip": _joint, "corrcoef": _covariance,
    "cov": _covariance, "cross": _joint, "diag": _diagonal, "diag_indices": lambda n, ndim=2: n * ndim,
    "diagflat": lambda v, k=0: (_size(v) + abs(k)) ** 2, "dot": _dot, "einsum": _einsum, "emath.logn": _joint,
    "emath.power": _joint, "empty": _count, "empty_like": _like, "eye": _grid,
    "fft.fftfreq": lambda n, *_, **options: n, "fft.rfftfreq": lambda n, *_, **options: n, "full": _count,
    "full_like": _full_like, "geomspace": _spaced, "histogram": _histogram, "histogram2d": _bins2d,
    "histogram_bin_edges": _histogram, "histogramdd": _binsdd, "identity": lambda n, *_, **options: n * n,
    "indices": lambda dimensions, *_, **options: len(dimensions) * _count(dimensions), "inner": _inner,
    "innerproduct": _inner, "outerproduct": _sizes,
    "isclose": _joint, "ix_": lambda *args: _size(args), "kaiser": lambda M, beta: M, "kron": _sizes,
    "linspace": _spaced, "logspace": _spaced, "lstsq": _lstsq, "make_mask_none": _count, "masked_all": _count,
    "mask_indices": lambda n, *_: 2 * n * n,
    "matmul": _matmul, "matvec": _matvec, "meshgrid": lambda *xi, **_: len(xi) * _sizes(*xi),
    "method.outer": _sizes, "multi_dot": lambda arrays, **_: max(n for one in arrays for n in np.shape(one)) ** 2,
    "nanpercentile": _quantiles, "nanquantile": _quantiles, "ones": _count, "ones_like": _like, "outer": _sizes,
    "pad": _padded, "percentile": _quantiles, "polyfit": _polyfit, "polyval": _evaluated, "qr": _qr,
    "quantile": _quantiles, "repeat": _repeated, "resize": lambda a, new_shape: _count(new_shape),
    "select": lambda condlist, choicelist, default=0: _joint(*condlist, *choicelist, default), "solve": _solved,
    "svd": _svd, "take": _taken, "take_along_axis": _joint, "tensordot": _tensordot, "tile": _tiled, "tri": _grid,
    "tril_indices": _below, "triu_indices": _below, "unpackbits": _unpacked, "vander": _powers, "vecdot": _vecdot,
    "vecmat": _vecmat, "zeros": _count, "zeros_like": _like,
    **dict.fromkeys(("bartlett", "blackman", "hamming", "hanning"), lambda M: M),
    **{f"fft.{one}": _transformed for one in (
        "fft", "fft2", "fftn", "hfft", "ifft", "ifft2", "ifftn", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
        "rfftn"
    )},
}  # fmt: skip


def _wrapped(result: Any, given: list[Any], args: Any) -> Any:
    """A result with tensors in place of new arrays; NotImplemented where a result shares memory of an argument.

    A part that is an argument, as the edges of a histogram, is the user's tensor.
    """
    kind = result.__class__
    if kind is np.ndarray:
        if result.flags.num & _FLAGS != _WRITEABLE or _shares(result, given):
            return NotImplemented
        return _tensor(result)
    if isinstance(result, np.ndarray) and SmallValues.masked is not None and result is not np.ma.masked:
        masked = None if _shares(result, given) else SmallValues.masked.of(result)
        return NotImplemented if masked is None else masked
    if kind is tuple or kind is list or hasattr(result, "_fields"):
        parts = [
            found if one.__class__ is np.ndarray and (found := _with_memory(one, args)) is not None
            else _wrapped(one, given, args)
            for one in result
        ]  # fmt: skip
        if any(one is NotImplemented for one in parts):
            return NotImplemented
        return kind(*parts) if hasattr(result, "_fields") else kind(parts)
    return result


def _view(
    x: Any, ours: Callable[..., Any], given: list[Any], options: dict[str, Any], memory: Array, k: int, name: str
) -> Any:
    """The view of a tensor that a function makes, by itself or as part `k` of the result."""
    if memory is given[0]:
        return x
    rest = [
        tuple(one) if one.__class__ is list else one.copy() if one.__class__ is np.ndarray else one
        for one in (*given[1:], *options.values())
    ]
    positional, named = rest[: len(given) - 1], dict(zip(options, rest[len(given) - 1 :]))

    def made_by(whole: Any) -> Any:
        found = ours(whole, *positional, **named)
        return found[k] if found.__class__ is list or found.__class__ is tuple else found

    view = x._viewed(made_by, memory)
    if name in _READ_ONLY:
        view._place.writeable = False
    return view


def _shares(result: Array, given: list[Any]) -> bool:
    for one in given:
        if one is result or isinstance(one, np.ndarray) and np.may_share_memory(one, result):
            return True
        if isinstance(one, np.ndarray) and one.__class__ is not np.ndarray and np.may_share_memory(one.mask, result):  # type: ignore[attr-defined]
            return True
        if (one.__class__ is list or one.__class__ is tuple) and _shares(result, list(one)):
            return True
    return False


def _is_text(value: Any) -> bool:
    """Whether a value is an array of text, NumPy's in cells."""
    return value.__class__ is np.ndarray and value.dtype.kind in "SU"


def _has_tensor(values: Iterable[Any]) -> bool:
    return any(
        one.__class__ is Tensor or (one.__class__ is list or one.__class__ is tuple) and _has_tensor(one)
        for one in values
    )


def _tensor(array: Array) -> Any:
    """The tensor of a new array; the array itself where the array holds objects."""
    if array.dtype.hasobject:
        return array
    return Tensor.at(Buffer.of(array))


def _with_memory(memory: Array, values: Iterable[Any]) -> Any:
    """The tensor among arguments that has this memory, or None."""
    for one in values:
        if one.__class__ is list or one.__class__ is tuple:
            if (found := _with_memory(memory, one)) is not None:
                return found
        elif one.__class__ is Tensor and one._place.memory is memory:
            return one
    return None


@contextmanager
def small_values() -> Iterator[None]:
    """Within the block, values that are small and would have a single chunk are computed at once.

    Examples
    --------
    >>> from jmars.tensor.protocols import call
    >>> with small_values():
    ...     call("sqrt", 2.0)
    np.float64(1.4142135623730951)
    """
    before = SmallValues.chosen
    SmallValues.choose(min(SMALL, chunk_bytes()) if config.local_seconds > 0 else 0)
    set_small_hook(_compute)
    raise_warnings()
    ours = warnings.filters[0]
    try:
        yield
    finally:
        if not before and ours in warnings.filters:
            warnings.filters.remove(ours)  # type: ignore[attr-defined]  # a list
        SmallValues.choose(before)
        rows.forget()
        set_small_hook(_compute if before else None)


def lay_out_as_numpy(theirs: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> Any:
    """Give new tensors among the results `found` the order in memory that NumPy's function `theirs` gives.

    A result keeps C order if NumPy's function raises for short arrays, as for a position past their end.
    """
    given = [*_tensors((args, *kwargs.values()))]
    if not any(one._place.permuted for one in given):
        return found
    options = {name: one for name, one in kwargs.items() if name not in ("chunk_size", "chunks")}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            made = theirs(*_short(args), **_short(options))
    except Exception:  # of short arrays, whatever NumPy's function raises
        return found
    for one, like in zip(_tensors(found), made if isinstance(made, tuple | list) else [made], strict=False):
        place, is_known = one._place, one.ndim > 1 and not one.data.has_unknown_lengths
        if is_known and isinstance(place, Buffer) and isinstance(like, np.ndarray) and all(one is not x for x in given):
            place.strides = strides_in_order(like, one.shape, one.itemsize)
    return found


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)


def _short(value: Any) -> Any:
    """Arguments with arrays of at most eight elements along an axis, all 1, in place of tensors."""
    if isinstance(value, Tensor):
        layout = layout_of(value._place)
        if layout is None:
            raise ValueError("unknown length")
        return small_layout(layout, 8).astype(value.dtype)
    if isinstance(value, tuple | list):
        return type(value)(map(_short, value)) if type(value) in (tuple, list) else value
    return {name: _short(one) for name, one in value.items()} if isinstance(value, dict) else value


set_layout_hook(lay_out_as_numpy)
