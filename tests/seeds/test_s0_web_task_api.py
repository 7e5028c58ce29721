"""Seed 000, "APIs": WebTaskAPI(session_id, address): what TaskAPI does, over HTTP, and nothing that is unpickled."""

from __future__ import annotations

import builtins
import io
import json
import os
import pickle
import random
import socket
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.annex import task_api as web_task_api
from jmars.annex.task_api import TaskResult, TaskStatus
from jmars.client import Cluster, WebTaskAPI
from jmars.errors import (
    AuthenticationError,
    ClusterLostError,
    JobCancelledError,
    OperandError,
    ProtocolError,
    SettingError,
    UnknownTaskError,
    UnsupportedError,
)
from jmars.remote import spawn
from jmars.web.operand_document import document_of
from tests.web.conftest import Web


@pytest.fixture(scope="module")
def gateway():
    with Cluster(n_workers=2, memory_limit="512MiB") as cluster, cluster.serve() as made:
        yield made


@pytest.fixture
def api(gateway):
    with WebTaskAPI(None, gateway.url, token=gateway.header) as made:
        yield made


def test_s0_17_session_and_address_are_enough_for_a_gateway_of_this_user():
    with Cluster(n_workers=1) as cluster, cluster.serve() as own, WebTaskAPI(None, own.url) as first:
        task = first.submit_tileable_graph([mt.arange(10, chunk_size=5).sum()])
        second = WebTaskAPI(first.session_id, own.url)
        assert second.wait_task(task).error is None and second.get_fetch_tileables(task)[0].fetch() == 45


def test_s0_17_elsewhere_an_error_says_where_the_token_is(gateway):
    port = int(gateway.url.rpartition(":")[2])
    for address in ("http://127.0.0.1:1", f"http://node-7:{port}"):
        with pytest.raises(AuthenticationError, match=r"no gateway of yours on this machine.*`python -m jmars web`"):
            WebTaskAPI(None, address)


def test_the_token_of_a_killed_gateway_is_not_sent_to_the_next_one(tmp_path, monkeypatch):
    address, killed = "http://127.0.0.1:4711", subprocess.Popen(["true"])
    killed.wait()
    for name, pid in (("a", killed.pid), ("b", os.getpid())):
        (tmp_path / name).mkdir()
        told = {"url": address, "header": str(tmp_path / name / "web.header"), "pid": pid}
        (tmp_path / name / "web.json").write_text(json.dumps(told))
        (tmp_path / name / "web.header").write_text(f"Authorization: Bearer {name}")
    found = [SimpleNamespace(folder=str(tmp_path / name)) for name in "ab"]
    monkeypatch.setattr(web_task_api, "entries", lambda: found)
    assert web_task_api._own_header(address) == tmp_path / "b" / "web.header"


def test_s0_17_every_method_answers_with_its_type(api):
    x = mt.arange(40, chunk_size=10)
    task = api.submit_tileable_graph([(x + 1).sum(), x], fuse_enabled=False)
    result = api.wait_task(task, timeout=60)
    assert isinstance(result, TaskResult) and (result.task_id, result.session_id) == (task, api.session_id)
    assert result.status is TaskStatus.terminated and result.error is None and result.progress == 1.0
    assert result.end_time >= result.start_time > 1e9
    assert api.get_task_result(task) == result and api.get_task_progress(task) == 1.0
    assert api.get_task_results() == [result] and api.get_task_results(progress=True) == [result]
    total, whole = api.get_fetch_tileables(task)
    assert total.fetch() == 820 and isinstance(total.fetch(), np.integer)
    assert np.array_equal(whole.fetch(), np.arange(40)) and (whole.shape, whole.dtype) == ((40,), np.dtype("i8"))
    assert np.array_equal(whole[3:30:4], np.arange(40)[3:30:4]) and whole[-1] == 39
    api.cancel_task(task)
    assert api.get_task_result(task).error is None  # no effect on one that has ended
    assert isinstance(api.get_last_idle_time(), float)
    graph = api.get_tileable_graph_as_json(task)
    assert graph["tileables"] and graph["dependencies"]
    details = api.get_tileable_details(task)
    assert sum(one["subtaskCount"] for one in details.values()) > 4
    assert all(one["properties"]["file"] == __file__ for one in details.values())
    subtasks = api.get_tileable_subtasks(task, graph["tileables"][0]["tileableId"], with_input_output=True)
    assert subtasks["subtasks"] and "dependencies" in subtasks
    json.dumps([graph, details, subtasks])


