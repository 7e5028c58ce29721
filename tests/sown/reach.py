"""Which test files reach the faulty lines: one run of the tests, with a probe before each line.

Values that a process keeps, such as those of `functools.cache`, are computed once in it; of the files that would reach
such a line the first alone is told.
"""

from __future__ import annotations

import ast
import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.sown.copies import Copy
from tests.sown.table import FAULTS, ROOT

PROBE = Path("jmars/_probe.py")
IMPORT = "from jmars._probe import hit as _hit"
BLOCKS = ("body", "orelse", "finalbody")
READERS = ("tests/house/", "tests/sown/")  # their tests read the source and would see the change itself
HOUR = 3600.0  # seconds


@dataclass
class Reach:
    """Test files by the faults whose lines they reach, and their times."""

    files: dict[str, list[str]]  # by `Fault.old`
    seconds: dict[str, float]  # by test file, on a busy machine
    at: float  # when the run began, seconds since the epoch

    @classmethod
    def kept(cls, folder: Path) -> Reach | None:
        """What was found before, if anything."""
        path = folder / "reach.json"
        return cls(**json.loads(path.read_text())) if path.exists() else None

    @classmethod
    def found(cls, folder: Path, arguments: list[str]) -> Reach:
        """Run the tests and keep what is found; it counts neither who fails nor why."""
        began = time.time()
        with Copy.made() as copy:
            lines: dict[Path, dict[int, int]] = {}
            for number, fault in enumerate(FAULTS):
                lines.setdefault(fault.path(), {})[number] = fault.line()
            for path, places in lines.items():
                (copy.root / path).write_text(with_probes((ROOT / path).read_text(), places))
            shutil.copy(Path(__file__).with_name("probe.py"), copy.root / PROBE)
            told = copy.root / ".probe"
            told.mkdir()
            (told / "hits").touch()
            ran = copy.run(["-p", "jmars._probe", *arguments], 4 * HOUR)
            print(*ran.failures, sep="\n", flush=True)
            hits = [line.split(" ", 1) for line in (told / "hits").read_text().splitlines()]
            found = {fault.old: sorted({path for n, path in hits if int(n) == k}) for k, fault in enumerate(FAULTS)}
            reach = cls(found, json.loads((told / "seconds").read_text()), began)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reach.json").write_text(json.dumps(asdict(reach), indent=1))
        return reach

    def of(self, old: str, everything: bool, root: Path = ROOT) -> set[str]:
        """The test files that may find a fault: those that reach it, and those that have changed since.

        Of a row that has been added since, all. With `everything`, files too whose tests are all long: the run of the
        probes has left them out.
        """
        tests = [path for folder in ("tests", "notebooks") for path in (root / folder).rglob("*")]
        named = [path for path in tests if path.suffix == ".ipynb" or path.match("test_*.py")]
        new = {str(path.relative_to(root)) for path in named if path.stat().st_mtime > self.at}
        if everything:
            new |= {str(path.relative_to(root)) for path in named} - set(self.seconds)
        reached = {path for path in self.files.get(old, self.seconds) if (root / path).exists()}
        return {path for path in reached | new if not path.startswith(READERS)}


def with_probes(text: str, lines: dict[int, int]) -> str:
    """A module with a call of `hit(number)` before the statement at each line; `lines` are by number."""
    tree = ast.parse(text)
    blocks = list(_blocks(tree))
    probes: list[tuple[list[ast.stmt], ast.stmt, ast.stmt]] = []
    for number, line in lines.items():
        holds = [(block, one) for block in blocks for one in block if one.lineno <= line <= (one.end_lineno or line)]
        block, innermost = min(holds, key=lambda pair: (pair[1].end_lineno or 0) - pair[1].lineno)
        probes.append((block, innermost, ast.parse(f"_hit({number})").body[0]))
    for block, before, probe in probes:
        block.insert(block.index(before), probe)
    first = 1 if ast.get_docstring(tree) is not None else 0
    while isinstance(one := tree.body[first], ast.ImportFrom) and one.module == "__future__":
        first += 1
    tree.body.insert(first, ast.parse(IMPORT).body[0])
    return ast.unparse(tree)


def _blocks(tree: ast.AST) -> Iterable[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block
