"""REST and websocket in a real Jupyter server, under a base URL and with a token."""

import asyncio
import http.cookiejar
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

import jmars.tensor as np
from jmars.client.cluster import Cluster
from jmars.deploy.memory import usable_cores
from jmars.errors import ClusterStoppedError
from jmars.model.status import OperandState as S
from jmars.notebook.replay import Replay
from jmars.remote import spawn
from jmars.reports.saved_run import SavedRun
from tests.notebook.events_for_tests import started
from tests.notebook.server.fake_cluster import TOKEN, FakeCluster
from tests.ports import unused_port

ROOT = Path(__file__).parents[3]
LOGIN = "login-token-of-jupyter"
BASE = "/user/ann/"


class Server(NamedTuple):
    """A running Jupyter server with our extension."""

    port: int
    log: Path
    clusters: Path  # its runtime folder of jmars


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for all tests here: it takes seconds to start."""
    folder = tmp_path_factory.mktemp("server")
    clusters = folder / "jmars"
    clusters.mkdir(mode=0o700)
    port = unused_port()
    settings = {"ServerApp": {"jpserver_extensions": {"jmars.notebook.server": True}, "base_url": BASE}}
    settings["ServerApp"] |= {"root_dir": str(folder), "port": port, "port_retries": 0, "open_browser": False}
    settings |= {"IdentityProvider": {"token": LOGIN}}
    (folder / "config.json").write_text(json.dumps(settings))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JMARS_RUNTIME_DIR": str(clusters)}
    environment |= {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    command = [sys.executable, "-m", "jupyter_server", f"--config={folder / 'config.json'}", "--allow-root"]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=folder)
        try:
            wait_for(process, port, log)
            yield Server(port, log, clusters)
        finally:
            process.terminate()
            process.wait(60)


def wait_for(process, port, log):
    """Until the server answers; its log when it ended."""
    while True:
        if process.poll() is not None:
            raise RuntimeError(log.read_text())
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{BASE}api?token={LOGIN}", timeout=60).close()
            return
        except urllib.error.URLError:
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue


def call(port, path, method="GET", **headers):
    """Status and JSON of a request; the login token goes in a header unless `Authorization` is given."""
    given = {"Authorization": f"token {LOGIN}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{BASE}jmars/{path}", method=method, headers=given)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def logged_in(port):
    """A browser that has logged in: what opens pages, and its cookies."""
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    for page in ("login", f"api/status?token={LOGIN}"):
        opener.open(f"http://127.0.0.1:{port}{BASE}{page}").close()
    assert len(jar) >= 2
    return opener, jar


async def connect(port, cluster, token=LOGIN, **headers):
    query = f"?token={token}" if token else ""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"ws://127.0.0.1:{port}{BASE}jmars/stream/{cluster}{query}"
    return await websocket_connect(HTTPRequest(url, headers=given, request_timeout=60))


def test_clusters_are_listed_without_their_secrets(server):
    with FakeCluster(server.clusters, started(4).events):
        status, rows = call(server.port, "clusters")
        assert status == 200
        assert rows == [
            {
                "id": "fake-1",
                "name": "local",
                "alive": True,
                "workers": 2,
                "hosts": 0,
                "kind": "local",
                "limit": 0,
                "bounds": None,
                "kernels": [],
                "others": 0,
                "cores": usable_cores(),
                "jobs": [
                    {
                        "id": "job-1",
                        "name": "cell 1",
                        "line": 0,
                        "state": "running",
                        "elapsed": 1.0,
                        "progress": 0.0,
                        "kernel": "",
                    }
                ],
            }
        ]
        assert TOKEN not in json.dumps(rows)
    assert call(server.port, "clusters") == (200, [])
    assert TOKEN not in server.log.read_text()
    assert LOGIN not in server.log.read_text().replace(f"?token={LOGIN}", "", 2)  # Jupyter prints its own address


def test_a_cluster_that_does_not_answer_is_listed_as_such(server):
    with FakeCluster(server.clusters, []) as cluster:
        kept = cluster.registry.read_text()
    path = server.clusters / "fake-1.json"
    path.touch(mode=0o600)
    path.write_text(kept)
    try:
        row = call(server.port, "clusters")[1][0]
        assert (row["alive"], row["workers"]) == (False, 0)
        assert "no cluster answers" in row["error"]
    finally:
        path.unlink()


def test_a_job_is_cancelled(server):
    with FakeCluster(server.clusters, started(4).events) as cluster:
        answer = call(server.port, "clusters/fake-1/jobs/job-1/cancel", "POST")
        assert answer == (202, {"cluster": "fake-1", "job": "job-1"})
        assert cluster.actor.cancelled == ["job-1"]
        assert call(server.port, "clusters/fake-1/jobs/job-9/cancel", "POST")[0] == 409
        assert call(server.port, "clusters/other/jobs/job-1/cancel", "POST")[0] == 404
        assert call(server.port, "clusters/fake-1/jobs/job-1/cancel", "GET")[0] == 405
    assert "Traceback" not in server.log.read_text()


def test_a_job_is_reported_on_a_page_that_reaches_no_cookie(server):
    opener, _ = logged_in(server.port)
    with FakeCluster(server.clusters, started(4).moved(S.FINISHED, range(5), 0).events):
        url = f"http://127.0.0.1:{server.port}{BASE}jmars/clusters/fake-1/jobs/job-1/report"
        with opener.open(url) as answer:
            page, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
        assert "<title>jmars: cell 1</title>" in page and "http-equiv" not in page
        assert policy.endswith("sandbox allow-scripts allow-downloads") and "frame-ancestors" in policy
        with urllib.request.urlopen(url) as answer:  # nobody gets in without a login
            assert (
                answer.geturl().startswith(f"http://127.0.0.1:{server.port}{BASE}login")
                and "cell 1" not in answer.read().decode()
            )
        assert call(server.port, "clusters/fake-1/jobs/job-1/report", Host="evil.example")[0] == 403
        assert call(server.port, "clusters/fake-1/jobs/job-9/report")[0] == 404
        assert call(server.port, "clusters/other/jobs/job-1/report")[0] == 404
    assert "Traceback" not in server.log.read_text()


def test_a_run_is_given_as_a_file_to_replay(server, tmp_path):
    opener, _ = logged_in(server.port)
    url = f"http://127.0.0.1:{server.port}{BASE}jmars/clusters/fake-1/jobs/job-1/replay"
    with FakeCluster(server.clusters, started(4).moved(S.FINISHED, range(5), 0).events):
        with opener.open(url) as answer:
            (tmp_path / "saved.run").write_bytes(answer.read())
        saved = SavedRun(tmp_path / "saved.run")
        shown = f"http://127.0.0.1:{server.port}{BASE}jmars/replay"
        headers = {"Authorization": f"token {LOGIN}"}
        ask = urllib.request.Request(shown, (tmp_path / "saved.run").read_bytes(), headers)
        with urllib.request.urlopen(ask) as answer:  # what a page shows of the file
            assert json.load(answer) == {"runs": [Replay(tmp_path / "saved.run").data]}
        large = b"jmars run 1\n" + bytes(2**25)
        for body, given, code in ((b"no run", headers, 409), (large, headers, 413), (ask.data, {}, 403)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(shown, body, given))
            assert refused.value.code == code
            told = {409: "the file holds no run", 413: "more than 32.0 MiB", 403: ""}[code]
            assert not told or told in json.load(refused.value)["message"]
            refused.value.close()
        assert (saved.job, saved.name) == ("job-1", "cell 1") and saved.record.jobs
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url)
        refused.value.close()
        assert refused.value.code == 403
        assert call(server.port, "clusters/fake-1/jobs/job-9/replay")[0] == 404
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize(("path", "method"), [("clusters", "GET"), ("clusters/fake-1/jobs/job-1/cancel", "POST")])
def test_nobody_gets_in_without_the_token(server, path, method):
    with FakeCluster(server.clusters, started(4).events) as cluster:
        assert call(server.port, path, method, Authorization="token wrong")[0] == 403
        assert call(server.port, path, method, Host="evil.example")[0] == 403
        assert cluster.actor.cancelled == []


def test_a_cookie_alone_cannot_cancel(server):
    """A page of another site makes the browser send the cookie, but cannot read it to send the XSRF header."""
    opener, jar = logged_in(server.port)
    with FakeCluster(server.clusters, started(4).events) as cluster:
        url = f"http://127.0.0.1:{server.port}{BASE}jmars/clusters/fake-1/jobs/job-1/cancel"
        with pytest.raises(urllib.error.HTTPError) as refused:
            opener.open(urllib.request.Request(url, method="POST", data=b""))
        refused.value.close()
        assert refused.value.code == 403
        xsrf = next(cookie.value for cookie in jar if cookie.name == "_xsrf")
        request = urllib.request.Request(url, method="POST", data=b"", headers={"X-XSRFToken": xsrf})
        with opener.open(request) as answer:
            assert answer.status == 202
        request.add_header("Origin", "http://evil.example")
        with pytest.raises(urllib.error.HTTPError) as refused:
            opener.open(request)
        refused.value.close()
        assert cluster.actor.cancelled == ["job-1"]


def test_the_stream_sends_the_picture_and_then_what_changes(server):
    log = started(4)

    async def listen():
        with FakeCluster(server.clusters, log.events):
            page = await connect(server.port, "fake-1")
            first = json.loads(await page.read_message())
            assert first["job"] == "job-1"
            assert first["picture"]["graph"]["n_after"] == 5
            log.moved(S.RUNNING, [0, 1], 1)
            while True:
                counts = json.loads(await page.read_message()).get("picture", {}).get("snap", {}).get("counts")
                if counts and counts[S.RUNNING] == 2:
                    break
            page.close()
            await page.read_message()

    asyncio.run(asyncio.wait_for(listen(), 60))


def test_a_real_cluster_is_listed_shown_and_its_job_ends_before_the_eyes(server, monkeypatch):
    monkeypatch.setenv("JMARS_RUNTIME_DIR", str(server.clusters))
    with Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        job = cluster.submit((np.arange(100.0, chunk_size=10) + 1).sum(), name="a sum")
        job.wait(30)
        row = call(server.port, "clusters")[1][0]
        assert (row["id"], row["name"], row["alive"], row["workers"]) == (cluster.id, cluster.name, True, 1)
        assert [(job["name"], job["state"]) for job in row["jobs"]] == [("a sum", "succeeded")]

        async def listen():
            page = await connect(server.port, cluster.id)
            frame = json.loads(await page.read_message())
            page.close()
            await page.read_message()
            return frame

        frame = asyncio.run(asyncio.wait_for(listen(), 60))
        assert frame["job"] == job.id
        assert frame["picture"]["snap"]["state"] == "succeeded"
        counts = frame["picture"]["snap"]["counts"]
        assert sum(counts) == frame["picture"]["graph"]["n_after"] == counts[S.FINISHED] + counts[S.FREED]
        assert call(server.port, f"clusters/{cluster.id}/jobs/{job.id}/cancel", "POST")[0] == 202  # has no effect
        assert job.state == "succeeded"
    assert call(server.port, "clusters") == (200, [])


def test_the_view_of_a_job_ends_with_its_cluster(server, monkeypatch):
    monkeypatch.setenv("JMARS_RUNTIME_DIR", str(server.clusters))
    with Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        job = cluster.submit(spawn(time.sleep, args=(60,)), name="long")

        async def listen():
            page = await connect(server.port, cluster.id)
            frame = json.loads(await page.read_message())
            assert frame["picture"]["snap"]["state"] in ("preparing", "running")
            stopped = asyncio.to_thread(call, server.port, f"clusters/{cluster.id}", "DELETE")
            assert (await stopped)[0] == 204
            while (message := await page.read_message()) is not None:
                frame = json.loads(message)
            assert page.close_code == 4404
            page.close()
            return frame["picture"]["snap"]

        snap = asyncio.run(asyncio.wait_for(listen(), 60))
        told = "the cluster was stopped from the side bar of Jupyter"
        assert (snap["state"], snap["error"], snap["live"]) == ("cancelled", told, False)
        with pytest.raises(ClusterStoppedError, match="was stopped from the side bar of Jupyter before the job ended"):
            job.result(60)


def test_the_stream_of_no_cluster_says_so_and_is_not_to_be_opened_again(server):
    async def listen():
        page = await connect(server.port, "nothing")
        assert await page.read_message() is None
        assert page.close_code == 4404
        page.close()

    asyncio.run(asyncio.wait_for(listen(), 60))


def test_the_stream_is_refused_before_the_upgrade(server):
    async def refused(**headers):
        with pytest.raises(HTTPClientError) as error:
            await connect(server.port, "fake-1", **headers)
        return error.value.code

    async def listen():
        assert await refused(token="") == 403
        assert await refused(token="wrong") == 403
        assert await refused(token="", Origin="http://evil.example") == 403

    asyncio.run(asyncio.wait_for(listen(), 60))


def test_a_page_of_another_site_cannot_listen_with_the_cookie(server):
    _, jar = logged_in(server.port)
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)

    async def listen():
        page = await connect(server.port, "nothing", token="", Cookie=cookies)
        assert await page.read_message() is None  # it was let in, and told that there is no such cluster
        page.close()
        with pytest.raises(HTTPClientError) as error:
            await connect(server.port, "nothing", token="", Cookie=cookies, Origin="http://evil.example")
        assert error.value.code == 403

    asyncio.run(asyncio.wait_for(listen(), 60))
