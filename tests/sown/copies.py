"""A copy of the tree, in which lines are changed, and runs of its tests."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.census import ProcessFinder
from tests.sown.table import ROOT, Fault

BUILT = ("jmars/_labextension", "jmars/notebook/static", "jmars/native/kernels.so")


@dataclass(frozen=True)
class Ran:
    """How a run of pytest ended."""

    failures: list[str]  # tests; what pytest said last where it names none
    why: str = ""  # of the first failure, as pytest's summary says it

    @property
    def passed(self) -> bool:
        """Whether no test failed; none was there to run, perhaps."""
        return not self.failures


@dataclass(frozen=True)
class Copy:
    """A folder with the files that git would commit, and with the built files."""

    root: Path

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[Copy]:
        """A copy of this tree that goes with the block."""
        with tempfile.TemporaryDirectory(prefix="jmars-sown-", ignore_cleanup_errors=True) as name:
            copy = cls(Path(name))
            command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
            listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
            for each in filter(None, listed):
                if (ROOT / each).is_file():
                    (copy.root / each).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / each, copy.root / each)
            for built in BUILT:
                if (ROOT / built).is_dir():
                    shutil.copytree(ROOT / built, copy.root / built, dirs_exist_ok=True)
                elif (ROOT / built).exists():
                    shutil.copy2(ROOT / built, copy.root / built)
            for order in (["init", "-q"], ["add", "-A"]):  # some tests ask git for the files
                subprocess.run(["git", *order], cwd=copy.root, check=True, capture_output=True)
            yield copy

    @contextmanager
    def sown(self, fault: Fault) -> Iterator[None]:
        """Within, the copy has the fault; after, the file has its time of change again, by which Python tells files."""
        file = self.root / fault.path()
        text, before = file.read_text(), file.stat()
        file.write_text(text.replace(fault.old, fault.new))
        try:
            yield
        finally:
            file.write_text(text)
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    def run(self, arguments: Sequence[str], seconds: float) -> Ran:
        """Run pytest; a run that takes longer than `seconds` is ended with all that it started, and has failed."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *arguments]
        environment = os.environ | {
            "PYTHONPATH": str(self.root),
            "PYTHONPYCACHEPREFIX": str(self.root / ".pycache"),
            "JMARS_TEST_RUN": f"sown-{os.getpid()}",
            "COLUMNS": "400",  # the summary has a line for each failure, with its reason
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(seconds)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                for left in ProcessFinder(environment["JMARS_TEST_RUN"]).find():
                    os.kill(left.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    return Ran([f"a run that does not end in {seconds:.0f} s"])
                raise
            output.seek(0)
            return told(code, output.read())


def told(code: int, said: str) -> Ran:
    """What pytest said in its summary.

    Examples
    --------
    >>> told(1, "FAILED tests/test_a.py::test_b[1 - 2] - assert 3 == 4\\n1 failed in 0.1s")
    Ran(failures=['tests/test_a.py::test_b[1 - 2]'], why='assert 3 == 4')
    """
    if code in (0, 5):  # 5: no test was there to run
        return Ran([])
    found = re.findall(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - (.*))?$", said, flags=re.MULTILINE)
    if found:
        return Ran([test for test, _why in found], found[0][1])
    return Ran([(said.strip().splitlines() or [f"exit {code}"])[-1][:150]])
