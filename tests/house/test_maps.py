"""Each folder's `__init__` and docs/explanation/map.md say what is there, no more and no less."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, ROOT, Module, modules

FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


named = runpy.run_path(str(ROOT / ".ci" / "map"))["named"]


def _there(folder: Path) -> set[str]:
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return files | {path.parent.name for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_an_init_is_the_map_of_its_folder(folder: Path) -> None:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    names = named(docstring)
    assert set(names) == _there(folder), "one line per file in reading order: `file.py    what it holds`"
    assert len(names) == len(set(names))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_an_init_only_names_what_the_files_hold(folder: Path) -> None:
    tree = ast.parse((folder / "__init__.py").read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef)]
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    asked_of_a_package = {"__getattr__", "__dir__", "_jupyter_labextension_paths", "_jupyter_server_extension_points"}
    assert functions <= asked_of_a_package


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.name)
def test_a_file_opens_with_what_it_holds(module: Module) -> None:
    assert ast.get_docstring(module.tree()), f"{module.path.name} has no docstring"


def test_the_map_in_the_docs_is_true() -> None:
    command = [sys.executable, ROOT / ".ci" / "map", "--check"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stdout + answer.stderr
