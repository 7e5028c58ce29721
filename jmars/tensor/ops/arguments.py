"""Arguments that many functions share: `out=`, `like=`, `dtype=`, values to write; and results that are views.

A tensor as `out=` is rebound to the result, a NumPy array is written at once. `like=` chooses the library of a new
array. For `dtype=`, `where=`, `initial=` and `axis=` NumPy's own function is called on trial, with arrays of at most a
single element along an axis: dtype and errors are NumPy's, and the rules stand in NumPy alone.

Values that are written into a tensor are converted by NumPy's rules; a value that does not fit raises NumPy's error.
Numbers, text and lists are converted at once, by NumPy, in an array of their size. Arrays and tensors are cast by the
workers. NumPy has three ways to convert: `x[1:] = np.float64(np.nan)` is refused where `x` holds integers,
`x[mask] = np.float64(np.nan)` is not, and `np.copyto` checks a casting rule.
Source: NEP 35; NumPy `_core/_methods.py`; docs/explanation/views.md.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np
from msgspec import Struct

from jmars.errors import UnsupportedError
from jmars.tensor.buffers import Buffer, ViewStep
from jmars.tensor.from_array import Composite
from jmars.tensor.operand import TensorData, Unknown, check_dtype
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.protocols import call
from jmars.tensor.tensor import Tensor, as_tensor, index_step

_NO_VALUE = getattr(np, "_NoValue", None)  # NumPy's mark for an argument that was not given


def assign_out(result: Tensor, out: Any, name: str, casting: Any = "same_kind") -> Any:
    """Returns `result`, or `out` after the write; a NumPy array as `out` makes the function compute at once.

    Raises
    ------
    TypeError
        If `out` is no array, or `casting` does not allow its dtype.
    ValueError
        If the result does not broadcast to the shape of `out`.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> there = np.zeros(3)
    >>> assign_out(arange(3), there, "arange") is there, there.tolist()
    (True, [0.0, 1.0, 2.0])
    """
    if isinstance(out, tuple):
        (out,) = out
    if out is None or out is _NO_VALUE:
        return result
    if isinstance(out, Tensor):
        return out._assign(result, casting, name)
    if isinstance(out, np.ndarray):
        if not np.can_cast(result.dtype, out.dtype, casting):
            raise TypeError(f"Cannot cast {name} output from {result.dtype!r} to {out.dtype!r} with rule {casting!r}")
        if result.ndim > out.ndim:
            raise ValueError(
                f"non-broadcastable output operand with shape {out.shape} doesn't match the broadcast shape "
                f"{result.shape}"
            )
        np.copyto(out, result.fetch(copy=False), casting=casting)
        return out
    raise TypeError("return arrays must be of ArrayType")


def assign_core_out(result: Tensor, out: Any, name: str, core: int, casting: Any = "same_kind") -> Any:
    """As `assign_out`, for ufuncs on matrices and vectors, whose last `core` axes do not broadcast."""
    there = out[0] if isinstance(out, tuple) else out
    if there is None:
        return result
    if core and there.shape[-core:] != result.shape[-core:]:
        raise ValueError(f"{name}: out of shape {there.shape} does not fit the product's shape {result.shape}")
    return assign_out(without_leading_ones(result, there.ndim), out, name, casting)


def without_leading_ones(x: Tensor, ndim: int) -> Tensor:
    """`x` without its first axes of length 1, until `ndim` axes are left."""
    ones = next((i for i, n in enumerate(x.shape) if n != 1), x.ndim)
    drop = min(ones, max(x.ndim - ndim, 0))
    return x[(0,) * drop] if drop else x


def write_out(result: Tensor, name: str, out: Any, casting: Any = "unsafe", back: bool = False) -> Any:
    """As `assign_out`, for functions that are no ufuncs: `out` has the shape of the result.

    With `back`, as for `np.take`, NumPy casts `out` to the dtype of the result, safely, and the values back.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    if out is not None and out is not _NO_VALUE:
        if not isinstance(out, Tensor | np.ndarray):
            raise TypeError("output must be an array")
        if out.shape != result.shape:
            raise ValueError(f"output array of shape {out.shape} does not match the result's shape {result.shape}")
        if back and not np.can_cast(out.dtype, result.dtype, "safe"):
            raise TypeError(
                f"Cannot cast array data from {out.dtype!r} to {result.dtype!r} according to the rule 'safe'"
            )
    return assign_out(result, out, name, casting)


F = TypeVar("F", bound=Callable[..., Any])


def takes_like(function: F) -> F:
    """Give a function NumPy's keyword `like`: tensors and NumPy's arrays make a tensor, other arrays what they make.

    Examples
    --------
    >>> @takes_like
    ... def ones(shape):
    ...     return f"a tensor of ones, {shape}"
    >>> ones(3, like=np.zeros(2))
    'a tensor of ones, 3'
    """

    @functools.wraps(function)
    def created(*args: Any, like: Any = None, **kwargs: Any) -> Any:
        if like is None or type(like) is np.ndarray or isinstance(like, Tensor | Composite):
            return function(*args, **kwargs)
        return getattr(np, function.__name__)(*args, like=like, **kwargs)

    return created  # type: ignore[return-value]


