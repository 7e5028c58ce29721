"""Objects that answer NumPy's functions themselves, as pandas', xarray's and Dask's do: they keep labels, skip NaN,
stay lazy. A function of ours that meets one calls NumPy's own, which asks them; protocols.py sees to that.

They are told by NEP 13's and NEP 18's methods. NumPy's own arrays, ours, and chunk types (foreign.py) are none of them.
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
_ASKING = (np.ufunc, type(np.concatenate))
_LONG = 100  # entries of a list that are looked at: longer ones are numbers


def is_overridable(theirs: Any) -> bool:
    """Whether a function of NumPy asks its arguments who answers; `np.asarray` does not.

    Examples
    --------
    >>> is_overridable(np.sqrt), is_overridable(np.mean), is_overridable(np.asarray)
    (True, True, False)
    """
    return isinstance(theirs, _ASKING)


def overriding_args(values: Iterable[Any]) -> Iterator[Any]:
    """Those among arguments, and in lists there, that answer NumPy's functions themselves.

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
        if kind is list or kind is tuple:
            yield from overriding_args(value[:_LONG])
        elif _kind_answers(kind):
            yield value


def _answers(value: Any) -> bool:
    kind: Any = type(value)
    return _kind_answers(kind)


@lru_cache(maxsize=1024)
def _kind_answers(kind: type) -> bool:
    givers = [next((base for base in kind.__mro__ if name in vars(base)), object) for name in _METHODS]
    known = ("builtins", "numpy", "jmars")
    if all(giver.__module__.partition(".")[0] in known for giver in givers):
        return False
    return issubclass(kind, np.ndarray) or not hasattr(kind, "__array_namespace__")  # else it may be a chunk


def call_numpy(theirs: Any, args: tuple[Any, ...], kwargs: dict[str, Any], enter: Callable[[Any], Any]) -> Any:
    """What NumPy's function gives for such objects; `enter` makes its arrays ours."""
    return _entered(theirs(*args, **kwargs), enter)


def _entered(value: Any, enter: Callable[[Any], Any]) -> Any:
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return enter(value)
    if type(value) in (list, tuple):
        return type(value)(_entered(one, enter) for one in value)
    if isinstance(value, tuple) and hasattr(value, "_make"):  # as np.linalg.svd gives
        return value._make(_entered(one, enter) for one in value)
    return value


def call_override(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the first of them gives for a ufunc whose arguments are lazy arrays too; NotImplemented where none does.

    Who knows NumPy's arrays only, as pandas does, is given values.
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
    """Of a lazy array its value; anything else as it is."""
    lazy = hasattr(given, _METHODS[0]) and not isinstance(given, np.ndarray) and not _answers(given)
    return np.asarray(given) if lazy else given


def calls_method(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether NumPy's function calls the method of its name that one of them has: `np.clip(series, low, high)`."""
    written = inspect.isfunction(getattr(function, "__wrapped__", None))  # those in C call none
    return written and any(hasattr(one, function.__name__) for one in args if _answers(one))
