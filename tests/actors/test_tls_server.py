"""Links between hosts: who does not belong is refused before a byte of it is decoded, and the log says why."""

import asyncio
import os
import pickle
import ssl

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jmars.actors import ActorChannel, Mailbox, remote_method
from jmars.actors.frames import pack
from jmars.actors.tls import Identity, client_context, enrolment_context
from jmars.actors.tls_link import LINK, VISITOR, TlsClientGreeting, connect_tls, parse_address
from jmars.errors import AuthenticationError, ClusterLostError
from tests.actors.two_hosts import AUTHORITY, CLUSTER, HOST, OTHER, TwoHosts, run, two_hosts, until


class _Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Door:
    """The only actor that strangers reach."""

    @remote_method
    def enrol(self, value):
        return value


async def raw(world, context=None, name=f"head.{CLUSTER}.jmars"):
    """Streams of a connection to the head's port."""
    options = {"ssl": context, "server_hostname": name} if context else {}
    return await asyncio.open_connection("127.0.0.1", world.server.port, **options)


async def all_of(reader):
    """What the head still sends, until it hangs up."""
    try:
        return await reader.read()
    except (ConnectionError, ssl.SSLError):
        return b""


def refused(credentials, identity=None, cluster=CLUSTER, match="."):
    """Dial with credentials, as a host would, and be refused."""

    async def test():
        async with two_hosts() as world:
            channel = world.new_channel(identity or Identity(3, 2))
            address = f"127.0.0.1:{world.server.port}"
            with pytest.raises((AuthenticationError, ClusterLostError), match=match):
                await connect_tls(channel, [address], client_context(credentials), cluster)
            assert channel.closed and channel.keeper is None
            assert await world.host.ask("register", "note", 1) == 1  # who belongs is served all the same

    run(test)


def test_a_certificate_of_another_authority_is_refused(caplog):
    theirs = OTHER.issue("host-3", incarnation=2)
    refused(type(theirs)(theirs.key, theirs.certificate, AUTHORITY.certificate), match="hung up; its log says why")
    assert "a connection of 127.0.0.1 is refused" in caplog.text and "verify failed" in caplog.text


def test_a_head_of_another_authority_is_refused():
    refused(OTHER.issue("host-3", incarnation=2), match="is not head.5f3a9c01.jmars of this cluster")


def test_a_head_of_another_name_is_refused():
    refused(HOST, cluster="00000000", match=r"is not head.00000000.jmars of this cluster.*Hostname mismatch")


def test_an_unknown_host_is_refused(caplog):
    refused(AUTHORITY.issue("host-4"), Identity(4, 1), match="refuses this host: no such host is expected")
    assert "127.0.0.1 is refused: no such host is expected" in caplog.text


def test_a_dead_incarnation_is_refused_before_its_messages_are_decoded(caplog):
    async def test():
        async with two_hosts() as world:
            world.gone.add(Identity(3, 1))
            reader, writer = await raw(world, client_context(AUTHORITY.issue("host-3", incarnation=1)))
            writer.write(pack((1, 1, 1, 0, pack((0, "register", "note", "zombie"))[4:])))
            assert await all_of(reader) == b"jmars-l1r\x0f\x00it was given up"
            writer.close()
            assert world.at_head.noted == []

    run(test)
    assert "it was given up" in caplog.text


def test_a_host_whose_frames_are_not_ours_is_given_up(caplog):
    async def test():
        async with two_hosts() as world:
            world.host._link._write = lambda: None  # its own frames stay here
            world.head.heard(world.head._link, (9, 1, 1, 0, b""))
            assert world.head.closed and "is no frame" in world.head.why

    run(test)
    assert "host 3 (incarnation 2) is refused" in caplog.text


def test_a_client_without_a_certificate_is_refused_at_its_first_read(caplog):
    async def test():
        async with two_hosts() as world:
            reader, writer = await raw(world, enrolment_context(AUTHORITY.certificate))  # its handshake succeeds
            assert await all_of(reader) == b""
            writer.close()

    run(test)
    assert "did not return a certificate" in caplog.text


def test_a_stranger_reaches_nothing_but_its_mailbox():
    async def test():
        world = TwoHosts()
        strangers = Mailbox()
        strangers.add("door", Door())
        await world.serve(strangers)
        _, channel = await asyncio.get_running_loop().create_connection(
            lambda: ActorChannel(Mailbox(), TlsClientGreeting(VISITOR)),
            *("127.0.0.1", world.server.port),
            ssl=enrolment_context(AUTHORITY.certificate),
            server_hostname=f"head.{CLUSTER}.jmars",
        )
        await channel.ready
        assert await channel.ask("door", "enrol", 5) == 5
        with pytest.raises(ClusterLostError.__mro__[1], match="no actor 'register'"):
            await channel.ask("register", "note", 1)
        with pytest.raises(ClusterLostError):
            await channel.ask("door", "enrol", bytes(100_000))  # more than a stranger may send
        world.server.close()
        await world.proxy.close()
        assert world.at_head.noted == []

    run(test)


def nested(depth):
    """Records within records, deeper than Python's recursion limit."""
    body = b"\xc0"
    for _ in range(depth):
        body = b"\x92\xa7Started" + body
        body = b"\xc9" + len(body).to_bytes(4, "big") + b"\x01" + body
    return len(body).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    "sent",
    [
        pack((0, "door", "enrol", ())),  # nobody would hear of the error
        pack((0, "nobody", "enrol", (1,))),
        pack((-1, "door", "enrol", (1,))),
        pack(({}, "door", "enrol", (1,))),
        pack((1, "door", 5, (1,))),
        pack((1, {}, "enrol", (1,))),
        pack((1, "door", "enrol", 5)),
        pack((-1, False, ("E", "x", b""))),
        pack(5),
        nested(1500),
    ],
)
def test_a_stranger_that_says_anything_else_is_cut_off_and_harms_nobody(sent, caplog):
    async def test():
        world = TwoHosts()
        strangers = Mailbox()
        strangers.add("door", Door())
        await world.serve(strangers)
        reader, writer = await raw(world, enrolment_context(AUTHORITY.certificate))
        writer.write(sent)
        assert await all_of(reader) == b"jmars-l1v"
        writer.close()
        world.server.close()
        await world.proxy.close()

    run(test)
    assert "connection refused: " in caplog.text


