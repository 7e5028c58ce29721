"""The janitor waits for the ends of others, and passes on what the control process writes."""

import os
import subprocess
import threading

import pytest

from jmars.deploy import janitor


class Notes:
    """Notes what the control process writes; "end" ends the cluster."""

    def __init__(self):
        self.lines = []

    def hear(self, line, end):
        self.lines.append(line)
        if line == b"end":
            threading.Thread(target=end).start()


@pytest.fixture
def pipe():
    ends = os.pipe()
    open_ends = set(ends)
    yield ends, open_ends
    for fd in open_ends:
        os.close(fd)


def write(pipe, *pieces, close=True):
    (_, watched), open_ends = pipe
    for piece in pieces:
        os.write(watched, piece)
    if close:
        os.close(watched)
        open_ends.discard(watched)


def test_the_end_of_the_control_process_is_noticed(pipe):
    write(pipe)
    assert janitor._watch(pipe[0][0], 0, None)


def test_lines_of_the_control_process_are_passed_on(pipe):
    notes = Notes()
    write(pipe, b"first\nsec", b"ond\nunfinished")
    assert janitor._watch(pipe[0][0], 0, notes)
    assert notes.lines == [b"first", b"second"]


def test_lines_are_read_though_nobody_wants_them(pipe):
    write(pipe, b"first\n")
    assert janitor._watch(pipe[0][0], 0, None)


def test_the_work_beside_may_end_the_cluster(pipe):
    notes = Notes()
    write(pipe, b"end\n", close=False)
    assert not janitor._watch(pipe[0][0], 0, notes)


def test_the_end_of_the_kernel_ends_the_cluster_after_a_grace(pipe, monkeypatch):
    monkeypatch.setattr(janitor, "KERNEL_GRACE", 0.05)
    with subprocess.Popen(["sleep", "60"]) as kernel:
        kernel.kill()
        assert not janitor._watch(pipe[0][0], kernel.pid, None)
    assert not janitor._watch(pipe[0][0], kernel.pid, None)  # it was gone before
    write(pipe)
    assert janitor._watch(pipe[0][0], kernel.pid, None)
