"""Our own source, read without importing it: files, modules and what each imports."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jmars"


@dataclass(frozen=True)
class Import:
    """One import statement of a name below `jmars`, or of another package."""

    line: int
    target: str  # dotted name: the module, or the module and the name taken from it
    names: tuple[str, ...]  # taken from `target` by `from target import ...`
    deferred: bool  # inside a function
    typing: bool  # inside `if TYPE_CHECKING`


@dataclass(frozen=True)
class Module:
    """A Python file of the package."""

    path: Path
    name: str  # dotted
    text: str

    @property
    def folder(self) -> str:
        """The first folder or file below jmars: `tensor`, `errors`; "" for jmars/__init__.py."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    def tree(self) -> ast.Module:
        """The parsed text."""
        return _parse(self.text)

    def imports(self) -> tuple[Import, ...]:
        """Every import statement, those within functions and `if TYPE_CHECKING` too."""
        return _imports(self.text)


@cache
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _imports(text: str) -> tuple[Import, ...]:
    return tuple(_imports_below(_parse(text), deferred=False, typing=False))


def _imports_below(parent: ast.AST, deferred: bool, typing: bool) -> Iterator[Import]:
    deferred = deferred or isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    typing = typing or (isinstance(parent, ast.If) and "TYPE_CHECKING" in ast.unparse(parent.test))
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, (), deferred, typing)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Import(node.lineno, "." * node.level + (node.module or ""), names, deferred, typing)
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):  # expressions hold no statements
            yield from _imports_below(node, deferred, typing)


@cache
def modules() -> tuple[Module, ...]:
    """Every module of jmars, by name."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(path, name, path.read_text()))
    return tuple(found)


@cache
def tracked() -> tuple[Path, ...]:
    """The files that git would carry to another machine: tracked, or new and not ignored."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return tuple(path for line in answer.stdout.splitlines() if (path := ROOT / line).is_file())
