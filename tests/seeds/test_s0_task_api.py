"""Seed 000, "APIs": TaskAPI(session_id, task_manager_ref); and the progress of a task."""

from __future__ import annotations

import gc
import json
import time
import weakref

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.annex import task_api
from jmars.annex.task_api import TaskResult, TaskStatus
from jmars.client import Cluster, TaskAPI
from jmars.errors import ClusterError, JobCancelledError, SettingError, UnknownTaskError
from jmars.remote import spawn


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as made:
        yield made


@pytest.fixture
def api(cluster):
    return TaskAPI("session", cluster)


def sleepy(block):
    time.sleep(0.01)
    return block


def test_s0_16_every_method_answers_with_its_type(api, cluster):
    before = time.time()
    x = mt.arange(40, chunk_size=10).map_blocks(sleepy, dtype="i8")
    task = api.submit_tileable_graph([(x + 1).sum(), x])
    assert isinstance(task, str)
    running = api.get_task_result(task)
    assert isinstance(running, TaskResult) and running.task_id == task and running.session_id == "session"
    assert running.status in (TaskStatus.pending, TaskStatus.running) and running.end_time is None
    assert api.get_last_idle_time() is None and 0 <= api.get_task_progress(task) < 1
    assert api.wait_task(task, timeout=0).status is not TaskStatus.terminated
    result = api.wait_task(task, timeout=60)
    assert result.status is TaskStatus.terminated and result.error is None and result.progress == 1.0
    assert before - 1 < result.start_time < result.end_time < time.time() + 1
    assert api.get_task_progress(task) == 1.0 and isinstance(api.get_last_idle_time(), float)
    assert task in [one.task_id for one in api.get_task_results()]
    total, same = api.get_fetch_tileables(task)
    assert total.fetch() == 820 and same is x and np.array_equal(x.fetch(), np.arange(40))
    assert TaskAPI(None, cluster).session_id == cluster.id


def test_s0_16_the_graph_its_details_and_subtasks_are_json(api):
    x = mt.ones(40, chunk_size=10)
    task = api.submit_tileable_graph((x.map_blocks(sleepy, dtype="f8") + 1).sum())
    api.wait_task(task, 30)
    graph = api.get_tileable_graph_as_json(task)
    assert json.loads(json.dumps(graph)) == graph
    names = {one["tileableId"]: one["tileableName"] for one in graph["tileables"]}
    assert list(names.values()) == ["ones", "sleepy", "add", "sum"]
    pairs = [(names[e["fromTileableId"]], names[e["toTileableId"]]) for e in graph["dependencies"]]
    assert pairs == [("ones", "sleepy"), ("sleepy", "add"), ("add", "sum")]
    details = api.get_tileable_details(task)
    assert json.loads(json.dumps(details)) == details and list(details) == list(names)
    assert all(one["progress"] == 1.0 and one["status"] == 2 for one in details.values())
    assert details["1"]["properties"]["text"].startswith("task = api.submit")
    (last,) = (number for number, name in names.items() if name == "sum")
    found = api.get_tileable_subtasks(task, last, True)
    assert json.loads(json.dumps(found)) == found
    own = [one for one in found["subtasks"] if one["nodeType"] == "Calculation"]
    assert len(own) == details[last]["subtaskCount"] and all(one["status"] == 2 for one in own)
    assert len(api.get_tileable_subtasks(task, last)["subtasks"]) == len(own)
    with pytest.raises(UnknownTaskError, match="has no tileable '9'; it has 4"):
        api.get_tileable_subtasks(task, "9")


@pytest.mark.parametrize(
    "ask",
    [
        lambda api: api.wait_task("job-0"),
        lambda api: api.cancel_task("job-0"),
        lambda api: api.get_task_result("job-0"),
        lambda api: api.get_task_progress("job-0"),
        lambda api: api.get_fetch_tileables("job-0"),
        lambda api: api.get_tileable_graph_as_json("job-0"),
        lambda api: api.get_tileable_details("job-0"),
        lambda api: api.get_tileable_subtasks("job-0", "0", True),
    ],
)
def test_s0_16_an_unknown_id_raises_a_named_error(api, ask):
    with pytest.raises(UnknownTaskError, match="there is no job 'job-0' here") as caught:
        ask(api)
    assert isinstance(caught.value, ClusterError) and isinstance(caught.value, LookupError)


def test_s0_16_switches_hold_for_one_submission(api, cluster):
    def operands(**switches):
        """Operands that run, and those of the tensors before any became one."""
        task = api.submit_tileable_graph([(mt.ones(40, chunk_size=10) + 1) * 2], **switches)
        api.wait_task(task, 30)
        tensors = sum(one["subtaskCount"] for one in api.get_tileable_details(task).values())
        return sum(cluster.ask("session", "describe", task)["counts"].values()), tensors

    fused = operands()
    assert fused[0] == 4
    assert operands(fuse_enabled=False) == operands(extra_config={"fuse_enabled": False}) == (12, 12)
    assert operands() == fused
    with pytest.raises(SettingError):
        api.submit_tileable_graph([mt.ones(3)], extra_config={"fuse_all": True})


def test_s0_16_errors_and_cancels_are_told(api):
    def fails():
        raise KeyError("no")

    result = api.wait_task(api.submit_tileable_graph(spawn(fails)), 30)
    assert isinstance(result.error, KeyError) and result.status is TaskStatus.terminated and result.progress < 1
    endless = api.submit_tileable_graph(spawn(lambda: [None for _ in iter(int, 1)]))
    api.cancel_task(endless)
    result = api.wait_task(endless, 10)
    assert isinstance(result.error, JobCancelledError) and result.progress < 1
    api.cancel_task(endless)  # no effect


def test_s0_18_progress_rises_over_stages_and_is_1_only_at_the_end(api, cluster):
    x = mt.arange(200, chunk_size=5).map_blocks(sleepy, dtype="i8")
    for graph in (x.sum(), spawn(sum, ([spawn(sleepy, (i,)) for i in range(40)],))):
        job = cluster.submit(graph)
        told = [job.progress]
        while not job.wait(0.002):
            told.append(job.progress)
        told.append(job.progress)
        assert told == sorted(told) and told[0] < 0.5 and told[-1] == 1.0
        assert len(set(told)) > 5 and all(one < 1 for one in told[:-2])
        assert api.get_task_progress(job.id) == 1.0


def test_results_of_tasks_that_are_forgotten_are_let_go(api, cluster, monkeypatch):
    monkeypatch.setattr(task_api, "REMEMBERED_JOBS", 2)
    tasks, kept = [], []
    for number in range(5):
        x = mt.ones(4) + number
        kept.append(weakref.ref(x.data))
        tasks.append(api.submit_tileable_graph(x))
        assert api._tasks[tasks[-1]][0].wait(30)
        del x
    gc.collect()
    assert [one() is not None for one in kept] == [False, False, True, True, True]
    with pytest.raises(UnknownTaskError):
        api.get_fetch_tileables(tasks[0])
    assert np.array_equal(api.get_fetch_tileables(tasks[4])[0].fetch(), np.full(4, 5.0))
