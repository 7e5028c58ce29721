"""Addresses and scheduler files of Dask that lead nowhere: an error at once, with the reason and what to do."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client

from jmars.engines.dask import DaskEngine
from jmars.engines.dask_connection import address_of, security_at, way_to
from jmars.errors import ClusterStartError
from tests.engines.dask_groups import Recorded


def refusal_of(given: Any) -> str:
    with pytest.raises(ClusterStartError) as caught:
        asyncio.run(DaskEngine(given).start(Recorded()))
    return str(caught.value)


@pytest.mark.parametrize("given", ["/nowhere/scheduler.json", Path("/nowhere/scheduler.json"), "myhost"])
def test_a_scheduler_file_that_is_missing_is_named_with_what_to_do(given):
    told = refusal_of(given)
    assert f"there is no scheduler file {given}" in told and f"--scheduler-file {given}" in told


@pytest.mark.parametrize(
    "text, reason",
    [("{", "line 1"), ("", "Expecting value"), ("[1]", 'no "address"'), ("{}", 'no "address"')]
    + [('{"address": 3}', 'no "address"'), ("\x00", "Expecting value")],
)
def test_a_file_that_is_no_scheduler_file_is_named_with_the_reason(tmp_path, text, reason):
    file = tmp_path / "scheduler.json"
    file.write_text(text)
    told = refusal_of(str(file))
    assert f"{file} cannot be read as a scheduler file" in told and reason in told and "give the file" in told


def test_a_folder_is_no_scheduler_file(tmp_path):
    assert "Is a directory" in refusal_of(tmp_path)


def test_a_file_that_the_scheduler_is_writing_is_read_again(tmp_path):
    file = tmp_path / "scheduler.json"
    file.write_text("{")

    async def run() -> str:
        reading = asyncio.ensure_future(address_of(str(file)))
        await asyncio.sleep(0)
        file.write_text('{"address": "tcp://10.0.0.7:8786"}')
        return await reading

    assert asyncio.run(run()) == "tcp://10.0.0.7:8786"


def test_the_file_of_a_scheduler_that_is_gone_is_named_with_its_address(tmp_path):
    file = tmp_path / "scheduler.json"
    file.write_text('{"address": "tcp://127.0.0.1:9"}')
    told = refusal_of(file)
    assert f"no Dask scheduler answers at tcp://127.0.0.1:9 (of {file})" in told and "Connect call failed" in told


@pytest.mark.parametrize(
    "given, reason",
    [
        ("tcp://127.0.0.1:9", "Connect call failed"),
        ("127.0.0.1:9", "Connect call failed"),
        ("tcp://[::1]:9", "Connect call failed|Cannot assign"),
        ("tcp://127.0.0.1", "has no port"),
        ("tcp://127.0.0.1:abc", "has no port"),
        ("tcp://127.0.0.1:99999", "port must be 0-65535"),
        ("gateway://hub:1", "unknown address scheme 'gateway'"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_at_once(monkeypatch, given, reason):
    monkeypatch.setattr("jmars.engines.dask_connection.CONNECT", 1e6)  # seconds
    told = refusal_of(given)
    assert given in told and any(one in told for one in reason.split("|"))


def test_a_server_that_never_greets_is_no_scheduler(monkeypatch):
    monkeypatch.setattr("jmars.engines.dask_connection.CONNECT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        told = refusal_of(f"tcp://127.0.0.1:{stranger.getsockname()[1]}")
    assert "does not answer as a Dask scheduler within" in told


def test_another_object_is_no_client():
    assert "a dict is no Dask client" in refusal_of({}) and "scheduler file" in refusal_of({})


def test_a_cluster_object_is_told_apart_from_its_client():
    told = refusal_of(SimpleNamespace(get_client=print))
    assert "a SimpleNamespace is a cluster of Dask; give its client: cluster.get_client()" in told


class _Gateway(Client):
    """A client as Dask Gateway gives it: connected through a proxy, with security of a class of its own."""

    status = "running"
    scheduler = SimpleNamespace(address="gateway://hub:8786/abc")
    security = SimpleNamespace()

    def __init__(self) -> None:
        pass

    __del__ = close = lambda self: None


def test_a_gateway_is_encrypted_and_runs_tasks_only():
    assert "encrypted and authenticated by TLS" in security_at("gateway://hub:8786/abc")
    with pytest.raises(ClusterStartError, match=r"behind a gateway.*use mode='tasks'"):
        way_to(_Gateway())
