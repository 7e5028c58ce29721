"""SciPy's own array API tests on tensors, beside those on Dask's arrays.

    python -m tests.libraries scipy [MODULE ...] [-k NAMES] [--minutes 15] [--seconds 60]
        [--on jmars]

The tests are those of the installed SciPy that take an array namespace, with `SCIPY_ARRAY_API=1`. SciPy knows Dask's
arrays and leaves tests out for them, or expects them to fail; it does not know tensors, and leaves out the tests for
NumPy alone. Tests on tensors compute in the process of the tests. Each module has a process, ended after `--minutes`;
a test that takes more than `--seconds` fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jmars.tensor.operand import TensorData

MODULES = """cluster constants differentiate fft integrate interpolate linalg ndimage optimize signal spatial special
    stats""".split()  # noqa: SIM905
LIBRARIES = ("jmars", "dask")


class OnNamespace:
    """Keeps the tests that take a namespace, gives them ours, and writes how they end to a file."""

    def __init__(self, library: str, file: Path) -> None:
        self.library = library
        self.file = file.open("a", buffering=1)
        if library == "jmars":
            import jmars.array_api

            info: Any = jmars.array_api.__array_namespace_info__
            info.devices = lambda self: ["cpu"]  # a list, as before the standard of 2025.12, to which SciPy adds

    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give the fixture `xp` our namespace as its only parameter; SciPy leaves out tests for NumPy alone then."""
        if self.library == "jmars" and "xp" in metafunc.fixturenames:
            import jmars.array_api

            conftest: Any = sys.modules["scipy.conftest"]
            conftest.xp_known_backends.add(jmars.array_api.__name__)
            mark: Any = pytest.mark.parametrize("xp", [pytest.param(jmars.array_api, id="jmars")], indirect=True)
            metafunc.definition.add_marker(mark)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out tests without a namespace."""
        items[:] = [item for item in items if "xp" in getattr(item, "fixturenames", ())]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Compute in this process; keep what a client keeps, or each turn of a loop would compute all turns before."""
        from jmars.client.auto_persist import repeats
        from jmars.tensor.engine import set_engine
        from tests.tensor.engine import OneByOne

        class Keeping(OneByOne):
            def execute(self, data: Sequence[TensorData]) -> None:
                super().execute([*data, *repeats(data, self.chunks, self.limit).kept])

        engine: Any = Keeping()
        set_engine(engine)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the result of a test."""
        if report.when != "call" and report.passed:
            return
        outcome, cause = report.outcome if not hasattr(report, "wasxfail") else "xfailed", ""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
            cause = " ".join(lines[:2])[:200]
        elif report.skipped:
            cause = report.wasxfail if hasattr(report, "wasxfail") else str(report.longrepr[2])
        self.file.write(json.dumps([report.nodeid.rpartition("scipy/")[2], outcome, cause]) + "\n")


def run_module(library: str, module: str, names: str, seconds: float, file: Path) -> int:
    """Run the tests of a module of SciPy in this process."""
    import scipy

    folder = Path(scipy.__file__).parent
    options = [
        "-q",
        "--no-header",
        "--tb=short",
        "-W",
        "ignore",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-c",
        os.devnull,
        f"--timeout={seconds:g}",
    ]
    options += [f"--rootdir={folder.parent}", f"--confcutdir={folder}", *(["-k", names] if names else [])]
    files = [str(one) for one in sorted((folder / module).rglob("test_*.py")) if "xp" in one.read_text()]
    pytest.main([*options, *files], plugins=[OnNamespace(library, file)])
    return 0


def run_suite(given: argparse.Namespace) -> int:
    """Run the modules, print the table in Markdown, then the causes of failures."""
    libraries = [given.on] if given.on else LIBRARIES
    print(f"| module | {' | '.join(f'{one}: passed of run | {one}: left out' for one in libraries)} |")
    print("|---|" + "---|---|" * len(libraries), flush=True)
    causes: Counter[tuple[str, str]] = Counter()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for module in given.modules or MODULES:
            words = [f"`scipy.{module}`"]
            for library in libraries:
                file = Path(folder, f"{module}-{library}")
                file.touch()
                order = [
                    sys.executable,
                    "-m",
                    "tests.libraries",
                    "scipy",
                    module,
                    "-k",
                    given.names,
                    "--seconds",
                    str(given.seconds),
                    "--into",
                    str(file),
                ]
                backends = "1" if library == "jmars" else '["dask.array"]'
                note = ""
                with Path(given.log or os.devnull).open("a") as log:
                    try:
                        subprocess.run([*order, "--on", library], env={**os.environ, "SCIPY_ARRAY_API": backends},
                                       timeout=60 * given.minutes, stdout=log, stderr=log)  # fmt: skip
                    except subprocess.TimeoutExpired:
                        note = f", ended after {given.minutes:g} minutes"
                ended = [json.loads(line) for line in file.read_text().splitlines()]
                count = Counter(outcome for _, outcome, _ in ended)
                run = count["passed"] + count["failed"] + count["xfailed"]
                words += [f"{count['passed']} of {run}{note}", str(count["skipped"])]
                causes.update((library, cause) for _, outcome, cause in ended if outcome == "failed")
                lines += [f"{library} {name}: {cause}" for name, outcome, cause in ended if outcome == "failed"]
            print(f"| {' | '.join(words)} |", flush=True)
    for (library, cause), number in causes.most_common():
        print(f"{number:5} {library} {cause}")
    for line in lines:
        print("   ", line)
    return 0
