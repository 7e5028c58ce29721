"""A cluster on an engine, whose tasks are threads here: values, errors, cancel, losses, other clients, nothing left."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from unittest.mock import AsyncMock

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.deploy.engine_head import EngineHost
from jmars.errors import ClusterError, ClusterLostError, JobCancelledError, MemoryLimitError
from jmars.model.status import JobState
from jmars.plan import Profile
from jmars.remote import spawn
from tests.engines.in_process import InProcessEngine, on_engine, until
from tests.web.conftest import Web, call, npy


@pytest.fixture(scope="module")
def cluster():
    with on_engine() as made:
        yield made


def chunks_of(cluster) -> int:
    gc.collect()
    return cluster.info()["memory"]["chunks"]


ENTERED, GO = threading.Event(), threading.Event()  # tasks are threads of this process


def waits(block):
    ENTERED.set()
    GO.wait(60)
    return block


@pytest.fixture
def gate():
    ENTERED.clear()
    GO.clear()
    yield
    GO.set()


# -- values


def test_a_sum_runs_in_few_tasks(cluster, only_jobs):
    before = len(cluster.engine.ran)
    assert float(mt.ones((1000, 1000), chunk_size=50).sum()) == 1e6
    assert 0 < len(cluster.engine.ran) - before < 100  # of more than 400 operands


def test_uploads_and_fetches_are_whole(cluster):
    values = np.random.default_rng(1).random((700, 300))
    x = mt.asarray(values, chunk_size=(256, 77))
    np.testing.assert_array_equal((x + 1).fetch(), values + 1)
    np.testing.assert_array_equal(x.T.fetch(), values.T)


def test_the_usual_programs(cluster):
    rng = np.random.default_rng(0)
    a, b = rng.random((120, 80)), rng.random((80, 90))
    np.testing.assert_allclose((mt.asarray(a, chunk_size=33) @ mt.asarray(b, chunk_size=40)).fetch(), a @ b)
    values = rng.random(5000)
    x = mt.asarray(values, chunk_size=700)
    np.testing.assert_array_equal(x[x > 0.5].fetch(), values[values > 0.5])
    np.testing.assert_array_equal(mt.sort(x).fetch(), np.sort(values))
    loop = mt.while_loop(lambda v: v.max() < 60, lambda v: v + 1, mt.ones(1000, chunk_size=250))
    np.testing.assert_array_equal(loop.fetch(), np.full(1000, 60.0))
    np.testing.assert_array_equal(mt.map_blocks(lambda block: block * 3, x, dtype=float).fetch(), values * 3)
    assert spawn(lambda a, b=2: {"sum": a + b}, (1,)).fetch() == {"sum": 3}
    assert [str(one) for one in mt.asarray(np.array(["a", "bc"]), chunk_size=1).fetch()] == ["a", "bc"]


def test_results_stay_and_are_read_again(cluster):
    x = mt.arange(1000, chunk_size=300) * 2
    x.execute()
    before = len(cluster.engine.ran)
    assert int((x + 1).sum().fetch()) == 1000 * 999 + 1000
    assert len(cluster.engine.ran) > before
    assert chunks_of(cluster) == 4
    del x
    until(lambda: chunks_of(cluster) == 0)


def test_values_of_earlier_runs_are_found(cluster):
    def total(number):
        return (mt.random.default_rng(7).random((300, 40), chunk_size=100) + number).sum(axis=0)

    first, same, other = total(1), total(1), total(2)
    cluster.kept.find([first.data])
    value = cluster.submit(first).result(60)
    cluster.kept.find([same.data, other.data])
    assert cluster.retains(same.data) and not cluster.retains(other.data)
    assert same.fetch().tobytes() == value.tobytes()
    del first, same, other
    cluster.forget()
    until(lambda: chunks_of(cluster) == 0)


def test_an_array_moves_between_clusters_both_ways(cluster):
    values = np.random.default_rng(2).random((500, 40))
    with Cluster(n_workers=1, memory_limit="512MiB") as local:
        here = mt.asarray(values, chunk_size=111) + 0
        job = local.submit(here)
        job.result(60)
        assert local.retains(here.data) and not cluster.retains(here.data)
        got = cluster.submit(here * 2).result(60)
        np.testing.assert_array_equal(got, values * 2)
        assert cluster.retains(here.data)
        there = mt.asarray(values, chunk_size=99) - 1
        job = cluster.submit(there)
        job.result(60)
        assert cluster.retains(there.data) and not local.retains(there.data)
        np.testing.assert_array_equal(local.submit(there * 3).result(60), (values - 1) * 3)


# -- errors and cancel


def divides(block):
    return 1 // 0


def test_an_error_has_its_type_and_the_users_line(cluster):
    x = mt.map_blocks(divides, mt.ones(4, chunk_size=2), dtype=float)
    job = cluster.submit(x.sum())
    with pytest.raises(ZeroDivisionError) as caught:
        job.result(60)
    notes = "\n".join(caught.value.__notes__)
    assert "test_engine_cluster.py" in notes or "map_blocks(divides" in notes
    assert "divides" in notes
    assert float(mt.ones(10, chunk_size=3).sum()) == 10
    until(lambda: chunks_of(cluster) == 0)


def test_an_error_in_the_middle_of_a_group_fails_with_its_operand(cluster):
    x = mt.arange(6, chunk_size=3)
    with pytest.raises(ValueError, match="negative dimensions"):
        cluster.submit(mt.map_blocks(lambda b: np.repeat(b, -1), x + 1, dtype=int)).result(60)


TRIES = []


def fails_once(block):
    TRIES.append(1)
    if len(TRIES) == 1:
        raise OSError("for a moment")
    return block + 1


def test_an_error_that_passes_is_tried_again(cluster):
    TRIES.clear()
    x = mt.map_blocks(fails_once, mt.ones(3), dtype=float)
    assert float((x * 2).sum()) == 12.0
    assert len(TRIES) == 2


def test_cancel_ends_running_and_queued_tasks(cluster, gate):
    job = cluster.submit(mt.map_blocks(waits, mt.ones(20, chunk_size=1), dtype=float).sum())
    assert ENTERED.wait(60)
    job.cancel()
    until(lambda: job.state != JobState.RUNNING)  # else the tasks may end before the order to cancel arrives
    GO.set()
    with pytest.raises(JobCancelledError):
        job.result(60)
    until(lambda: not cluster.engine.tasks)
    until(lambda: chunks_of(cluster) == 0)


@pytest.mark.parametrize("kills", [True, False])
def test_a_task_that_does_not_stop_is_killed_or_given_up(kills, gate):
    with on_engine() as cluster:
        cluster.engine.kills = kills
        job = cluster.submit(mt.map_blocks(waits, mt.ones(1), dtype=float))
        assert ENTERED.wait(60)
        job.cancel()
        with pytest.raises(JobCancelledError):
            job.result(60)
        GO.set()
        assert float(mt.ones(4).sum()) == 4


def test_two_jobs_run_at_once(cluster, gate):
    slow = cluster.submit(mt.map_blocks(waits, mt.ones(1), dtype=float))
    assert ENTERED.wait(60)
    assert float(mt.ones((200, 200), chunk_size=50).sum()) == 40_000
    assert "operand" in cluster.why(slow.id)
    GO.set()
    assert slow.result(60).sum() == 1


# -- losses


def test_results_that_are_lost_are_computed_again(cluster):
    x = mt.random.default_rng(3).random((400, 40), chunk_size=100)
    x.execute()
    value = x.fetch()
    engine = cluster.engine
    engine.call(engine.lose_results, {one.task for one in engine.results})
    np.testing.assert_array_equal(cluster.submit(x * 1).result(60), value)
    engine.call(engine.lose_results, {one.task for one in engine.results})
    np.testing.assert_array_equal(x.fetch(), value)


def test_tasks_that_are_lost_run_again_operand_by_operand(cluster, gate):
    engine = cluster.engine
    job = cluster.submit((mt.map_blocks(waits, mt.ones(6, chunk_size=2) + 1, dtype=float) + 1).sum())
    assert ENTERED.wait(60)
    running = [name for name in engine.running.values() if name in engine.tasks]
    for name in running:
        engine.call(engine.lose_task, name)
    GO.set()
    assert float(job.result(60)) == 18


def test_an_operand_that_ends_workers_again_and_again_fails_with_its_name(gate):
    with on_engine() as cluster:
        engine = cluster.engine
        job = cluster.submit(mt.map_blocks(waits, mt.ones(1), dtype=float))
        while not job.wait(0.01):
            for name in [name for name in list(engine.running.values()) if name in engine.tasks]:
                engine.call(lambda name=name: engine.lose_task(name) if name in engine.tasks else None)
        with pytest.raises(jmars.errors.WorkerLostError, match="map_blocks"):
            job.result(0)
        GO.set()


def test_workers_come_and_leave(cluster, gate):
    with on_engine() as cluster:
        job = cluster.submit(mt.map_blocks(waits, mt.ones(8, chunk_size=1), dtype=float).sum())
        assert ENTERED.wait(60)
        cluster.scale(4)
        until(lambda: len(cluster.info()["workers"]) == 4)
        until(lambda: len(cluster.engine.running) == 4)
        GO.set()
        assert float(job.result(60)) == 8
        cluster.engine.call(cluster.engine.leave, "key-0")
        assert "was ended by the engine or its owner (it was told to)" in cluster.why()
        assert [row["name"] for row in cluster.info()["workers"]] == ["thread-1", "thread-2", "thread-3"]
        assert float(mt.ones((100, 100), chunk_size=20).sum()) == 10_000
        with pytest.raises(ClusterError, match="do not adapt"):
            cluster.adapt(1, 2)
        moved = [event[4] for event in cluster.events()[0] if event[2] == "WorkerMoved"]
        assert [one["state"] for one in moved if one["worker"] == 0][-1] == "lost"


def test_bounds_of_the_engine_are_told_until_a_number_is_asked_for(monkeypatch):
    with on_engine() as cluster:
        monkeypatch.setattr(cluster.engine, "adapt", AsyncMock())
        cluster.adapt(1, 3)
        assert cluster.info()["adapt"] == {"least": 1, "most": 3, "why": ""}
        assert list(cluster.ask("cluster", "summary")["adapt"]) == [1, 3]
        cluster.scale(2)
        assert cluster.info()["adapt"] is cluster.ask("cluster", "summary")["adapt"] is None


def test_sizes_are_those_of_the_workers_that_the_engine_has_now():
    with on_engine(memory=2**30) as cluster:
        assert (cluster.n_workers, cluster.memory_limit, cluster.capacity) == (2, 2**31, 2**31)
        cluster.scale(3)
        until(lambda: cluster.n_workers == 3)
        assert cluster.memory_limit == 3 * 2**30 and "3 workers" in repr(cluster)
        assert cluster.machines.memory.tolist() == [2**30] * 3
        plan = cluster.submit(mt.ones(8, chunk_size=1).sum()).plan()
        assert len(plan.workers) == 3
        cluster.engine.call(cluster.engine.leave, "key-0")
        assert cluster.n_workers == 2
    assert cluster.n_workers == 2 and "closed" in repr(cluster)


def test_plans_reckon_with_the_speed_that_the_engine_measured():
    with on_engine() as cluster:
        assert cluster.machines.bandwidth[0, 1] == 0.3e9
        cluster.engine.speed = 5e8
        assert cluster.machines.bandwidth[0, 1] == 5e8
        assert '"bandwidth": 500000000.0' in cluster.submit(mt.ones(8, chunk_size=1).sum()).plan().to_json()


def test_a_job_without_workers_tells_that_the_workers_left():
    with on_engine() as cluster:
        for key in list(cluster.engine.workers):
            cluster.engine.call(cluster.engine.leave, key)
        job = cluster.submit(mt.ones(8, chunk_size=1).sum())
        until(lambda: "waits for a worker: the cluster has none now" in job.why())
        assert "it was told to" in job.why()
        cluster.scale(1)
        assert float(job.result(60)) == 8


def test_an_operand_that_is_too_large_asks_for_larger_workers():
    with on_engine(memory=2**20) as cluster, pytest.raises(MemoryLimitError) as caught:
        cluster.submit(mt.sqrt(mt.asarray(np.zeros(2**20), chunk_size=2**20)).sum()).result(60)
    told = str(caught.value)
    assert "and the largest worker gives at most 1.0 MiB; use chunk_size=" in told
    assert "more memory to the cluster" in told and "limit" not in told


def test_too_many_operands_ask_for_larger_chunks_or_workers():
    with on_engine(memory=2**16) as cluster, pytest.raises(MemoryLimitError) as caught:
        cluster.submit(mt.ones(4000, chunk_size=1).sum()).result(60)
    told = str(caught.value)
    assert "all workers together give 128.0 KiB; use a larger chunk_size, or add" in told and "limit" not in told


def test_a_gather_that_does_not_fit_in_a_worker_is_refused_before_it_runs():
    with on_engine(memory=2**22) as cluster, pytest.raises(MemoryLimitError, match="in memory at once"):
        x = mt.ones((1024, 1024), chunk_size=(64, 1024))
        cluster.submit(x.rechunk((1024, 64)).max(axis=0).sum()).result(60)
    assert not cluster.engine.ran


def test_the_load_of_an_earlier_session_does_not_make_costs_dear(monkeypatch, tmp_path):
    monkeypatch.setenv("JMARS_CACHE_DIR", str(tmp_path))
    loaded = Profile()
    loaded.observe_busy(5.0)
    loaded.observe("add", 1000, 0.5, when=1)
    loaded.save()
    with on_engine() as cluster:
        assert cluster.ask("host", "profile")["busy"] == 1


def test_an_engine_that_is_gone_ends_the_cluster_with_its_reason(gate):
    engine = InProcessEngine()
    cluster = Cluster.of_host(EngineHost(engine))
    job = cluster.submit(mt.map_blocks(waits, mt.ones(1), dtype=float))
    assert ENTERED.wait(60)
    GO.set()
    engine.call(engine.events.closed, "its scheduler went away")
    with pytest.raises(ClusterLostError, match="its scheduler went away"):
        job.result(60)
    cluster.close()


# -- other clients, and what is told


def test_another_process_connects_by_name():
    with on_engine(name="threads") as cluster:
        program = """
