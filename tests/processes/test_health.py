"""Processes that do not run: suspected, ended, given up, on a clock that only counts while somebody looks."""

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jmars.processes.vitals import (
    FENCE_SECONDS,
    GIVE_UP_SECONDS,
    LOOK_SECONDS,
    Health,
    HealthAction,
    Vital,
    kills_for_memory,
    private_now,
    vitals,
)


class Looks:
    """A `Health` asked at every look of a clock of its own."""

    def __init__(self):
        self.health, self.now, self.steps = Health(), 100.0, []

    def see(self, vital, seconds=LOOK_SECONDS):
        for _ in range(round(seconds / LOOK_SECONDS)):
            self.now += LOOK_SECONDS
            self.steps += [(self.now - 100, step) for _, step in self.health.look(self.now, {1: vital, 2: Vital.RUNS})]
        return [step for _, step in self.steps]


def test_a_stop_of_five_seconds_is_suspected_and_forgiven():
    looks = Looks()
    assert looks.see(Vital.STOPPED, 5) == [HealthAction.SUSPECT]
    assert looks.see(Vital.RUNS, 60) == [HealthAction.SUSPECT, HealthAction.WELL]
    assert not looks.health.suspects


def test_what_is_stopped_for_ever_is_ended_and_what_cannot_die_is_given_up():
    looks = Looks()
    assert looks.see(Vital.FROZEN, 60) == [HealthAction.SUSPECT, HealthAction.FENCE, HealthAction.GIVE_UP]
    when = [at for at, _ in looks.steps]
    assert when[0] <= 3 * LOOK_SECONDS and when[1] <= FENCE_SECONDS + 2 * LOOK_SECONDS
    assert when[2] <= when[1] + GIVE_UP_SECONDS + LOOK_SECONDS


def test_what_died_is_neither_given_up_nor_well():
    looks = Looks()
    looks.see(Vital.STOPPED, 7)
    assert looks.see(Vital.GONE, 10) == [HealthAction.SUSPECT, HealthAction.FENCE]


def test_what_runs_is_never_suspected_however_long():
    assert Looks().see(Vital.RUNS, 3600) == []


def test_a_single_look_decides_nothing():
    looks = Looks()
    looks.see(Vital.STOPPED)
    assert looks.see(Vital.RUNS, 5) == []


def test_a_process_that_slept_itself_holds_nothing_against_others():
    looks = Looks()
    looks.see(Vital.STOPPED, 1)
    looks.now += 3600
    assert looks.see(Vital.STOPPED, 1) == [HealthAction.SUSPECT]
    assert looks.see(Vital.RUNS) == [HealthAction.SUSPECT, HealthAction.WELL]


def test_each_process_has_a_time_of_its_own():
    health = Health()
    for i in range(8):
        health.look(i * LOOK_SECONDS, {1: Vital.STOPPED})
    late = [step for i in range(8, 26) for step in health.look(i * LOOK_SECONDS, {1: Vital.STOPPED, 2: Vital.STOPPED})]
    assert late == [(2, HealthAction.SUSPECT), (1, HealthAction.FENCE)]


# -- what the system says
BUSY = {
    "in Python": "while True: pass",
    "in C with the lock": "'a' * 10**7 in 'b' * 10**9; (1 << 10**8) ** 3",
    "asleep": "import time; time.sleep(60)",
}


@pytest.mark.parametrize("how", BUSY)
def test_a_working_or_sleeping_process_runs_and_a_stopped_one_does_not(how):
    with subprocess.Popen([sys.executable, "-c", BUSY[how]]) as child:
        try:
            assert vitals([child.pid]) == {child.pid: Vital.RUNS}
            child.send_signal(signal.SIGSTOP)
            os.waitpid(child.pid, os.WUNTRACED)
            assert vitals([child.pid]) == {child.pid: Vital.STOPPED}
        finally:
            child.kill()
    assert vitals([child.pid]) == {child.pid: Vital.GONE}


def test_a_child_that_nobody_reaped_is_gone():
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert vitals([child.pid]) == {child.pid: Vital.GONE}
    child.wait()


@pytest.fixture
def freezer():
    group = Path(f"/sys/fs/cgroup/freezer/jmars-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no freezer of cgroup v1 that we may use: {error}")
    yield group
    (group / "freezer.state").write_text("THAWED")
    group.rmdir()


HELD = {
    "computes": "print(flush=True)\nwhile True: pass",
    "sleeps": "import time; print(flush=True); time.sleep(60)",
    "waits for a lock": "import _thread; a = _thread.allocate_lock(); a.acquire(); print(flush=True); a.acquire()",
    "reads a socket": "import socket; a, b = socket.socketpair(); print(flush=True); a.recv(1)",
}


@pytest.mark.parametrize("how", HELD)
def test_a_frozen_process_is_seen_even_when_it_was_killed(freezer, how):
    with subprocess.Popen([sys.executable, "-c", HELD[how]], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        try:
            (freezer / "cgroup.procs").write_text(str(child.pid))
            (freezer / "freezer.state").write_text("FROZEN")
            while (freezer / "freezer.state").read_text().strip() != "FROZEN":
                pass
            assert vitals([child.pid]) == {child.pid: Vital.FROZEN}
            child.kill()
            assert vitals([child.pid]) == {child.pid: Vital.FROZEN}
        finally:
            child.kill()
            (freezer / "freezer.state").write_text("THAWED")


def test_private_memory_is_read_without_shared_and_kills_are_counted():
    before = private_now(os.getpid())
    block = mmap.mmap(-1, 2**25, flags=mmap.MAP_PRIVATE)  # new pages, whatever this process's heap has free
    for page in range(0, len(block), mmap.PAGESIZE):
        block[page] = 1
    assert private_now(os.getpid()) - before >= 2**24
    assert private_now(0x3FFFFFFF) == 0 and kills_for_memory() >= 0
    block.close()
