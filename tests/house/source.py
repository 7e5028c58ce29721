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

    def imports(self) -> Iterator[Import]:
        """Every import statement, those within functions and `if TYPE_CHECKING` too."""
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        functions = [node for node in ast.walk(self.tree()) if isinstance(node, kinds)]
        inside = {id(node) for function in functions for node in ast.walk(function)}
        ifs = [node for node in ast.walk(self.tree()) if isinstance(node, ast.If)]
        typing = {id(n) for node in ifs if "TYPE_CHECKING" in ast.unparse(node.test) for n in ast.walk(node)}
        for node in ast.walk(self.tree()):
            where = (id(node) in inside, id(node) in typing)
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(node.lineno, alias.name, (), *where)
            elif isinstance(node, ast.ImportFrom):
                names = tuple(alias.name for alias in node.names)
                yield Import(node.lineno, "." * node.level + (node.module or ""), names, *where)


@cache
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


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
