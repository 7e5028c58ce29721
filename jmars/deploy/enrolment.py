"""Enrolment: how a host with a ticket gets its certificate.

The host makes its own key and connects without a certificate; such a connection reaches the actor "enrolment" and
nothing else. The host proves the secret of its ticket by an HMAC over its certificate request, and the head answers
with the certificate. A secret is valid for a while, and for a single host or for a number of hosts: the head numbers
hosts of a common ticket as they come. A request is answered again where the answer was lost: the certificate is of no
use without the key of the request. Source: RFC 2104.

    host   enrol(host, incarnation, request, HMAC)         ─▶  head
    host   ◀─  host, incarnation, certificate, hosts left      head

A guest has no secret: the starter passes the request on to the head, and the certificate back.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jmars.actors import ActorChannel, Mailbox, remote_method
from jmars.actors.tls import HEAD, Credentials, Identity, client_context, enrolment_context, host_name
from jmars.actors.tls_dial import dial_tls
from jmars.actors.tls_link import VISITOR, TlsClientGreeting
from jmars.deploy.ca import CertificateAuthority, check_request, new_request
from jmars.deploy.tickets import SECRET, Ticket
from jmars.errors import AuthenticationError, ClusterLostError, HostRefusedError

__all__ = ["ENROLMENT", "Enrolled", "Enrolment", "EnrolmentActor", "EnrolmentAnswer", "certified", "enrol", "strangers"]

log = logging.getLogger("jmars.host")

ENROLMENT = "enrolment"  # name of the actor
VALID_SECONDS = 60.0
ANSWER_SECONDS, ATTEMPTS = 8.0, 3  # for an answer, whose connection may break
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
            Whom a host says to be that enrols by the secret.
        hosts
            Number of hosts that may enrol by it.
        seat
            Gives each of them its identity; None where it is `identity`.

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

    def withdraw(self, identity: Identity) -> None:
        """The ticket of a host is not valid any more; one that was used has had its effect."""
        if identity in self._invitations:
            self._invitations[identity].left = 0
            self._invitations[identity].answers.clear()

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
            async with asyncio.timeout(ANSWER_SECONDS):
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
