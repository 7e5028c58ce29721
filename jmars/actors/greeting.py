"""Greetings: how the ends of a connection prove to each other who they are, before any message is decoded.

A greeting is plain: it takes bytes of the peer and returns bytes to send. `UnixGreeting` serves the processes of one
host; `TlsGreeting` (tls.py) serves links between hosts, which prove themselves by certificates.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from jmars.actors import auth
from jmars.errors import ProtocolError

__all__ = ["Greeting", "UnixGreeting"]

PROOF_SECONDS = 0.9  # a client that proves nothing for so long is cut off
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
    """Both ends belong to the same user of this host, and prove the cluster's token (auth.py).

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
        self._nonce = auth.nonce()
        self._hello = bytearray()
        self._challenged = False  # a client has had the challenge

    def challenge(self) -> bytes:
        """A server's first bytes."""
        return auth.MAGIC + self._nonce

    def begin(self, transport: asyncio.Transport) -> bytes:
        """Check the peer's user; a server sends the challenge."""
        auth.check_peer(transport.get_extra_info("socket"))
        return self.challenge() if self._server else b""

    def take(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Take the peer's part of the handshake."""
        hello = self._hello
        hello += data
        if self._server:
            return self._take_proof(hello)
        sent = b""
        if not self._challenged:
            if len(hello) < auth.CHALLENGE:
                return b"", None
            sent = self._answer(self._cut(auth.CHALLENGE))
        if len(hello) < auth.PROOF:
            return sent, None
        if not auth.verify(self._token, "server", self._nonce, self._cut(auth.PROOF)):
            raise ProtocolError("the cluster did not prove its token")
        return sent, bytes(hello)

    def _take_proof(self, hello: bytearray) -> tuple[bytes, bytes | None]:
        if len(hello) < auth.PROOF + auth.NONCE:
            return b"", None
        if not auth.verify(self._token, "client", self._nonce, self._cut(auth.PROOF)):
            raise ProtocolError("a client did not prove the cluster's token")
        return auth.answer(self._token, "server", self._cut(auth.NONCE)), bytes(hello)

    def _answer(self, challenge: bytes) -> bytes:
        if not challenge.startswith(auth.MAGIC):
            raise ProtocolError("what listens there is no jmars cluster")
        self._challenged = True
        return auth.answer(self._token, "client", challenge[len(auth.MAGIC) :]) + self._nonce

    def _cut(self, size: int) -> bytes:
        """The next `size` bytes of the peer."""
        part = bytes(self._hello[:size])
        del self._hello[:size]
        return part
