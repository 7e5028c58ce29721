"""Interrupts, ends and threads at the worst moments: no hang, and nothing left on the cluster."""

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster, cluster_registry, default_cluster
from jmars.client import cluster as module
from jmars.client.connection import Connection
from jmars.deploy.memory import room_for_chunks
from jmars.errors import ClusterClosedError, ClusterError, ClusterLostError, ClusterStartError


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)  # for the cluster to hear; nobody tells us when


def test_a_job_whose_handle_is_forgotten_leaves_nothing(cluster):
    cluster.submit(mt.asarray(np.ones(1000), chunk_size=100) * 2)
    until(lambda: cluster.jobs()[-1]["state"] == "succeeded")
    gc.collect()
    until(lambda: cluster.info()["memory"]["chunks"] == 0)


def test_a_submission_that_is_interrupted_leaves_nothing(cluster, monkeypatch):
    ask = cluster._connection.ask

    def interrupted(*message, **how):
        answer = ask(*message, **how)
        if message[:2] == ("session", "submit"):
            raise KeyboardInterrupt  # the cluster has the job, we do not know it
        return answer

    array = mt.asarray(np.ones(1000), chunk_size=100)
    monkeypatch.setattr(cluster._connection, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.submit(array, array + 1)
    monkeypatch.undo()
    until(lambda: cluster.jobs()[-1]["state"] in ("cancelled", "succeeded"))
    until(lambda: cluster.info()["memory"]["chunks"] == 0)
    assert np.array_equal(cluster.submit(array + 1).result(30), np.full(1000, 2.0))


def test_an_array_that_is_a_result_of_a_failed_job_is_let_go(cluster):
    def fail(block):
        raise ValueError("no")

    array = mt.asarray(np.ones(1000), chunk_size=100)
    job = cluster.submit(array, mt.map_blocks(fail, array, dtype=float))
    with pytest.raises(ValueError, match="no"):
        job.result(30)
    until(lambda: cluster.info()["memory"]["chunks"] == 0)


def test_a_tensor_computed_by_two_jobs_at_once_is_fetched_from_both(cluster):
    node = mt.arange(10_000, chunk_size=100) + 1
    jobs = [cluster.submit(node) for _ in range(4)]
    for job in jobs:
        assert np.array_equal(job.result(30), np.arange(10_000) + 1)
    del node, job, jobs
    gc.collect()
    until(lambda: cluster.info()["memory"]["chunks"] == 0)


def test_a_value_made_of_what_a_running_job_computes_waits_for_that_job(cluster, tmp_path):
    cluster_registry.make_default(cluster)

    def noted(block, folder, block_id):
        (folder / f"{block_id[0]}-{time.time_ns()}").touch()
        time.sleep(0.05)
        return block + 1

    x = mt.map_blocks(noted, mt.zeros(10, chunk_size=1), dtype=float, folder=tmp_path)
    job = cluster.submit(x)
    assert float((x * 2).sum()) == 20 and job.wait(0)
    assert len(list(tmp_path.iterdir())) == 10  # calls


def test_a_callback_that_asks_the_cluster_gets_an_error_not_a_deadlock(cluster):
    said = []

    def ask(job):
        try:
            job.result()
        except ClusterError as error:
            said.append(str(error))

    job = cluster.submit(mt.ones(10))
    called = threading.Event()
    job.when_done(ask)
    job.when_done(lambda _: called.set())
    assert called.wait(60) and ("ask from another" in said[0] if said else job.result() is not None)


def test_a_cluster_may_be_closed_by_a_callback_and_by_many_threads():
    one = Cluster(n_workers=1)
    job = one.submit(mt.ones(10))
    job.when_done(lambda _: one.close())
    assert job.wait(60)
    threads = [threading.Thread(target=one.close) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    with pytest.raises(ClusterClosedError):
        one.info()


def test_a_control_process_that_dies_at_the_start_is_a_clear_error(monkeypatch):
    monkeypatch.setattr(cluster_registry, "_open", [])
    started = []
    make = module.local
    monkeypatch.setattr(module, "local", lambda *how: started.append(make(*how)) or started[-1])
    ask = Connection.ask

    def ask_a_dying_one(self, *message, **how):
        os.kill(started[-1].pid, signal.SIGKILL)
        return ask(self, *message, **how)

    monkeypatch.setattr(Connection, "ask", ask_a_dying_one)
    outcome = []

    def start():
        try:
            default_cluster()
        except ClusterStartError as error:
            outcome.append(error)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(60)
    assert outcome, "it waits for ever"


def test_threads_that_ask_while_the_cluster_is_closed_all_hear_something():
    for _ in range(5):
        one = Cluster(n_workers=1)
        heard = []

        def ask(one=one, heard=heard):
            try:
                while True:
                    one.events()
            except (ClusterClosedError, ClusterLostError) as error:
                heard.append(error)

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda one=one: one.events()[1] > 0)
        one.close()
        for thread in threads:
            thread.join(60)
        assert len(heard) == 4


def test_the_room_for_chunks_is_about_what_is_reckoned_without_a_cluster(cluster):
    reckoned = room_for_chunks(cluster.memory_limit, cluster.n_workers)
    assert 0 < cluster.capacity < cluster.memory_limit
    assert abs(cluster.capacity - reckoned) < 32 * 2**20  # the control process takes what its libraries take
