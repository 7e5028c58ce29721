"""Trial calls: NumPy's own function, called for arrays of at most one element an axis, gives dtype and errors.

So the rules of `dtype=`, `out=`, `where=`, `initial=` and `axis=` stand in NumPy alone.
Source: NumPy `_core/_methods.py`.
"""

from __future__ import annotations

import operator
import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.model.record import record
from jmars.tensor.operand import Unknown, check_dtype
from jmars.tensor.tensor import Tensor

__all__ = ["is_given", "loop_dtype", "trial"]

_ARRAYS = ("mean", "out", "weights", "where")  # options that are arrays; a list is no `out`
_OF_NONE = ("where", "initial", "keepdims", "correction")  # options of which None is a value
_NO_VALUE = getattr(np, "_NoValue", None)  # NumPy's mark for an argument that was not given


def is_given(value: Any) -> bool:
    """Whether an optional argument was given."""
    return value is not None and value is not _NO_VALUE


@record
class _Like:
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
    >>> from jmars.tensor.ops.create.constants import ones
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
