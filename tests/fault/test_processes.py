"""Rows 14, 16 and 20: too few files, processes or cores, and links that are slow. An answer all the same."""

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from jmars.errors import JmarsError
from tests.fault import injections
from tests.fault.harness import until
from tests.fault.probes import need

HOGS = 6


@contextmanager
def no_more_files(pid):
    """The process can open no further file."""
    process = psutil.Process(pid)
    before = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 1, before[1]))
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_NOFILE, before)


@pytest.mark.long(beyond=1)
@pytest.mark.root
@pytest.mark.parametrize("who", ["control", "zygote"])
def test_row_14_no_more_open_files(scene, seed, who):
    """A worker dies and its successor needs descriptors that there are not, until there are again."""
    need("root")
    job = scene.compute()
    pid = getattr(scene, who)()
    victim = scene.worker()
    scene.now()
    with no_more_files(pid):
        injections.kill(victim)
        job.wait(3)
    scene.equal_or_error(job, 2, 5, JmarsError)


@pytest.mark.long
@pytest.mark.root
def test_row_14_no_more_processes(scene, seed):
    """A worker dies and fork says EAGAIN, until it does not."""
    need("pids")
    job = scene.compute()
    victim = scene.worker()
    with injections.group("pids") as few:
        few.add(scene.zygote(), *scene.workers(), *scene.movers())
        few.set("pids.max", 1)
        scene.now()
        injections.kill(victim)
        until(lambda: few.get("pids.events") != "max 0", 60, "nothing was forked")
        job.wait(1)
    scene.equal_or_error(job, 2, 5, JmarsError)


@pytest.mark.long
@pytest.mark.root
def test_row_16_every_message_of_a_worker_is_late(scene, seed):
    """On one host there is no packet to lose: what a link can be is slow."""
    need("strace")
    job = scene.compute()
    pids, scene.injected = scene.workers(), 0.0
    scene.now()
    with injections.traced([scene.worker()], "sendto,recvfrom:delay_enter=50000"):
        scene.equal(job, 3, 10)
    assert scene.workers() == pids  # late is not dead


@pytest.mark.long
def test_row_20_six_hogs_beside_the_workers(scene, seed):
    with ExitStack() as stack:
        for _ in range(HOGS):
            hog = stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
            stack.callback(hog.kill)
        job = scene.compute()
        pids = scene.workers()
        scene.equal(job, 5, 0)
        assert scene.workers() == pids


@pytest.mark.long
@pytest.mark.root
def test_row_20_a_worker_with_a_tenth_of_a_core(scene, seed):
    need("cpu")
    job = scene.compute()
    pids = scene.workers()
    with injections.group("cpu") as slow:
        slow.set("cpu.cfs_quota_us", 10_000)  # of 100 ms
        slow.add(scene.worker())
        scene.now()
        scene.equal(job, 5, 0)
        assert scene.workers() == pids
