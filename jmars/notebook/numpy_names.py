"""Resolves NumPy's names: to jmars.tensor while a `%%jmars` cell runs, to NumPy before and after.

`resolve("numpy.linalg.norm")` is the lazy function; `np.pi` and `np.float32` stay NumPy's; functions that jmars does
not distribute raise an error with their name. The imports of a cell come here (see cell_source.py). While a cell runs
they give lazy names; later (a function defined in the cell, called from another cell) and in blocks they give NumPy's
own.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from jmars.errors import UnsupportedError
from jmars.tensor.numpy_modules import NumPyModule, import_name
from jmars.tensor.ops.blockwise.map_blocks import in_block

__all__ = ["imported_names", "lazy_names", "own_value", "path_of", "resolve"]

# Modules that turn lazy in a cell, also where an ordinary cell imported them; of numpy.polynomial jmars has one class.
_SEARCHED = ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma", "numpy.strings", "numpy.char")

imported_names: dict[int, tuple[Any, Any]] = {}  # by id: a value that the cell imported, and NumPy's own value
_running = 0  # number of cells that run now; a cell may run another cell


@contextmanager
def lazy_names() -> Iterator[None]:
    """Within the block, imports rewritten by cell_source.py give jmars.tensor's names."""
    global _running
    _running += 1
    try:
        yield
    finally:
        _running -= 1
        if not _running:
            imported_names.clear()


def resolve(path: str) -> Any:
    """The value of the NumPy name `path` inside a cell.

    Raises
    ------
    UnsupportedError
        If jmars does not distribute the function.
    AttributeError
        If NumPy has no such name either.
    """
    parts = path.split(".")
    value: Any = NumPyModule.of(parts[0])
    for part in parts[1:]:
        value = getattr(value, part)
    return value


def path_of(value: Any) -> str | None:
    """NumPy's name of a module or function, such as "numpy.linalg.norm"; None for other values."""
    if isinstance(value, ModuleType):
        name = value.__name__
        return name if name in _SEARCHED else None
    if not callable(value):
        return None
    return _functions(tuple([path for path in _SEARCHED if path in sys.modules])).get(id(value))


@functools.cache
def _functions(loaded: tuple[str, ...]) -> dict[int, str]:
    """NumPy's functions and ufuncs by identity, from the loaded modules; they live as long as the modules."""
    found: dict[int, str] = {}
    for path in loaded:
        for name, value in vars(importlib.import_module(path)).items():
            known = not isinstance(value, type) or name in ("ndarray", "MaskedArray", "masked_array")
            if callable(value) and known and not name.startswith("_"):
                found.setdefault(id(value), f"{path}.{name}")
    return found


def own_value(path: str, value: Any) -> Any:
    """NumPy's own value of the name `path` if `value` is the name's value, in a cell or outside; None otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> own_value("numpy.sin", resolve("numpy.sin")) is np.sin, own_value("numpy.sin", np.sin) is np.sin
    (True, True)
    >>> own_value("numpy.sin", 3)
    """
    own = import_name(path)
    return own if value is own or value is resolve_or_stub(path) else None


def raising_stub(path: str) -> Callable[..., Any]:
    """A function that raises UnsupportedError when it is called."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return __getattr__(path)(*args, **kwargs)  # NumPy's own in blocks, to which it may have travelled

    refuse.__name__ = path  # not the qualified one: pickle would look it up here
    return refuse


def resolve_or_stub(path: str) -> Any:
    """Like `resolve`, but an unsupported function raises when it is called, not when it is named."""
    try:
        return resolve(path)
    except UnsupportedError:
        return raising_stub(path)


def __getattr__(path: str) -> Any:
    """Resolves the imports of cells: `path` is a NumPy name, with a leading "?" if it comes from `import *`."""
    name = path.removeprefix("?")
    if name.partition(".")[0] != "numpy":
        raise AttributeError(f"module {__name__!r} has no attribute {path!r}")
    own = import_name(name)
    if not _running or in_block.get():
        return own
    value = resolve_or_stub(name) if path.startswith("?") else resolve(name)
    if value is not own:
        imported_names[id(value)] = (value, own)
    return value
