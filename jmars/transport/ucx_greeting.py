"""Agrees on UCX over a TLS connection between two hosts, after the greeting.

The reader offers an address and a fresh secret over TLS; the source proves the secret by UCX. No byte of a
chunk is accepted by UCX before, and each part comes under a tag of 64 random bits that was told over TLS, with the
part's checksums. Nothing that comes by UCX is unpickled or parsed.
Source: RFC 2104 (a keyed digest as proof); docs/decisions/0053-ucx-beside-tls.md.
"""

from __future__ import annotations

import hmac
import os
import ssl
from functools import partial
from hashlib import blake2b
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from jmars.errors import AuthenticationError
from jmars.transport import wire
from jmars.transport.tls_sockets import HELLO_SECONDS, read_frame
from jmars.transport.ucx import READY_SECONDS, Buffer, Ucx
from jmars.transport.ucx_choice import TLS, UCX, TransportChoice, by_devices, by_rates, unpack_devices

__all__ = ["PROOF", "agree", "proof_of", "tag_of"]

PROOF = 32  # bytes of a proof
PARTS = 16  # of a probe, after WARM parts that are not timed
WARM = 4
ROUNDS = 2  # of a probe; the best counts


def proof_of(secret: bytes) -> bytes:
    """Proof of the secret, sent by UCX."""
    return blake2b(b"jmars by UCX", key=secret, digest_size=PROOF).digest()


def tag_of(secret: bytes) -> int:
    """Tag of the proof."""
    return int.from_bytes(blake2b(b"tag of the proof", key=secret, digest_size=8).digest(), "little")


def agree(link: ssl.SSLSocket, ucx: Ucx, always: bool, is_known: bool) -> tuple[TransportChoice, int]:
    """Agree with the source on how parts come; returns the choice, and the number of the connection for UCX, else -1.

    Parameters
    ----------
    always
        Whether the user wants UCX on any device.
    is_known
        Whether another connection of the hosts has chosen UCX: the probe is left out.

    Raises
    ------
    OSError
        If the connection breaks.
    AuthenticationError
        If what comes by UCX does not come from the host at the other end.
    """
    why = ucx.wait(READY_SECONDS)
    if why:
        return TransportChoice(TLS, f"the host that reads cannot use UCX: {why}"), -1
    link.settimeout(READY_SECONDS + HELLO_SECONDS)
    secret = os.urandom(32)
    link.sendall(wire.offer(secret, ucx.version, ucx.address))
    yes, bits, told = wire.parse_answer(_next(link, wire.ANSWER)[1])
    if not yes:
        return TransportChoice(TLS, f"the host that sends cannot use UCX: {told.decode('utf-8', 'replace')}"), -1
    devices = unpack_devices(bits)
    choice = by_devices(ucx.devices, devices, always)
    if choice.transport != UCX:
        return choice, -1
    far = ucx.connect(told)
    try:
        why = _prove(link, ucx, far, secret)
        if not why and not always and not is_known:
            choice = _measured(link, ucx, far, choice.why)
    except _UnansweredError as error:
        why = str(error)
    except BaseException:
        ucx.hang_up(far)
        raise
    if why:
        choice = TransportChoice(TLS, f"UCX does not reach this host: {why}")
    if choice.transport != UCX:
        ucx.hang_up(far)
        far = -1
    return choice, far


class _UnansweredError(Exception):
    """A message by UCX did not come, or came with an error."""


def _prove(link: ssl.SSLSocket, ucx: Ucx, far: int, secret: bytes) -> str:
    """Have the source prove the secret by UCX; returns "", or raises _UnansweredError or AuthenticationError."""
    came: SimpleQueue[tuple[str, Buffer]] = SimpleQueue()
    ucx.receive(far, tag_of(secret), PROOF, lambda error, data: came.put((error, data)))
    link.sendall(wire.probe(wire.PROVE, 1))
    data = _come(came)
    if not hmac.compare_digest(data.tobytes(), proof_of(secret)):
        raise AuthenticationError("what comes by UCX does not come from the host that TLS has proved")
    ucx.give_back(data)
    return ""


def _come(came: SimpleQueue[tuple[str, Buffer]]) -> Buffer:
    try:
        error, data = came.get(timeout=HELLO_SECONDS)
    except Empty:
        raise _UnansweredError(f"no message within {HELLO_SECONDS:g} s") from None
    if error:
        raise _UnansweredError(error)
    return data


def _measured(link: ssl.SSLSocket, ucx: Ucx, far: int, devices: str) -> TransportChoice:
    """Choose by the bytes a second of both ways."""
    _seconds(link, ucx, far, wire.BY_UCX, WARM)
    best = {wire.BY_UCX: float("inf"), wire.BY_TLS: float("inf")}
    for _ in range(ROUNDS):
        for how in best:
            best[how] = min(best[how], _seconds(link, ucx, far, how, PARTS))
    size = PARTS * wire.PART_BYTES
    return by_rates(size / best[wire.BY_UCX], size / best[wire.BY_TLS], devices)


def _seconds(link: ssl.SSLSocket, ucx: Ucx, far: int, how: int, parts: int) -> float:
    """Seconds until the parts of a probe have come."""
    begun = monotonic()
    came: SimpleQueue[tuple[str, Buffer]] = SimpleQueue()
    waits = 0
    link.sendall(wire.probe(how, parts))
    for _ in range(parts):
        kind, body = _next(link, wire.AWAY, wire.PART)
        if kind == wire.AWAY:
            _, size, tag, _ = wire.parse_away(body)
            waits += 1
            ucx.receive(far, tag, size, partial(_put, came))
    for _ in range(waits):
        ucx.give_back(_come(came))
    return monotonic() - begun


def _put(came: SimpleQueue[Any], *told: Any) -> None:
    came.put(told)


def _next(link: ssl.SSLSocket, *kinds: int) -> tuple[int, bytes]:
    """Kind and body of the next frame, of the given kinds; an ANSWER tells that UCX has failed."""
    kind, body = read_frame(link)
    if kind == wire.ANSWER and wire.ANSWER not in kinds:
        raise _UnansweredError(wire.parse_answer(body)[2].decode("utf-8", "replace"))
    if kind == wire.LOST:
        raise AuthenticationError(f"the host refuses this one: {wire.parse_lost(body)[1]}")
    if kind not in kinds:
        raise AuthenticationError(f"a frame of kind {kind} does not belong here")
    return kind, body
