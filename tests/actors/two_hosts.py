"""A head and a host on loopback, with a proxy between them that cuts, delays and falls silent."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager

from jmars.actors import Mailbox, remote_method
from jmars.actors.lasting import LastingChannel
from jmars.actors.tls import Identity, client_context, server_context
from jmars.actors.tls_link import connect_tls, serve_tls
from jmars.deploy.ca import CertificateAuthority
from jmars.errors import AuthenticationError

CLUSTER = "5f3a9c01"
AUTHORITY = CertificateAuthority(CLUSTER)
OTHER = CertificateAuthority(CLUSTER)  # of the same name, by somebody else
HEAD = AUTHORITY.issue("head")
HOST = AUTHORITY.issue("host-3", incarnation=2)
BEAT = 0.05  # seconds


class Proxy:
    """Passes bytes between a port of its own and another."""

    def __init__(self, to: int) -> None:
        self.to = to
        self.delay = 0.0  # seconds for each piece of bytes
        self.down = False  # new connections are cut at once
        self.connections = 0
        self._passing = asyncio.Event()
        self._passing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """End all connections, by RST."""
        for writer in list(self._writers):
            writer.transport.abort()

    def fall_silent(self) -> None:
        """Pass nothing more on the connections that are there, and tell nobody."""
        self._passing.clear()
        self._passing = asyncio.Event()
        self._passing.set()
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        self.server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # the transports end

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        if self.down:
            writer.transport.abort()
            return
        self.connections += 1
        there, back = await asyncio.open_connection("127.0.0.1", self.to)
        self._writers.add(back)
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.ensure_future(self._pass(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await asyncio.sleep(self.delay)
                target.write(data)
                await target.drain()
            target.close()
        except ConnectionError:
            target.transport.abort()


class Register:
    """An actor that notes what it is told."""

    def __init__(self) -> None:
        self.noted = []

    @remote_method
    def note(self, value):
        self.noted.append(value)
        return value

    @remote_method
    def size(self, data):
        return len(data)

    @remote_method
    async def never(self):
        await asyncio.sleep(3600)  # the loop refers to it; a task that waits for an event of its own is collected

    @remote_method
    def fail(self):
        raise MemoryError("too much")


class TwoHosts:
    """A head that listens, and host 3 in its second incarnation."""

    def __init__(self) -> None:
        self.at_head, self.at_host = Register(), Register()
        self.story = []  # (end, what happened)
        self.channels = {}  # by identity, at the head
        self.gone = set()  # identities that the head gave up

    def mailbox(self, register):
        mailbox = Mailbox()
        mailbox.add("register", register)
        return mailbox

    def told(self, end):
        return {
            "on_down": lambda channel, why: self.story.append((end, "down")),
            "on_end": lambda channel, why: self.story.append((end, f"ended: {why}")),
            "beat": BEAT,
        }

    def accept(self, identity):
        if identity in self.gone:
            raise AuthenticationError("it was given up")
        if identity.host != 3:
            raise AuthenticationError("no such host is expected")
        if identity not in self.channels:
            mailbox = self.mailbox(self.at_head)
            self.channels[identity] = LastingChannel(mailbox, Identity(0, 1), identity, **self.told("head"))
        return self.channels[identity]

    async def serve(self, strangers=None, **options):
        context = server_context(HEAD, strangers=strangers is not None)
        self.server = await serve_tls("127.0.0.1", 0, context, self.accept, strangers)
        self.proxy = Proxy(self.server.port)
        await self.proxy.start()

    def new_channel(self, identity=Identity(3, 2), **options):  # noqa: B008
        told = self.told("host") | options
        return LastingChannel(self.mailbox(self.at_host), identity, Identity(0, 0), **told)

    async def dial(self, channel, credentials=HOST):
        await connect_tls(channel, [f"127.0.0.1:{self.proxy.port}"], client_context(credentials), CLUSTER)

    @property
    def head(self):
        return self.channels[Identity(3, 2)]


@asynccontextmanager
async def two_hosts(**options):
    """Two hosts that are connected; `host` is the channel of the host to its head."""
    world = TwoHosts()
    await world.serve()
    world.host = world.new_channel(**options)
    try:
        await world.dial(world.host)
        yield world
    finally:
        await ended(world)


async def ended(world):
    """End all of it."""
    for channel in [world.host, *world.channels.values()]:
        channel.close()
    if world.host.keeper is not None:
        await asyncio.wait([world.host.keeper])
    world.server.close()
    await world.proxy.close()
    await asyncio.sleep(0.02)  # the transports end


async def until(true, seconds=60.0):
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.002)


def run(test, seconds=20.0):
    """Run a test that must end, and in whose loop nothing may go wrong unseen."""

    async def watched():
        faults = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
        await asyncio.wait_for(test(), seconds)
        assert not faults, faults

    logging.getLogger("asyncio").setLevel(logging.ERROR)
    asyncio.run(watched())
