"""Small values of a cell: NumPy computes them at once, in this process, and no node is made.

The rule holds for a call where all arguments are Python's numbers, lists of them, NumPy's arrays and scalars, and
tensors whose elements are in this process, and where the result is small too. NumPy's own function computes it, with
NumPy's bits, errors and warnings. Other calls make nodes, and so do all calls outside of cells.

The memory order of a result that is made as a node is NumPy's too: NumPy's own function, called on arrays of few
elements, tells where elements would lie. `x.flags`, `x.strides`, `ravel("K")` and `tobytes("A")` depend on the order.
Only results of arrays that do not lie in C order can lie in another order; other calls pay a look at the arguments.
Source: docs/decisions/0060-small-values.md.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, ValuesView
from contextlib import contextmanager
from typing import Any

import numpy as np

from jmars.config import config
from jmars.tensor.buffers import Buffer, SmallValues, layout_of, small_layout, strides_in_order
from jmars.tensor.operand import warn_user
from jmars.tensor.protocols import set_layout_hook, set_small_hook
from jmars.tensor.small_parts import AwayError, here, repeated, rows
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
SMALL = 2**22  # bytes of a value that stays in this process
_WRITEABLE, _FLAGS = 0x400, 0x80000400  # in flags.num; NumPy warns at a write to an array with the highest bit

# Functions with results that may be much larger than their arguments.
_GROWING = frozenset(
    """arange bartlett bincount blackman choose clip corrcoef cov cross diag diag_indices diagflat dot einsum empty eye
    fft.fft fft.fft2 fft.fftfreq fft.fftn fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.irfft fft.irfft2
    fft.irfftn fft.rfft fft.rfft2 fft.rfftfreq fft.rfftn full full_like empty_like zeros_like ones_like geomspace
    hamming hanning histogram histogram2d histogram_bin_edges histogramdd identity indices inner ix_ kaiser kron
    linalg.cross linalg.lstsq linalg.matmul linalg.multi_dot linalg.outer linalg.pinv linalg.qr linalg.svd
    linalg.tensordot linspace logspace mask_indices matmul matvec meshgrid method.outer nanpercentile nanquantile
    ones outer pad percentile polyfit polyval quantile repeat resize select take tensordot tile tri tril_indices
    triu_indices unpackbits vander vecmat where zeros""".split()  # noqa: SIM905
)
# Of these, those with at most as many elements as the product of the sizes of arrays and the integers among the
# arguments, and those where values of elements decide.
_PRODUCTS = frozenset(
    """clip choose cross dot einsum empty empty_like full full_like inner ix_ kron linalg.cross linalg.matmul
    linalg.multi_dot linalg.outer linalg.tensordot linspace matmul matvec meshgrid method.outer nanpercentile
    nanquantile ones ones_like outer percentile quantile repeat resize select take tensordot tile vecmat zeros
    zeros_like""".split()  # noqa: SIM905
)
_BY_VALUES = frozenset({"bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "pad"})
# Functions of which the result is a view of the first argument that may be written, unless it is a copy.
_VIEWS = frozenset(
    """atleast_1d atleast_2d atleast_3d broadcast_arrays expand_dims flip fliplr flipud linalg.matrix_transpose
    matrix_transpose moveaxis permute_dims ravel reshape rollaxis squeeze swapaxes transpose""".split()  # noqa: SIM905
)


def _compute(
    name: str, theirs: Callable[..., Any], ours: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a call that stays here; NotImplemented for a call that makes a node."""
    out, options = None, kwargs
    try:
        given = [here(one) for one in args]
        if kwargs:
            if "chunk_size" in kwargs or "chunks" in kwargs or kwargs.get("like") is not None:
                return NotImplemented
            options = {key: here(one) for key, one in kwargs.items() if key != "out" or one is None}
            out = kwargs.get("out")
    except AwayError:
        is_view = (name in _VIEWS or name in ("diag", "diagonal")) and all(map(_is_text, args))
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
    try:
        result = theirs(*given, **options)
    except Warning as warning:
        result = repeated(warning, theirs, *given, **options)
    except ValueError as error:
        if "read-only" in str(error):  # of a function that writes to an argument
            return NotImplemented
        raise
    if name in _VIEWS and result.__class__ is np.ndarray and _shares(result, given[:1]) and args[0].__class__ is Tensor:
        return args[0] if result is given[0] else _view(args[0], ours, given, options, result)
    values = (*args, *kwargs.values())
    found = _wrapped(result, [*given, *options.values()] if options else given, values)
    if found is NotImplemented and not _has_tensor(values) and (name in _VIEWS or any(map(_is_text, args))):
        return result  # a view of an array that the cell has as NumPy's
    return found


