"""TLS contexts between hosts of one cluster, and the identity that a peer's certificate proves.

Both ends of a connection show certificates of the cluster's own authority (deploy/ca.py). A certificate names a host,
not an address: `head.CLUSTER.jmars` is host 0, `host-3.CLUSTER.jmars` host 3; a second name holds the host's
incarnation. Only TLS 1.3 is spoken. Source: RFC 8446; RFC 6125; RFC 7301.

`gives_way` chooses the connection to close if too many peers have proved no identity yet.
"""

from __future__ import annotations

import os
import re
import ssl
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from jmars.errors import AuthenticationError, ProtocolError

HEAD = 0  # number of the host with clients and scheduler
BEATS = "jmars-beats"  # purpose of a connection for beats alone
_NAME = re.compile(r"(?:head|host-([1-9][0-9]{0,8}))\.([0-9A-Za-z-]{1,40})\.jmars")
_INCARNATION = re.compile(r"incarnation-([1-9][0-9]{0,17})\.(.+)")


@dataclass(frozen=True)
class Credentials:
    """Proof of a host's identity, as PEM texts.

    Attributes
    ----------
    key
        The private key: never shown, never sent.
    certificate
        The host's certificate.
    ca
        The certificate of the cluster's authority.
    """

    key: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    ca: bytes = field(repr=False)


class Identity(NamedTuple):
    """A host of a cluster, as it is started once: a host that starts again has a higher incarnation."""

    host: int
    incarnation: int


def host_name(cluster: str, host: int) -> str:
    """The name of a host in certificates.

    Examples
    --------
    >>> host_name("5f3a9c01", 0), host_name("5f3a9c01", 3)
    ('head.5f3a9c01.jmars', 'host-3.5f3a9c01.jmars')
    """
    return f"{'head' if host == HEAD else f'host-{host}'}.{cluster}.jmars"


def names_of(cluster: str, identity: Identity) -> list[str]:
    """All names in the certificate of a host.

    Raises
    ------
    ValueError
        If the id of the cluster, the number or the incarnation cannot stand in a name.
    """
    name = host_name(cluster, identity.host)
    names = [name, f"incarnation-{identity.incarnation}.{name}"]
    try:
        if _identity(names) == identity:
            return names
    except AuthenticationError:
        pass
    raise ValueError(f"{names[1]} is no name of a host: ids of clusters have letters, digits and -; numbers count up")


def identity_of(certificate: Mapping[str, Any] | None) -> Identity | None:
    """The host of a peer's certificate, as `SSLSocket.getpeercert()` gives it; None if the peer showed none.

    Raises
    ------
    AuthenticationError
        If it is the certificate of something else; only the cluster's authority could have made it.

    Examples
    --------
    >>> names = (("DNS", "host-3.5f3a9c01.jmars"), ("DNS", "incarnation-2.host-3.5f3a9c01.jmars"))
    >>> identity_of({"subjectAltName": names})
    Identity(host=3, incarnation=2)
    """
    if not certificate:
        return None
    return _identity(name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS")


def _identity(names: Iterable[str]) -> Identity:
    found = list(names)
    host = _NAME.fullmatch(found[0]) if len(found) == 2 else None
    number = _INCARNATION.fullmatch(found[1]) if len(found) == 2 else None
    if host is None or number is None or number[2] != found[0]:
        raise AuthenticationError(f"a certificate for {found[:3]} is not one of a host; make another for it")
    return Identity(int(host[1] or HEAD), int(number[1]))


def server_context(credentials: Credentials, strangers: bool = False) -> ssl.SSLContext:
    """A context for sockets that listen.

    Clients without a certificate of the cluster are refused. In TLS 1.3 such a client sees its handshake succeed and
    is refused at its first read.

    Parameters
    ----------
    strangers
        Accept clients without any certificate, too: `identity_of` gives None for them. Other certificates than the
        cluster's are refused all the same.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, credentials.ca)
    context.verify_mode = ssl.CERT_OPTIONAL if strangers else ssl.CERT_REQUIRED
    context.set_alpn_protocols([BEATS])  # chosen if the client offers it
    context.num_tickets = 0  # a socket closed with tickets unread sends RST, and bytes under way are lost
    _load(context, credentials)
    return context


def client_context(credentials: Credentials, purpose: str = "") -> ssl.SSLContext:
    """A context for sockets that dial; give the peer's `host_name` as `server_hostname`, it is checked.

    Parameters
    ----------
    purpose
        BEATS for a connection that only tells that this host lives; "" for a link. It goes by ALPN.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, credentials.ca)
    if purpose:
        context.set_alpn_protocols([purpose])
    _load(context, credentials)
    return context


def enrolment_context(ca: bytes) -> ssl.SSLContext:
    """A context for a host that has no certificate yet; it checks the head's as `client_context` does."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, ca)


def _context(protocol: ssl._SSLMethod, ca: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)  # no default CAs, and no key log whatever the environment says
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the certificate of the cluster's authority cannot be read: {error}") from error
    return context


def _load(context: ssl.SSLContext, credentials: Credentials) -> None:
    """Load key and certificate from memory: OpenSSL wants a path, and nothing is written to a disk."""
    fd = os.memfd_create("jmars-credentials")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(credentials.key + credentials.certificate)
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=b"")  # bytes: never asks at the terminal
    except ssl.SSLError as error:
        raise ProtocolError(f"the key and certificate of this host cannot be read, or are no pair: {error}") from error
    finally:
        os.close(fd)


Peer = TypeVar("Peer")


def gives_way(addresses: Mapping[Peer, str]) -> Peer:
    """The oldest peer of the address that has most.

    Refusing the newest peer instead would let held connections keep all hosts out.

    Parameters
    ----------
    addresses
        By peer, the oldest first; one at least.

    Examples
    --------
    >>> gives_way({"a": "10.0.0.1", "b": "10.0.0.9", "c": "10.0.0.9"})
    'b'
    """
    count = Counter(addresses.values())
    most = max(count.values())
    return next(peer for peer, address in addresses.items() if count[address] == most)
