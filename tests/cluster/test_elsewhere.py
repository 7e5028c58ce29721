"""Processes that live and do not run, operands that wait behind others or take far too long: they run elsewhere."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.model.status import OperandState
from tests.cluster.operands import apply, numbers, total


def slow(out, inputs, number):
    np.multiply(inputs[0], 2, out=out)
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        pass


def work(count=12):
    """Kernels of a fifth of a second each, and what they sum to."""
    return total(apply(slow, numbers(count, 1000))), 2000.0 * sum(range(count))


def moves(cluster, state):
    return [
        event[4]["name"] for event in cluster.events()[0] if event[2] == "WorkerMoved" and event[4]["state"] == state
    ]


def once(job):
    """Whether each operand finished exactly once."""
    told = [event[4] for event in job.events() if event[2] == "OperandsMoved"]
    ends = [np.frombuffer(one["ids"], "<u4") for one in told if one["state"] == OperandState.FINISHED]
    return (np.bincount(np.concatenate(ends)) == 1).all()


def busy(cluster, index=0):
    """Wait until a worker runs something; returns its process."""
    while not cluster.info()["workers"][index]["running"]:
        time.sleep(0.005)
    return cluster.info()["workers"][index]["pid"]


def test_what_a_stopped_worker_runs_is_copied_and_what_it_waits_with_taken():
    with Cluster(n_workers=2) as cluster:
        node, value = work()
        job = cluster.submit_data([node], single=True)
        os.kill(busy(cluster), signal.SIGSTOP)
        assert job.result(30) == value
        assert once(job) and "worker-0" in moves(cluster, "suspect")
        assert not moves(cluster, "fenced")  # it was faster than that
        assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30


@pytest.mark.long
def test_a_stopped_worker_with_a_users_function_is_ended_and_it_runs_again():
    def twice(block):
        time.sleep(0.3)
        return block * 2

    with Cluster(n_workers=2) as cluster:
        job = cluster.submit(mt.map_blocks(twice, mt.arange(8, chunk_size=1), dtype=int))
        victim = busy(cluster)
        os.kill(victim, signal.SIGSTOP)
        assert job.result(30).tolist() == [2 * n for n in range(8)]
        assert once(job) and moves(cluster, "fenced") == ["worker-0"] and not psutil.pid_exists(victim)


@pytest.mark.long
def test_when_all_workers_are_stopped_all_are_replaced():
    with Cluster(n_workers=2) as cluster:
        node, value = work(6)
        job = cluster.submit_data([node], single=True)
        for index in range(2):
            os.kill(busy(cluster, index), signal.SIGSTOP)
        assert job.result(30) == value and once(job)
        assert sorted(moves(cluster, "fenced")) == ["worker-0", "worker-1"]


@pytest.mark.long
def test_a_stop_that_ends_costs_no_process():
    def nap(block):
        time.sleep(2)
        return block

    with Cluster(n_workers=1) as cluster:
        job = cluster.submit(mt.map_blocks(nap, mt.arange(2, chunk_size=1), dtype=int))
        pid = busy(cluster)
        os.kill(pid, signal.SIGSTOP)
        while not moves(cluster, "suspect"):
            time.sleep(0.05)
        os.kill(pid, signal.SIGCONT)
        assert job.result(30).tolist() == [0, 1]
        assert cluster.info()["workers"][0]["pid"] == pid and not moves(cluster, "fenced")


@pytest.mark.long
def test_one_that_holds_the_interpreter_for_long_lives():
    def hold(block):
        sum(map(abs, range(40_000_000)))  # one call into C that never lets go of the interpreter
        return block

    with Cluster(n_workers=1) as cluster:
        job = cluster.submit(mt.map_blocks(hold, mt.arange(1, chunk_size=1), dtype=int))
        assert job.result(60).tolist() == [0]
        assert not moves(cluster, "suspect") and cluster.info()["workers"][0]["restarts"] == 0


@pytest.mark.long
@pytest.mark.root
def test_the_slot_of_a_frozen_worker_is_free_when_the_worker_is_gone():
    group = Path(f"/sys/fs/cgroup/freezer/jmars-elsewhere-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no freezer of cgroup v1 that we may use: {error}")
    try:
        with Cluster(n_workers=1) as cluster:
            node, value = work(4)
            job = cluster.submit_data([node], single=True)
            victim = busy(cluster)
            (group / "cgroup.procs").write_text(str(victim))
            (group / "freezer.state").write_text("FROZEN")
            assert job.result(30) == value and once(job)
            assert psutil.pid_exists(victim) and cluster.info()["workers"][0]["pid"] != victim
            (group / "freezer.state").write_text("THAWED")
            while psutil.pid_exists(victim):
                time.sleep(0.01)
            assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30
    finally:
        (group / "freezer.state").write_text("THAWED")
        while (group / "cgroup.procs").read_text():
            time.sleep(0.01)
        group.rmdir()


@pytest.mark.long
def test_a_stopped_mover_is_replaced_and_what_it_moved_is_moved_again(tmp_path):
    with Cluster(n_workers=1, memory_limit="200MiB", spill_dir=tmp_path) as cluster:
        node = numbers(40, 2**20)
        job = cluster.submit_data([node])
        while not cluster.info()["memory"]["spilled"]:
            time.sleep(0.002)
        (mover,) = _movers(cluster)
        os.kill(mover, signal.SIGSTOP)
        blocks = job.result(40)
        assert float(np.sum(blocks)) == 2**20 * sum(range(40))
        assert mover not in _movers(cluster)


def _movers(cluster):
    control = psutil.Process(cluster.info()["scheduler"]["pid"])
    known = {worker["pid"] for worker in cluster.info()["workers"]} | {cluster.info()["janitor"]["pid"]}
    zygote = next(one for one in control.children() if one.pid not in known and one.children())
    return [child.pid for child in zygote.children() if child.pid not in known]


def test_the_queue_of_a_blocked_operand_runs_elsewhere_within_a_second(tmp_path):
    gate = tmp_path / "gate"

    def step(block, path):
        if block[0] == 0:
            while not os.path.exists(path):
                time.sleep(0.01)
        return block + 1

    with Cluster(n_workers=2) as cluster:
        x = mt.arange(40, chunk_size=1)
        job = cluster.submit(mt.map_blocks(step, x, dtype=int, path=str(gate)))
        begun = time.monotonic()
        while job.describe()["counts"]["finished"] < 39 and time.monotonic() - begun < 60:
            time.sleep(0.01)
        counts = job.describe()["counts"]
        gate.touch()
        assert counts["finished"] == 39, counts
        assert job.result(30).tolist() == list(range(1, 41)) and once(job)


def test_a_kernel_slower_than_its_like_is_copied_and_the_first_counts(tmp_path):
    gate = tmp_path / "gate"

    def sometimes(out, inputs, number, gate=str(gate)):
        out[...] = inputs[0] + 1
        time.sleep(0.06)
        try:
            os.close(os.open(gate, os.O_CREAT | os.O_EXCL)) if number == 7 else None
        except FileExistsError:
            return
        if number == 7:
            time.sleep(60)

    with Cluster(n_workers=2) as cluster:
        job = cluster.submit_data([apply(sometimes, numbers(10, 10))], single=True)
        assert np.array_equal(job.result(30), np.repeat(np.arange(10), 10) + 1.0)
        assert once(job) and gate.exists()
        while not (restarts := sum(worker["restarts"] for worker in cluster.info()["workers"])):
            time.sleep(0.01)  # the end of the one that lost is heard a moment later
        assert restarts == 1
        assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30
