"""A guest: a host that a worker of an engine starts. The worker is this process, and the head is real."""

from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from jmars.deploy.control_process import ended_within, process_settings
from jmars.deploy.inside_head import InsideLauncher
from jmars.deploy.launch import Launched
from jmars.deploy.tickets import Ticket
from jmars.errors import ClusterStartError
from tests.deploy.guests_here import WHO, Here, head


async def started(berth: Here, authority: Any, ticket: Ticket) -> Launched:
    """The host of a ticket, in a worker."""
    return await InsideLauncher(berth, authority, WHO).start(ticket.line(), ticket.name, process_settings(1))


async def all_ended(pids: list[int]) -> bool:
    return await asyncio.to_thread(lambda: all(ended_within(pid, 60) for pid in pids))


def test_a_guest_joins_and_no_key_crosses_the_engines_wire() -> None:
    async def story() -> bytes:
        berth = Here()
        async with head() as (roster, authority, ticket):
            host = await started(berth, authority, ticket)
            info = await roster.links[1].channel.ask("member", "info")
            assert [info["pid"], info["janitor"]["pid"]] == host.pids
            assert await host.is_alive() == dict.fromkeys(host.pids, "running")
            roster.tell_all("member", "end", "the test is over")
            assert await host.end(5.0) and await all_ended(host.pids)
        return berth.wire

    wire = asyncio.run(story())
    assert b"BEGIN CERTIFICATE REQUEST" in wire and b"PRIVATE KEY" not in wire and b"'secret'" not in wire


def test_a_certificate_for_another_key_is_no_use_and_the_reason_is_told() -> None:
    async def story() -> None:
        async with head() as (_, authority, ticket):
            other = authority.issue("host-1").certificate
            signs = SimpleNamespace(cluster="5f3a9c01", sign=lambda request, identity: other)
            with pytest.raises(ClusterStartError, match=r"host-1 \(this process\) did not start.*are no pair"):
                await started(Here(), signs, ticket)

    asyncio.run(story())


def test_a_worker_that_is_gone_is_a_clear_error() -> None:
    async def story() -> None:
        async with head() as (_, authority, ticket):
            with pytest.raises(ClusterStartError, match=r"host-1 \(this process\) did not start: the worker is gone"):
                await started(Here(gone=True), authority, ticket)

    asyncio.run(story())


WORKER = """
import sys
from jmars.engines import guests
said = guests.begin("guest", sys.stdin.buffer.readline(), {}, 30.0)
sys.stdout.buffer.write(said)
sys.stdout.buffer.flush()
guests.certify("guest", sys.stdin.buffer.readline(), 30.0)
print("up", flush=True)
guests.wait_end("guest")
"""


def test_a_guest_ends_with_the_process_that_started_it() -> None:
    async def story() -> None:
        async with head() as (roster, authority, ticket):
            pipe = asyncio.subprocess.PIPE
            worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, stdin=pipe, stdout=pipe)
            assert worker.stdin is not None and worker.stdout is not None
            worker.stdin.write(ticket.line())
            while not (line := await worker.stdout.readline()).startswith(b'{"request"'):
                assert line
            certificate = authority.sign(json.loads(line)["request"].encode(), WHO).decode()
            worker.stdin.write(json.dumps({"certificate": certificate}).encode() + b"\n")
            assert await worker.stdout.readline() == b"up\n"
            info = await roster.links[1].channel.ask("member", "info")
            worker.kill()
            await worker.wait()
            assert await all_ended([info["pid"], info["janitor"]["pid"]])
            worker.stdin.close()

    asyncio.run(story())


def test_a_process_that_ends_is_told_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/env")  # prints its error, and ends

    async def story() -> None:
        async with head() as (_, authority, ticket):
            with pytest.raises(ClusterStartError, match=r"(?s)its process ended.*before it answered.*invalid option"):
                await started(Here(), authority, ticket)

    asyncio.run(story())
