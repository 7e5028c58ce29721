"""ClientHost: executors that cannot start are an error with the reason."""

import asyncio
from types import SimpleNamespace

import pytest

from jmars.deploy import host_machine
from jmars.deploy.head import ClientHost
from jmars.deploy.host_machine import executors_ready
from jmars.errors import ClusterStartError


def host(forked, **besides):
    children = SimpleNamespace(pids=lambda: dict.fromkeys(range(forked), 1), trouble="fork: out of processes")

    async def ready():
        await executors_ready(children, lambda: len(children.pids()) == 2)
        return {"workers": 2}

    return SimpleNamespace(ready=ready, look_at_lease=lambda: None, **besides)


def test_executors_that_cannot_be_forked_are_an_error_with_the_reason(monkeypatch):
    monkeypatch.setattr(host_machine, "EXECUTORS_SECONDS", 0.01)
    with pytest.raises(ClusterStartError, match="out of processes"):
        asyncio.run(ClientHost(host(1), SimpleNamespace(is_kernel=False)).ready())


def test_a_question_whether_it_is_ready_counts_as_a_client():
    client = SimpleNamespace(is_kernel=False)
    told = asyncio.run(ClientHost(host(2), client).ready())
    assert client.is_kernel
    assert told == {"workers": 2}
