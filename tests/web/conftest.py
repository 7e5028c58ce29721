"""Gateways for tests: one that serves a cluster, and the engine that a gateway has in its own process."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tornado.httpclient import HTTPClient, HTTPRequest, HTTPResponse
from tornado.websocket import websocket_connect

from jmars.client import Cluster
from jmars.client.cluster import WebGateway
from jmars.tensor.engine import current_engine, set_engine
from jmars.web.server import BuildingEngine


@pytest.fixture
def building() -> Iterator[None]:
    """Documents can be built in this process."""
    before = current_engine()
    set_engine(BuildingEngine(2**30, 2))
    yield
    set_engine(before)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Cluster, WebGateway]]:
    with Cluster(n_workers=2, memory_limit="512MiB") as cluster, cluster.serve() as gateway:
        yield cluster, gateway


@pytest.fixture
def cluster(served: tuple[Cluster, WebGateway]) -> Cluster:
    return served[0]


@pytest.fixture
def gateway(served: tuple[Cluster, WebGateway]) -> WebGateway:
    return served[1]


@dataclass
class Web:
    """A program that has no jmars: it knows a URL and a header."""

    url: str
    token: str
    http: HTTPClient = field(default_factory=HTTPClient)

    def ask(self, method: str, path: str, body: Any = None, headers: Any = None, timeout: float = 60) -> HTTPResponse:
        """An answer, whatever its status; a dict is sent as JSON."""
        told = {"Authorization": f"Bearer {self.token}"} | (headers or {})
        if isinstance(body, dict | list):
            body, told = json.dumps(body), {"Content-Type": "application/json"} | told
        told = {name: text for name, text in told.items() if text is not None}
        request = HTTPRequest(
            self.url + path, method, told, body, allow_nonstandard_methods=True, request_timeout=timeout
        )
        return self.http.fetch(request, raise_error=False)

    def json(self, method: str, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        """The JSON of an answer with this status."""
        answer = self.ask(method, path, body, **more)
        assert answer.code == status, (method, path, answer.code, answer.body[:500])
        return json.loads(answer.body) if answer.body else None

    def problem(self, method: str, path: str, body: Any = None, status: int = 400, **more: Any) -> dict[str, Any]:
        """A refusal, whose form is checked."""
        told = self.json(method, path, body, status, **more)
        assert set(told) == {"error", "message", "hint", "line"} and told["message"], told
        return told

    def array(self, path: str) -> np.ndarray[Any, Any]:
        answer = self.ask("GET", path)
        assert answer.code == 200, answer.body[:500]
        return np.load(io.BytesIO(answer.body), allow_pickle=False)


@pytest.fixture
def web(gateway: WebGateway) -> Iterator[Web]:
    made = Web(gateway.url, gateway.header.read_text().split()[-1])
    yield made
    made.http.close()


@pytest.fixture
def session(web: Web) -> Iterator[str]:
    """The path of a session of this test."""
    found = web.json("POST", "/api/session", {}, 201)
    yield f"/api/session/{found['id']}"
    web.ask("DELETE", f"/api/session/{found['id']}")


def npy(array: Any) -> bytes:
    """An array as a .npy file."""
    file = io.BytesIO()
    np.save(file, np.asanyarray(array), allow_pickle=False)
    return file.getvalue()


def call(name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """A node."""
    return {"call": name, "args": list(args), "kwargs": kwargs}


def ref(name: str) -> dict[str, str]:
    """What another node gave."""
    return {"ref": name}


async def listen(web: Web, path: str) -> list[dict[str, Any]]:
    """All that a websocket tells, to its end."""
    request = HTTPRequest(web.url.replace("http", "ws") + path, headers={"Authorization": f"Bearer {web.token}"})
    socket = await websocket_connect(request)
    told = []
    while (message := await socket.read_message()) is not None:
        told.append(json.loads(message))
    socket.close()
    assert socket.close_code == 1000, (socket.close_code, socket.close_reason)
    return told
