"""A gateway beside a detached cluster: the scheduler may die and another one go on; the gateway need not know."""

from __future__ import annotations

import os
import signal

import numpy as np

from jmars.client import Cluster
from tests.web.conftest import Web, call


def test_a_scheduler_that_is_killed_is_not_noticed_over_http():
    cluster = Cluster(n_workers=2, memory_limit="512MiB", detach=True, lease=120)
    try:
        with cluster.serve() as gateway:
            web = Web(gateway.url, gateway.header.read_text().split()[-1])
            session = f"/api/session/{web.json('POST', '/api/session', {}, 201)['id']}"
            nodes = {"x": call("random.default_rng.random", size=[300, 300], seed=1, chunk_size=100)}
            graph = web.json("POST", f"{session}/graph", {"nodes": nodes, "results": ["x"]}, 201)["id"]
            assert web.json("GET", f"{session}/graph/{graph}?wait=60")["state"] == "succeeded"
            before = web.ask("GET", f"{session}/graph/{graph}/events")
            os.kill(cluster.info()["scheduler"]["pid"], signal.SIGKILL)
            found = web.array(f"{session}/graph/{graph}/result/x?slice=::7")
            assert np.array_equal(found, np.random.default_rng(1).random((300, 300))[::7])
            nodes = {"y": call("sum", {"array": f"{graph}/x"})}
            second = web.json("POST", f"{session}/graph", {"nodes": nodes, "results": ["y"]}, 201)["id"]
            assert web.json("GET", f"{session}/graph/{second}?wait=60")["state"] == "succeeded"
            after = web.ask("GET", f"{session}/graph/{second}/events?since={before.headers['X-Jmars-Next']}")
            assert b'"succeeded"' in after.body
            web.http.close()
    finally:
        cluster.stop()
