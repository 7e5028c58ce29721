"""Seed 003, "Operand 状态" (READY): an operand comes to one of several workers, and to no second one."""

import os
import signal
import time

import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config
from jmars.model.messages import Interrupted
from jmars.model.status import OperandState as S
from jmars.processes.executor_messages import REVOKED
from tests.cluster.operands import numbers, total
from tests.seeds.test_s3_workers import moved
from tests.worker.steps_host import Host, in_loop, program, table


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as one:
        yield one


def test_s3_19_the_queue_of_a_blocked_operand_runs_elsewhere_once(cluster, tmp_path):
    gate = tmp_path / "gate"

    def step(block, path):
        while block[0] == 0 and not os.path.exists(path):
            time.sleep(0.01)
        return block + 1

    job = cluster.submit(mt.map_blocks(step, mt.arange(30, chunk_size=1), dtype=int, path=str(gate)))
    while len(moved(job, S.FINISHED)) < 29:
        time.sleep(0.01)  # it hangs here where they wait for the blocked one
    runs = [event[1] for event in job.events() if event[2] == "OperandsMoved" and event[4]["state"] == S.RUNNING]
    assert max(runs) - min(runs) < 3  # a second, on a machine that runs tests beside others
    gate.touch()
    assert job.result(30).tolist() == list(range(1, 31))
    assert sorted(one for one, _ in moved(job, S.FINISHED)) == list(range(30))


@in_loop
def test_s3_19_a_late_accept_is_refused_and_the_worker_sent_nothing():
    with Host(workers=2) as host:
        job = table(1, [program()], [0] * 3, [()] * 3)
        host.execution.open_job(job)
        host.execution.workers[1].state = "suspect"  # so that all go to the first
        host.execution.enqueue_graph("job-1", [0, 1, 2], [0, 0, 0])
        worker = host.execution.workers[0]
        assert len(worker.batches) == 2
        host.children.token = True  # the executor has not begun the second one
        assert host.execution.dispatch.speculation.revoke(worker)
        assert Interrupted("job-1", [1], 0) in host.scheduler.told and len(worker.batches) == 1
        host.say(1, [5], 0, 0, None, [])
        assert len(host.batches(0)) == 2  # and no third
        host.say(0, [], 0, 0, (REVOKED,), [])  # it was about to begin what is not its any more
        assert len(host.batches(0)) == 3


@in_loop
def test_s3_19_what_has_begun_is_not_taken():
    with Host() as host:
        host.run(table(1, [program()], [0, 0], [(), ()]), 0, 1)
        worker = host.execution.workers[0]
        assert not host.execution.dispatch.speculation.revoke(worker) and len(worker.batches) == 2


@pytest.fixture
def late():
    with config.using(task=config.task | {"dispatch": "late"}):
        yield


def test_s3_19_late_nothing_is_bound_to_a_blocked_worker(cluster, late, tmp_path):
    gate = tmp_path / "gate"

    def step(block, path):
        while block[0] == 0 and not os.path.exists(path):
            time.sleep(0.01)
        return block + 1

    job = cluster.submit(mt.map_blocks(step, mt.arange(30, chunk_size=1), dtype=int, path=str(gate)))
    while len(moved(job, S.FINISHED)) < 29:
        time.sleep(0.01)  # it hangs here where one is bound to the blocked worker
    runs = moved(job, S.RUNNING)
    assert sorted(one for one, _ in runs) == list(range(30)), "each is told to one worker, once"
    (blocked,) = {one for one, _ in runs} - {one for one, _ in moved(job, S.FINISHED)}
    there = dict(runs)[blocked]
    assert [one for one, worker in runs if worker == there][-1] == blocked
    gate.touch()
    assert job.result(30).tolist() == list(range(1, 31))


def test_s3_19_late_a_silent_worker_gets_nothing_and_comes_too_late(cluster, late):
    stopped = cluster.info()["workers"][0]["pid"]
    os.kill(stopped, signal.SIGSTOP)
    try:
        job = cluster.submit_data([total(numbers(30))], single=True)
        assert job.result(30) == sum(range(30)) * 10
        assert {worker for _, worker in moved(job, S.RUNNING)} == {1}
    finally:
        os.kill(stopped, signal.SIGCONT)
    again = cluster.submit_data([total(numbers(30))], single=True)
    assert again.result(30) == sum(range(30)) * 10
