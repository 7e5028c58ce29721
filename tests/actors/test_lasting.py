"""Lasting channels: messages take effect once and in order whatever happens to the connections."""

import asyncio
import math
import socket

import pytest

from jmars.actors.tls import Identity
from jmars.errors import ClusterLostError
from tests.actors.two_hosts import AUTHORITY, BEAT, run, two_hosts, until


def test_both_ends_ask_and_tell():
    async def test():
        async with two_hosts() as world:
            assert await world.host.ask("register", "note", "a") == "a"
            assert await world.head.ask("register", "note", "b") == "b"
            world.head.tell("register", "note", "c")
            await until(lambda: world.at_host.noted == ["b", "c"])
            assert world.at_head.noted == ["a"]
            with pytest.raises(MemoryError, match="too much"):
                await world.host.ask("register", "fail")
            assert world.host.peer == (0, 1) and world.head.peer == (3, 2)

    run(test)


def test_large_messages_pass():
    async def test():
        async with two_hosts() as world:
            data = bytes(30_000_000)
            assert await world.host.ask("register", "size", data) == len(data)
            assert await asyncio.gather(*(world.head.ask("register", "note", i) for i in range(3000))) == [*range(3000)]

    run(test)


def test_messages_take_effect_once_and_in_order_over_broken_connections():
    async def test():
        async with two_hosts() as world:
            for number in range(2000):
                world.host.tell("register", "note", number)
                world.head.tell("register", "note", number)
                if number % 200 == 100:
                    world.proxy.cut()
                    await asyncio.sleep(0.02)
            await until(lambda: world.host._delivery.nbytes == world.head._delivery.nbytes == 0)
            assert world.at_head.noted == world.at_host.noted == list(range(2000))
            assert world.proxy.connections > 3
            assert {("host", "down"), ("head", "down")} <= set(world.story)

    run(test)


def test_a_call_survives_a_connection_that_breaks():
    async def test():
        async with two_hosts() as world:
            world.proxy.down = True
            world.proxy.cut()
            await until(lambda: not world.host.up and not world.head.up)
            asked = [asyncio.ensure_future(end.ask("register", "note", 5)) for end in (world.host, world.head)]
            await asyncio.sleep(0)
            world.proxy.down = False
            assert await asyncio.gather(*asked) == [5, 5]

    run(test)


def test_a_silent_connection_is_replaced():
    async def test():
        async with two_hosts() as world:
            world.proxy.fall_silent()
            assert await world.host.ask("register", "note", 1) == 1
            assert await world.head.ask("register", "note", 2) == 2
            assert world.proxy.connections == 2

    run(test)


def test_beats_measure_silence():
    async def test():
        async with two_hosts() as world:
            for channel in (world.host, world.head):
                heard = channel.last_heard
                await until(lambda channel=channel, heard=heard: channel.last_heard > heard)

    run(test)


def test_beats_come_only_where_nothing_else_is_sent():
    async def test():
        async with two_hosts() as world:
            sent, loop = [], asyncio.get_running_loop()
            link = world.host._link
            send = link.send
            link.send = lambda frames: (sent.append((loop.time(), frames)), send(frames))
            for _ in range(10):
                world.host.tell("register", "note", 0)
                await asyncio.sleep(BEAT / 5)  # longer on a busy machine
            beats = [k for k, (_, frames) in enumerate(sent) if any(len(one) == 2 and one[0] == 1 for one in frames)]
            assert all(k and sent[k][0] - sent[k - 1][0] > 0.9 * BEAT for k in beats), sent

    run(test)


def test_giving_up_fails_calls_and_tells_the_peer():
    async def test():
        async with two_hosts() as world:
            asked = asyncio.ensure_future(world.head.ask("register", "never"))
            theirs = asyncio.ensure_future(world.host.ask("register", "never"))
            await asyncio.sleep(BEAT)
            world.gone.add(Identity(3, 2))
            world.head.give_up("silent for 8 s")
            with pytest.raises(ClusterLostError, match=r"host 3 \(incarnation 2\) has ended: silent for 8 s"):
                await asked
            with pytest.raises(ClusterLostError, match=r"the head ended the link: silent for 8 s"):
                await theirs
            with pytest.raises(ClusterLostError, match="silent for 8 s"):
                await world.head.ask("register", "note", 1)
            world.head.tell("register", "note", 1)
            assert world.host.closed and world.at_host.noted == []
            assert ("head", "ended: silent for 8 s") in world.story

    run(test)


