"""Authentication of connections: the same user of this host, with the cluster's token.

The server sends a nonce, the client answers with an HMAC and a nonce of its own, the server answers with an HMAC. All
three messages are of fixed length, so nothing is parsed before the token is proven: a stranger can neither have a
pickle read nor replay frames. Source: RFC 2104.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import struct
import sys

from jmars.errors import AuthenticationError

__all__ = ["CHALLENGE", "PROOF", "answer", "check_peer", "new_token", "nonce", "peer_process", "verify"]

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
