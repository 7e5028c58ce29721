"""Blocks that no test runs, since they need other machines (`py` instead of `python`), name calls that exist."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

import jmars
from tests.docs.pages import PAGES, ROOT, blocks, name

UNRUN = [
    pytest.param(page, line, text, id=f"{name(page)}:{line}")
    for page in PAGES
    for language, line, text in blocks(page)
    if language == "py"
]


def _call(function: ast.expr) -> Any:
    """What an expression such as `jmars.Cluster.ssh` names; None where it is another, or a method of a value."""
    text = ast.unparse(function)
    names = text.split(".") if text.replace(".", "").isidentifier() else [""]
    found: Any = {"jmars": jmars, "mt": jmars.tensor, "cluster": jmars.Cluster}.get(names[0])
    for part in names[1:] if found is not None else []:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(("page", "line", "text"), UNRUN)
def test_calls_of_jmars_take_the_arguments_that_a_page_gives(page: Path, line: int, text: str) -> None:
    code = "\n".join(row for row in text.splitlines() if not row.startswith("%%jmars"))
    for node in ast.walk(ast.parse(code)):
        called = _call(node.func) if isinstance(node, ast.Call) else None
        if called is not None:
            of_cluster = ast.unparse(node.func).startswith("cluster.")
            given = [None] * (len(node.args) + of_cluster)
            inspect.signature(called).bind(*given, **{word.arg or "": None for word in node.keywords})


def test_the_function_that_contributing_explains_is_the_one_of_the_source() -> None:
    told = [text for language, _, text in blocks(ROOT / "docs" / "CONTRIBUTING.md") if "def fix" in text]
    source = (ROOT / "jmars" / "tensor" / "ops" / "ufuncs.py").read_text()
    assert ast.dump(_function(told[0])) == ast.dump(_function(source))


def _function(text: str) -> ast.FunctionDef:
    return next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == "fix")
