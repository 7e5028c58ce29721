"""A real host on another machine, started by ssh: it joins a head over the network, and never stays behind."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jmars.actors.tls import Identity, server_context
from jmars.actors.tls_link import serve_tls
from jmars.deploy.ca import CertificateAuthority
from jmars.deploy.control_process import ended_within, process_settings
from jmars.deploy.launch import Launched
from jmars.deploy.launch_ssh import SshLauncher
from jmars.deploy.roster import Roster
from jmars.deploy.tickets import Enrolment, Ticket, strangers
from jmars.errors import ClusterStartError
from jmars.scheduler.hosts import Hosts
from tests.deploy.guests_here import no_opinion
from tests.multihost.cables import Cable
from tests.multihost.machines import Machine
from tests.multihost.ssh_server import SshServer

pytestmark = pytest.mark.root

LEASE = 2.0


@asynccontextmanager
async def head_at(address: str) -> AsyncIterator[tuple[Roster, Ticket]]:
    """A head without clients that expects one host, and the ticket of that host."""
    authority = CertificateAuthority("5f3a9c01")
    enrolment = Enrolment(authority)
    roster = Roster(Hosts(), lambda profile: None, lambda *moved: None, lambda *transfer: None)
    roster.again, roster.environment = lambda number: (0, b""), lambda *host: {}
    roster.opinion = no_opinion
    context = server_context(authority.issue("head"), strangers=True)
    server = await serve_tls(address, 0, context, roster.accept, strangers(enrolment))
    try:
        roster.expect(1, "host-1")
        secret = enrolment.invite(Identity(1, 1), time.monotonic())
        head, authority_text = (f"{address}:{server.port}",), authority.certificate
        yield (
            roster,
            Ticket("5f3a9c01", "host-1", 1, 1, head, authority_text, secret, "400MiB", 1, 1, None, LEASE),
        )
    finally:
        roster.close()
        server.close()
        await asyncio.sleep(0)  # transports close in the next turn of the loop


@pytest.fixture
def joined(head: Machine, far: Machine, cable: Cable, sshd: SshServer) -> Iterator[Callable[..., Any]]:
    """Runs a test with a head and its one host; all processes of the host must have ended then."""

    async def all_of_it(then: Callable[[Roster, Launched, list[int]], Awaitable[Any]]) -> Any:
        async with head_at(cable.addresses["head"]) as (roster, ticket):
            launcher = SshLauncher(sshd.place, sys.executable)
            host = await launcher.start(ticket.line(), ticket.name, process_settings(1))
            try:
                found = far.pids()
                return await then(roster, host, [pid for number, pid in found.items() if _is_ours(pid)])
            finally:
                assert await host.end()

    def run(then: Callable[[Roster, Launched, list[int]], Awaitable[Any]]) -> Any:
        with head.network():
            return asyncio.run(all_of_it(then))

    return run


def _is_ours(pid: int) -> bool:
    try:
        return b"jmars" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


async def all_ended(pids: list[int], seconds: float) -> bool:
    return await asyncio.to_thread(lambda: all(ended_within(pid, seconds) for pid in pids))


def test_a_host_joins_by_ssh_and_ends(joined):
    async def then(roster, host, pids):
        info = await roster.links[1].channel.ask("member", "info")
        assert (info["pid"], info["janitor"]["pid"]) == tuple(host.pids)
        assert await host.is_alive() == dict.fromkeys(host.pids, "running")
        assert len(pids) >= 4  # control process, janitor, zygote, executor
        roster.tell_all("member", "end", "the test is over")
        assert await host.end(patience=10.0)
        return await all_ended(pids, 10)

    assert joined(then)


@pytest.mark.long
def test_a_host_outlives_its_ssh_connection(joined):
    async def then(roster, host, pids):
        await host.close()
        roster.tell_all("member", "look")
        await roster.links[1].channel.ask("member", "info")
        inputs = [os.readlink(f"/proc/{pid}/fd/0") for pid in pids]
        outputs = {os.readlink(f"/proc/{pid}/fd/{fd}") for pid in pids for fd in (1, 2)}
        outputs -= set().union(*map(_read_files, pids))  # an executor's output, which the control process reads
        roster.tell_all("member", "end", "the test is over")
        assert await all_ended(pids, 10)
        return [file for file in [*inputs, *outputs] if file.startswith(("pipe", "socket"))]

    assert joined(then) == []


def _read_files(pid: int) -> set[str]:
    """Files that a process has open for reading only."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # the process has closed the file
            if not entry.lstat().st_mode & stat.S_IWUSR:
                found.add(os.readlink(entry))
    return found


