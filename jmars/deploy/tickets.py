"""Tickets: JSON documents by which hosts join a cluster, and how a host with a ticket gets its certificate.

A ticket admits a single host, or several hosts that share the secret and get numbers as they come. A launcher writes a
ticket as a line to the host's standard input; a ticket made by hand is a file that only the user can read. The secret
proves the host to the head until the host has a certificate; no argument, environment, log or repr has the secret.

Enrolment: the host makes its own key and connects without a certificate; such a connection reaches the actor
"enrolment" alone. The host proves the secret of its ticket by an HMAC over its certificate request, and the head
answers with the certificate. A secret is valid for a while, and for a single host or for a number of hosts: the head
numbers hosts of a common ticket as they come. A request is answered again where the answer was lost: the certificate is
of no use without the key of the request. Source: RFC 2104.

    host   enrol(host, incarnation, request, HMAC)         ─▶  head
    host   ◀─  host, incarnation, certificate, hosts left      head

A guest has no secret: the starter passes the request on to the head, and the certificate back.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import math
import os
import socket
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Meta, Struct

from jmars.actors import ActorChannel, Mailbox, remote_method
from jmars.actors.tls import HEAD, Credentials, Identity, client_context, enrolment_context, host_name, names_of
from jmars.actors.tls_link import VISITOR, TlsClientGreeting, TlsServer, dial_tls, format_address, parse_address
from jmars.deploy.ca import CertificateAuthority, check_request, new_request
from jmars.errors import AuthenticationError, ClusterLostError, ClusterStartError, HostRefusedError, ProtocolError

if TYPE_CHECKING:  # a host that joins loads no scheduler
    from jmars.deploy.roster import Roster

VERSION = 2
SECRET = 32  # bytes
LARGEST = 64 * 1024  # bytes of a ticket
AGAIN = "let the cluster make a new ticket"
Text = Annotated[str, Meta(min_length=1)]
Number = Annotated[int, Meta(gt=0, lt=10**9)]


class Ticket(Struct, frozen=True, tag_field="v", tag=VERSION):
    """All that a host must know to join.

    Attributes
    ----------
    cluster
        Id of the cluster.
    name
        Name of the host for people.
    host, incarnation
        Number of the host, and how often a host of this number was started; 0 and the number of the ticket where the
        head gives each host its number that comes by the ticket.
    head
        Addresses of the head as "host:port", tried in this order.
    ca
        Certificate of the cluster's authority, PEM text as bytes.
    secret
        32 bytes that are valid once, or for as many hosts as the head says: never shown. None for a guest, which asks
        its starter for a certificate, over the standard streams, and ends with the starter.
    limit
        Bytes of memory that the host may take, also as "8GiB"; None for its default.
    workers, threads
        Number of executors, and of threads in each; None for the host's defaults.
    spill
        Folder for chunks on disk; None for the host's default.
    gpus
        GPUs of the host, as of `Cluster`: "auto" for all that the host has, a number, or names.
    lease
        Seconds of silence of the head after which the host ends.
    """

    cluster: str
    name: Text
    host: Annotated[int, Meta(ge=0, lt=10**9)]
    incarnation: Number
    head: Annotated[tuple[str, ...], Meta(min_length=1)]
    ca: bytes
    secret: Annotated[bytes, Meta(min_length=SECRET, max_length=SECRET)] | None
    limit: Annotated[int, Meta(gt=0)] | Text | None = None
    workers: Number | None = None
    threads: Number | None = None
    spill: Text | None = None
    lease: Annotated[float, Meta(gt=0)] = 30.0
    gpus: Annotated[int, Meta(ge=0, lt=1000)] | str | tuple[str, ...] = 0

    def __post_init__(self) -> None:
        names_of(self.cluster, Identity(1, 1))
        for address in self.head:
            parse_address(address)
        if b"BEGIN CERTIFICATE" not in self.ca:
            raise ValueError("`ca` is no certificate as PEM text")

    def __repr__(self) -> str:  # without the secret
        return f"<Ticket {self.cluster} {self.name} host={self.host} incarnation={self.incarnation} head={self.head}>"

    __rich_repr__ = None  # type: ignore[assignment]  # Struct's shows all fields

    @property
    def identity(self) -> Identity:
        """The host that joins by the ticket; host 0 for any host."""
        return Identity(self.host, self.incarnation)

    def line(self) -> bytes:
        """The document, with the secret, in a single line."""
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def of(cls, text: bytes) -> Ticket:
        """The ticket of a document; fields that this version does not know are ignored.

        Raises
        ------
        ProtocolError
            If it is no ticket; the text of the error has nothing of the secret.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            why = f"this is no ticket of version {VERSION}: {error}"  # the path of the field, without its value
            raise ProtocolError(f"{why}; {AGAIN}, or install the head's jmars here") from None


