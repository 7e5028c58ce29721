"""Each folder's `__init__` and docs/explanation/map.md say what is there, no more and no less."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path

from tests.house.source import PACKAGE, ROOT, modules

FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


named = runpy.run_path(str(ROOT / ".ci" / "map"))["named"]


def _there(folder: Path) -> set[str]:
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return files | {path.parent.name for path in folder.glob("*/__init__.py")}


def _docstring(folder: Path) -> str:
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""


def test_an_init_is_the_map_of_its_folder() -> None:
    """One line per file in reading order: `file.py    what it holds`."""
    faults = []
    for folder in FOLDERS:
        names = named(_docstring(folder))
        where = f"{folder.relative_to(ROOT)}/__init__.py"
        faults += [f"{where} does not name {name}" for name in sorted(_there(folder) - set(names))]
        faults += [f"{where} names {name}, which is not there" for name in sorted(set(names) - _there(folder))]
        faults += [f"{where} names {name} twice" for name in sorted(set(names)) if names.count(name) > 1]
    assert faults == []


def test_an_init_only_names_what_the_files_hold() -> None:
    asked_of_a_package = {"__getattr__", "__dir__", "_jupyter_labextension_paths", "_jupyter_server_extension_points"}
    faults = []
    for folder in FOLDERS:
        tree = ast.parse((folder / "__init__.py").read_text())
        held = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef)]
        held += [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name not in asked_of_a_package]
        faults += [f"{folder.relative_to(ROOT)}/__init__.py:{node.lineno} holds {node.name}" for node in held]
    assert faults == []


def test_a_file_opens_with_what_it_holds() -> None:
    missing = [str(module.path.relative_to(ROOT)) for module in modules() if not ast.get_docstring(module.tree())]
    assert missing == []


def test_the_map_in_the_docs_is_true() -> None:
    command = [sys.executable, ROOT / ".ci" / "map", "--check"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stdout + answer.stderr
