"""Rows 1 to 5: workers that die. The right value, and only what ran with them is done again."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import jmars.tensor as mt
from tests.fault import program


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it was replaced a moment ago


def test_row_01_a_worker_killed_in_compute(scene, seed):
    job = scene.compute()
    victim = scene.worker()
    scene.now()
    kill(victim)
    scene.equal(job, 1, 3)
    assert victim not in scene.workers()


def test_row_02_a_worker_killed_while_arrays_go_in(scene, seed):
    array = np.arange(6 * 2**20).reshape(6, 2**20)  # 48 MiB
    stop = threading.Timer(scene.random.uniform(0.0, 0.05), kill, [scene.worker()])
    scene.now()
    stop.start()
    job = scene.cluster.submit(mt.asarray(array, chunk_size=(1, 2**18)) * 3)
    assert np.array_equal(job.result(30), array * 3)
    stop.join()
    scene.clock.check(scene.test, time.monotonic() - scene.injected, 1, 3)


@pytest.mark.long
def test_row_02_a_worker_killed_while_results_go_out(scene, seed):
    job = scene.run()
    assert job.wait(30)
    stop = threading.Timer(scene.random.uniform(0.0, 0.02), kill, [scene.worker()])
    scene.now()
    stop.start()
    scene.equal(job, 1, 3)
    stop.join()


@pytest.mark.long
def test_row_03_a_worker_killed_in_spill(scene, seed):
    job = scene.spilling()
    scene.now()
    kill(scene.worker())
    scene.equal(job, 2, 5)


def test_row_03_the_mover_killed_in_spill(scene, seed):
    job = scene.spilling()
    scene.now()
    for pid in scene.movers():
        kill(pid)
    scene.equal(job, 2, 5)
    assert scene.memory()["spilled_total"] > 0


@pytest.mark.long
def test_row_04_three_workers_killed_one_after_the_other(scene, seed):
    """An operand that three killed workers held by chance is not to blame."""

    def slow(block):
        time.sleep(0.2)
        return block + 1

    x = mt.arange(3 * 16, chunk_size=1)
    job = scene.cluster.submit(mt.map_blocks(slow, x, dtype=np.int64))  # 48 * 0.2 s on three workers
    scene.at(job, 0.1)
    for _ in range(3):
        scene.now()
        kill(scene.worker())
        assert not job.wait(0.4)
    assert np.array_equal(job.result(30), np.arange(1, 49))
    scene.clock.check(scene.test, time.monotonic() - scene.injected, 2, 8)


@pytest.mark.long
def test_row_05_all_workers_killed_at_once(scene, seed):
    job = scene.compute()
    scene.now()
    for pid in scene.workers():
        kill(pid)
    scene.equal(job, 2, 8)
    assert len(scene.workers()) == program.WORKERS
