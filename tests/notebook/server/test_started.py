"""Clusters that a page starts, scales and stops, in a real Jupyter server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from jmars.actors import registry
from jmars.client.cluster import connect
from jmars.notebook.server.orders import StartedClusters
from tests.fault.harness import until
from tests.notebook.server.fake_cluster import FakeCluster
from tests.notebook.server.test_handlers import BASE, LOGIN, call, server  # noqa: F401  (a fixture)


def ask(port, path, method, body=None, **headers):
    """Status and answer of a request with a JSON body."""
    given = {"Authorization": f"token {LOGIN}"} | headers
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{BASE}jmars/{path}", data, given, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_cluster_is_started_used_and_stopped(server, monkeypatch, request):  # noqa: F811
    monkeypatch.setenv("JMARS_RUNTIME_DIR", str(server.clusters))
    order = {"kind": "local", "workers": 1, "memory": "256MiB", "name": "from-a-page"}
    status, told = ask(server.port, "clusters", "POST", order)
    assert status == 201 and told["name"] == "from-a-page"
    request.addfinalizer(lambda: ask(server.port, f"clusters/{told['id']}", "DELETE"))  # also where this test fails
    with connect("from-a-page") as mine:
        assert mine.n_workers == 1
        row = call(server.port, "clusters")[1][0]
        assert (row["id"], row["kind"], row["limit"], row["others"]) == (told["id"], "local", 256 * 2**20, 1)
        again = ask(server.port, "clusters", "POST", order)
        assert again[0] == 409 and "runs here already" in again[1]
        scale = f"clusters/{told['id']}/scale"
        assert ask(server.port, scale, "POST", {"n": 3})[0] == 202
        until(lambda: mine.n_workers == 3, 60, "the other program does not hear of the new workers")
        assert call(server.port, "clusters")[1][0]["workers"] == 3
        refused = ask(server.port, scale, "POST", {"least": 1, "most": 3})
        assert refused[0] == 409 and "can follow the work" in refused[1]
    assert ask(server.port, f"clusters/{told['id']}", "DELETE")[0] == 204
    assert registry.entries() == []
    assert ask(server.port, f"clusters/{told['id']}", "DELETE")[0] == 404


def test_a_cluster_that_does_not_come_up_says_why(server):  # noqa: F811
    status, told = ask(server.port, "clusters", "POST", {"kind": "local", "memory": "1MiB"})
    assert status == 409 and "1.0 MiB" in told
    for body in ({"kind": "ssh", "hosts": ["-x"]}, {"kind": "local", "workers": -1}, {}):
        assert ask(server.port, "clusters", "POST", body)[0] == 400
    assert call(server.port, "clusters") == (200, [])


@pytest.mark.parametrize(
    ("path", "method"), [("clusters", "POST"), ("clusters/fake-1", "DELETE"), ("clusters/fake-1/scale", "POST")]
)
def test_nobody_starts_or_stops_a_cluster_without_the_token(server, path, method):  # noqa: F811
    with FakeCluster(server.clusters, []):
        for header in ({"Authorization": "token wrong"}, {"Host": "evil.example"}):
            assert ask(server.port, path, method, {"kind": "local", "n": 1}, **header)[0] == 403
        assert len(call(server.port, "clusters")[1]) == 1


def test_the_cluster_ends_with_the_process_that_holds_its_pipe(tmp_path, monkeypatch):
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("JMARS_RUNTIME_DIR", str(runtime))
    command = [sys.executable, "-P", "-m", "jmars.notebook.server.cluster_process"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdin=-1, stdout=-1, env=environment, text=True, start_new_session=True) as process:
        process.stdin.write('{"kind": "local", "workers": 1, "memory": "256MiB"}\n')
        process.stdin.flush()
        told = json.loads(process.stdout.readline())
        assert [entry.id for entry in registry.entries()] == [told["id"]]
        process.send_signal(signal.SIGSTOP)  # it takes part in nothing that its cluster does
        process.send_signal(signal.SIGCONT)
        process.stdin.close()
        assert process.wait(60) == 0
    assert registry.entries() == []


def test_two_pages_may_list_clusters_while_some_are_ended():
    """Each list ends what others have ended; two lists at a time end each cluster once."""

    async def both() -> list[str]:
        started = StartedClusters()
        for name in ("one", "two"):
            pipe = asyncio.subprocess.PIPE
            started._processes[name] = await asyncio.create_subprocess_exec("cat", stdin=pipe, stdout=pipe)
        await asyncio.gather(started.forget([]), started.forget([]), started.stop("two"), started.close())
        return list(started._processes)

    assert asyncio.run(both()) == []
