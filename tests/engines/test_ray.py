"""RayEngine on a real Ray of one node, in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("ray", reason="ray is not installed")

import ray
from ray._private.utils import check_version_info

from jmars.engines.ray_cluster import RayConnection, nodes_of
from jmars.errors import ClusterStartError
from tests.engines.ray_child import NAMES

SECONDS = 300  # for all cases; some 30 on an idle machine
pytestmark = pytest.mark.timeout(SECONDS + 20)


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, str]]:
    """The error of each case, "" for none."""
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # short: Ray's sockets lie in it
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engines.ray_child"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"JMARS_CHILD_FOLDER": folder, "HOME": folder, "RAY_USAGE_STATS_ENABLED": "0"},
    )
    try:
        out, errors = process.communicate(timeout=SECONDS)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        yield {line["case"]: line["error"] for line in lines} | {"": errors}
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # as it should be
            pass
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long(beyond=2)
@pytest.mark.parametrize("name", NAMES)
def test_case(name, answers):
    assert name in answers, answers[""]
    assert not answers[name], answers[name]


def test_nodes_of_one_machine_have_names_of_their_own():
    nodes = [
        {"NodeID": key * 8, "Alive": key != "c", "NodeManagerAddress": "10.0.0.7", "Resources": {"CPU": cpus}}
        for key, cpus in [("a", 4.0), ("b", 2.0), ("c", 2.0), ("d", 0.0)]
    ]
    assert [(one.name, one.cores) for one in nodes_of(nodes).values()] == [("node-10.0.0.7", 4), ("node-bbbbbb", 2)]


def refusal_of(address: str) -> str:
    with pytest.raises(ClusterStartError) as caught:
        RayConnection.open(address, {})
    return str(caught.value)


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize("place, reason", [("127.0.0.1:9", "refused"), ("head", "no port"), ("head:x", "no port")])
def test_an_address_that_leads_nowhere_is_refused_at_once(monkeypatch, scheme, place, reason):
    monkeypatch.setattr("jmars.engines.ray_cluster.CONNECT", 1e6)  # seconds
    told = refusal_of(scheme + place)
    assert f"no Ray answers at {scheme}{place} (" in told and reason in told and "look whether Ray runs" in told


@pytest.mark.parametrize(
    "says, reason", [(b"HTTP/1.1 505 no\r\n", "does not speak gRPC"), (b"", "has not greeted within")]
)
def test_a_strangers_server_is_no_ray(monkeypatch, says, reason):
    monkeypatch.setattr("jmars.engines.ray_cluster.CONNECT", 0.5)

    def answer() -> None:
        with server.accept()[0] as connection:
            connection.sendall(says)
            done.wait(60)

    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        stranger = threading.Thread(target=answer)
        stranger.start()
        told = refusal_of(f"127.0.0.1:{server.getsockname()[1]}")
        done.set()
        stranger.join()
    assert reason in told and "is no Ray" in told


def test_a_ray_of_another_version_is_named_with_both_versions(monkeypatch):
    def init(*_: object, **__: object) -> None:
        check_version_info({"ray_version": "2.9.0", "python_version": "3.9.1"}, "node here")

    monkeypatch.setattr("jmars.engines.ray_cluster._greet", lambda address: None)
    monkeypatch.setattr("jmars.engines.ray_cluster._ask", lambda address, is_found: None)
    monkeypatch.setattr("ray.init", init)
    told = refusal_of("head:6379")
    assert "the Ray at head:6379 has another version than this process" in told
    assert "2.9.0" in told and ray.__version__ in told and "use the same versions" in told


def test_a_ray_with_another_token_is_refused_at_once_with_the_reason(monkeypatch):
    def refuse(address: str) -> None:
        raise ray.exceptions.AuthenticationError("the token is incorrect. Ensure that the token is right")

    monkeypatch.setattr("jmars.engines.ray_cluster._greet", lambda address: None)
    monkeypatch.setattr("ray._raylet.GcsClient", refuse)
    monkeypatch.setattr("ray.init", None)
    told = refusal_of("head:6379")
    assert "the Ray at head:6379 refuses the token of this process" in told and "RAY_AUTH_TOKEN_PATH" in told
    assert "the token is incorrect" in told and "Ensure" not in told


def test_a_ray_client_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("jmars.engines.ray_cluster._greet", lambda address: None)
    if importlib.util.find_spec("grpc") is not None:
        pytest.skip("the Ray client is installed")
    assert "pip install 'ray[client]'" in refusal_of("ray://head:10001")