Array = np.ndarray[Any, Any]
Written = Tensor | Array  # of the dtype asked for; an array has no axes
_HAS_NDMAX = np.lib.NumpyVersion(np.__version__) >= "2.4.0"  # which refuses lists that are nested too deep for a part


def element(value: Any, dtype: np.dtype[Any]) -> Array:
    """The element that `x.fill(value)` repeats; also for `initial=`. Raises NumPy's errors for arrays."""
    found = np.zeros((), dtype)
    if isinstance(value, Tensor):  # of several elements, only shape and dtype matter
        value = value.fetch() if value.size == 1 else np.zeros([min(n, 2) for n in value.shape], value.dtype)
    found.fill(value)
    return found


def assigned(value: Any, dtype: np.dtype[Any], ndim: int) -> Written:
    """The numbers that `x[1:] = value` writes to a part of `ndim` axes; also for `np.pad`."""
    tensor = _tensor(value)
    if tensor is not None and not tensor._place.is_array and tensor.dtype.kind in "fc" and dtype.kind in "iu":
        return blockwise("setitem", _as_number, [tensor], (), dtype, (dtype,))
    if tensor is not None:
        return _cast(tensor, dtype)
    if not isinstance(value, list) and (dtype.names is not None or np.ndim(value) == 0):  # a tuple may be a record
        number = np.zeros((), dtype)
        number[...] = value
        return number
    if _HAS_NDMAX:
        return _written(np.array(value, dtype, ndmax=ndim))
    if (made := np.array(value, dtype)).ndim > ndim:
        raise ValueError(f"setting an array element with a sequence: a list of {made.ndim} axes for a part of {ndim}")
    return _written(made)


def _as_number(value: Array, dtype: np.dtype[Any]) -> Array:
    """A NumPy scalar as an element of `dtype`; raises NumPy's error for NaN."""
    number = np.zeros((), dtype)
    number[...] = value[()]
    return number


def converted(value: Any, dtype: np.dtype[Any], casting: str = "unsafe") -> Written:
    """The numbers that a write by a mask or index arrays writes; also for `np.put` and `np.insert`.

    The rule "safe" is the rule of `np.place` and `np.putmask`.
    """
    if casting == "safe" and isinstance(value, Tensor) and not value._place.is_array:
        value = value.fetch()  # NumPy's scalar, cast by other rules than an array
    tensor = _tensor(value)
    if tensor is not None:
        return _cast(tensor, dtype, casting)
    if casting == "unsafe":
        return _written(np.array(value, dtype))
    found = np.zeros(1 if dtype.names is not None and isinstance(value, tuple) else np.shape(value), dtype)
    np.putmask(found, np.ones(found.shape, bool), value)
    return _written(found)


def copied(value: Any, dtype: np.dtype[Any], casting: str) -> Written:
    """The numbers that `np.copyto` with the rule `casting` writes; also for `np.full`."""
    tensor = _tensor(value)
    if tensor is not None:
        return _cast(tensor, dtype, casting)
    found = np.zeros(np.shape(value), dtype)
    np.copyto(found, value, casting=cast(Any, casting))
    return _written(found)


def _tensor(value: Any) -> Tensor | None:
    """An array, or nested lists that hold tensors, as a tensor; None for numbers, text and other lists."""
    if isinstance(value, list | tuple):
        return call("asarray", value) if _holds_tensors(value) else None
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return None  # converted at once, as a list
    is_array = not isinstance(value, np.generic) and hasattr(value, "__array__")
    return as_tensor(value) if is_array and (isinstance(value, Tensor) or np.ndim(value)) else None


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, list | tuple) and any(map(_holds_tensors, value)))


def _cast(x: Tensor, dtype: np.dtype[Any], casting: str = "unsafe") -> Tensor:
    return x if x.dtype == dtype else call("method.astype", x, dtype, casting=casting)


def _written(array: Array) -> Written:
    return as_tensor(array) if array.ndim else array


_ARRAYS = ("mean", "out", "weights", "where")  # options that are arrays; a list is no `out`
_OF_NONE = ("where", "initial", "keepdims", "correction")  # options with None as a value


def is_given(value: Any) -> bool:
    """Whether an optional argument was given."""
    return value is not None and value is not _NO_VALUE


class _Like(Struct, frozen=True):
    """Stands for an array or tensor: its dtype, and its lengths, at most 1."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def _value(one: Any) -> Any:
    return _simple(one.shape, one.dtype) if isinstance(one, _Like) else one


def _simple(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Ones, which all functions accept; zeros for records."""
    return np.zeros(shape, dtype) if dtype.kind == "V" else np.ones(shape, dtype)