def read_ticket(source: str, stdin: BinaryIO | None = None) -> Ticket:
    """The ticket of a file, or the first line of standard input where `source` is "-".

    Raises
    ------
    ClusterStartError
        If there is no such file.
    AuthenticationError
        If the file is another user's, or others may read or write it.
    ProtocolError
        If the file holds no ticket.
    """
    if source == "-":
        text = (stdin or sys.stdin.buffer).readline(LARGEST + 1)
    else:
        text = _text_of(source)
    if not text.strip():
        raise ProtocolError(f"there is no ticket, though one should come from {_where(source)}; {AGAIN}")
    if len(text) > LARGEST:
        raise ProtocolError(f"{_where(source)} has more than the {LARGEST} bytes of a ticket; {AGAIN}")
    return Ticket.of(text)


def _where(source: str) -> str:
    return "standard input" if source == "-" else source


def _text_of(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ClusterStartError(f"the ticket {path} cannot be read: {error.strerror}; {AGAIN}") from error
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise AuthenticationError(f"the ticket {path} is no file; {AGAIN}")
        if status.st_uid != os.getuid():
            raise AuthenticationError(f"the ticket {path} belongs to another user (uid {status.st_uid}); {AGAIN}")
        if status.st_mode & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise AuthenticationError(
                f"others may open the ticket {path} (mode {mode}) and know its secret; {AGAIN}, and keep it 0600"
            )
        return file.read(LARGEST + 1)


LOOPBACK = "127.0.0.1"
LEASE = 30.0  # seconds of silence of the head, after which a host ends
_AWAY = ("192.0.2.1", "2001:db8::1")  # reserved for documentation: the way there is the way to other machines


class JoinTickets:
    """Makes the tickets of a cluster.

    Parameters
    ----------
    listen
        Listens for hosts of other machines, too.
    """

    def __init__(self, roster: Roster, enrolment: Enrolment, listen: Callable[[], Awaitable[TlsServer]]) -> None:
        self._roster, self._enrolment, self._listen = roster, enrolment, listen
        self._server: TlsServer | None = None
        self._opening = asyncio.Lock()
        self._made = 0
        self._again: dict[int, tuple[int, bytes]] = {}  # tickets of hosts that joined, by number

    async def make(self, settings: Mapping[str, Any], hosts: int, seconds: float, addresses: Sequence[str]) -> bytes:
        """A ticket as a line of JSON with the secret.

        Parameters
        ----------
        settings
            Of the hosts: limit, workers, threads, spill and gpus; None for a host's defaults.
        hosts
            Number of hosts that may join.
        seconds
            For how long.
        addresses
            Of this machine, as the hosts reach it; empty for those that the machine knows itself.
        """
        port = await self.port()
        asked, secret = self._invite(seconds, hosts, self._roster.expect_new)
        head = addresses or own_addresses()
        return self._enrolment.ticket("a host that joins", asked, secret, head, port, settings, LEASE)

    async def port(self) -> int:
        """Port for hosts of any machine."""
        async with self._opening:
            if self._server is None:
                self._server = await self._listen()
        return self._server.port

    def again(self, number: int) -> tuple[int, bytes]:
        """Number and secret of the ticket by which a host joins again after it was given up, however often."""
        if number not in self._again:
            seat = partial(self._roster.expect_again, number)
            asked, secret = self._invite(math.inf, sys.maxsize, seat)
            self._again[number] = asked.incarnation, secret
        return self._again[number]

    def _invite(self, seconds: float, hosts: int, seat: Callable[[], Identity]) -> tuple[Identity, bytes]:
        self._made += 1
        asked = Identity(HEAD, self._made)
        return asked, self._enrolment.invite(asked, self._roster.now(), seconds, hosts, seat)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()


def own_addresses() -> list[str]:
    """Names and addresses by which hosts may reach this machine: of routes to other machines, the name, loopback."""
    found = []
    for family, address in zip((socket.AF_INET, socket.AF_INET6), _AWAY, strict=True):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))  # sends nothing: the system chooses a route
                found.append(str(probe.getsockname()[0]))
        except OSError:
            continue  # no way to other machines by this family
    return list(dict.fromkeys([*found, socket.gethostname(), LOOPBACK]))


