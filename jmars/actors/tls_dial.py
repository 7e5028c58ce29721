"""Dials another host of the cluster: the first time, and whenever the connection breaks or falls silent."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Sequence

from jmars.actors.lasting import LastingChannel, called
from jmars.actors.tls import host_name
from jmars.actors.tls_link import LINK, TlsClientGreeting, TlsLink
from jmars.actors.tls_server import CLOSE_SECONDS, HANDSHAKE_SECONDS
from jmars.errors import AuthenticationError, ClusterLostError

__all__ = ["connect_tls", "parse_address"]

log = logging.getLogger("jmars.actors")

DIAL_SECONDS = 5.0  # for one address
SILENT_BEATS = 5  # a connection without a byte for so many beats is replaced, though the system has not noticed
PAUSES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.0)  # seconds before each attempt; the last one is repeated


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
        If the peer refuses this host, or does not prove its name. The channel is given up.
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


def _reason(error: Exception) -> str:
    if isinstance(error, ClusterLostError):
        return str(error.__cause__ or "it hung up; its log says why")
    return str(error) or f"no answer within {DIAL_SECONDS:g} s"


class _Dialler:
    def __init__(
        self, channel: LastingChannel, addresses: Sequence[str], context: ssl.SSLContext, cluster: str
    ) -> None:
        self._channel, self._context = channel, context
        self._addresses = [parse_address(one) for one in addresses]
        self._name = host_name(cluster, channel.peer.host)

    async def dial(self) -> TlsLink:
        """A connection to the first address that answers; it is attached to the channel."""
        failed = {}
        untrusted = False
        for host, port in self._addresses:
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    return await self._dial(host, port)
            except AuthenticationError:
                raise
            except (OSError, ClusterLostError) as error:  # TimeoutError and errors of TLS are among these
                untrusted = untrusted or isinstance(error, ssl.SSLCertVerificationError)
                failed[f"{host}:{port}"] = _reason(error)
        what = "; ".join(f"{address}: {why}" for address, why in failed.items())
        if untrusted:
            raise AuthenticationError(f"what answers is not {self._name} of this cluster ({what}); check the address")
        raise ClusterLostError(f"{called(self._channel.peer)} does not answer ({what}); check address and firewall")

    async def keep(self, link: TlsLink) -> None:
        """Replace each connection that breaks or falls silent, until the channel ends."""
        channel = self._channel
        while not channel.closed:
            await self._broken(link)
            found = await self._dial_again()
            if found is not None:
                link = found

    # -- own
    async def _dial(self, host: str, port: int) -> TlsLink:
        greeting = TlsClientGreeting(LINK)
        transport, link = await asyncio.get_running_loop().create_connection(
            lambda: TlsLink(self._channel, greeting, dials=True),
            host,
            port,
            ssl=self._context,
            server_hostname=self._name,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=CLOSE_SECONDS,
        )
        try:
            await link.ready
            await link.joined
        except BaseException:
            transport.abort()
            if greeting.refused:
                self._channel.give_up(greeting.refused)
            raise
        return link

    async def _broken(self, link: TlsLink) -> None:
        """Wait until a connection has ended; end it where it is silent."""
        channel, silence = self._channel, SILENT_BEATS * self._channel.beat
        loop = asyncio.get_running_loop()
        while not link.gone.is_set():
            try:
                async with asyncio.timeout_at(channel.last_heard + silence):
                    await link.gone.wait()
            except TimeoutError:
                if loop.time() - channel.last_heard >= silence:
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