def test_s0_17_values_are_those_of_numpy(api):
    array = np.random.default_rng(5).normal(size=(300, 200))
    x = mt.tensor(array, chunk_size=90)
    tensors = [x @ x.T, mt.sort(x[x > 0.5])[:7], mt.percentile(x, [10, 50], axis=0), mt.fft.rfft(x[0]), x]
    task = api.submit_tileable_graph(tensors)
    assert api.wait_task(task).error is None
    found = [one.fetch() for one in api.get_fetch_tileables(task)]
    expected = [array @ array.T, np.sort(array[array > 0.5])[:7], np.percentile(array, [10, 50], axis=0),
                np.fft.rfft(array[0]), array]  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and np.allclose(one, other, rtol=1e-12)
    assert np.array_equal(found[-1], array)


def test_s0_17_failures_and_cancels_come_as_errors_of_their_names(api):
    task = api.submit_tileable_graph(mt.linalg.inv(mt.zeros((3, 3))))
    error = api.wait_task(task).error
    assert isinstance(error, np.linalg.LinAlgError) and "Singular" in str(error)
    assert "test_s0_web_task_api.py" in error.__notes__[0]
    long = mt.linalg.svd(mt.random.default_rng(1).normal(size=(1500, 1500), chunk_size=1500))[1]
    task = api.submit_tileable_graph(long)
    assert api.get_task_result(task).status in (TaskStatus.pending, TaskStatus.running)
    api.cancel_task(task)
    assert isinstance(api.wait_task(task).error, JobCancelledError)


def test_s0_17_what_is_not_there_is_a_named_error(api, gateway):
    for ask in (api.wait_task, api.get_task_result, api.get_task_progress, api.cancel_task, api.get_fetch_tileables,
                api.get_tileable_graph_as_json, api.get_tileable_details):  # fmt: skip
        with pytest.raises(UnknownTaskError, match="job-999"):
            ask("job-999")
    with pytest.raises(SettingError, match="colour"):
        api.submit_tileable_graph(mt.ones(3), extra_config={"colour": 1})
    with pytest.raises(AuthenticationError):
        WebTaskAPI(None, gateway.url, token="0" * 64)
    with pytest.raises(ClusterLostError, match="is it open"):
        WebTaskAPI(None, "http://127.0.0.1:1", token="x")
    with pytest.raises(ValueError, match="no address"):
        WebTaskAPI(None, "somewhere", token="x")


def test_s0_17_what_does_not_travel_is_named(api):
    x = mt.ones((4, 4))
    for tensor, name in [(x.map_blocks(lambda block: block + 1), "lambda"), (mt.apply_along_axis(sum, 0, x), "sum")]:
        with pytest.raises(UnsupportedError, match=name):
            api.submit_tileable_graph(tensor)
    with pytest.raises(UnsupportedError, match="use TaskAPI"):
        api.submit_tileable_graph(spawn(len, args=("abc",)))
    assert api.get_task_results() == []


def test_s0_17_requests_may_be_rewritten_and_sessions_shared(api, gateway):
    seen = []

    def rewriter(request):
        seen.append((request["method"], request["path"]))
        return request

    with WebTaskAPI(api.session_id, gateway.url, rewriter, token=gateway.header.read_text()) as other:
        task = other.submit_tileable_graph(mt.ones(3))
        assert other.wait_task(task).error is None
    assert ("POST", f"/api/session/{api.session_id}/graph") in seen
    assert api.get_task_result(task).error is None  # the session is not the other's to end


