"""Finds the names that the import statements of a cell have bound, which outlive an error or a cancel of the cell.

An import has no value that the end of the cell computes, and the next cell may need the name.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jmars.notebook.numpy_names import own_value

__all__ = ["Import", "bound_imports", "imports_in"]

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
        if self.module.partition(".")[0] == "numpy":
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
            except Exception:  # the name is not there, or the module's own `__getattr__` fails: it was not imported
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
