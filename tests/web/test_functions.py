"""Users' functions over HTTP: only to a gateway that was started to take them, and only with its token."""

from __future__ import annotations

import json
import pickle
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster, WebTaskAPI
from jmars.client.cluster import WebGateway
from jmars.errors import AuthenticationError, UnsupportedError
from jmars.web.operand_document import document_of, encode, graph_of
from tests.web.conftest import Web


class Touches:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def holding(value: Any) -> dict[str, Any]:
    """A document with a pickle of a value."""
    row = {"op": "pickle", "name": "mine", "why": "a test", "pickle": b64encode(pickle.dumps(value)).decode()}
    row |= {"inputs": [], "dtype": encode(np.dtype("f8")), "chunks": [[3]]}
    return {"operands": [row], "results": {"r": 0}}


@pytest.fixture(scope="module")
def taking() -> Iterator[WebGateway]:
    """A gateway that takes functions."""
    with Cluster(n_workers=1, memory_limit="256MiB") as cluster, cluster.serve(allow_functions=True) as gateway:
        yield gateway


def of_users(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Tensors of functions and files, and their values."""
    x, a = mt.arange(40, chunk_size=10), np.arange(40)
    np.save(folder / "a.npy", a)
    return {
        "map_blocks": (x.map_blocks(lambda block: block * 2), a * 2),
        "a length that the run tells": (x[x > 20].map_blocks(lambda block: block + 1, dtype=int), a[21:] + 1),
        "vectorize": (mt.vectorize(lambda one: one + 1)(x), a + 1),
        "from_blocks": (mt.from_blocks(lambda box: np.ones(3), (3,), "f8", name="mine"), np.ones(3)),
        "a file": (mt.load(folder / "a.npy") - 1, a - 1),
        "cond": (mt.cond(x.sum() > 3, lambda: x + 1, lambda: x - 1), a + 1),
    }


def test_without_the_switch_functions_are_refused_and_nothing_is_unpickled(
    gateway: WebGateway, web: Web, session: str, tmp_path: Path
) -> None:
    with WebTaskAPI(None, gateway.url, token=gateway.header) as api:
        for tensor, _ in of_users(tmp_path).values():
            with pytest.raises(UnsupportedError, match=r"in line \d+ .* to take none") as found:
                api.submit_tileable_graph([tensor + 1])
            assert "allow_functions=True" in str(found.value)
    told = web.problem("POST", f"{session}/graph", holding(Touches(tmp_path / "ran")), 422)
    assert told["error"] == "UnsupportedError" and "--allow-functions" in told["hint"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.seed("S0.17")
def test_with_the_switch_functions_run(taking: WebGateway, tmp_path: Path) -> None:
    with WebTaskAPI(None, taking.url, token=taking.header) as api:
        for name, (tensor, expected) in of_users(tmp_path).items():
            task = api.submit_tileable_graph([tensor])
            assert api.wait_task(task, 60).error is None, name
            (found,) = (one.fetch() for one in api.get_fetch_tileables(task))
            np.testing.assert_array_equal(found, expected, err_msg=name)


def test_with_the_switch_a_token_is_needed_still(taking: WebGateway, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError):
        WebTaskAPI(None, taking.url, token="wrong")
    web = Web(taking.url, taking.header.read_text().split()[-1])
    path = f"/api/session/{web.json('POST', '/api/session', {}, 201)['id']}/graph"
    document = holding(Touches(tmp_path / "ran"))
    for header in (None, "Bearer wrong"):
        web.problem("POST", path, document, 401, headers={"Authorization": header})
    assert not (tmp_path / "ran").exists()
    told = web.problem("POST", path, document, 422)
    web.http.close()
    assert (tmp_path / "ran").exists(), "what the switch means: any code of whoever has the token"
    assert "holds no operand" in told["message"]


@pytest.mark.parametrize("text", ["AAAA", "é", "", b64encode(pickle.dumps(1)).decode()])
def test_other_pickles_are_an_error_of_the_document(text: str) -> None:
    document = holding(1)
    document["operands"][0]["pickle"] = text
    with pytest.raises(ValueError, match=r"operand 0 .*pickle"):
        graph_of(document, allow_functions=True)


def test_an_operand_of_other_inputs_is_refused() -> None:
    x = mt.arange(4, chunk_size=2).map_blocks(lambda block: block)
    document = json.loads(json.dumps(document_of({"r": x.data}, lambda array: "a", True)))
    assert graph_of(document, allow_functions=True)["r"].op.function == "<lambda>"
    document["operands"][1]["inputs"] = [0, 0]
    with pytest.raises(ValueError, match="no operand of these inputs"):
        graph_of(document, allow_functions=True)
