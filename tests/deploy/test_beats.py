"""Beats: the head hears that a host lives, that its control process is stopped, and that it has ended."""

import asyncio
import signal
import subprocess
import threading
from contextlib import asynccontextmanager

import pytest

from jmars.actors.tls import BEATS, Identity, client_context, server_context
from jmars.actors.tls_link import serve_tls
from jmars.deploy import beats
from jmars.deploy.beats import Beats, beats_door, beats_order
from jmars.errors import AuthenticationError, HostRefusedError
from tests.actors.two_hosts import AUTHORITY, CLUSTER, HEAD, HOST, run, until


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(beats, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(beats, "ORDERLY_SECONDS", 0.0)


class Ears:
    """A head that listens for beats of host 3."""

    def __init__(self):
        self.heard = []  # (host, seconds stopped, ended)
        self.refused = False
        self.over = threading.Event()  # a janitor would end the host

    def accept(self, identity):
        if self.refused:
            raise AuthenticationError("it was given up")

    async def start(self):
        door = beats_door(self.accept, lambda *told: self.heard.append(told))
        self.server = await serve_tls("127.0.0.1", 0, server_context(HEAD), self.accept, beats=door)
        self.address = f"127.0.0.1:{self.server.port}"

    def order(self, lease=30.0):
        return beats_order((self.address,), CLUSTER, HOST, lease)


@asynccontextmanager
async def beating(lease=30.0):
    """A process, and the thread that beats for it."""
    ears = Ears()
    await ears.start()
    with subprocess.Popen(["sleep", "60"]) as process:
        janitor = Beats(process.pid)
        try:
            janitor.hear(ears.order(lease), ears.over.set)
            yield ears, process, janitor
        finally:
            process.kill()
            janitor._ended.set()
            await asyncio.to_thread(janitor._thread.join)
            ears.server.close()
            await asyncio.sleep(0.02)  # the transports end


def test_a_host_beats():
    async def test():
        async with beating() as (ears, _, _):
            await until(lambda: len(ears.heard) > 3)
            assert set(ears.heard) == {(Identity(3, 2), 0.0, False)}

    run(test)


def test_a_stopped_control_process_is_told_with_its_seconds():
    async def test():
        async with beating() as (ears, process, _):
            process.send_signal(signal.SIGSTOP)
            await until(lambda: ears.heard and ears.heard[-1][1] > 0.1)
            stopped = [seconds for _, seconds, _ in ears.heard if seconds]
            assert stopped == sorted(stopped)
            process.send_signal(signal.SIGCONT)
            await until(lambda: ears.heard[-1][1] == 0.0)

    run(test)


def test_the_end_of_the_control_process_is_told_at_once():
    async def test():
        async with beating() as (ears, process, janitor):
            await until(lambda: ears.heard)
            process.kill()
            await asyncio.to_thread(janitor.control_ended)
            assert ears.heard[-1] == (Identity(3, 2), 0.0, True)
            assert not janitor._thread.is_alive() and not ears.over.is_set()

    run(test)


def test_a_head_that_is_silent_for_the_lease_ends_the_host(caplog):
    async def test():
        async with beating(lease=0.3) as (ears, _, _):
            await until(lambda: len(ears.heard) > 3)
            assert not ears.over.is_set()
            ears.server.close()
            await asyncio.to_thread(ears.over.wait, 8)
            assert ears.over.is_set()

    run(test)
    assert "the head has not answered for 0.3 s: this host ends" in caplog.text


def test_a_broken_connection_is_made_again():
    async def test():
        async with beating() as (ears, _, _):
            await until(lambda: ears.heard)
            for transport in list(ears.server._beating):
                transport.abort()
            count = len(ears.heard)
            await until(lambda: len(ears.heard) > count + 2)

    run(test)


def test_a_host_that_was_given_up_is_refused_and_may_beat_as_another(caplog):
    async def test():
        async with beating() as (ears, _, janitor):
            await until(lambda: ears.heard)
            ears.refused = True
            for transport in list(ears.server._beating):
                transport.abort()
            await until(lambda: "refuses this host: it was given up" in caplog.text)
            ears.refused = False
            again = AUTHORITY.issue("host-3", incarnation=3)
            before = janitor._thread
            janitor.hear(beats_order((ears.address,), CLUSTER, again, 30.0), ears.over.set)
            await until(lambda: ears.heard[-1][0] == Identity(3, 3))
            await asyncio.to_thread(before.join)

    run(test)


def test_the_order_of_beats_shows_in_no_log(caplog):
    caplog.set_level("DEBUG")

    async def test():
        async with beating() as (ears, _, _):
            await until(lambda: len(ears.heard) > 2)

    run(test)
    assert "PRIVATE" not in caplog.text


def test_beats_are_refused_where_nobody_listens_for_them():
    async def test():
        server = await serve_tls("127.0.0.1", 0, server_context(HEAD), Ears().accept)
        connection = beats._beat(
            f"127.0.0.1:{server.port}", f"head.{CLUSTER}.jmars", client_context(HOST, BEATS), iter([(0.0, False)])
        )
        with pytest.raises(HostRefusedError, match="nobody listens for beats here"):
            await asyncio.to_thread(next, connection)
        server.close()
        await asyncio.sleep(0.02)  # the transports end

    run(test)
