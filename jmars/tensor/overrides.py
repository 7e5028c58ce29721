"""Overrides of NumPy's functions by arguments of other libraries, as pandas, xarray and Dask define them.

An argument with `__array_ufunc__` or `__array_function__` overrides the function: pandas keeps labels, xarray skips
NaN, Dask stays lazy. A function of jmars that gets such an argument calls NumPy's function, which dispatches to the
override (protocols.py). NumPy's arrays, tensors and duck arrays (duck_arrays.py) do not count as overriding arguments.
Source: NEP 13, NEP 18.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["call_numpy", "call_override", "calls_method", "is_overridable", "overriding_args"]

_METHODS = ("__array_ufunc__", "__array_function__")
_OVERRIDABLE = (np.ufunc, type(np.concatenate))
_LONG = 100  # entries of a list that are searched; longer lists hold numbers


def is_overridable(function: Any) -> bool:
    """Whether arguments can override a function of NumPy; `np.asarray` cannot be overridden.

    Examples
    --------
    >>> is_overridable(np.sqrt), is_overridable(np.mean), is_overridable(np.asarray)
    (True, True, False)
    """
    return isinstance(function, _OVERRIDABLE)


def overriding_args(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the arguments that override NumPy's functions, also those within lists and tuples.

    Examples
    --------
    >>> class Labelled:
    ...     __module__ = "another_library"
    ...     def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
    ...         return "mine"
    >>> [type(one).__name__ for one in overriding_args([1, np.ones(2), [Labelled()]])]
    ['Labelled']
    """
    for value in values:
        kind: Any = type(value)
        if kind is list or kind is tuple:  # as np.concatenate takes
            yield from overriding_args(value[:_LONG])
        elif _type_overrides(kind):
            yield value


def _overrides(value: Any) -> bool:
    kind: Any = type(value)
    return _type_overrides(kind)


@lru_cache(maxsize=1024)
def _type_overrides(kind: type) -> bool:
    givers = [next((base for base in kind.__mro__ if name in vars(base)), object) for name in _METHODS]
    known = ("builtins", "numpy", "jmars")
    if all(giver.__module__.partition(".")[0] in known for giver in givers):
        return False
    return issubclass(kind, np.ndarray) or not hasattr(kind, "__array_namespace__")  # else a duck array


def call_numpy(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], enter: Callable[[Any], Any]) -> Any:
    """Call NumPy's function, which calls the override; `enter` converts NumPy arrays in the result to tensors."""
    return _entered(function(*args, **kwargs), enter)


def _entered(value: Any, enter: Callable[[Any], Any]) -> Any:
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return enter(value)
    if type(value) in (list, tuple):
        return type(value)(_entered(one, enter) for one in value)
    if isinstance(value, tuple) and hasattr(value, "_make"):  # a named tuple, as np.linalg.svd returns
        return value._make(_entered(one, enter) for one in value)
    return value


def call_override(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the first override that accepts a ufunc's arguments; NotImplemented if there is none.

    An override that knows only NumPy's arrays, as pandas', is called with the tensors' values.
    """
    for one in overriding_args((*inputs, *kwargs.values())):
        asked = getattr(one, _METHODS[0], None)
        if asked is None:
            continue
        found = asked(ufunc, method, *inputs, **kwargs)
        if found is NotImplemented and not hasattr(one, _METHODS[1]):
            found = asked(ufunc, method, *map(_value, inputs), **kwargs)
        if found is not NotImplemented:
            return found
    return NotImplemented


def _value(given: Any) -> Any:
    """Compute a lazy array; return other values unchanged."""
    lazy = hasattr(given, _METHODS[0]) and not isinstance(given, np.ndarray) and not _overrides(given)
    return np.asarray(given) if lazy else given


def calls_method(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether NumPy's function calls an argument's method of the same name, as `np.clip(series, low, high)` does."""
    written = inspect.isfunction(getattr(function, "__wrapped__", None))  # functions in C call no methods
    return written and any(hasattr(one, function.__name__) for one in args if _overrides(one))
