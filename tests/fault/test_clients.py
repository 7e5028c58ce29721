"""Rows 7, 27 and 28: the control process or the kernel stops or dies. A clear end in time, and nothing stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jmars.client import Cluster
from jmars.errors import ClusterError
from tests.fault import injections, program
from tests.fault.harness import PATIENCE, alive, until
from tests.fault.probes import need


def pids_of(scene) -> list[int]:
    return [scene.control(), scene.cluster.info()["janitor"]["pid"], scene.zygote(), *scene.workers(), *scene.movers()]


def gone(pids, seconds) -> None:
    until(lambda: not any(map(alive, pids)), PATIENCE * seconds, "processes are left", pause=0.01)


@pytest.mark.long
def test_row_07_the_control_process_stopped_for_a_while(scene, seed):
    job = scene.compute()
    control = scene.control()
    scene.now()
    with injections.stopped([control]):
        time.sleep(5)  # the fault itself
    scene.equal(job, 1, 8)


def test_row_27_the_control_process_killed(scene, seed):
    job = scene.compute(most=0.5)
    pids = pids_of(scene)
    scene.ended = True
    scene.now()
    injections.kill(pids[0])
    error = scene.error(job, 0, 3, ClusterError)
    assert "went away" in str(error) and "new cluster" in str(error)
    gone(pids, 10)
    with Cluster(n_workers=1) as other:
        assert int(other.submit(program.probe()).result(30)) == 499500


@pytest.mark.long
def test_row_27_the_scheduler_of_a_detached_cluster_killed(stage, seed):
    """The next one goes on where this one was; and once more, with a worker."""
    scene = stage(detach=True, lease=30, memory_limit="250MiB")
    for also in (False, True):
        job = scene.compute()
        scheduler = scene.scheduler()
        assert scheduler != scene.control()
        victim = scene.worker()
        scene.now()
        injections.kill(scheduler)
        if also:
            injections.kill(victim)
        scene.equal(job, 2, 5)
        assert scene.scheduler() != scheduler
        del job


@pytest.mark.long
def test_row_27_the_scheduler_of_a_detached_cluster_stopped_for_a_while(stage, seed):
    scene = stage(detach=True, lease=30, memory_limit="250MiB")
    job = scene.compute()
    scheduler = scene.scheduler()
    scene.now()
    with injections.stopped([scheduler]):
        job.wait(1.5)
    scene.equal(job, 1, 8)


@pytest.mark.long
def test_row_27_the_control_process_of_a_detached_cluster_killed(stage, seed):
    scene = stage(detach=True, lease=30, memory_limit="250MiB")
    job = scene.compute(most=0.5)
    pids = [*pids_of(scene), scene.scheduler()]
    scene.ended = True
    scene.now()
    injections.kill(scene.control())
    scene.error(job, 0, 3, ClusterError)
    gone(pids, 10)


KERNEL = """
import sys, threading, time
import jmars
from tests.fault import program
spill, threaded = sys.argv[1:]
def launch():
    global cluster
    cluster = jmars.Cluster(program.WORKERS, memory_limit=program.LIMIT, spill_dir=spill)
if threaded == "yes":
    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
else:
    launch()
def info():
    found = cluster.info()
    pids = [found["scheduler"]["pid"], found["janitor"]["pid"], *(worker["pid"] for worker in found["workers"])]
    return found["memory"]["spilled"], pids
def keep_busy():
    while True:
        job = cluster.submit(*program.arrays())
        job.result()
threading.Thread(target=keep_busy, daemon=True).start()
while not info()[0]:
    time.sleep(0.001)
print(*info()[1], flush=True)
hog = []
for line in sys.stdin:
    hog.append(bytearray(2**20) + b"x" * 2**28)
"""


def end(kernel, how: str) -> None:
    """End a kernel: by a signal, or by the system because it took too much memory."""
    if how == "oom":
        with injections.group("memory") as small:
            small.set("memory.limit_in_bytes", 2**26)
            small.add(kernel.pid)
            kernel.stdin.write("take\n" * 4)
            kernel.stdin.flush()
            assert kernel.wait(30) == -signal.SIGKILL and int(small.get("memory.failcnt"))
    else:
        kernel.send_signal(getattr(signal, how))
        kernel.wait(30)


@pytest.mark.long(beyond=1)
@pytest.mark.root
@pytest.mark.parametrize(
    "how, threaded, stopped",
    [("SIGKILL", "yes", False), ("SIGTERM", "no", False), ("oom", "no", False), ("SIGKILL", "no", True)],
)
def test_row_28_the_kernel_ends_without_saying_so(seed, chance, clock, request, tmp_path, how, threaded, stopped):
    """Killed, told to end, out of memory; launched by a thread that has ended; while it spills; with stopped ones."""
    if how == "oom":
        need("memory")
    folders = [tmp_path / name for name in ("run", "tmp", "spill")]
    for folder in folders:
        folder.mkdir(mode=0o700)
    env = {**os.environ, "JMARS_RUNTIME_DIR": str(folders[0]), "TMPDIR": str(folders[1])}
    command = [sys.executable, "-c", KERNEL, str(folders[2]), threaded]
    root = Path(__file__).parents[2]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=env, cwd=root, **pipes) as kernel:
        pids = [int(pid) for pid in kernel.stdout.readline().split()]
        assert len(pids) == 2 + program.WORKERS
        if stopped:
            for pid in (pids[0], pids[-1]):
                injections.stop(pid)
        time.sleep(chance.uniform(0.0, 0.2))
        end(kernel, how)
        begun = time.monotonic()
        kernel.stdin.close()
    gone(pids, 2)
    clock.check(request.node.name, time.monotonic() - begun, 0, 10 if stopped else 2)
    until(lambda: not [one for folder in folders for one in folder.iterdir()], PATIENCE * 10, "files are left")


SAVING = """
import sys
import numpy as np
import jmars
import jmars.tensor as mt
cluster = jmars.Cluster(2, memory_limit="512MiB")
begun = sys.argv[2]
def slow(block):
    import time
    open(begun, "w").close()
    time.sleep(60)
    return block
np.save(sys.argv[1], mt.map_blocks(slow, mt.arange(8, chunk_size=4), dtype=int))
"""


@pytest.mark.long
def test_row_28_the_kernel_killed_while_it_saves(seed, tmp_path):
    """Nothing stays beside the file that was to be, but the empty file that other writers would lock (decision 77)."""
    folders = [tmp_path / name for name in ("run", "tmp", "saved")]
    for folder in folders:
        folder.mkdir(mode=0o700)
    begun = tmp_path / "begun"
    env = {**os.environ, "JMARS_RUNTIME_DIR": str(folders[0]), "TMPDIR": str(folders[1])}
    command = [sys.executable, "-c", SAVING, str(folders[2] / "a.npy"), str(begun)]
    with subprocess.Popen(command, env=env, cwd=Path(__file__).parents[2]) as kernel:
        until(begun.exists, PATIENCE * 20, "it does not begin")
        injections.kill(kernel.pid)
    lock = folders[2] / ".a.npy.claim"
    until(lambda: {one for folder in folders for one in folder.iterdir()} <= {lock}, PATIENCE * 10, "files are left")