import numpy, jmars, jmars.tensor as mt
with jmars.connect("threads") as cluster:
    values = numpy.arange(2_000_000.0)
    assert (mt.asarray(values, chunk_size=900_000) * 2).sum().execute().fetch() == 2 * values.sum()
    print(cluster.id, cluster.n_workers, len(cluster.jobs()))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == f"{cluster.id} 2 1", done.stderr
        assert chunks_of(cluster) == 0
        listed = subprocess.run([sys.executable, "-m", "jmars", "status"], capture_output=True, text=True, timeout=60)
        assert "threads  attached" in listed.stdout, listed.stderr
        ended = subprocess.run(
            [sys.executable, "-m", "jmars", "stop", "threads"], capture_output=True, text=True, timeout=60
        )
        assert ended.returncode == 0, ended.stderr
        until(lambda: not cluster._host.is_alive())


def test_what_is_told(cluster):
    info = cluster.info()
    assert info["engine"] == {"kind": "threads", "address": "threads://here", "mode": "tasks"}
    assert info["security"] == "threads of this process"
    assert list(info["promises"]) == ["nothing survives this process"]
    assert [row["state"] for row in info["workers"]] == ["idle", "idle"]
    job = cluster.submit((mt.ones((300, 300), chunk_size=100) * 2).sum())
    job.result(60)
    told = job.describe()
    assert told["counts"]["finished"] + told["counts"]["freed"] == told["operands"]
    kinds = {event[2] for event in job.events()}
    assert {"OperandsMoved", "OperandsTimed", "GraphBuilt", "JobMoved"} <= kinds
    assert job.progress == 1


