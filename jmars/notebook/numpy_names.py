"""Resolves NumPy's names: to jmars.tensor while a `%%jmars` cell runs, to NumPy before and after.

`scipy.ndimage` is resolved in the same way.
`resolve("numpy.linalg.norm")` is the lazy function; `np.pi` and `np.float32` stay NumPy's; functions that jmars does
not distribute raise an error with their name. The imports of a cell come here (see cell_source.py). While a cell runs
they give lazy names; later (a function defined in the cell, called from another cell) and in blocks they give NumPy's
own. Names that import statements have bound outlive an error or a cancel of the cell: an import has no value that the
end of the cell computes, and the next cell may need the name.
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from jmars.errors import UnsupportedError
from jmars.tensor.numpy_modules import NumPyModule, import_name
from jmars.tensor.ops.map_blocks import in_block

# Modules that turn lazy in a cell, also if an ordinary cell imported them; of numpy.polynomial only a single class.
_SEARCHED = ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma", "numpy.strings", "numpy.char",
             "scipy.ndimage")  # fmt: skip
LIBRARIES = ("numpy", "scipy")  # their imports are resolved here

imported_names: dict[int, tuple[Any, Any]] = {}  # by id: a value that the cell imported, and NumPy's own value
_running = 0  # number of running cells; a cell may run another cell


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
        return name if name in _SEARCHED or name == "scipy" else None
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
        return __getattr__(path)(*args, **kwargs)  # inside blocks: NumPy's own function

    refuse.__name__ = path  # not the qualified name: pickle would look `refuse` up in this module
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
    if name.partition(".")[0] not in LIBRARIES:
        raise AttributeError(f"module {__name__!r} has no attribute {path!r}")
    own = import_name(name)
    if not _running or in_block.get():
        return own
    value = resolve_or_stub(name) if path.startswith("?") else resolve(name)
    if value is not own:
        imported_names[id(value)] = (value, own)
    return value


_STAR = "*"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Import:
    """A name that an import statement binds to a module, or to an attribute of a module; "*" binds the public names."""

    name: str
    module: str
    attribute: str = ""

    def bound(self, value: Any) -> Any:
        """The imported module or attribute if `value` is what the statement binds to the name; None otherwise."""
        path = f"{self.module}.{self.attribute}" if self.attribute else self.module
        if self.module.partition(".")[0] in LIBRARIES:
            return own_value(path, value)
        loaded = sys.modules.get(self.module)
        found = getattr(loaded, self.attribute, sys.modules.get(path)) if self.attribute else loaded
        return value if value is found else None


def imports_in(tree: ast.Module) -> tuple[Import, ...]:
    """The imports of a cell outside functions and classes, in order.

    Examples
    --------
    >>> imports_in(ast.parse("import os.path, json as j\\nfrom time import sleep"))[1:]
    (Import(name='j', module='json', attribute=''), Import(name='sleep', module='time', attribute='sleep'))
    """
    return tuple(_imports(tree))


def _imports(node: ast.AST) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            whole = alias.name if alias.asname else alias.name.partition(".")[0]
            yield Import(alias.asname or whole, whole)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            yield Import(alias.asname or alias.name, node.module, alias.name)
    elif not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _imports(child)


def bound_imports(imports: tuple[Import, ...], names: Mapping[str, Any]) -> dict[str, Any]:
    """Names with the values that the imports have bound; for NumPy's names, its own values.

    Examples
    --------
    >>> import json
    >>> found = imports_in(ast.parse("import json\\nimport time"))
    >>> bound_imports(found, {"json": json, "time": "rebound by the cell"}) == {"json": json}
    True
    """
    bound: dict[str, Any] = {}
    for one in imports:
        each = _public(one.module) if one.name == _STAR else (one,)
        for single in each:
            try:
                value = single.bound(names[single.name]) if single.name in names else None
            except Exception:  # the name is missing, or the module's `__getattr__` fails: not imported
                continue
            if value is not None:
                bound[single.name] = value
    return bound


def _public(module: str) -> Iterator[Import]:
    """The imports that `from module import *` stands for."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        public = getattr(loaded, "__all__", [name for name in vars(loaded) if not name.startswith("_")])
        yield from (Import(name, module, name) for name in public)