log = logging.getLogger("jmars.host")

ENROLMENT = "enrolment"  # name of the actor
VALID_SECONDS = 60.0
ENROLMENT_SECONDS, ATTEMPTS = 8.0, 3  # for an answer, whose connection may break
NEW_TICKET = "start the host again, with a new ticket"


@dataclass
class _Invitation:
    secret: bytes = field(repr=False)
    ends: float  # seconds of the head's monotonic clock
    left: int  # hosts that may still enrol
    seat: Callable[[], Identity]  # gives the identity of the next of them
    answers: dict[bytes, EnrolmentAnswer] = field(default_factory=dict)  # by request


class EnrolmentAnswer(NamedTuple):
    """Identity and certificate (PEM text) of a host, and the number of hosts that may still enrol with the ticket."""

    identity: Identity
    certificate: bytes
    left: int


class Enrolled(NamedTuple):
    """Identity and credentials of this host, and the number of hosts that may still enrol with the ticket."""

    identity: Identity
    credentials: Credentials
    left: int


class Enrolment:
    """Decides which hosts get a certificate. Times are seconds of a monotonic clock of the head.

    Examples
    --------
    >>> authority = CertificateAuthority("5f3a9c01")
    >>> enrolment = Enrolment(authority)
    >>> secret = enrolment.invite(Identity(3, 1), now=0.0)
    >>> key, request = new_request()
    >>> proof = prove(secret, "5f3a9c01", Identity(3, 1), request)
    >>> enrolment.admit(Identity(3, 1), request, proof, now=1.0).certificate[:27]
    b'-----BEGIN CERTIFICATE-----'
    >>> _, other = new_request()
    >>> enrolment.admit(Identity(3, 1), other, prove(secret, "5f3a9c01", Identity(3, 1), other), now=1.1)
    Traceback (most recent call last):
    jmars.errors.HostRefusedError: the ticket of host 3 (incarnation 1) was used already; ...
    """

    def __init__(self, authority: CertificateAuthority) -> None:
        self.authority = authority
        self._invitations: dict[Identity, _Invitation] = {}

    def invite(
        self,
        identity: Identity,
        now: float,
        seconds: float = VALID_SECONDS,
        hosts: int = 1,
        seat: Callable[[], Identity] | None = None,
    ) -> bytes:
        """The secret by which a host can enrol within `seconds`; a job that waits in a queue needs longer.

        Parameters
        ----------
        identity
            Identity of the host that enrols by the secret.
        hosts
            Number of hosts that may enrol.
        seat
            Gives each host an identity; None where all have `identity`.

        Raises
        ------
        ValueError
            If this incarnation of the host was invited before.
        """
        if identity in self._invitations:
            raise ValueError(f"host {identity.host} was invited as incarnation {identity.incarnation} before; count on")
        secret = os.urandom(SECRET)
        self._invitations[identity] = _Invitation(secret, now + seconds, hosts, seat or (lambda: identity))
        return secret

    def ticket(
        self,
        name: str,
        identity: Identity,
        secret: bytes | None,
        head: Iterable[str],
        port: int,
        settings: Mapping[str, Any],
        lease: float,
    ) -> bytes:
        """A ticket as a line; `head` are addresses of this machine, `settings` limit, workers, threads, spill, gpus."""
        return Ticket(
            self.authority.cluster,
            name,
            *identity,
            tuple(format_address(one, port) for one in head),
            self.authority.certificate,
            secret,
            settings["limit"],
            settings["workers"] or None,
            settings["threads"],
            settings["spill"],
            lease,
            settings["gpus"],
        ).line()

    def admit(self, identity: Identity, request: bytes, proof: bytes, now: float) -> EnrolmentAnswer:
        """The certificate of a host.

        Raises
        ------
        AuthenticationError
            If the secret is unknown, wrong, used or late, or the request is false. Only who proves the secret is told
            more than that it is unknown or wrong.
        """
        whose = f" of host {identity.host} (incarnation {identity.incarnation})" if identity.host else ""
        what = f"the ticket{whose}"
        found = self._invitations.get(identity)
        expected = prove(found.secret if found else os.urandom(SECRET), self.authority.cluster, identity, request)
        if found is None or not hmac.compare_digest(expected, proof):
            raise HostRefusedError(f"{what} is unknown here, or its secret is wrong; {NEW_TICKET}")
        if not found.left and request not in found.answers:
            raise HostRefusedError(f"{what} was used already; {NEW_TICKET}")
        if now > found.ends:
            raise HostRefusedError(f"{what} was valid until {now - found.ends:.0f} s ago; {NEW_TICKET}")
        if request not in found.answers:
            check_request(request)  # before it takes a seat
            seat = found.seat()
            found.left -= 1
            found.answers[request] = EnrolmentAnswer(seat, self.authority.sign(request, seat), found.left)
        return found.answers[request]


