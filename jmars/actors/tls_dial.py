"""Dials another host of the cluster: the first time, and whenever the connection breaks or falls silent."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from jmars.actors.connection import GreetedConnection
from jmars.actors.lasting import LastingChannel, called
from jmars.actors.tls import host_name
from jmars.actors.tls_link import LINK, TlsClientGreeting, TlsLink
from jmars.actors.tls_server import CLOSE_SECONDS, HANDSHAKE_SECONDS
from jmars.errors import AuthenticationError, ClusterLostError, HostRefusedError

__all__ = ["connect_tls", "dial_tls", "parse_address"]

log = logging.getLogger("jmars.actors")

DIAL_SECONDS = 5.0  # for one address
SILENT_BEATS = 5  # a connection without a byte for so many beats is replaced, though the system has not noticed
PAUSES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.0)  # seconds before each attempt; the last one is repeated

Made = TypeVar("Made", bound=GreetedConnection)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of an address.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> parse_address("10.0.0.7:4711"), parse_address("[::1]:4711")
    (('10.0.0.7', 4711), ('::1', 4711))
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} is no address; write host:port, as 10.0.0.7:4711 or [::1]:4711")
    return host, int(port)


async def connect_tls(channel: LastingChannel, addresses: Sequence[str], context: ssl.SSLContext, cluster: str) -> None:
    """Connect a channel to its peer, and dial again in the background until the channel has ended.

    Parameters
    ----------
    addresses
        Of the peer as "host:port", tried in this order.
    context
        Of `client_context`.
    cluster
        Id of the cluster, part of the name that the peer must prove.

    Raises
    ------
    AuthenticationError
        If the peer does not prove its name; HostRefusedError if it refuses this host. The channel is given up.
    ClusterLostError
        If no address answers. The channel is given up.
    """
    dialler = _Dialler(channel, addresses, context, cluster)
    try:
        link = await dialler.dial()
    except BaseException as error:
        channel.give_up(str(error) or type(error).__name__)
        raise
    channel.keeper = asyncio.ensure_future(dialler.keep(link))
    channel.keeper.add_done_callback(_report)


async def dial_tls(
    addresses: Sequence[str],
    context: ssl.SSLContext,
    name: str,
    code: bytes,
    make: Callable[[TlsClientGreeting], Made],
) -> Made:
    """A connection to the first of several addresses that answers, welcome there as `code` says.

    Parameters
    ----------
    name
        The `host_name` that the other end must prove.
    make
        Makes the protocol of a connection from its greeting.

    Raises
    ------
    AuthenticationError
        If the other end does not prove its name; HostRefusedError if it refuses this host.
    ClusterLostError
        If no address answers.
    """
    failed = {}
    untrusted = False
    for address in addresses:
        greeting = TlsClientGreeting(code)
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                return await _dial(parse_address(address), context, name, partial(make, greeting))
        except OSError as error:  # errors of TLS, of time and of jmars are among these
            if greeting.refused:
                raise HostRefusedError(greeting.refused) from error
            untrusted = untrusted or isinstance(error, ssl.SSLCertVerificationError)
            failed[address] = _reason(error)
    what = "; ".join(f"{address}: {why}" for address, why in failed.items())
    if untrusted:
        raise AuthenticationError(f"what answers is not {name} of this cluster ({what}); check the address")
    raise ClusterLostError(f"{name} does not answer ({what}); check address and firewall")


async def _dial(address: tuple[str, int], context: ssl.SSLContext, name: str, make: Callable[[], Made]) -> Made:
    transport, connection = await asyncio.get_running_loop().create_connection(
        make,
        *address,
        ssl=context,
        server_hostname=name,
        ssl_handshake_timeout=HANDSHAKE_SECONDS,
        ssl_shutdown_timeout=CLOSE_SECONDS,
    )
    try:
        await connection.ready
    except BaseException:
        transport.abort()
        raise
    return connection


def _reason(error: OSError) -> str:
    if isinstance(error, ClusterLostError):
        return str(error.__cause__ or "it hung up; its log says why")
    return str(error) or f"no answer within {DIAL_SECONDS:g} s"


class _Dialler:
    def __init__(
        self, channel: LastingChannel, addresses: Sequence[str], context: ssl.SSLContext, cluster: str
    ) -> None:
        self._channel, self._addresses, self._context = channel, addresses, context
        self._name = host_name(cluster, channel.peer.host)

    async def dial(self) -> TlsLink:
        """The next connection of the channel."""

        def made(greeting: TlsClientGreeting) -> TlsLink:
            return TlsLink(self._channel, greeting, dials=True)

        link = await dial_tls(self._addresses, self._context, self._name, LINK, made)
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                await link.joined
        except TimeoutError as error:
            link.cut()
            raise ClusterLostError(f"{self._name} does not begin a link; look at its log") from error
        return link

    async def keep(self, link: TlsLink) -> None:
        """Replace each connection that breaks or falls silent, until the channel ends."""
        channel = self._channel
        while not channel.closed:
            await self._broken(link)
            found = await self._dial_again()
            if found is not None:
                link = found

    # -- own
    async def _broken(self, link: TlsLink) -> None:
        """Wait until a connection has ended; end a silent connection."""
        channel, silence = self._channel, SILENT_BEATS * self._channel.beat
        loop = asyncio.get_running_loop()
        while not link.gone.is_set():
            try:
                async with asyncio.timeout_at(channel.last_heard + silence):
                    await link.gone.wait()
            except TimeoutError:
                if loop.time() >= channel.last_heard + silence:
                    log.warning("%s was silent for %.3g s: dialled again", called(channel.peer), silence)
                    link.cut()
                    await link.gone.wait()

    async def _dial_again(self) -> TlsLink | None:
        """The next connection; None when the channel has ended."""
        channel, attempt, said = self._channel, 0, ""
        while not channel.closed:
            pause = PAUSES[min(attempt, len(PAUSES) - 1)] * random.uniform(0.5, 1.0)  # hosts come apart in time
            try:
                async with asyncio.timeout(pause):
                    await channel.ended.wait()
                    return None
            except TimeoutError:
                attempt += 1
            try:
                return await self.dial()
            except HostRefusedError as error:
                channel.give_up(str(error))
                return None
            except (AuthenticationError, ClusterLostError) as error:
                why = str(error)
            if why != said:
                log.warning("%s", why)
                said = why
        return None


def _report(task: asyncio.Task[None]) -> None:
    """A fault of ours ends the process as others do, by the loop's handler."""
    if not task.cancelled() and task.exception() is not None:
        what = {"message": "a link is not dialled any more", "exception": task.exception()}
        asyncio.get_running_loop().call_exception_handler(what)
