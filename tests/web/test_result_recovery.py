"""A result whose chunks are lost, by damaged spill files, is computed again; where that cannot be, it says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jmars.client import Cluster
from tests.web.conftest import Web, call, npy, ref

DRAWS = {"size": [4000, 1000], "chunk_size": 500}  # 32 MB each
MANY = 8


class Damaged:
    """A gateway of a cluster with little memory, whose spill files are cut short when that is asked for."""

    def __init__(self, web: Web, spill: Path) -> None:
        self.web, self._spill = web, spill
        self.session = f"/api/session/{web.json('POST', '/api/session', {}, 201)['id']}"

    def graph(self, nodes: dict[str, Any], *results: str) -> str:
        """Run it; returns its path."""
        document = {"nodes": nodes, "results": list(results or nodes)}
        return f"{self.session}/graph/{self.web.json('POST', f'{self.session}/graph', document, 201)['id']}"

    def ended(self, graph: str) -> Any:
        return self.web.json("GET", f"{graph}?wait=60")

    def damage(self) -> None:
        """Nothing that was spilled can be read back."""
        files = [file for file in self._spill.rglob("*") if file.is_file()]
        assert files
        for file in files:
            with file.open("r+b") as opened:
                opened.truncate(100)


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Damaged]:
    with Cluster(n_workers=1, memory_limit="256MiB", spill_dir=tmp_path) as cluster, cluster.serve() as gateway:
        web = Web(gateway.url, gateway.header.read_text().split()[-1])
        yield Damaged(web, tmp_path)
        web.http.close()


@pytest.mark.long
def test_results_that_lie_in_damaged_files_are_computed_again(damaged: Damaged) -> None:
    nodes = {f"x{k}": call("random.default_rng.random", seed=k, **DRAWS) for k in range(MANY)}
    graph = damaged.graph(nodes)
    assert damaged.ended(graph)["state"] == "succeeded"
    read = {"y": call("multiply", {"array": f"{graph.rpartition('/')[2]}/x0"}, 2.0)}
    second = damaged.graph(read)  # its result was made from one that will be lost with it, or not
    assert damaged.ended(second)["state"] == "succeeded"
    damaged.damage()
    for k in reversed(range(MANY)):
        expected = np.random.default_rng(k).random((4000, 1000))
        assert np.array_equal(damaged.web.array(f"{graph}/result/x{k}"), expected)
    assert np.array_equal(damaged.web.array(f"{second}/result/y"), 2 * np.random.default_rng(0).random((4000, 1000)))


@pytest.mark.long
def test_what_has_no_seed_is_gone_with_the_reason_and_never_another_array(damaged: Damaged) -> None:
    graph = damaged.graph({f"x{k}": call("random.default_rng.random", **DRAWS) for k in range(MANY)})
    assert damaged.ended(graph)["state"] == "succeeded"
    damaged.damage()
    answers = [damaged.web.ask("GET", f"{graph}/result/x{k}") for k in range(MANY)]
    assert {answer.code for answer in answers} == {200, 410}
    gone = next(k for k in range(MANY) if answers[k].code == 410)
    told = damaged.web.problem("GET", f"{graph}/result/x{gone}", status=410)
    assert told["error"] == "ChunkLostError" and "has no seed" in told["message"] and told["hint"]


def test_what_was_made_of_an_array_that_was_deleted_is_gone(damaged: Damaged) -> None:
    array = np.arange(4_000_000.0).reshape(4000, 1000)
    damaged.web.json("PUT", f"{damaged.session}/array/a", npy(array), 201)
    graph = damaged.graph({"y": call("add", {"array": "a"}, 1.0)})
    assert damaged.ended(graph)["state"] == "succeeded"
    damaged.web.ask("DELETE", f"{damaged.session}/array/a")
    damaged.web.json("PUT", f"{damaged.session}/array/a", npy(array + 5), 201)  # another one of that name
    fill = {f"x{k}": call("random.default_rng.random", seed=k, **DRAWS) for k in range(MANY)}
    assert damaged.ended(damaged.graph({**fill, "s": call("sum", ref("x0"))}))["state"] == "succeeded"
    damaged.damage()
    answer = damaged.web.problem("GET", f"{graph}/result/y", status=410)
    assert "cannot be built once more" in answer["message"]
