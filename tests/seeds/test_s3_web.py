"""Seed 003, "作业提交", "执行控制" and "取消作业" through the Web service: states, results, callbacks, cancel."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jmars.client import Cluster
from jmars.model.status import OperandState
from tests.web.conftest import Web, call, listen, ref

LONG = call("linalg.svdvals", ref("x"))  # seconds on one chunk
NOISE = call("random.default_rng.standard_normal", size=[1800, 1800], seed=1, chunk_size=1800)
LARGE = {"x": call("ones", [400, 400], chunk_size=2), "y": call("add", ref("x"), 1), "z": call("sum", ref("y"))}


@pytest.fixture(scope="module")
def served():
    with Cluster(n_workers=2, memory_limit="512MiB") as cluster, cluster.serve() as gateway:
        yield cluster, gateway


@pytest.fixture
def cluster(served):
    return served[0]


@pytest.fixture
def web(served):
    made = Web(served[1].url, served[1].header.read_text().split()[-1])
    yield made
    made.http.close()


@pytest.fixture
def session(web):
    path = f"/api/session/{web.json('POST', '/api/session', {}, 201)['id']}"
    yield path
    web.ask("DELETE", path)


def submitted(web, session, nodes, *results):
    return (
        session
        + "/graph/"
        + web.json("POST", f"{session}/graph", {"nodes": nodes, "results": list(results)}, 201)["id"]
    )


def events(web, path, kind, since=0):
    """Events of a kind, read to the last in small parts."""
    found = []
    while True:
        answer = web.ask("GET", f"{path}/events?since={since}&limit=7")
        lines = answer.body.decode().splitlines()
        found += [one for one in map(json.loads, lines) if one["kind"] == kind]
        following = int(answer.headers["X-Jmars-Next"])
        if following == since:
            return found
        since = following


def own_events(web, path):
    """All events of a graph; those of the cluster, which lives on, left out."""
    return [line for line in web.ask("GET", f"{path}/events").body.decode().splitlines() if json.loads(line)["job"]]


def states(web, path):
    return [one["data"]["state"] for one in events(web, path, "JobMoved")]


@pytest.mark.long
def test_s3_5_each_state_is_seen(web, session):
    """By who polls, where it lasts until the next poll; in the events, each of them."""
    polled = []
    good = submitted(web, session, LARGE, "z")  # 40,000 chunks: its preparation takes a while
    while not polled or polled[-1] not in ("succeeded", "failed", "cancelled"):
        polled.append(web.json("GET", good)["state"])
    assert polled == sorted(polled, key=["preparing", "running", "succeeded"].index)
    bad = submitted(web, session, {"x": call("zeros", [3, 3]), "y": call("linalg.inv", ref("x"))}, "y")
    assert web.json("GET", f"{bad}?wait=60")["state"] == "failed"
    stopped = submitted(web, session, {"x": NOISE, "y": LONG}, "y")
    while web.json("GET", stopped)["counts"]["running"] == 0:
        pass
    assert web.json("DELETE", stopped, status=202)["state"] in ("cancelling", "cancelled")
    told = web.json("GET", f"{stopped}?wait=60")
    assert told["state"] == "cancelled" and told["error"]["error"] == "JobCancelledError"
    assert states(web, good) == ["preparing", "running", "succeeded"]
    assert states(web, bad)[0] == "preparing" and states(web, bad)[-1] == "failed"
    assert states(web, stopped) == ["preparing", "running", "cancelling", "cancelled"]


def test_s3_9_an_array_of_fifty_chunks_and_a_slice_that_moves_only_its_own(web, session):
    nodes = {"x": call("random.default_rng.random", size=[500, 100], seed=3, chunk_size=[10, 100])}
    path = submitted(web, session, nodes, "x")
    assert web.json("GET", f"{path}?wait=60")["state"] == "succeeded"
    whole = np.random.default_rng(3).random((500, 100))
    answer = web.ask("GET", f"{path}/result/x")
    assert answer.headers["X-Jmars-Chunks"] == "50 of 50"
    assert np.array_equal(np.load(io.BytesIO(answer.body), allow_pickle=False), whole)
    sent = metric(web, 'jmars_web_bytes_total{direction="out"}')
    answer = web.ask("GET", f"{path}/result/x?slice=95:205,10:20")
    assert answer.headers["X-Jmars-Chunks"] == "12 of 50"
    assert np.array_equal(np.load(io.BytesIO(answer.body), allow_pickle=False), whole[95:205, 10:20])
    assert metric(web, 'jmars_web_bytes_total{direction="out"}') - sent == 110 * 10 * 8


def metric(web, name):
    (line,) = [line for line in web.ask("GET", "/metrics").body.decode().splitlines() if line.startswith(f"{name} ")]
    return int(line.split()[-1])


@pytest.mark.long
def test_s3_9_results_that_lie_on_disk_are_fetched_too(tmp_path):
    with Cluster(n_workers=1, memory_limit="256MiB", spill_dir=tmp_path) as cluster, cluster.serve() as gateway:
        web = Web(gateway.url, gateway.header.read_text().split()[-1])
        session = f"/api/session/{web.json('POST', '/api/session', {}, 201)['id']}"
        sizes = {"size": [4000, 1000], "chunk_size": 500}  # 32 MB each
        nodes = {f"x{k}": call("random.default_rng.random", seed=k, **sizes) for k in range(8)}
        path = submitted(web, session, nodes, *nodes)
        assert web.json("GET", f"{path}?wait=60")["state"] == "succeeded"
        assert metric(web, "jmars_spilled_bytes") > 0
        for k in range(8):
            assert np.array_equal(
                web.array(f"{path}/result/x{k}?slice=::7"), np.random.default_rng(k).random((4000, 1000))[::7]
            )
        web.http.close()


def test_s3_11_who_listens_after_the_end_is_told_at_once(web, session, cluster):
    path = submitted(web, session, {"x": call("ones", [10])}, "x")
    assert web.json("GET", f"{path}?wait=60")["state"] == "succeeded"
    told = asyncio.run(listen(web, f"{path}/stream"))
    assert [one["data"]["state"] for one in told if one["kind"] == "JobMoved"] == ["preparing", "running", "succeeded"]
    half = told[len(told) // 2]["seq"]
    again = asyncio.run(listen(web, f"{path}/stream?since={half}"))  # as after a cut
    assert again[: len(told) - len(told) // 2 - 1] == told[len(told) // 2 + 1 :]
    assert not any(one["job"] for one in again[len(told) - len(told) // 2 - 1 :])  # of the cluster, which lives on
    called = []
    cluster.job(path.rsplit("/", 1)[1]).when_done(lambda job: called.append(job.state))
    assert called == ["succeeded"]


@pytest.mark.long
def test_s3_28_three_listeners_are_all_told(web, session):
    path = submitted(web, session, {"x": NOISE, "y": LONG}, "y")

    async def three():
        listening = [asyncio.ensure_future(listen(web, f"{path}/stream")) for _ in range(3)]
        await asyncio.sleep(0)
        return await asyncio.gather(*listening)

    first, second, third = ([one for one in told if one["job"]] for told in asyncio.run(three()))
    assert first == second == third
    assert [one["data"]["state"] for one in first if one["kind"] == "JobMoved"][-1] == "succeeded"
    assert [one["seq"] for one in first] == sorted({one["seq"] for one in first})


def test_s3_13_cancel_during_preparation_runs_no_operand(web, session):
    path = submitted(web, session, LARGE, "z")
    assert web.json("DELETE", path, status=202)["state"] in ("cancelling", "cancelled")
    assert web.json("GET", f"{path}?wait=60")["state"] == "cancelled"
    assert states(web, path) == ["preparing", "cancelling", "cancelled"]
    moved = [
        one for one in events(web, path, "OperandsMoved") if one["job"] and one["data"]["state"] == OperandState.RUNNING
    ]
    assert moved == []


def test_s3_13_cancel_of_what_has_ended_does_nothing(web, session):
    path = submitted(web, session, {"x": call("ones", [10])}, "x")
    assert web.json("GET", f"{path}?wait=60")["state"] == "succeeded"
    before = own_events(web, path)
    for _ in range(2):
        assert web.json("DELETE", path)["state"] == "succeeded"
    assert own_events(web, path) == before
    assert np.array_equal(web.array(f"{path}/result/x"), np.ones(10))


@pytest.mark.long
def test_s3_1_a_killed_web_service_hurts_no_run_and_comes_again():
    def opened(cluster):
        command = [sys.executable, "-m", "jmars", "web", "--cluster", cluster.name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        url, header = process.stdout.readline().strip(), process.stdout.readline().strip()
        return process, Web(url, Path(header).read_text().split()[-1])

    with Cluster(n_workers=2, memory_limit="512MiB", name="with-gateways") as cluster:
        process, web = opened(cluster)
        session = f"/api/session/{web.json('POST', '/api/session', {}, 201)['id']}"
        done = submitted(web, session, {"x": call("arange", 10)}, "x")
        assert web.json("GET", f"{done}?wait=60")["state"] == "succeeded"
        path = submitted(web, session, {"x": NOISE, "y": LONG, "z": call("arange", 5)}, "y", "z")
        pids = {worker["pid"] for worker in cluster.info()["workers"]}
        assert process.pid not in pids | {os.getpid(), cluster.info()["scheduler"]["pid"]}
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        process.stdout.close()
        web.http.close()
        assert cluster.job(path.rsplit("/", 1)[1]).wait(60)
        assert {worker["pid"] for worker in cluster.info()["workers"]} == pids

        process, web = opened(cluster)
        assert web.json("GET", session)["graphs"] == [done.rsplit("/", 1)[1], path.rsplit("/", 1)[1]]
        assert web.json("GET", path)["state"] == "succeeded"
        assert np.array_equal(web.array(f"{path}/result/z"), np.arange(5))
        assert np.array_equal(web.array(f"{done}/result/x"), np.arange(10))
        assert web.ask("DELETE", session).code == 204
        web.http.close()
    assert process.wait(60) == 0  # it ends with its cluster
    process.stdout.close()
