"""One command for all benchmarks: python -m tests.benchmarks [NAME [OPTION ...]]."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def benchmarks() -> dict[str, Path]:
    """The files that can be run, by name: those that have a `main`."""
    files = sorted([*FOLDER.glob("*.py"), *FOLDER.glob("arrays/*.py")])
    return {file.stem: file for file in files if "\ndef main(" in file.read_text() and file != Path(__file__)}


def module(file: Path) -> str:
    """The dotted name of a benchmark."""
    return ".".join(["tests.benchmarks", *file.relative_to(FOLDER).with_suffix("").parts])


def main() -> int:
    """List them, or run one as if it were the program itself."""
    known = benchmarks()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in known:
        sys.argv = [f"python -m tests.benchmarks {name}", *sys.argv[2:]]
        runpy.run_module(module(known[name]), run_name="__main__", alter_sys=True)
        return 0
    for each, file in known.items():
        first = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n")[0]
        print(f"{each:14}{first.partition(': python')[0].rstrip('.:')}")
    if name and name not in ("-h", "--help"):
        print(f"there is no benchmark {name!r}; those above are there", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
