"""Each folder's `__init__` and docs/explanation/map.md say what is there, no more and no less."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, ROOT, Module, modules

FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


def _named(docstring: str) -> list[str]:
    """Names at the start of a line that says what they hold: `frames.py    messages as ...`."""
    return re.findall(r"^`?([a-z_][a-z0-9_]*)(?:\.py|/)?`? {2,}\S", docstring, flags=re.MULTILINE)


def _there(folder: Path) -> set[str]:
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return files | {path.parent.name for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_an_init_is_the_map_of_its_folder(folder: Path) -> None:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    named = _named(docstring)
    assert set(named) == _there(folder), "one line per file in reading order: `file.py    what it holds`"
    assert len(named) == len(set(named))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_an_init_only_names_what_the_files_hold(folder: Path) -> None:
    tree = ast.parse((folder / "__init__.py").read_text())
    others = [node for node in tree.body[1:] if not isinstance(node, ast.ImportFrom | ast.Import | ast.Assign | ast.If)]
    functions = [node.name for node in others if isinstance(node, ast.FunctionDef)]
    allowed = {"load_ipython_extension", "unload_ipython_extension"}  # Jupyter looks for these on the package
    allowed |= {"_jupyter_labextension_paths", "_jupyter_server_extension_points"}
    assert len(functions) == len(others) and set(functions) <= allowed


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.name)
def test_a_file_opens_with_what_it_holds(module: Module) -> None:
    assert ast.get_docstring(module.tree()), f"{module.path.name} has no docstring"


def test_the_map_in_the_docs_is_true() -> None:
    command = [sys.executable, ROOT / ".ci" / "map", "--check"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stdout + answer.stderr
