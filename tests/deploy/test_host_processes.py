"""Processes of a host: states, and ends that hit no other process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jmars.deploy import host_processes
from jmars.deploy.host_processes import ProcessStat, end_processes, read_stats, state_of


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes that sleep; the second one ends when the first does, as a janitor."""
    with subprocess.Popen(["sleep", "1000"], stdout=subprocess.PIPE) as control:
        with subprocess.Popen(["cat"], stdin=control.stdout, stdout=subprocess.DEVNULL) as janitor:
            yield [control, janitor]
            janitor.kill()
        control.kill()


def births(processes: list[subprocess.Popen[bytes]]) -> dict[int, int]:
    text = "".join(Path(f"/proc/{process.pid}/stat").read_text() for process in processes)
    return {pid: stat.started for pid, stat in read_stats(text).items()}


def test_a_name_may_hold_anything_but_a_line():
    program = "import ctypes, sys; ctypes.CDLL(None).prctl(15, b') R 1 (x y'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as named:
        named.stdout.readline()
        text = Path(f"/proc/{named.pid}/stat").read_text()
        assert ") R 1 (x y" in text
        ticks = os.sysconf("SC_CLK_TCK")
        age = float(Path("/proc/uptime").read_text().split()[0]) - read_stats(text)[named.pid].started / ticks
        assert 0 <= age < 60
        named.stdin.close()


def test_states():
    here = ProcessStat("S", 100)
    assert [state_of(ProcessStat(letter, 100), here) for letter in "RSDITtZX"] == [
        *["running"] * 4, *["stopped"] * 2, *["gone"] * 2
    ]  # fmt: skip
    assert state_of(None, here) == "gone"
    assert state_of(ProcessStat("S", 101), here) == "gone"  # another process with that number
    assert state_of(here, None) == "running"


def test_the_first_is_killed_and_the_others_end_by_themselves(sleepers):
    control, janitor = sleepers
    control.stdout.close()  # only the janitor has it
    assert end_processes(births(sleepers), 0.0, 10.0) == []
    assert (control.wait(), janitor.wait()) == (-signal.SIGKILL, 0)


def test_the_first_may_end_in_order(sleepers):
    control, janitor = sleepers
    control.stdout.close()
    timer = threading.Timer(0.2, control.terminate)
    timer.start()
    assert end_processes(births(sleepers), 10.0, 10.0) == []
    timer.join()
    assert (control.wait(), janitor.wait()) == (-signal.SIGTERM, 0)


def test_a_stopped_janitor_goes_on_and_kills_what_does_not_end(sleepers):
    control, janitor = sleepers
    os.kill(janitor.pid, signal.SIGSTOP)
    with subprocess.Popen(["sleep", "1000"]) as further:
        assert end_processes(births([*sleepers, further]), 0.0, 0.5) == []
        assert (control.wait(), janitor.wait(), further.wait()) == (-signal.SIGKILL, 0, -signal.SIGKILL)


def test_another_process_with_a_number_of_ours_is_left_alone(sleepers):
    wrong = {pid: started + 1 for pid, started in births(sleepers).items()}
    assert end_processes(wrong, 0.0, 1.0) == []
    assert [process.poll() for process in sleepers] == [None, None]
    assert end_processes({2**22 + 1: 5}, 0.0, 1.0) == []


def test_no_descriptor_stays(sleepers):
    before = len(os.listdir("/proc/self/fd"))
    end_processes({**births(sleepers), os.getpid(): 1}, 0.0, 1.0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_module_runs_in_a_python_without_jmars():
    program = f"{Path(host_processes.__file__).read_text()}\ntell_end({{}}, 0.0, 1.0)\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-"], input=program, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "ended\n"
