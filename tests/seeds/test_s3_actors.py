"""Seed 003, "架构": actors are told and asked over processes by name; who is gone is an error with a name."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

from jmars.actors import connect, new_token
from jmars.errors import ActorNotFoundError, ClusterError, ClusterLostError

OTHER = """
import asyncio, json, sys
from pathlib import Path
from jmars.actors import ActorFactory, Mailbox, remote_method, serve

class Counter:
    def __init__(self, value=0): self.value = value
    @remote_method
    def add(self, number): self.value += number; return self.value
    @remote_method
    async def after(self, seconds): await asyncio.sleep(seconds); return self.value
    @remote_method
    def fail(self): raise LookupError("as promised")

async def main():
    orders = json.loads(sys.stdin.readline())
    mailbox = Mailbox()
    mailbox.add("first", Counter())
    ActorFactory(mailbox, {"counter": Counter})
    await serve(Path(orders["path"]), mailbox, orders["token"])
    print("up", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def over_two_processes(tmp_path, test):
    """Run `test(channel, process)` with a channel to actors in another process."""
    orders = {"path": str(tmp_path / "s"), "token": new_token()}
    with subprocess.Popen([sys.executable, "-c", OTHER], stdin=-1, stdout=-1, text=True) as process:
        try:
            process.stdin.write(json.dumps(orders) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "up\n"

            async def run():
                channel = await connect(orders["path"], orders["token"])
                try:
                    await asyncio.wait_for(test(channel, process), 60)
                finally:
                    channel.close()
                    await asyncio.sleep(0.01)  # lets the socket close

            asyncio.run(run())
        finally:
            process.kill()


def test_s3_2_actors_are_created_told_asked_and_destroyed_far_away(tmp_path):
    async def test(channel, process):
        assert await channel.ask("first", "add", 2) == 2
        channel.tell("first", "add", 3)
        assert await channel.ask("first", "add", 0) == 5
        channel.tell_later(0.05, "first", "add", 10)
        cancelled = channel.tell_later(0.05, "first", "add", 100)
        cancelled.cancel()
        slow = asyncio.ensure_future(channel.ask("first", "after", 0.3))  # a promise: others are answered before it
        assert await channel.ask("first", "add", 0) == 5
        assert await slow == 15
        with pytest.raises(LookupError, match="as promised"):
            await channel.ask("first", "fail")
        await channel.create_actor("counter", "second", 40)
        assert await channel.ask("second", "add", 2) == 42
        await channel.destroy_actor("second")
        with pytest.raises(ActorNotFoundError, match="no actor 'second' here; there are actors, first"):
            await channel.ask("second", "add", 1)
        await channel.create_actor("counter", "second")  # the name is free again, and the state is a new one
        assert await channel.ask("second", "add", 0) == 0

    over_two_processes(tmp_path, test)


def test_s3_2_only_registered_classes_are_created_and_destroyed(tmp_path):
    async def test(channel, process):
        with pytest.raises(ActorNotFoundError, match=r"no class 'os\.system' is registered here .* there are counter"):
            await channel.create_actor("os.system", "third", "true")
        with pytest.raises(ClusterError, match="taken; choose another one"):
            await channel.create_actor("counter", "first")
        with pytest.raises(TypeError, match="positional argument"):
            await channel.create_actor("counter", "third", 1, 2)
        with pytest.raises(ActorNotFoundError, match="no actor 'third' here"):
            await channel.ask("third", "add", 1)
        with pytest.raises(ActorNotFoundError, match="no actor 'first' was created here by a peer; there are none"):
            await channel.destroy_actor("first")
        assert await channel.ask("first", "add", 1) == 1

    over_two_processes(tmp_path, test)


def test_s3_2_a_lost_actor_is_a_named_error_in_bounded_time(tmp_path):
    async def test(channel, process):
        waiting = asyncio.ensure_future(channel.ask("first", "after", 60))
        await channel.ask("first", "add", 0)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(ClusterLostError, match="went away"):
            await asyncio.wait_for(waiting, 30)
        with pytest.raises(ClusterLostError, match="is closed"):
            await channel.ask("first", "add", 1)

    over_two_processes(tmp_path, test)
