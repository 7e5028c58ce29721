"""Sends the parts of a lane by UCX: `UcxSource`.

A lane has few parts under way, and waits where there are more. Where UCX has no buffer left for the first of them, the
part goes by TLS. When UCX fails, the reader is told, and asks again by TLS.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from jmars.errors import ProtocolError
from jmars.storage.spill import block_sums
from jmars.transport import wire
from jmars.transport.ucx import READY_SECONDS, Ucx
from jmars.transport.ucx_choice import pack_devices
from jmars.transport.ucx_greeting import proof_of, tag_of

__all__ = ["UcxSource"]

WINDOW = 8  # parts under way of a lane
ZEROS = memoryview(bytes(wire.PART_BYTES))  # of probes
NO_UCX = "it was started without UCX"


class UcxSource:
    """Sends the parts of a lane by UCX.

    Parameters
    ----------
    ucx
        UCX of this process; None where the user does not want it.
    frame
        Sends a frame by TLS.
    put
        Takes `("sent", error)` in any thread; it comes back by `sent`.
    """

    def __init__(self, ucx: Ucx | None, frame: Callable[[bytes], None], put: Callable[[Any], None]) -> None:
        self._ucx, self._frame, self._put = ucx, frame, put
        self._far = -1  # the connection; -1 without one
        self._secret = b""
        self._under_way = 0
        self._probes: list[int] = []  # how each part of a probe is to go

    @property
    def is_full(self) -> bool:
        """Whether "sent" must come before the next part."""
        return self._under_way >= WINDOW

    def offered(self, body: bytes) -> None:
        """The reader offers UCX: connect, or tell why not."""
        secret, version, address = wire.parse_offer(body)
        ucx = self._ucx
        why = NO_UCX if ucx is None else ucx.wait(READY_SECONDS)
        if ucx is not None and not why and version != ucx.version:
            why = f"it has UCX {_dotted(ucx.version)}, and the host that reads has {_dotted(version)}"
        if why or ucx is None:
            self._frame(wire.answer(False, 0, why.encode("utf-8", "replace")))
            return
        self.close()
        self._secret, self._far = secret, ucx.connect(address)
        self._frame(wire.answer(True, pack_devices(ucx.devices), ucx.address))

    def probed(self, body: bytes) -> None:
        """The reader asks for a proof, or for parts to measure; raises ProtocolError."""
        how, parts = wire.parse_probe(body)
        if how == wire.PROVE:
            self._post(tag_of(self._secret), proof_of(self._secret))
        elif self._probes:
            raise ProtocolError("a probe began within another one; the host is no jmars")
        else:
            self._probes += [how] * parts

    def probe(self) -> bool:
        """Send the next part of a probe; returns whether there was one."""
        if not self._probes:
            return False
        how = self._probes.pop()
        tag = self.send(ZEROS) if how == wire.BY_UCX else None
        size, sums = len(ZEROS), _zero_sums()
        if tag is not None:
            self._frame(wire.away(0, 0, 0, size, tag, sums, True))
        else:
            self._frame(wire.part(0, 0, 0, size, sums, True))
            self._frame(bytes(ZEROS))
        return True

    def send(self, view: memoryview) -> int | None:
        """Send a copy of a part; returns the tag, None for a part that must go by TLS."""
        tag = secrets.randbits(64)
        return tag if self._post(tag, view) else None

    def _post(self, tag: int, data: memoryview | bytes) -> bool:
        ucx, far = self._ucx, self._far
        if ucx is None or far < 0 or not ucx.send(far, tag, data, partial(_told, self._put, far)):
            return False
        self._under_way += 1
        return True

    def sent(self, told: tuple[int, str]) -> None:
        """A message was sent, or cannot be."""
        far, error = told
        if far != self._far:
            return
        self._under_way -= 1
        if error:
            self.close()
            self._frame(wire.answer(False, 0, f"a message was not sent: {error}".encode("utf-8", "replace")))

    def close(self) -> None:
        """End the connection."""
        if self._ucx is not None and self._far >= 0:
            self._ucx.hang_up(self._far)
        self._far, self._under_way = -1, 0


def _told(put: Callable[[Any], None], far: int, error: str) -> None:
    put(("sent", (far, error)))


@cache
def _zero_sums() -> bytes:
    return block_sums(ZEROS)


def _dotted(version: bytes) -> str:
    return ".".join(map(str, version))
