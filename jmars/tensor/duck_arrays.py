"""Arrays of other libraries, met where a tensor was expected: told apart here, handed to who knows them.

What NumPy takes (`np.asarray`) is a tensor like any other. What NumPy refuses, as sparse arrays and those of a GPU do,
and handles of such arrays (`chunk_types.Guest`), raise `DuckArrayError`; the table of functions (protocols.py) then
asks chunk_types, which is imported when the first one is met and puts itself here.
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
    """An array whose elements NumPy does not see; whoever gets this far wanted them as a NumPy array."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind} does not become a NumPy array by itself; say so, x.todense()")


def is_duck_array(value: Any) -> bool:
    """Whether it is an array of a library other than NumPy."""
    kind = type(value)
    return hasattr(kind, "__array_namespace__") and kind.__module__.partition(".")[0] not in ("numpy", "jmars")


def refuse_duck_array(value: Any) -> None:
    """Raise DuckArrayError for an array of a library other than NumPy."""
    if is_duck_array(value):
        raise DuckArrayError(f"an array of {type(value).__name__}") from None


def supports_arithmetic(value: Any) -> bool:
    """Whether a tensor's operators take it: arrays that leave arithmetic to others, and foreign ones."""
    return is_duck_array(value) or hasattr(value, "__array__") and not hasattr(value, "__array_ufunc__")


def set_dispatcher(dispatcher: Dispatcher) -> None:
    """Let functions that meet a foreign array be answered by `dispatch(name, args, kwargs)`."""
    global _dispatcher
    _dispatcher = dispatcher


def dispatch(error: DuckArrayError, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the function of that name gives for foreign arrays; raises `error` where nobody knows."""
    importlib.import_module("jmars.tensor.chunk_types")
    if _dispatcher is None:  # it is being imported just now
        raise error
    return _dispatcher(name, args, kwargs)
