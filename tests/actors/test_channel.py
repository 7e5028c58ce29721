"""Channels: what is asked is answered, and nobody without the token is heard."""

import asyncio
import os
import pickle
import socket
import struct
import time

import pytest

from jmars.actors import Mailbox, connect, new_token, remote_method, serve
from jmars.errors import AuthenticationError, ClusterLostError, MemoryLimitError, ProtocolError


class Echo:
    def __init__(self):
        self.told = []

    @remote_method
    def same(self, *values):
        return values

    @remote_method
    async def later(self, value):
        await asyncio.sleep(0)
        return value

    @remote_method
    def fail(self):
        raise MemoryLimitError("too much; use less")

    @remote_method
    def note(self, value):
        self.told.append(value)


async def _pair(tmp_path, token=None):
    mailbox, echo = Mailbox(), Echo()
    mailbox.add("echo", echo)
    mailbox.add("journal", Journal())
    secret = new_token()
    server = await serve(tmp_path / "s", mailbox, secret)
    try:
        return server, echo, await connect(tmp_path / "s", token or secret)
    except BaseException:
        await _close(server)
        raise


async def _close(server, channel=None):
    if channel:
        channel.close()
    server.close()
    for _ in range(5):  # lets both ends see the end of the connection
        await asyncio.sleep(0.01)


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def test_asks_are_answered_and_tells_arrive_in_order(tmp_path):
    async def test():
        server, echo, channel = await _pair(tmp_path)
        assert await channel.ask("echo", "same", 1, "a", b"b", None, (1, 2)) == (1, "a", b"b", None, (1, 2))
        assert await asyncio.gather(*(channel.ask("echo", "later", i) for i in range(100))) == list(range(100))
        for i in range(10):
            channel.tell("echo", "note", i)
        await channel.ask("echo", "same")
        assert echo.told == list(range(10))
        assert channel.waiting == 0
        await _close(server, channel)

    run(test())


def test_an_exception_comes_back_as_itself(tmp_path):
    async def test():
        server, _, channel = await _pair(tmp_path)
        with pytest.raises(MemoryLimitError, match="too much"):
            await channel.ask("echo", "fail")
        with pytest.raises(ProtocolError, match="no actor 'nobody'"):
            await channel.ask("nobody", "x")
        with pytest.raises(ProtocolError, match="no remote method '__init__'"):
            await channel.ask("echo", "__init__")
        await _close(server, channel)

    run(test())


def test_a_wrong_token_is_refused(tmp_path):
    async def test():
        with pytest.raises((AuthenticationError, ClusterLostError)):
            await _pair(tmp_path, token=new_token())

    run(test())


def test_a_lost_peer_fails_what_waits(tmp_path):
    async def test():
        server, _, channel = await _pair(tmp_path)
        waiting = asyncio.ensure_future(channel.ask("echo", "same", 1))
        channel._transport.abort()
        with pytest.raises(ClusterLostError):
            await waiting
        with pytest.raises(ClusterLostError):
            await channel.ask("echo", "same", 2)
        await _close(server)

    run(test())


class _Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("payload", ["pickle", "frame", "huge", "noise", "nothing"])
def test_a_raw_client_without_the_token_runs_no_code(tmp_path, payload):
    marker = tmp_path / "owned"
    bomb = pickle.dumps(_Bomb(str(marker)))
    data = {
        "pickle": bomb * 10,
        "frame": len(bomb).to_bytes(4, "little") + bomb,
        "huge": struct.pack("<Q", 2**40) + b"x" * 1000,
        "noise": os.urandom(5000),
        "nothing": b"",
    }[payload]

    async def test():
        server, _, channel = await _pair(tmp_path)

        def attack():
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(str(tmp_path / "s"))
                raw.settimeout(60)
                raw.sendall(data)
                started = time.monotonic()
                while raw.recv(4096):
                    pass  # the server's challenge, then the end
                return time.monotonic() - started

        if data:
            try:
                assert await asyncio.to_thread(attack) < 1
            except ConnectionResetError:
                pass
        assert not marker.exists()
        assert await channel.ask("echo", "same", 5) == (5,)
        await _close(server, channel)

    run(test())


def test_the_socket_is_private_under_any_umask(tmp_path):
    async def test():
        before = os.umask(0)
        try:
            server, _, channel = await _pair(tmp_path)
        finally:
            os.umask(before)
        assert (tmp_path / "s").stat().st_mode & 0o077 == 0
        await _close(server, channel)

    run(test())


class Journal:
    def __init__(self):
        self.noted = []

    @remote_method
    async def submit(self, name):
        self.noted.append(f"submit {name}")
        await asyncio.sleep(0.01)

    @remote_method
    def withdraw(self, name):
        self.noted.append(f"withdraw {name}")

    @remote_method
    def read(self):
        return self.noted


def test_messages_that_arrive_together_take_effect_in_their_order(tmp_path):
    async def test():
        server, _, channel = await _pair(tmp_path)
        channel.tell("journal", "submit", "a")
        channel.tell("journal", "withdraw", "a")
        channel.tell("journal", "submit", "b")
        channel.tell("journal", "withdraw", "b")
        assert await channel.ask("journal", "read") == ("submit a", "withdraw a", "submit b", "withdraw b")
        await _close(server, channel)

    run(test())
