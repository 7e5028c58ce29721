"""The line of progress: in terminals only, drawn while a job runs, cleared at the end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading

import pytest

from jmars.client import job
from jmars.client.job import has_line, wait_with_line

JOB = {"name": "sum", "state": "running", "progress": 0.25, "elapsed": 3.0}


class Terminal:
    closed = False

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None: ...


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in the place of standard error; pytest puts its own there after the fixtures."""
    one = Terminal()
    monkeypatch.setattr(sys, "stderr", one)
    monkeypatch.setattr(job, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(job, "STEP_SECONDS", 0.0)
    return one


def test_a_line_is_for_terminals_and_jobs_without_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    assert has_line(False) and not has_line(True)
    monkeypatch.setattr(job.config, "display", "none")
    assert not has_line(False)
    monkeypatch.setattr(job.config, "display", "")
    terminal.isatty = lambda: False  # type: ignore[method-assign]
    assert not has_line(False)


def test_the_line_is_drawn_until_the_end_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    done, asked = threading.Event(), []

    def describe() -> dict[str, object]:
        asked.append(1)
        if len(asked) == 3:
            done.set()
        return JOB

    assert wait_with_line(done, None, describe)
    assert terminal.text.count("25 % after 3.00 s") == 3 and terminal.text.endswith("\r\x1b[K")


def test_a_wait_with_a_timeout_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal_of(monkeypatch)
    assert not wait_with_line(threading.Event(), 0.01, lambda: JOB)
    assert wait_with_line(threading.Event(), 0.0, lambda: JOB) is False


_PROGRAM = """
import jmars, jmars.tensor as mt, time
from jmars.client import job
job.LINE_SECONDS = 0.05
def slow(block):
    time.sleep(0.3)
    return block
with jmars.Cluster(n_workers=1, memory_limit="256MiB"):
    print(float(mt.ones(4, chunk_size=1).map_blocks(slow, dtype="f8").sum().execute().fetch()))
"""


def test_a_program_in_a_terminal_shows_the_progress() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=theirs) as program:
        os.close(theirs)
        told = b""
        try:
            while data := os.read(ours, 4096):
                told += data
        except OSError:  # the program has closed its end
            pass
        assert program.communicate(timeout=60)[0] == b"4.0\n"
    os.close(ours)
    assert " % after " in told.decode() and told.decode().endswith("\r\x1b[K")
