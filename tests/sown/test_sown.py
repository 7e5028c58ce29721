"""The table of faults names lines that are there, and probes tell who reaches them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sown import probe
from tests.sown.copies import Copy, told
from tests.sown.reach import Reach, with_probes
from tests.sown.study import Study, stale
from tests.sown.table import FAULTS, ROOT

TEXT = '''"""A module."""

from __future__ import annotations


def f(x):
    """Docstring."""
    if x > 1:
        return 1
    elif x > 0:
        return 2
    return [
        one
        for one in range(x)
    ]
'''


def test_each_row_names_one_line() -> None:
    assert stale() == []
    for fault in FAULTS:
        text = (ROOT / fault.path()).read_text()
        ast.parse(text.replace(fault.old, fault.new))
        assert fault.old.split("\n")[0].strip() in text.splitlines()[fault.line() - 1]


@pytest.mark.parametrize(
    ("line", "x", "reached"), [(8, 2, True), (9, 2, True), (9, 1, False), (10, 1, True), (10, 2, False), (14, -1, True)]
)
def test_a_probe_stands_before_its_line(line: int, x: int, reached: bool) -> None:
    text = with_probes(TEXT, {7: line})
    assert ast.get_docstring(ast.parse(text).body[3]) == "Docstring."  # type: ignore[arg-type]
    hits: list[int] = []
    names = {"_hit": hits.append}
    exec(text.replace("from jmars._probe import hit as _hit", ""), names)
    names["f"](x)
    assert bool(hits) == reached and set(hits) <= {7}


def test_a_probe_tells_each_test_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "FOLDER", tmp_path)
    monkeypatch.setattr(probe, "_last", {})
    monkeypatch.setenv(probe.VARIABLE, "gw7")
    probe.pytest_configure()
    probe.hit(3)  # at no test file
    for nodeid in ("tests/test_a.py::one", "tests/test_a.py::two", "tests/folder/test_b.py::one"):
        probe.pytest_runtest_logstart(nodeid)
        probe.hit(3)
    program = f"""
from pathlib import Path
from tests.sown import probe
probe.FOLDER = Path({str(tmp_path)!r})
probe.hit(5)
"""
    for environment in (os.environ, {k: v for k, v in os.environ.items() if k != probe.VARIABLE}):
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=dict(environment), check=True, timeout=60)
    b = "tests/folder/test_b.py"
    assert (tmp_path / "hits").read_text().splitlines() == ["3 tests/test_a.py", f"3 {b}", f"5 {b}", f"5 {b}"]


def test_near_and_quick_files_run_first() -> None:
    seconds = {"tests/web/test_slices.py": 9, "tests/web/test_a.py": 30, "tests/web/test_b.py": 1, "tests/test_c.py": 2}
    study = Study(Copy(Path()), Reach({}, {file: float(n) for file, n in seconds.items()}, 0.0), 1)
    assert list(study.batches(Path("jmars/web/slices.py"), sorted(seconds))) == [
        ["tests/web/test_slices.py"],
        ["tests/web/test_b.py", "tests/web/test_a.py"],
        ["tests/test_c.py"],
    ]
    assert next(study.batches(Path("jmars/web/folder/a.py"), sorted(seconds))) == ["tests/web/test_a.py"]
    assert list(study.batches(Path("jmars/units.py"), sorted(seconds))) == [
        ["tests/web/test_b.py", "tests/test_c.py", "tests/web/test_slices.py", "tests/web/test_a.py"]
    ]


def test_reached_and_new_files_run(tmp_path: Path) -> None:
    for name in (
        "tests/house/test_a.py",
        "tests/test_b.py",
        "tests/test_c.py",
        "tests/test_long.py",
        "tests/new/test_d.py",
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (200.0, 200.0) if "new" in name else (50.0, 50.0))
    reach = Reach(
        {"x": ["tests/house/test_a.py", "tests/sown/test_a.py", "tests/test_b.py", "tests/test_gone.py"]}, {}, at=100.0
    )
    reach.seconds.update(
        {"tests/house/test_a.py": 1.0, "tests/sown/test_a.py": 1.0, "tests/test_b.py": 1.0, "tests/test_c.py": 1.0}
    )
    assert reach.of("x", False, tmp_path) == {"tests/test_b.py", "tests/new/test_d.py"}
    assert reach.of("x", True, tmp_path) == {"tests/test_b.py", "tests/new/test_d.py", "tests/test_long.py"}
    assert reach.of("row added since", False, tmp_path) == {"tests/test_b.py", "tests/test_c.py", "tests/new/test_d.py"}


def test_a_summary_names_tests_and_reasons() -> None:
    said = "FAILED tests/test_a.py::test_b[1 - 2] - assert 3 == 4\nERROR tests/test_a.py::test_c\n2 failed in 0.1s"
    ran = told(1, said)
    assert (ran.failures, ran.why) == (["tests/test_a.py::test_b[1 - 2]", "tests/test_a.py::test_c"], "assert 3 == 4")
    assert told(2, "no conftest\nUsageError").failures == ["UsageError"]
    assert told(0, said).passed and told(5, "").passed
