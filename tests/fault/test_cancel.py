"""Rows 25, 26 and 29: cancelled at any point. It ends in time, the slots are free, and the next answer is right."""

import gc
import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest

import jmars.tensor as mt
from jmars.errors import JobCancelledError
from tests.fault import program
from tests.fault.harness import PATIENCE, until
from tests.notebook.kernels import running_kernel

RETURNS = 0.3  # seconds in which `cancel` gives the prompt back
GROWTH = 20 * 2**20  # bytes that the client and the control process may have grown by


def cancel(job) -> float:
    """Cancel; returns the seconds until the job says so."""
    begun = time.monotonic()
    job.cancel()
    assert time.monotonic() - begun <= PATIENCE * RETURNS
    assert job.wait(30)
    return time.monotonic() - begun


def sizes(scene) -> dict[str, int]:
    """Resident bytes of the client and the control process."""
    pids = {"client": os.getpid(), "control": scene.control()}
    return {name: psutil.Process(pid).memory_info().rss for name, pid in pids.items()}


@pytest.mark.long
def test_row_25_twenty_cancels_at_random_points_then_a_run(scene, seed):
    for _ in range(20):
        job = scene.run()
        scene.at(job, scene.random.choice([-1.0, 0.0, scene.random.uniform(0.0, 0.6)]))
        cancel(job)
        assert job.state in ("cancelled", "succeeded")
    scene.now()
    scene.equal(scene.run(), 1, 3)
    del job  # of one that ended before its cancel the values lie there still
    gc.collect()
    until(lambda: not scene.memory()["spilled"] + scene.memory()["arena"]["used"], 60, "chunks are left")


@pytest.mark.long
def test_row_25_two_hundred_cancels_leave_no_memory_behind(stage, seed):
    scene = stage(n_workers=1)
    tensors = program.arrays()
    for _ in range(20):  # what stays the first times is no growth
        cancel(scene.cluster.submit(*tensors))
    before = sizes(scene)
    for _ in range(200):
        cancel(scene.cluster.submit(*tensors))
    for name, size in sizes(scene).items():
        assert size - before[name] <= GROWTH, f"{name} grew by {size - before[name]} bytes"


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("phase", ["submit", "queue", "fetch", "compute", "store", "spill"])
def test_row_25_a_cancel_in_each_phase(scene, seed, phase):
    if phase == "submit":  # its graph is still prepared
        job = scene.run()
    elif phase == "queue":  # behind another that has all workers
        other = scene.run()
        job = scene.run()
        scene.at(job, 0.0)
        other.cancel()
    elif phase == "fetch":  # from its array that goes in
        job = scene.cluster.submit(mt.asarray(np.arange(4 * 2**20), chunk_size=2**18) + 1)
    elif phase == "spill":
        job = scene.spilling()
    else:
        job = scene.run()
        scene.at(job, 0.3 if phase == "compute" else 0.8)
    assert cancel(job) <= PATIENCE * 1
    error = job.error
    assert error is None or isinstance(error, JobCancelledError)
    del job


def in_python(block):
    while True:
        block = block + 1


def in_numpy_with_the_gil(block):
    while True:
        np.array([object()] * 2_000_000).tolist()  # some tenths of a second without an instruction of Python's


def in_numpy_without_the_gil(block):
    while True:
        np.sort(np.arange(4_000_000)[::-1] % 65521)


def in_c(block):
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()))
    threading.Event().wait(30)
    return block


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("function", [in_python, in_numpy_with_the_gil, in_numpy_without_the_gil, in_c])
def test_row_26_a_cancel_while_blocks_compute_frees_their_slots(scene, seed, function):
    def busy(block):
        return function(block)

    job = scene.cluster.submit(mt.map_blocks(busy, mt.arange(12, chunk_size=1), dtype=np.int64))
    scene.at(job, 0.0)
    time.sleep(scene.random.uniform(0.0, 0.1))
    scene.now()
    assert cancel(job) <= PATIENCE * 3
    with pytest.raises(JobCancelledError):
        job.result()
    scene.equal(scene.run(), 1, 5)


CELL = """%%jmars -w 2 --memory 256MiB
import time
def slow(block):
    time.sleep(0.05)
    return block + 1
map_blocks(slow, np.zeros(400, chunk_size=1), dtype=float).sum()
"""


def test_row_29_control_c_in_the_cell(seed, chance, tmp_path):
    with running_kernel(tmp_path, "newest", {"JMARS_DISPLAY": "text"}) as kernel:
        kernel.run("%load_ext jmars\nimport numpy as np, jmars\nfrom jmars.tensor import map_blocks")
        kernel.run("%%jmars -w 2 --memory 256MiB\nnp.ones(3).sum()")
        pids = "sorted(w['pid'] for w in jmars.client.default_cluster().info()['workers'])"
        before = kernel.run(pids)
        cell = kernel.send(CELL)
        kernel.wait_for(lambda m: m["msg_type"] == "execute_input" and m["parent_header"].get("msg_id") == cell)
        time.sleep(chance.uniform(0.0, 0.5))
        begun = time.monotonic()
        kernel.manager.interrupt_kernel()
        assert kernel.reply(cell)["ename"] in ("KeyboardInterrupt", "JobCancelledError")
        assert time.monotonic() - begun <= PATIENCE * 1
        kernel.settle()
        assert kernel.run("%%jmars\nint(np.arange(1000, chunk_size=100).sum())").splitlines()[-1] == "499500"
        assert kernel.run(pids) == before  # Ctrl-C reached no worker
        kernel.run("%jmars stop")