def answering(body, status=b"200 OK", kind=b"application/json"):
    """A server that says this to everybody, once."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with listener, listener.accept()[0] as link:
            link.recv(65536)
            link.sendall(
                b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (status, kind, len(body)) + body
            )

    thread = threading.Thread(target=serve)
    thread.start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}", thread


class Bomb:
    def __reduce__(self):
        return exec, ("import builtins; builtins.bombs = 1",)


def pickled_array():
    file = io.BytesIO()
    np.save(file, np.array([Bomb()], object), allow_pickle=True)
    return file.getvalue()


NAMED = b'{"error": "system", "message": "x", "hint": "", "line": 1}'


@pytest.mark.parametrize(
    "body", [pickle.dumps(Bomb()), pickled_array(), b"{}", b"\xff", NAMED], ids=lambda body: body[:9]
)
@pytest.mark.parametrize("status", [b"200 OK", b"500 No"])
def test_s0_17_no_answer_is_unpickled(body, status):
    for method, args in (("ask", ["GET", "/"]), ("fetch", ["/"])):
        url, thread = answering(body, status)
        client = web_task_api.WebClient(url, "x")
        if method == "ask" and status == b"200 OK" and body.startswith(b"{"):
            assert client.ask(*args) == json.loads(body)
        else:
            with pytest.raises(OperandError if status == b"500 No" and body == NAMED else ProtocolError):
                getattr(client, method)(*args)
        thread.join()
    assert not hasattr(builtins, "bombs")


def test_s0_17_the_client_has_no_unpickler():
    text = Path(web_task_api.__file__).read_text()
    assert "pickle.load" not in text and "import pickle" not in text and "allow_pickle=True" not in text


def test_s0_17_hostile_bodies_are_refused_and_the_gateway_stays_well(api, gateway):
    """Mutations of a real document and raw noise: each answer is 201 or 4xx, and no job but those of 201 runs."""
    x = mt.random.default_rng(1).random((20, 20), chunk_size=10)
    good = json.dumps(document_of({"r": mt.sort(x + 1, axis=0).data}, lambda array: "a"))
    rng = random.Random(7)
    web = Web(gateway.url, gateway.header.read_text().split()[-1])
    path, statuses = f"/api/session/{api.session_id}/graph", []
    for number in range(300):
        body = bytearray(good.encode())
        if number % 3 == 0:
            body = bytearray(rng.randbytes(rng.randrange(1, 200)))
        elif number % 3 == 1:
            for _ in range(rng.randrange(1, 6)):
                body[rng.randrange(len(body))] = rng.randrange(256)
        else:
            body = bytearray(mutated(json.loads(good), rng).encode())
        answer = web.ask("POST", path, bytes(body), {"Content-Type": "application/json"})
        statuses.append(answer.code)
        assert answer.code == 201 or 400 <= answer.code < 500, (answer.code, bytes(body), answer.body)
    assert {400, 422} <= set(statuses)
    web.http.close()
    task = api.submit_tileable_graph(x.sum())
    assert api.wait_task(task).error is None


def mutated(document, rng):
    """One value somewhere in a document replaced by another kind of value."""
    places = []

    def walk(value):
        for key in value if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(document)
    holder, key = rng.choice(places)
    holder[key] = rng.choice(KINDS)
    return json.dumps(document)


KINDS = [
    None, -1, 10**30, "", "os.system", "/etc/passwd", [], {}, [[]], 0.5, True, {"bytes": "!"},
    {"function": "os:system"}, {"function": "numpy:load"}, {"new": "Node", "fields": {}},
]  # fmt: skip


def test_s0_17_results_of_old_tasks_are_let_go(api, monkeypatch):
    monkeypatch.setattr(web_task_api, "REMEMBERED_JOBS", 2)
    tasks = []
    for number in range(5):
        tasks.append(api.submit_tileable_graph(mt.ones(4) + number))
        assert api.wait_task(tasks[-1]).error is None
    assert [len(api.get_fetch_tileables(task)) for task in tasks] == [0, 0, 0, 1, 1]
    assert np.array_equal(api.get_fetch_tileables(tasks[4])[0].fetch(), np.full(4, 5.0))
