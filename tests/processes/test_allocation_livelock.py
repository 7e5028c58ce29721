"""Who asks for memory in vain, told from who computes, waits, reads or writes."""

import os
import resource
import subprocess

import pytest

from jmars.processes.vitals import (
    LIVELOCK_SECONDS,
    MOST_ASKED,
    STUCK_SECONDS,
    AllocationLivelockDetector,
    ProcessUsage,
    use,
)


def looked(*uses: ProcessUsage) -> list[int]:
    """What is found in one look each second at process 7."""
    begging = AllocationLivelockDetector()
    return [pid for now, seen in enumerate(uses) for pid in begging.look(float(now), {7: seen})]


SECONDS = range(int(LIVELOCK_SECONDS) + 2)


def test_one_that_spends_its_time_in_the_system_and_moves_nothing_begs():
    assert looked(*(ProcessUsage(False, 0.2 * t, 0.8 * t, (9,)) for t in SECONDS)) == [7]
    assert looked(*(ProcessUsage(False, 0.0, 0.15 * t, (9,)) for t in SECONDS)) == [7], "five others want its core too"


@pytest.mark.parametrize(
    "uses",
    [
        [ProcessUsage(False, 0.8 * t, 0.2 * t, (9,)) for t in SECONDS],
        [ProcessUsage(t == 3, 0.2 * t, 0.8 * t, (9,)) for t in SECONDS],
        [ProcessUsage(False, 0.2 * t, 0.8 * t, (9, t)) for t in SECONDS],
        [ProcessUsage(False, 0.0, 0.05 * t, (9,)) for t in SECONDS],
        [ProcessUsage(False, 0.2 * t, 0.8 * t, (9,), MOST_ASKED + 1) for t in SECONDS],
    ],
    ids=["computes", "waits", "moves", "hardly runs", "may take more"],
)
def test_others_do_not(uses):
    assert looked(*uses) == []


def test_one_that_waits_and_may_take_nothing_is_stuck():
    """A thread of a library that was refused memory ends, and the function waits for it without end."""
    long = range(int(STUCK_SECONDS) + 1)
    assert looked(*(ProcessUsage(True, 1.0, 0.0, (9,), 0) for _ in long)) == [7]
    assert looked(*(ProcessUsage(True, 1.0, 0.0, (9,), 1) for _ in long)) == [], "may take more"
    assert looked(*(ProcessUsage(True, 1.0, 0.0, (9, t), 0) for t in long)) == [], "moves"
    assert looked(*(ProcessUsage(t != 5, 1.0, 0.0, (9,), 0) for t in long)) == [], "ran"


def test_one_who_is_gone_is_forgotten():
    begging = AllocationLivelockDetector()
    begging.look(0.0, {7: ProcessUsage(False, 0.0, 0.0, (9,))})
    begging.look(2.0, {})
    assert begging.look(5.0, {7: ProcessUsage(False, 0.0, 5.0, (9,))}) == []


def test_what_a_process_used_is_read():
    before = use(os.getpid())
    with open("/proc/self/status", "rb") as status:
        status.read()
    after = use(os.getpid())
    assert before is not None and after is not None
    assert not after.waits and after.user + after.system >= before.user + before.system > 0
    assert after.still[2] > before.still[2], "reads"
    assert use(2**22 + 1) is None


def test_how_much_a_process_may_take_yet_is_read():
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            free, (_, hard) = use(process.pid), resource.prlimit(process.pid, resource.RLIMIT_DATA)
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (2**30, hard))
            capped = use(process.pid)
        finally:
            process.kill()
    assert free is not None and capped is not None
    assert 2**29 < capped.left < 2**30 < free.left