@pytest.mark.long
def test_a_host_whose_head_is_silent_ends_with_all_its_processes_and_files(joined, cable):
    async def then(roster, host, pids):
        with cable.silence():
            ended = await all_ended(pids, LEASE + 15)
        cable.reset()  # connections of which only our end is left
        return ended

    assert joined(then)


@pytest.mark.long
def test_a_host_goes_on_when_the_network_comes_back(joined, cable):
    async def then(roster, host, pids):
        asked = roster.links[1].channel.ask
        await asked("member", "info")
        with cable.silence():
            waiting = asyncio.ensure_future(asked("member", "info"))
            done, _ = await asyncio.wait([waiting], timeout=LEASE / 4)
            assert not done
        return (await waiting)["pid"] == host.pids[0]

    assert joined(then)


@pytest.mark.long
def test_a_host_with_a_wrong_ticket_is_refused_and_ends(head, far, cable, sshd):
    async def refused() -> str:
        async with head_at(cable.addresses["head"]) as (_, ticket):
            launcher = SshLauncher(sshd.place, sys.executable)
            with pytest.raises(ClusterStartError) as caught:
                await launcher.start(replace(ticket, secret=bytes(32)).line(), "host-1", {})
            return str(caught.value)

    with head.network():
        text = asyncio.run(refused())
    assert text.startswith(f"host-1 ({sshd.place}) did not start: ") and "ticket" in text
    assert all(ended_within(pid, 60) for pid in far.pids().values() if _is_ours(pid))


@pytest.mark.long
def test_the_secret_of_a_ticket_is_nowhere(joined, sshd, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    secrets = []
    line = Ticket.line
    monkeypatch.setattr(Ticket, "line", lambda self: secrets.append(self.secret.hex().encode()) or line(self))

    async def then(roster, host, pids):
        found = [Path(host.answer["log"]).read_bytes(), repr(host).encode(), repr(vars(host)).encode()]
        for pid in [*pids, os.getpid()]:
            found += [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
        return found

    found = [*joined(then), caplog.text.encode(), "".join(sshd.log).encode()]
    assert any(b"--join" in text for text in found) and len(secrets) == 1
    assert [text for text in found if secrets[0] in text] == []


@pytest.mark.long
@pytest.mark.parametrize("patience", [1.5, 0.2])
def test_a_start_that_takes_too_long_leaves_nothing(head, far, cable, sshd, patience):
    """While the process imports, and while it waits for a head that takes connections and says nothing."""

    async def late() -> str:
        async with head_at(cable.addresses["head"]) as (_, ticket):
            with socket.create_server((cable.addresses["head"], 0)) as mute:
                address = f"{cable.addresses['head']}:{mute.getsockname()[1]}"
                launcher = SshLauncher(sshd.place, sys.executable, patience)
                with pytest.raises(ClusterStartError) as caught:
                    await launcher.start(replace(ticket, head=(address,)).line(), "host-1", {})
            return str(caught.value)

    with head.network():
        assert f"did not answer within {patience:g} s" in asyncio.run(late())
    assert all(ended_within(pid, 60) for pid in far.pids().values() if _is_ours(pid))
