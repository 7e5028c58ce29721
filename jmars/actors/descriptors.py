"""Hands a file descriptor to a process: the shared memory of a cluster, to a client that did not make the memory.

An actor returns a `Descriptor`; `received` gets the descriptor as ancillary data of the answer, behind the same proof
of the token as all messages. `received` blocks on a separate connection, since event loops read no ancillary data.
Source: unix(7), SCM_RIGHTS.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from jmars.actors import auth
from jmars.actors.frames import Decoder, pack
from jmars.errors import AuthenticationError, ClusterError, ClusterLostError, ProtocolError
from jmars.model.record import record

__all__ = ["Descriptor", "hand_over", "received"]


@record
class Descriptor:
    """A descriptor as an actor's answer; it stays open here."""

    fd: int


def hand_over(connection: int, frame: bytes, fd: int) -> None:
    """Write `frame` to the socket `connection` with `fd` beside it; the socket's write buffer must be empty."""
    with socket.socket(fileno=os.dup(connection)) as copy:
        sent = socket.send_fds(copy, [frame], [fd])
    if sent != len(frame):
        raise ProtocolError("a descriptor's frame did not fit into the socket; ask for it first on a new connection")


def received(path: str | Path, token: str, actor: str, method: str, timeout: float = 5.0) -> int:
    """The descriptor that `actor.method()` of the cluster at `path` hands over; it is the caller's to close.

    Raises
    ------
    AuthenticationError
        If the token is not that of the cluster, or the cluster is another user's.
    ClusterLostError
        If nobody listens there, or there is no answer within `timeout` seconds.
    """
    fds: list[int] = []
    try:
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(timeout)
            raw.connect(str(path))
            auth.check_peer(raw)
            _prove(raw, token)
            raw.sendall(pack((1, actor, method, ())))
            _read_answer(raw, fds)
    except TimeoutError as error:
        raise ClusterLostError(
            f"the cluster at {path} has not answered for {timeout:g} s; it may be stopped: try again, or stop it"
        ) from error
    except (OSError, EOFError) as error:
        if isinstance(error, ClusterError):
            raise
        raise ClusterLostError(f"no cluster answers at {path} ({error}); start a new one") from error
    if len(fds) != 1:
        for fd in fds:
            os.close(fd)
        raise ProtocolError(f"{actor}.{method} handed over {len(fds)} descriptors instead of one")
    os.set_inheritable(fds[0], False)
    return fds[0]


def _prove(raw: socket.socket, token: str) -> None:
    """Both ends prove the token, as in `channel`."""
    challenge = _exactly(raw, auth.CHALLENGE)
    if not challenge.startswith(auth.MAGIC):
        raise ProtocolError("what listens there is no jmars cluster")
    ours = auth.nonce()
    raw.sendall(auth.answer(token, "client", challenge[len(auth.MAGIC) :]) + ours)
    if not auth.verify(token, "server", ours, _exactly(raw, auth.PROOF)):
        raise AuthenticationError("the cluster did not prove its token; connect by its registry file")


def _exactly(raw: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = raw.recv(size - len(found))
        if not part:
            raise EOFError("it hung up: the token does not match, or it is ending")
        found += part
    return found


def _read_answer(raw: socket.socket, fds: list[int]) -> None:
    """Read until the answer is there; broadcasts of the cluster are skipped."""
    decoder = Decoder()
    while True:
        data, found, _, _ = socket.recv_fds(raw, 65536, 4)
        fds += found
        if not data:
            raise EOFError("it hung up")
        for message in decoder.feed(data):
            if len(message) == 3 and message[0] == -1:
                _, ok, value = message
                if not ok:
                    raise ProtocolError(f"the cluster hands no descriptor over: {_said(value)}")
                return


def _said(value: Any) -> str:
    return f"{value[0]}: {value[1]}"
