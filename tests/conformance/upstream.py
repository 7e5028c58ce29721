"""Compiles a test module of NumPy's as a cell of jmars.

What it imports from NumPy, and the arrays that it makes while it is imported, become those of a cell (names.py); values
are computed where the code expects errors, as in `with pytest.raises(...)` of a cell (jmars/notebook/cell_source.py).
"""

from __future__ import annotations

import ast
import importlib.util
import os
import warnings
from pathlib import Path
from typing import Any

from jmars.notebook.cell_source import COMPUTED, computed, with_guards
from tests.conformance.halves import in_halves
from tests.conformance.names import entered, stand_in

STAND_IN = "__jmars_stand_in__"
MATRIX = "the matrix subclass is not the recommended way"  # NumPy's settings of pytest ignore this warning
OWN = "JMARS_CONFORMANCE_OF_NUMPY"  # a variable of the environment: the tests run on NumPy itself


def adopt(module: str, names: dict[str, Any]) -> None:
    """Run the code of a test module, `numpy.lib.tests.test_arraypad`, in the namespace of another."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None, f"NumPy's wheel has no {module}"
    tree = ast.parse(Path(spec.origin).read_bytes(), spec.origin)
    own = bool(os.environ.get(OWN))
    if not own:
        tree = _guarded(_Imports().visit(tree))
        names |= {STAND_IN: stand_in, COMPUTED: computed}
    tree = _ForPytest(spec.origin).visit(tree)
    code = compile(ast.fix_missing_locations(tree), spec.origin, "exec", dont_inherit=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MATRIX)
        exec(code, names)
    if not own:
        with in_halves():
            _enter(names)


def _enter(names: dict[str, Any]) -> None:
    """Put what a cell has in the place of the values of a module, and of the attributes of its classes."""
    for name, value in list(names.items()):
        if isinstance(value, type) and value.__module__ == names["__name__"]:
            for key, one in list(vars(value).items()):
                if not key.startswith("__") and (found := entered(one)) is not one:
                    setattr(value, key, found)
        elif not name.startswith("__"):
            names[name] = entered(value)


class _Imports(ast.NodeTransformer):
    """Adds `np = stand_in(np)` after `import numpy as np` in a function."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        for part in ast.walk(node):
            if isinstance(part, ast.FunctionDef | ast.Lambda):
                self.generic_visit(part)
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        ours = [alias.asname or "numpy" for alias in node.names if alias.name.partition(".")[0] == "numpy"]
        return [node, *(_rebound(node, name) for name in ours)]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        if (node.module or "").partition(".")[0] != "numpy":
            return [node]
        return [node, *(_rebound(node, alias.asname or alias.name) for alias in node.names)]


def _rebound(place: ast.stmt, name: str) -> ast.stmt:
    call = ast.Call(ast.Name(STAND_IN, ast.Load()), [ast.Name(name, ast.Load())], [])
    return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], call), place)


class _ForPytest(ast.NodeTransformer):
    """Replaces `__file__` by the path of NumPy's file, and what this version of pytest warns of."""

    def __init__(self, path: str) -> None:
        self.path = path

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant(self.path), node) if node.id == "__file__" else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name == "parametrize":
            node.args[1:] = [ast.Call(ast.Name("list", ast.Load()), [one], []) for one in node.args[1:2]]
        if name == "fixture":  # of a class: a method
            node.keywords = [word for word in node.keywords if word.arg != "scope"]
        return node


def _guarded(tree: ast.Module) -> ast.Module:
    """Adds guards, also to functions with decorators, which are those of pytest here."""
    decorators = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            decorators[node], node.decorator_list = node.decorator_list, []
    tree = with_guards(tree)
    for node, found in decorators.items():
        node.decorator_list = found
    return tree
