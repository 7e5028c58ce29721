"""Compiles the text of a `%%jmars` cell: user's line numbers, NumPy imports rewritten, last value captured.

Magics, `!` and `?` are IPython's own transformations. `import numpy ...` becomes an import from
`jmars.notebook.numpy_names`, which gives jmars.tensor while a cell runs and NumPy otherwise (a function defined in the
cell may be called later).
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell

from jmars.notebook.guarded_code import with_guards
from jmars.notebook.imports import Import, imports_in
from jmars.notebook.looks import with_looks
from jmars.tensor.source_line import SourceLine

__all__ = ["LAST_VALUE", "CellSource"]

LAST_VALUE = "__jmars_last_value__"  # the last expression's name while the cell runs
_WORD = re.compile(r"[^\W\d]\w*")
_NAMES_MODULE = "jmars.notebook.numpy_names"


@dataclass(frozen=True)
class CellSource:
    """A compiled cell."""

    code: CodeType  # may be a coroutine (top-level await); binds LAST_VALUE when `shows`
    filename: str  # in tracebacks IPython writes it as `Cell In[n]`
    label: str  # "In [n]", the job's name
    lines: tuple[str, ...]  # as in tracebacks, the `%%jmars` line included
    words: Mapping[str, int]  # first line, from 1, of every identifier in the text: the names that the cell may read
    shows: bool  # the last statement is an expression whose value is shown
    imports: tuple[Import, ...]  # outside functions and classes

    @classmethod
    def read(cls, shell: InteractiveShell, line: str, body: str) -> CellSource:
        """Compiles the cell below a `%%jmars` line whose flags are `line`.

        Raises
        ------
        SyntaxError
            As for any cell, with the user's line number.
        """
        number, before = _place(shell, line, body)
        ipython: Any = shell  # half of its methods carry no types
        python = before + ipython.transform_cell(body)
        filename = shell.compile.cache(python, number=number, raw_code=before + body)
        with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
            tree = shell.compile.ast_parse(python, filename)
            tree = ipython.transform_ast(tree)
            imports = imports_in(tree) if "import" in python else ()
            if "numpy" in python:
                tree = ast.fix_missing_locations(_NumPyImports().visit(tree))
            if "try" in python or "with" in python:
                tree = with_guards(tree)
            if "print" in python or "{" in python:
                tree = with_looks(tree)
            shows = _capture_last(tree, shell.ast_node_interactivity)
            if shows and DisplayHook.semicolon_at_end_of_expression(body):  # type: ignore[no-untyped-call]
                shows = False
            code = ipython.compile(tree, filename, "exec")
        words: dict[str, int] = {}
        for at, text in enumerate((before + body).splitlines(), start=1):
            for word in _WORD.findall(text) if not text.startswith("# %%") else ():
                words.setdefault(word, at)
        return cls(code, filename, f"In [{number}]", tuple(python.splitlines()), words, shows, imports)

    def line_of(self, word: str) -> SourceLine | None:
        """The first line that mentions `word`; None if no line does."""
        at = self.words.get(word)
        text = self.lines[at - 1].strip() if at is not None and at <= len(self.lines) else ""
        return SourceLine(self.filename, at, text) if at is not None else None


def _place(shell: InteractiveShell, line: str, body: str) -> tuple[int, str]:
    """Number of the cell, and the lines above the body in the user's cell, as comments."""
    history = shell.history_manager
    inputs = history.input_hist_raw if history is not None else [""]
    raw, typed = inputs[-1].rstrip(), body.rstrip()
    above = raw[: len(raw) - len(typed)]
    if raw.endswith(typed) and "%%" in above:
        return len(inputs) - 1, "".join(f"# {text}\n" for text in above.splitlines())
    return shell.execution_count, f"# %%jmars {line}".rstrip() + "\n"  # called by hand, or not kept in the history


def _capture_last(tree: ast.Module, interactivity: str) -> bool:
    """Binds the value that the cell shows to LAST_VALUE; False if the cell shows no value."""
    if not tree.body or interactivity == "none":
        return False
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        value: ast.expr = last.value
        tree.body.pop()
    elif interactivity == "last_expr_or_assign" and isinstance(last, ast.Assign | ast.AugAssign | ast.AnnAssign):
        target = last.targets[0] if isinstance(last, ast.Assign) else last.target
        if not isinstance(target, ast.Name):
            return False
        value = ast.copy_location(ast.Name(target.id, ast.Load()), last)
    else:
        return False
    name = ast.copy_location(ast.Name(LAST_VALUE, ast.Store()), last)
    tree.body.append(ast.copy_location(ast.Assign([name], value), last))
    return True


class _NumPyImports(ast.NodeTransformer):
    """Rewrites `import numpy.linalg as la` to `from jmars.notebook.numpy_names import <numpy.linalg> as la`."""

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        parts: list[ast.stmt] = []
        for alias in node.names:
            if alias.name.split(".")[0] != "numpy":
                parts.append(ast.copy_location(ast.Import([alias]), node))
            elif alias.asname is None:  # `import numpy.linalg` binds `numpy`
                parts.append(_from_names(node, "numpy", "numpy"))
            else:
                parts.append(_from_names(node, alias.name, alias.asname))
        return parts

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:
        module = node.module or ""
        if node.level or module.split(".")[0] != "numpy":
            return node
        names = [(alias.name, alias.asname or alias.name) for alias in node.names]
        if names[0][0] == "*":
            source = importlib.import_module(module)
            public = getattr(source, "__all__", [name for name in vars(source) if not name.startswith("_")])
            return [_from_names(node, f"?{module}.{name}", name) for name in public if not name.startswith("__")]
        return [_from_names(node, f"{module}.{name}", bound) for name, bound in names]


def _from_names(place: ast.stmt, path: str, bound: str) -> ast.stmt:
    """`from jmars.notebook.numpy_names import path as bound`, on the line of `place`."""
    return ast.copy_location(ast.ImportFrom(_NAMES_MODULE, [ast.alias(path, bound)], 0), place)
