"""TLS sockets between hosts: blocking connections with both identities checked.

Both ends prove a certificate of the cluster's authority for their host and incarnation (actors/tls.py); an address is
no proof. After TLS the ends exchange HELLO frames: they must agree with the certificates, and name the host that is
expected at the other end.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from jmars.actors.tls import Credentials, client_context, host_name, identity_of, server_context
from jmars.actors.tls_link import tune
from jmars.errors import AuthenticationError, ProtocolError
from jmars.transport import wire

HELLO_SECONDS = 5.0  # for a connection, for TLS and for each HELLO


@dataclass(frozen=True)
class HostIdentity:
    """This host, with key and certificates as PEM text."""

    cluster: str
    host: int
    incarnation: int
    key: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    ca: bytes = field(repr=False)

    def hello(self, to_host: int, to_incarnation: int) -> wire.Hello:
        """The first frame to a host."""
        return wire.Hello(wire.cluster_id(self.cluster), self.host, self.incarnation, to_host, to_incarnation)

    def context(self, is_server: bool) -> ssl.SSLContext:
        """A context that proves this host, and demands the proof of the other end."""
        return (server_context if is_server else client_context)(Credentials(self.key, self.certificate, self.ca))


def listen(bind: str) -> socket.socket:
    """A listening socket at `"address:port"`; port 0 takes any."""
    address, _, port = bind.rpartition(":")
    address = address.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, int(port)), family=family, backlog=128)


def dial(context: ssl.SSLContext, identity: HostIdentity, host: int, incarnation: int, address: str) -> ssl.SSLSocket:
    """Connect to a host.

    Raises
    ------
    OSError
        If nobody answers there, or TLS fails.
    AuthenticationError
        If another host answers, or the host refuses this one.
    ProtocolError
        If it is no jmars.
    """
    name, _, port = address.rpartition(":")
    raw = socket.create_connection((name.strip("[]"), int(port)), HELLO_SECONDS)
    link = _with_tls(raw, context, host_name(identity.cluster, host))
    try:
        found = identity_of(link.getpeercert())
        if found != (host, incarnation):
            raise AuthenticationError(f"at {address} is {found}, and not incarnation {incarnation} of host {host}")
        link.sendall(identity.hello(host, incarnation).pack())
        why = _contradiction(_read_hello(link), identity, link)
        if why:
            raise AuthenticationError(f"host {host} at {address} contradicts itself: {why}")
        return link
    except BaseException:
        link.close()
        raise


def accept(
    context: ssl.SSLContext, identity: HostIdentity, raw: socket.socket, refusal: Callable[[int, int], str]
) -> tuple[ssl.SSLSocket, wire.Hello]:
    """Greet a host that has connected; returns the socket and the host's HELLO.

    Parameters
    ----------
    refusal
        Takes host and incarnation; returns why they are refused, or "".

    Raises
    ------
    OSError
        If TLS fails.
    AuthenticationError
        If the host is not what it says, or is refused.
    ProtocolError
        If it is no jmars.
    """
    raw.settimeout(HELLO_SECONDS)
    link = _with_tls(raw, context, None)
    try:
        hello = _read_hello(link)
        why = _contradiction(hello, identity, link) or refusal(hello.host, hello.incarnation)
        if why:
            link.sendall(wire.lost(0, 0, wire.REFUSED, why))
            raise AuthenticationError(f"refused host {hello.host}, incarnation {hello.incarnation}: {why}")
        link.sendall(identity.hello(hello.host, hello.incarnation).pack())
        return link, hello
    except BaseException:
        link.close()
        raise


def _with_tls(raw: socket.socket, context: ssl.SSLContext, server: str | None) -> ssl.SSLSocket:
    try:
        tune(raw)
        return context.wrap_socket(raw, server_side=server is None, server_hostname=server)
    except BaseException:
        raw.close()
        raise


def _contradiction(hello: wire.Hello, identity: HostIdentity, link: ssl.SSLSocket) -> str:
    """Why a HELLO is not true, or not meant for this host; "" if all is well."""
    if hello.cluster != wire.cluster_id(identity.cluster):
        return "another cluster"
    if identity_of(link.getpeercert()) != (hello.host, hello.incarnation):
        return f"it says to be {hello.host, hello.incarnation}, and its certificate {identity_of(link.getpeercert())}"
    if (hello.to_host, hello.to_incarnation) != (identity.host, identity.incarnation):
        return f"this is host {identity.host}, incarnation {identity.incarnation}"
    return ""


def _read_hello(link: ssl.SSLSocket) -> wire.Hello:
    kind, _, _, _, length = wire.parse_head(_read(link, wire.HEAD))
    if kind == wire.LOST:
        raise AuthenticationError(f"the host refuses this one: {wire.parse_lost(_read(link, length))[1]}")
    if kind != wire.HELLO:
        raise ProtocolError(f"the other end begins with a frame of kind {kind}; it is no jmars")
    return wire.parse_hello(_read(link, length))


def read_frame(link: ssl.SSLSocket) -> tuple[int, bytes]:
    """Kind and body of the next frame, on a connection that blocks."""
    kind, _, _, _, length = wire.parse_head(_read(link, wire.HEAD))
    return kind, _read(link, length)


def _read(link: ssl.SSLSocket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            raise ConnectionError("the other end hung up before all was said")
        data += more
    return bytes(data)
