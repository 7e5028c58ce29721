"""A result whose chunks are lost, by a damaged spill file, is gone with the reason, and never a wrong array."""

from __future__ import annotations

import numpy as np

from jmars.client import Cluster
from tests.web.conftest import Web, call


def test_a_result_that_lies_in_a_damaged_file_is_gone_and_the_others_are_there(tmp_path):
    with Cluster(n_workers=1, memory_limit="256MiB", spill_dir=tmp_path) as cluster, cluster.serve() as door:
        web = Web(door.url, door.header.read_text().split()[-1])
        session = f"/api/session/{web.json('POST', '/api/session', {}, 201)['id']}"
        draws = {"size": [4000, 1000], "chunk_size": 500}  # 32 MB each
        nodes = {f"x{k}": call("random.default_rng.random", seed=k, **draws) for k in range(8)}
        graph = web.json("POST", f"{session}/graph", {"nodes": nodes, "results": list(nodes)}, 201)["id"]
        assert web.json("GET", f"{session}/graph/{graph}?wait=60")["state"] == "succeeded"
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        assert files
        for file in files:
            with file.open("r+b") as opened:
                opened.truncate(100)
        lost = []
        for k in range(8):
            answer = web.ask("GET", f"{session}/graph/{graph}/result/x{k}")
            if answer.code == 200:
                assert answer.body[-32_000_000:] == np.random.default_rng(k).random((4000, 1000)).tobytes()
            else:
                told = web.problem("GET", f"{session}/graph/{graph}/result/x{k}", status=410)
                assert told["error"] == "ChunkLostError" and told["hint"]
                lost.append(k)
        assert lost and len(lost) < 8
        nodes = {"y": call("sum", {"array": f"{graph}/x{lost[0]}"})}
        second = web.json("POST", f"{session}/graph", {"nodes": nodes, "results": ["y"]}, 201)["id"]
        told = web.json("GET", f"{session}/graph/{second}?wait=60")
        assert told["state"] == "failed" and told["error"]["error"] == "ChunkLostError" and told["error"]["hint"]
        web.http.close()