def test_a_host_is_no_stranger_and_a_stranger_no_host():
    async def test():
        world = TwoHosts()
        await world.serve(Mailbox())
        for context, code in [
            (enrolment_context(AUTHORITY.certificate), LINK),
            (client_context(AUTHORITY.issue("host-3", incarnation=2)), VISITOR),
        ]:
            _, channel = await asyncio.get_running_loop().create_connection(
                lambda code=code: ActorChannel(Mailbox(), TlsClientGreeting(code)),
                *("127.0.0.1", world.server.port),
                ssl=context,
                server_hostname=f"head.{CLUSTER}.jmars",
            )
            with pytest.raises(AuthenticationError, match="another kind of peer"):
                await channel.ready
        world.server.close()
        await world.proxy.close()

    run(test)


@pytest.mark.parametrize("kind", ["noise", "http", "pickle", "nothing"])
def test_bytes_that_are_no_tls_are_refused(tmp_path, caplog, kind):
    marker = tmp_path / "owned"
    sent = {
        "noise": os.urandom(5000),
        "http": b"GET / HTTP/1.1\r\n\r\n",
        "pickle": pickle.dumps(_Bomb(str(marker))),
        "nothing": b"",
    }[kind]

    async def test():
        async with two_hosts() as world:
            reader, writer = await raw(world)
            writer.write(sent)
            if kind == "nothing":
                writer.write_eof()
            await all_of(reader)
            writer.close()
            assert await world.host.ask("register", "note", 1) == 1

    run(test)
    assert not marker.exists()
    assert kind == "nothing" or "a connection of 127.0.0.1 is refused: " in caplog.text


messages = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=9) | st.binary(),
    lambda inner: st.lists(inner, max_size=6).map(tuple),
    max_leaves=12,
)
frames = st.one_of(
    st.binary(min_size=4, max_size=200),  # no frame at all
    messages.map(pack),
    st.tuples(st.just(2), st.integers(0, 3), st.integers(0, 9), st.integers(0, 9), messages).map(pack),
    st.tuples(st.just(2), st.just(1), st.just(1), st.just(0), messages.map(lambda m: pack(m)[4:])).map(pack),
    st.integers(2**31, 2**32 - 1).map(lambda size: size.to_bytes(4, "little")),  # longer than any frame
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(frames, min_size=1, max_size=4))
def test_fuzzed_frames_of_a_host_run_nothing(tmp_path, sent):
    marker = tmp_path / "owned"
    bomb = pack((2, 1, 1, 0, pack((-5, False, ("E", "x", pickle.dumps(_Bomb(str(marker))))))[4:]))

    async def test():
        world = TwoHosts()
        await world.serve()
        reader, writer = await raw(world, client_context(HOST))
        writer.write(b"".join(sent) + bomb)
        writer.write_eof() if writer.can_write_eof() else writer.close()
        await all_of(reader)
        writer.close()
        for channel in world.channels.values():
            channel.close()
        world.server.close()
        await world.proxy.close()
        assert world.at_head.noted == []

    run(test)
    assert not marker.exists()


def test_refusals_show_no_secret(caplog):
    caplog.set_level("DEBUG")
    theirs = OTHER.issue("host-3", incarnation=2)
    refused(type(theirs)(theirs.key, theirs.certificate, AUTHORITY.certificate))
    refused(AUTHORITY.issue("host-4"), Identity(4, 1))
    assert "PRIVATE" not in caplog.text and "BEGIN" not in caplog.text


def test_too_many_strangers_give_way_and_keep_no_host_out(monkeypatch, caplog):
    monkeypatch.setattr("jmars.actors.tls_link.MOST", 2)

    async def test():
        async with two_hosts() as world:
            silent = [await raw(world) for _ in range(2)]  # in the handshake, for ever
            await until(lambda: len(world.server._unproved) == 2)
            world.proxy.cut()  # the host dials again
            await until(lambda: world.proxy.connections == 2 and world.host.up)
            assert await all_of(silent[0][0]) == b""  # the oldest has given way
            assert await world.host.ask("register", "note", 1) == 1
            for _, one in silent:
                one.close()
            await until(lambda: not world.server._unproved)

    run(test)
    assert "a connection of 127.0.0.1 is cut: 2 have shown no certificate yet" in caplog.text


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:70000", "host:x", "::1:5", "host:٣"])
def test_other_texts_than_addresses_are_errors(text):
    with pytest.raises(ValueError, match="is no address"):
        parse_address(text)


def test_the_first_address_that_answers_is_taken():
    async def test():
        world = TwoHosts()
        await world.serve()
        async with asyncio.timeout(60):
            addresses = ["127.0.0.1:1", f"127.0.0.1:{world.proxy.port}"]
            channel = world.new_channel()
            await connect_tls(channel, addresses, client_context(HOST), CLUSTER)
            assert channel.up
            channel.close()
            await asyncio.wait([channel.keeper])
            with pytest.raises(ClusterLostError, match=r"head.5f3a9c01.jmars does not answer \(127.0.0.1:1: .*111"):
                await connect_tls(world.new_channel(), addresses[:1], client_context(HOST), CLUSTER)
            world.server.close()
            await world.proxy.close()

    run(test)
