"""Greetings: how the ends of a connection prove to each other who they are, before any message is decoded.

A greeting is plain: it takes bytes of the peer and returns bytes to send. `UnixGreeting` serves the processes of one
host; the greetings of tls_link.py serve links between hosts, which prove themselves by certificates.

`UnixGreeting` proves the same user of this host and the cluster's token. The server sends a nonce, the client answers
with an HMAC and a nonce of its own, the server answers with an HMAC. All three messages are of fixed length, so nothing
is parsed before the token is proven: a stranger can neither have a pickle read nor replay frames. Source: RFC 2104.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import socket
import struct
import sys
from abc import ABC, abstractmethod

from jmars.errors import AuthenticationError, ProtocolError

PROOF_SECONDS = 0.9  # a client without proof is disconnected after so many
ANSWER_SECONDS = 30.0  # a cluster that is busy compiling may answer late


class Greeting(ABC):
    """An end of a connection's handshake.

    Attributes
    ----------
    patience
        Seconds that the handshake may take.
    proof
        The noun of the missing proof, for error messages.
    advice
        Advice for the user of a refused connection.
    """

    patience: float
    proof: str
    advice: str

    @abstractmethod
    def begin(self, transport: asyncio.Transport) -> bytes:
        """Check the peer as far as the transport knows it; returns bytes to send first.

        Raises
        ------
        AuthenticationError
            If the peer may not connect.
        """

    @abstractmethod
    def take(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Take bytes of the peer; returns bytes to send, and the bytes behind the handshake: None while it goes on.

        Raises
        ------
        ProtocolError
            If the peer does not prove its identity.
        """


class UnixGreeting(Greeting):
    """Both ends belong to the same user of this host, and prove the cluster's token (`answer`, `verify`).

    Examples
    --------
    >>> client, server = UnixGreeting("secret", server=False), UnixGreeting("secret", server=True)
    >>> proof, _ = client.take(server.challenge())
    >>> answer, rest = server.take(proof)
    >>> client.take(answer + b"messages")
    (b'', b'messages')
    """

    proof = "proof of the token"
    advice = "the token in the cluster's registry file must match"

    def __init__(self, token: str, server: bool) -> None:
        self.patience = PROOF_SECONDS if server else ANSWER_SECONDS
        self._token, self._server = token, server
        self._nonce = nonce()
        self._hello = bytearray()
        self._challenged = False  # a client has had the challenge

    def challenge(self) -> bytes:
        """A server's first bytes."""
        return MAGIC + self._nonce

    def begin(self, transport: asyncio.Transport) -> bytes:
        """Check the peer's user; a server sends the challenge."""
        check_peer(transport.get_extra_info("socket"))
        return self.challenge() if self._server else b""

    def take(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Take the peer's part of the handshake."""
        hello = self._hello
        hello += data
        if self._server:
            return self._take_proof(hello)
        sent = b""
        if not self._challenged:
            if len(hello) < CHALLENGE:
                return b"", None
            sent = self._answer(self._cut(CHALLENGE))
        if len(hello) < PROOF:
            return sent, None
        if not verify(self._token, "server", self._nonce, self._cut(PROOF)):
            raise ProtocolError("the cluster did not prove its token")
        return sent, bytes(hello)

    def _take_proof(self, hello: bytearray) -> tuple[bytes, bytes | None]:
        if len(hello) < PROOF + NONCE:
            return b"", None
        if not verify(self._token, "client", self._nonce, self._cut(PROOF)):
            raise ProtocolError("a client did not prove the cluster's token")
        return answer(self._token, "server", self._cut(NONCE)), bytes(hello)

    def _answer(self, challenge: bytes) -> bytes:
        if not challenge.startswith(MAGIC):
            raise ProtocolError("what listens there is no jmars cluster")
        self._challenged = True
        return answer(self._token, "client", challenge[len(MAGIC) :]) + self._nonce

    def _cut(self, size: int) -> bytes:
        """The next `size` bytes of the peer."""
        part = bytes(self._hello[:size])
        del self._hello[:size]
        return part


NONCE = 32  # bytes
MAGIC = b"jmars-1\n"
CHALLENGE = len(MAGIC) + NONCE  # bytes of the server's first message
PROOF = 32  # bytes of an HMAC-SHA256
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2  # of macOS
_XUCRED_SIZE = 76  # bytes: version, user, number of groups, 16 groups


def new_token() -> str:
    """A fresh secret for one cluster, 64 hexadecimal digits."""
    return secrets.token_hex(32)


def nonce() -> bytes:
    """Bytes that were never sent before."""
    return os.urandom(NONCE)


def answer(token: str, role: str, challenge: bytes) -> bytes:
    """Proof that `role` ("client" or "server") holds the token."""
    return hmac.new(token.encode(), role.encode() + b"|" + challenge, hashlib.sha256).digest()


def verify(token: str, role: str, challenge: bytes, proof: bytes) -> bool:
    """Whether `proof` is `role`'s answer, in constant time."""
    return hmac.compare_digest(answer(token, role, challenge), proof)


def check_peer(connection: socket.socket) -> None:
    """Refuse a peer of another user; only Unix sockets tell.

    Raises
    ------
    AuthenticationError
        If the process at the other end belongs to another user.
    """
    pid, uid = _peer(connection)
    if uid != os.getuid():
        raise AuthenticationError(
            f"process {pid} of user {uid} asked for a cluster of user {os.getuid()}; run your own cluster"
        )


def peer_process(connection: socket.socket) -> int:
    """Id of the process at the other end; 0 where the socket does not tell."""
    return _peer(connection)[0] if connection.family == socket.AF_UNIX else 0


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user at the other end of a Unix socket."""
    if sys.platform == "darwin":  # `struct xucred` and LOCAL_PEERPID of <sys/un.h>
        _, uid = struct.unpack_from("=II", connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_SIZE))
        (pid,) = struct.unpack("=i", connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))
        return pid, uid
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid
