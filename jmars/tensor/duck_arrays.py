"""Detects duck arrays among the arguments of tensor functions, and dispatches the call to chunk_types.

An array that `np.asarray` accepts becomes a tensor. Conversion of other arrays (sparse arrays, GPU arrays) and of their
handles (`chunk_types.DuckTensor`) raises `DuckArrayError`, and the table of functions (protocols.py) calls `dispatch`.
The package chunk_types is imported at the first such call, and registers its functions here by `set_dispatcher`.
Source: NEP 30 (duck arrays).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from jmars.errors import UnsupportedError

__all__ = ["DuckArrayError", "dispatch", "is_duck_array", "refuse_duck_array", "set_dispatcher", "supports_arithmetic"]

Dispatcher = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]
_dispatcher: Dispatcher | None = None


class DuckArrayError(UnsupportedError):
    """Raised where a duck array would have to become a NumPy array."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind} is not converted to a NumPy array implicitly; convert it, x.todense()")


def is_duck_array(value: Any) -> bool:
    """Whether a value is an array of a library other than NumPy and jmars, with `__array_namespace__`."""
    kind = type(value)
    return hasattr(kind, "__array_namespace__") and kind.__module__.partition(".")[0] not in ("numpy", "jmars")


def refuse_duck_array(value: Any) -> None:
    """Raise DuckArrayError for a duck array."""
    if is_duck_array(value):
        raise DuckArrayError(f"an array of {type(value).__name__}") from None


def supports_arithmetic(value: Any) -> bool:
    """Whether a tensor's operators accept a value: duck arrays, and arrays without a ufunc override."""
    return is_duck_array(value) or hasattr(value, "__array__") and not hasattr(value, "__array_ufunc__")


def set_dispatcher(dispatcher: Dispatcher) -> None:
    """Register `dispatcher(name, args, kwargs)` for calls with duck arrays."""
    global _dispatcher
    _dispatcher = dispatcher


def dispatch(error: DuckArrayError, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the duck-array version of a function; raises `error` while no dispatcher is registered."""
    importlib.import_module("jmars.tensor.chunk_types")
    if _dispatcher is None:  # chunk_types is still being imported
        raise error
    return _dispatcher(name, args, kwargs)