def _compute_into(out: Any, theirs: Callable[..., Any], given: list[Any], options: dict[str, Any]) -> Any:
    """Write a result to the memory of `out`."""
    if out.__class__ is tuple and len(out) == 1 and theirs.__class__ is np.ufunc:
        (out,) = out
    if out.__class__ is not Tensor:
        return NotImplemented
    if not out._place.writeable or not out._place.is_array or out._place.memory is None:
        return NotImplemented
    place = out._place
    if not out.ndim and theirs.__class__ is not np.ufunc:
        return NotImplemented  # NumPy's cumsum and cumprod crash
    with SmallValues.writing, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        memory = place.unlock()
        if memory is None:
            return NotImplemented
        try:
            if theirs is operator.pow:
                memory **= given[1]
            else:
                theirs(*given, out=memory, **options)
        finally:
            place.lock()
    for one in seen:
        warn_user(str(one.message), one.category)
    return out


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
        return len(arrays) < 2 or math.prod(np.broadcast_shapes(*map(np.shape, arrays))) <= limit
    if name.startswith(("char.", "strings.")):  # an integer among the arguments may be the length of the texts
        return _product((given, options.values())) <= limit
    if name not in _GROWING:  # arrays in a list, as of `np.stack`, may be many
        lists = (one for one in given if one.__class__ in (list, tuple) and one)
        return all(
            one[0].__class__ not in (np.ndarray, list, tuple) or _nbytes(one) <= SmallValues.limit for one in lists
        )
    if name in ("matmul", "dot") and all(one.__class__ is np.ndarray and 0 < one.ndim < 3 for one in given):
        a, b = given
        return (a.shape[0] if a.ndim == 2 else 1) * (b.shape[-1] if b.ndim == 2 else 1) <= limit
    if name == "arange":
        return not options and _steps(given) <= limit
    most = _product((given, options.values()))
    return most <= limit and (name in _PRODUCTS or (name not in _BY_VALUES and most**2 <= limit))


def _nbytes(values: Iterable[Any]) -> int:
    """Bytes of arrays among arguments and in lists of them; of a number, about those of an element."""
    return sum(
        one.nbytes if one.__class__ is np.ndarray
        else _nbytes(one) if one.__class__ is list or one.__class__ is tuple
        else 8
        for one in values
    )  # fmt: skip


def _steps(given: list[Any]) -> Any:
    """Number of elements of `np.arange`."""
    if not all(isinstance(one, int) for one in given) or not 1 <= len(given) <= 3:
        return math.inf
    return len(range(*given)) if len(given) < 3 or given[2] else math.inf


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


def _wrapped(result: Any, given: list[Any], args: Any) -> Any:
    """A result with tensors in place of new arrays; NotImplemented where a result shares memory of an argument.

    A part that is an argument, as the edges of a histogram, is the user's tensor.
    """
    kind = result.__class__
    if kind is np.ndarray:
        if result.flags.num & _FLAGS != _WRITEABLE or _shares(result, given):
            return NotImplemented
        return _tensor(result)
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


def _view(x: Any, ours: Callable[..., Any], given: list[Any], options: dict[str, Any], memory: Array) -> Any:
    """The view of a tensor that a function makes; NotImplemented where the graph makes it now."""
    rest = [tuple(one) if one.__class__ is list else one for one in (*given[1:], *options.values())]
    if any(one.__class__ is np.ndarray for one in rest):
        return NotImplemented
    positional, named = rest[: len(given) - 1], dict(zip(options, rest[len(given) - 1 :]))
    return x._viewed(lambda whole: ours(whole, *positional, **named), memory)


def _shares(result: Array, given: list[Any]) -> bool:
    for one in given:
        if one is result or one.__class__ is np.ndarray and np.may_share_memory(one, result):
            return True
        if (one.__class__ is list or one.__class__ is tuple) and _shares(result, list(one)):
            return True
    return False


def _is_text(value: Any) -> bool:
    """Whether a value is an array of text, which is NumPy's in cells."""
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
    """Within the block, values that are small and would have one chunk are computed at once.

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
    warnings.filterwarnings("error", module=r"jmars\.tensor\.(small_|operators)")  # which repeats the call
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
    """Arguments with arrays of at most eight elements along each axis, all 1, in place of tensors."""
    if isinstance(value, Tensor):
        layout = layout_of(value._place)
        if layout is None:
            raise ValueError("unknown length")
        return small_layout(layout, 8).astype(value.dtype)
    if isinstance(value, tuple | list):
        return type(value)(map(_short, value)) if type(value) in (tuple, list) else value
    return {name: _short(one) for name, one in value.items()} if isinstance(value, dict) else value


set_layout_hook(lay_out_as_numpy)