def test_the_number_of_workers_of_a_local_cluster_does_not_follow_the_work():
    with Cluster(n_workers=1, memory_limit="512MiB") as local:
        with pytest.raises(ClusterError, match="can follow the work"):
            local.adapt(1, 2)
        with pytest.raises(ValueError, match="0 or more"):
            local.scale(-1)


def test_a_mode_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="'tasks'"):
        Cluster.dask("tcp://127.0.0.1:1", mode="other")


def test_programs_without_jmars_use_it_over_http():
    with on_engine() as cluster, cluster.serve() as gateway:
        web = Web(gateway.url, gateway.header.read_text().split()[-1])
        session = f"/api/session/{web.json('POST', '/api/session', {}, 201)['id']}"
        values = np.random.default_rng(4).random((300, 70))
        web.json("PUT", f"{session}/array/a", npy(values), 201)
        nodes = {"y": call("multiply", {"array": "a"}, 2)}
        graph = web.json("POST", f"{session}/graph", {"nodes": nodes, "results": ["y"]}, 201)
        graph = web.json("GET", f"{session}/graph/{graph['id']}?wait=30")
        assert graph["state"] == "succeeded", graph["error"]
        result = f"{session}/graph/{graph['id']}/result/y"
        np.testing.assert_array_equal(web.array(result), values * 2)
        np.testing.assert_array_equal(web.array(f"{result}?slice=10:20,::3"), values[10:20, ::3] * 2)
        web.ask("DELETE", session)
        web.http.close()
        until(lambda: chunks_of(cluster) == 0)
