"""Converts values that are written into a tensor by NumPy's rules; a value that does not fit raises NumPy's error.

Numbers, text and lists are converted at once, by NumPy, in an array of their size. Arrays and tensors are cast by the
workers. NumPy has three ways to convert: `x[1:] = np.float64(np.nan)` is refused where `x` holds integers,
`x[mask] = np.float64(np.nan)` is not, and `np.copyto` checks a casting rule.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.protocols import call
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["assigned", "converted", "copied", "element"]

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
        value = value.fetch()  # NumPy's scalar, which is cast by other rules than an array
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
