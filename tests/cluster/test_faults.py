"""Processes die: the right value or a clear error in bounded time, and nothing left."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from jmars.client import Cluster
from jmars.errors import ClusterError, InternalError
from jmars.model.limits import BATCH_OPERANDS
from jmars.model.status import OperandState
from jmars.tensor.operand import TensorData
from tests.cluster.operands import SlowToTile, apply, numbers, total

CHUNKS, SIZE = 400, 20_000


def work() -> tuple[TensorData, float]:
    """A graph that keeps two workers busy for about half a second, and its value."""

    def double(out, inputs, number):
        np.multiply(inputs[0], 2, out=out)
        np.sin(np.linspace(0, 1, 50_000))

    return total(apply(double, apply(double, numbers(CHUNKS, SIZE)))), 4 * SIZE * sum(range(CHUNKS))


def test_a_worker_that_starts_again_has_no_pid(cluster):
    known: set[int | None] = set()
    for _ in range(3):
        killed = [worker["pid"] for worker in cluster.info()["workers"]]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        now = killed
        while None in now or set(now) & set(killed):
            now = [worker["pid"] for worker in cluster.info()["workers"]]
            known.update(now)
    assert None in known and min(pid for pid in known if pid is not None) > 1


def progress(job) -> float:
    """Share of the operands that are done."""
    known = job.describe()
    return (known["counts"]["finished"] + known["counts"]["freed"]) / known["operands"] if known["operands"] else -1.0


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
def test_a_killed_executor_costs_only_what_it_ran(share):
    with Cluster(n_workers=2) as cluster:
        node, value = work()
        job = cluster.submit_data([node], single=True)
        while progress(job) < share:
            time.sleep(0.001)
        victim = cluster.info()["workers"][0]["pid"]
        os.kill(victim, signal.SIGKILL)
        assert job.result(30) == value
        moves = [event[4] for event in job.events() if event[2] == "OperandsMoved"]
        runs, ends = (
            np.bincount(np.concatenate([np.frombuffer(m["ids"], "<u4") for m in moves if m["state"] == state]))
            for state in (OperandState.RUNNING, OperandState.FINISHED)
        )
        assert (ends == 1).all()  # what was finished is not done again
        assert runs.sum() - len(runs) <= 2 * BATCH_OPERANDS  # what ran again was with the killed one
        assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30
        assert victim not in [worker["pid"] for worker in cluster.info()["workers"]]


@pytest.mark.long
def test_all_executors_killed_at_once_and_several_times():
    with Cluster(n_workers=2) as cluster:
        node, value = work()
        job = cluster.submit_data([node], single=True)
        for _ in range(3):
            for worker in cluster.info()["workers"]:
                if worker["pid"] and psutil.pid_exists(worker["pid"]):
                    os.kill(worker["pid"], signal.SIGKILL)
            time.sleep(0.05)  # lets them come back
        assert job.result(30) == value


def test_a_killed_control_process_is_a_clear_error_within_seconds():
    cluster = Cluster(n_workers=2)
    try:
        node, _ = work()
        job = cluster.submit_data([node], single=True)
        while progress(job) <= 0:
            time.sleep(0.001)
        pids = _pids(cluster)
        started = time.monotonic()
        os.kill(cluster.info()["scheduler"]["pid"], signal.SIGKILL)
        with pytest.raises(ClusterError, match="went away"):
            job.result(30)
        assert time.monotonic() - started < 20
        _wait_until_gone(pids, 30)
    finally:
        cluster.close()
    with Cluster(n_workers=1) as other:
        assert other.submit_data([total(numbers(3))], single=True).result(30) == 30


def test_a_killed_zygote_ends_the_cluster_with_a_clear_error():
    with Cluster(n_workers=2) as cluster:
        node, _ = work()
        job = cluster.submit_data([node], single=True)
        zygote = psutil.Process(cluster.info()["workers"][0]["pid"]).ppid()
        os.kill(zygote, signal.SIGKILL)
        with pytest.raises(ClusterError, match="went away"):
            job.result(60)


def test_a_stopped_executor_does_not_keep_the_cluster_from_closing():
    with Cluster(n_workers=2) as cluster:
        pids = _pids(cluster)
        os.kill(cluster.info()["workers"][0]["pid"], signal.SIGSTOP)
    _wait_until_gone(pids, 30)


KERNEL = """
import sys, time
import jmars
from tests.cluster.operands import numbers, total
cluster = jmars.Cluster(n_workers=2, memory_limit="240MiB", spill_dir=sys.argv[1])
node = numbers(40, 2**20)
job = cluster.submit_data([node])
if sys.argv[2] == "spilled":
    while not cluster.info()["memory"]["spilled"]:
        pass