def prove(secret: bytes, cluster: str, identity: Identity, request: bytes) -> bytes:
    """Proof that the holder of `secret` asks for this certificate."""
    head = f"jmars-enrol-1|{cluster}|{identity.host}|{identity.incarnation}|".encode()
    return hmac.new(secret, head + request, hashlib.sha256).digest()


class EnrolmentActor:
    """The actor "enrolment", which strangers reach."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment = enrolment

    @remote_method
    def enrol(self, host: Any, incarnation: Any, request: Any, proof: Any) -> tuple[int, int, bytes, int]:
        """Number, incarnation and certificate of a host that proves its ticket's secret, and how many more may come."""
        try:
            if [type(one) for one in (host, incarnation, request, proof)] != [int, int, bytes, bytes]:
                raise HostRefusedError("what a stranger said is no request of this version of jmars")
            found = self._enrolment.admit(Identity(host, incarnation), request, proof, time.monotonic())
        except AuthenticationError as error:
            log.warning("a host is refused: %s", error)
            raise
        log.info("host %d (incarnation %d) has its certificate", *found.identity)
        return (*found.identity, found.certificate, found.left)


def strangers(enrolment: Enrolment) -> Mailbox:
    """All that connections without a certificate reach; for `serve_tls`."""
    mailbox = Mailbox()
    mailbox.add(ENROLMENT, EnrolmentActor(enrolment))
    return mailbox


async def enrol(ticket: Ticket) -> Enrolled:
    """Get a certificate for this host, whose key is made here and never sent.

    Raises
    ------
    AuthenticationError
        If what answers is not the head; HostRefusedError if the head refuses the ticket.
    ClusterLostError
        If the head does not answer.
    ClusterStartError
        If the package cryptography is not installed.
    """
    assert ticket.secret is not None
    key, request = new_request()
    name = host_name(ticket.cluster, HEAD)

    def made(greeting: TlsClientGreeting) -> ActorChannel:
        return ActorChannel(Mailbox(), greeting)

    proof = prove(ticket.secret, ticket.cluster, ticket.identity, request)
    answer, attempt = None, 0
    while answer is None:
        channel = await dial_tls(ticket.head, enrolment_context(ticket.ca), name, VISITOR, made)
        attempt += 1
        try:
            async with asyncio.timeout(ENROLMENT_SECONDS):
                answer = await channel.ask(ENROLMENT, "enrol", *ticket.identity, request, proof)
        except (TimeoutError, ClusterLostError) as error:  # the head answers the same request again
            if attempt == ATTEMPTS:
                raise ClusterLostError(f"{name} has not answered {attempt} times ({error}); {NEW_TICKET}") from error
            log.warning("%s has not answered, and is asked again: %s", name, error)
        finally:
            channel.close()
    *seat, certificate, left = answer
    return Enrolled(Identity(*seat), _pair(key, certificate, ticket), left)


def certified(ticket: Ticket, ask: Callable[[bytes], bytes]) -> Enrolled:
    """Make a key for a guest, which is never sent, and get the certificate; blocks.

    Parameters
    ----------
    ask
        Passes a request for a certificate on, and gives the certificate, both as PEM text; b"" where nobody answers.

    Raises
    ------
    ProtocolError
        If there is no certificate, or one for another key.
    ClusterStartError
        If the package cryptography is not installed.
    """
    key, request = new_request()
    return Enrolled(ticket.identity, _pair(key, ask(request), ticket), 0)


def _pair(key: bytes, certificate: bytes, ticket: Ticket) -> Credentials:
    credentials = Credentials(key, certificate, ticket.ca)
    client_context(credentials)  # raises where key and certificate are no pair
    return credentials