def _like(value: Any) -> Any:
    if isinstance(value, list):
        return _like(np.asarray(value))
    if isinstance(value, Tensor):
        return _Like(tuple(int(isinstance(n, Unknown) or n > 0) for n in value.data.shape), value.dtype)
    if isinstance(value, np.ndarray) and value.ndim:
        return _Like(tuple(min(n, 1) for n in value.shape), value.dtype)
    return value


def trial(function: str, *arrays: Any, **options: Any) -> np.dtype[Any]:
    """dtype of the result of NumPy's function; raises what NumPy raises for dtypes, axes and options.

    Parameters
    ----------
    function
        NumPy's name, as "mean" or "add.reduce".
    *arrays
        The arrays, which are replaced by ones; only dtypes, number of axes and emptiness count.
    **options
        The user's keywords; those that were not given (None for most, or NumPy's mark) are left out.

    Raises
    ------
    UnsupportedError
        If the result has objects.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> trial("mean", ones((3, 4), "i1"), axis=1, dtype="f4")
    dtype('float32')
    >>> trial("std", ones((3, 4), "i1"), axis=1, dtype="i4")
    Traceback (most recent call last):
    numpy._core._exceptions._UFuncOutputCastingError: Cannot cast ufunc 'sqrt' output from dtype('float64') to \
dtype('int32') with casting rule 'same_kind'
    """
    if isinstance(options.get("out"), tuple):
        raise UnsupportedError(f"np.{function} with a tuple as out= is not in jmars; give the array itself, out=x")
    counted = {name: one for name, one in options.items() if is_given(one) or (one is None and name in _OF_NONE)}
    given = tuple((name, type(one), _like(one) if name in _ARRAYS else one) for name, one in counted.items())
    key = function, tuple(map(_like, arrays)), given
    try:
        hash(key)
    except TypeError:  # a list of axes, which NumPy refuses, or an array without axes
        return _call(*key)
    return _called(*key)


def _call(function: str, arrays: tuple[Any, ...], given: tuple[tuple[str, type, Any], ...]) -> np.dtype[Any]:
    options = {name: _value(one) for name, _, one in given}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = operator.attrgetter(function)(np)(*map(_value, arrays), **options)
    return check_dtype(np.asarray(result).dtype)


_called = lru_cache(maxsize=4096)(_call)


@lru_cache(maxsize=4096)
def _loop(ufunc: str, source: np.dtype[Any], wanted: Any, out: np.dtype[Any] | None) -> np.dtype[Any]:
    theirs: np.ufunc = getattr(np, ufunc)
    if wanted is None and out is not None:  # the loop is that of `out` and the elements
        found: np.dtype[Any] = theirs.resolve_dtypes((out, source, None), reduction=True, casting="unsafe")[2]
        if found.kind in "SUM" and found.kind != source.kind:
            raise UnsupportedError(
                f"np.{ufunc}.reduce of {source} into {found} is not in jmars; cast the result, .astype"
            )
        return found
    return check_dtype(theirs.reduce(_simple((1,), source), dtype=wanted).dtype)


def loop_dtype(ufunc: str, source: np.dtype[Any], wanted: Any = None, out: Any = None) -> np.dtype[Any]:
    """dtype in which `ufunc.reduce` and `ufunc.accumulate` compute, by `dtype=` and `out=`.

    Examples
    --------
    >>> loop_dtype("add", np.dtype("i1")), loop_dtype("add", np.dtype("i1"), None, np.zeros(3, "i1"))
    (dtype('int64'), dtype('int8'))
    """
    return _loop(ufunc, source, wanted if wanted is None else np.dtype(wanted), getattr(out, "dtype", None))


def step(
    read: Callable[[Tensor], Tensor],
    write: Callable[[Tensor, Tensor], Tensor] | None,
    layout: Callable[[Array], Array],
    key: Hashable = None,
    permutes: bool = False,
    copies_parts: bool = False,
) -> ViewStep:
    """A `ViewStep` by functions of tensors instead of nodes; parameters as the attributes of `ViewStep`."""

    def put(whole: TensorData, part: TensorData) -> TensorData:
        assert write is not None
        return write(Tensor(whole), Tensor(part)).data

    reading, writing = (lambda whole: read(Tensor(whole)).data), None if write is None else put
    return ViewStep(reading, writing, layout, key, permutes, copies_parts)


def share(part: Tensor, whole: Any, made_by: ViewStep) -> Tensor:
    """Make `part` a view of `whole`, unless that is no tensor; returns `part`, read-only where NumPy's view is."""
    if not isinstance(whole, Tensor):
        part._place.writeable = made_by.write is not None
        return part
    return part._as_view_of(whole, made_by) if whole is not part else part


def view(x: Tensor) -> Tensor:
    """A new handle of the same memory, as NumPy's `x[...]`."""
    return share(Tensor.at(Buffer(x.data)), x, index_step((Ellipsis,)))