def test_a_host_that_was_given_up_while_it_was_away_learns_why():
    async def test():
        async with two_hosts() as world:
            world.proxy.down = True
            world.proxy.cut()
            await until(lambda: not world.head.up)
            world.gone.add(Identity(3, 2))
            world.head.give_up("silent for 8 s")
            asked = asyncio.ensure_future(world.host.ask("register", "note", 1))
            world.proxy.down = False
            with pytest.raises(ClusterLostError, match=r"refuses this host: it was given up"):
                await asked
            assert world.at_head.noted == []

    run(test)


def test_a_new_incarnation_fails_calls_to_the_one_before_and_is_heard():
    async def test():
        async with two_hosts() as world:
            head = world.head
            asked = asyncio.ensure_future(head.ask("register", "never"))
            await asyncio.sleep(BEAT)
            world.host.keeper.cancel()
            world.proxy.cut()
            await until(lambda: not head.up)
            head.tell("register", "note", "for the one before")
            world.channels[Identity(3, 3)] = head  # the head keeps one channel for the host
            again = world.new_channel(Identity(3, 3))
            world.at_host.noted.clear()
            await world.dial(again, AUTHORITY.issue("host-3", incarnation=3))
            with pytest.raises(ClusterLostError, match=r"host 3 \(incarnation 2\) started again"):
                await asked
            assert head.peer == (3, 3)
            assert await head.ask("register", "note", "new") == "new"
            assert world.at_host.noted == ["new"]
            again.close()
            await asyncio.wait([again.keeper])

    run(test)


def test_messages_to_a_peer_that_is_away_are_bounded_by_their_bytes():
    async def test():
        async with two_hosts(room=100_000) as world:
            assert await world.host.ask("register", "size", bytes(200_000)) == 200_000  # one alone always passes
            for _ in range(20):  # acknowledged messages take no room
                assert await world.host.ask("register", "size", bytes(60_000)) == 60_000
            world.proxy.down = True
            world.proxy.cut()
            await until(lambda: not world.host.up)
            world.host.tell("register", "size", bytes(60_000))
            assert not world.host.closed
            world.host.tell("register", "size", bytes(60_000))
            assert world.host.closed and "are not acknowledged" in world.host.why

    run(test)


def test_what_cannot_be_packed_is_an_error_here_and_harms_nothing():
    async def test():
        async with two_hosts() as world:
            with pytest.raises(TypeError, match="cannot send"):
                await world.host.ask("register", "note", object())
            assert await world.host.ask("register", "note", 1) == 1

    run(test)


def test_changing_an_argument_after_the_call_changes_no_message():
    async def test():
        async with two_hosts() as world:
            world.proxy.down = True
            world.proxy.cut()
            await until(lambda: not world.host.up)
            value = [1]
            world.host.tell("register", "note", value)
            value.append(2)
            world.proxy.down = False
            await until(lambda: world.at_head.noted == [(1,)])

    run(test)


def test_sockets_notice_dead_peers():
    async def test():
        async with two_hosts() as world:
            for channel in (world.host, world.head):
                one = channel._link._transport.get_extra_info("socket")
                tcp = [socket.TCP_NODELAY, socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL]
                found = [one.getsockopt(socket.IPPROTO_TCP, option) for option in [*tcp, socket.TCP_KEEPCNT]]
                assert found == [1, 8000, 1, 1, 5]
                assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1

    run(test)


def test_last_heard_begins_with_the_channel():
    async def test():
        async with two_hosts() as world:
            channel = world.new_channel()
            assert channel.last_heard == pytest.approx(asyncio.get_running_loop().time(), abs=5)
            assert not channel.up and math.isfinite(channel.last_heard)
            assert repr(channel) == "<LastingChannel to the head, down>"

    run(test)


def test_two_processes_cannot_be_one_host(caplog):
    async def test():
        async with two_hosts() as world:
            twin = world.new_channel()
            with pytest.raises(ClusterLostError):
                await world.dial(twin)
            assert "another process is host 3 (incarnation 2)" in twin.why
            assert await world.host.ask("register", "note", 1) == 1 and world.proxy.connections == 2

    run(test)
    assert "two cannot have one certificate" in caplog.text
