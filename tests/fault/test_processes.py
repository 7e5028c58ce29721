"""Rows 16 and 20: too few cores, and links that are slow. An answer all the same, and nobody is taken for dead."""

import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.fault import injections
from tests.fault.probes import need

HOGS = 6


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


def test_row_20_six_hogs_beside_the_workers(scene, seed):
    with ExitStack() as stack:
        for _ in range(HOGS):
            hog = stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
            stack.callback(hog.kill)
        job = scene.compute()
        pids = scene.workers()
        scene.equal(job, 5, 0)
        assert scene.workers() == pids


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