info = cluster.info()
print(*[info["scheduler"]["pid"], info["janitor"]["pid"], *(w["pid"] for w in info["workers"])], flush=True)
time.sleep(60)
"""


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("when", ["running", "spilled", "stopped"])
def test_a_killed_kernel_takes_everything_with_it_within_two_seconds(tmp_path, when):
    runtime, temporary, spill = tmp_path / "run", tmp_path / "tmp", tmp_path / "spill"
    temporary.mkdir()
    spill.mkdir()
    env = {**os.environ, "JMARS_RUNTIME_DIR": str(runtime), "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", KERNEL, str(spill), when]
    kernel = subprocess.Popen(command, stdout=subprocess.PIPE, env=env, cwd=_root())
    with kernel:
        pids = [int(pid) for pid in kernel.stdout.readline().split()]
        assert len(pids) == 4
        if when == "stopped":
            os.kill(pids[-1], signal.SIGSTOP)
            os.kill(pids[0], signal.SIGSTOP)
        else:
            time.sleep(random.random() * 0.2)  # a random point of the run
        kernel.kill()
    _wait_until_gone(pids, 30)
    assert not list(runtime.glob("*")) and not list(temporary.iterdir()) and not list(spill.iterdir())


@pytest.mark.long
def test_what_a_killed_janitor_leaves_is_swept_by_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setenv("JMARS_RUNTIME_DIR", str(tmp_path / "run"))
    cluster = Cluster(n_workers=1)
    info = cluster.info()
    folder = Path(cluster._host.folders.folder)
    for pid in (info["janitor"]["pid"], info["scheduler"]["pid"]):
        os.kill(pid, signal.SIGKILL)
    _wait_until_gone([info["janitor"]["pid"], info["scheduler"]["pid"]], 2)
    cluster._host._process.wait(60)  # its last thread too, which may hold the lock a moment longer than its first
    assert folder.exists()
    with Cluster(n_workers=1):
        assert not folder.exists()
        assert len(list((tmp_path / "run").iterdir())) == 1
    cluster.close()


def _root() -> Path:
    return Path(__file__).parents[2]


def _pids(cluster) -> list[int]:
    info = cluster.info()
    return [info["scheduler"]["pid"], info["janitor"]["pid"], *(worker["pid"] for worker in info["workers"])]


def _wait_until_gone(pids: list[int], seconds: float) -> None:
    """No process of these runs after `seconds`; one that only waits to be reaped does not count."""
    deadline = time.monotonic() + seconds
    while True:
        left = [pid for pid in pids if psutil.pid_exists(pid) and _runs(pid)]
        if not left:
            return
        assert time.monotonic() < deadline, f"still there after {seconds} s: {left}"
        time.sleep(0.01)  # another process's end; nothing here is told of it


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_error_of_jmars_in_the_control_process_ends_the_running_jobs():
    with Cluster(n_workers=1) as cluster:
        node, _ = work()
        job = cluster.submit_data([node])
        cluster.tell("session", "drop", 5)  # a list of keys it should be
        with pytest.raises(InternalError, match=r"TypeError: 'int' object is not iterable in clients.py"):
            job.result(60)
        assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30


def test_closing_does_not_wait_for_what_is_still_prepared():
    with Cluster(n_workers=1) as cluster:
        node = numbers(3)
        object.__setattr__(node.op, "__class__", SlowToTile)
        job = cluster.submit_data([node])
        started = time.monotonic()
    assert time.monotonic() - started < 15  # of the half minute
    with pytest.raises(ClusterError, match="was closed before"):
        job.result(1)


def test_a_cluster_whose_janitor_was_killed_is_not_swept_while_it_lives(tmp_path, monkeypatch):
    monkeypatch.setenv("JMARS_RUNTIME_DIR", str(tmp_path / "run"))
    with Cluster(n_workers=1) as cluster:
        janitor = cluster.info()["janitor"]["pid"]
        os.kill(janitor, signal.SIGKILL)
        _wait_until_gone([janitor], 2)
        with Cluster(n_workers=1):
            assert Path(cluster._host.folders.folder).exists()
        assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30
    assert not Path(cluster._host.folders.folder).exists()
