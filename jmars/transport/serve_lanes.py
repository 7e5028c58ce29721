"""ServeLane: the lane of a host that has chunks: passes requests on, and sends the bytes.

A request is answered once, by bytes or by LOST, and reported once to be over, so that the chunk is unpinned. A lane
that closes reports no request: serving.py has the list. Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

import mmap
import os
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Executor
from functools import cache
from typing import Any

from jmars.errors import ChecksumError, ProtocolError, StorageError
from jmars.storage.spill import CHECKED, Span, block_sums, read_span, takes_direct
from jmars.transport import wire
from jmars.transport.frame_reader import FrameReader
from jmars.transport.lanes import BulkLane
from jmars.transport.part_queue import ChunkPart, PartQueue, ServeJob
from jmars.transport.tls_sockets import HostIdentity, accept
from jmars.transport.ucx import Ucx
from jmars.transport.ucx_source import UcxSource

__all__ = ["ServeLane"]

SILENT_SECONDS = 8.0  # without a byte while there is something to send; a host that pulls beats every second
IDLE_SECONDS = 120.0  # without a byte; the other end closes an idle lane earlier
MOST_REQUESTS = 2**16  # that are not answered
COPIED = CHECKED  # bytes of a part that is copied, to be encrypted together with others
GATHERED = 2**16  # bytes of small parts that are encrypted together


class ServeLane(BulkLane):
    """Greets a host that has connected, and serves the requests.

    Orders: `("give", ticket, piece, request, place)`, where `place` is `("memory", offset, size)`, `("file", path,
    checksums, size)` or `("none", why)`. Further events: `("asked", lane, ticket, pieces)`, where
    a piece is `(chunk, start, stop)`; `("given", lane, request, bytes sent, error of the file)`.

    Attributes
    ----------
    host, incarnation
        Whom the lane serves, once it is open.
    """

    def __init__(
        self,
        raw: socket.socket,
        context: ssl.SSLContext,
        identity: HostIdentity,
        refusal: Callable[[int, int], str],
        memory: memoryview,
        files: Executor,
        events: Callable[..., None],
        ucx: Ucx | None = None,
    ) -> None:
        kinds = {wire.ASK, wire.DROP, wire.BEAT, wire.OFFER, wire.PROBE}
        super().__init__("lane of a host", events, FrameReader(kinds))
        self.host = self.incarnation = -1
        self._raw, self._context, self._identity, self._refusal = raw, context, identity, refusal
        self._files = files
        self._ucx = UcxSource(ucx, self.send, self.inbox.put)
        self._asked: dict[tuple[int, int], tuple[int, int, int, bool]] = {}  # urgency, start, stop, by UCX
        self._queue = PartQueue(memory, self._read_file)
        self._sent: list[ChunkPart] = []  # parts that may still lie in buffers to send
        self._over: list[tuple[ServeJob, str]] = []  # jobs whose last part does, and errors of their files

    def connect(self) -> ssl.SSLSocket:
        """Greet the host."""
        link, hello = accept(self._context, self._identity, self._raw, self._refusal)
        self.host, self.incarnation = hello.host, hello.incarnation
        self.name = f"lane of host {self.host}"
        return link

    # -- requests
    def receive(self, kind: int, flags: int, piece: int, ticket: int, body: Any) -> None:
        """Handle a frame."""
        if kind == wire.BEAT:
            self.send(wire.beat(wire.parse_number(body)))
        elif kind == wire.DROP:
            asked = self._asked.pop((ticket, piece), None)
            job = self._queue.drop((ticket, piece))
            if asked is not None or job is not None:
                self.send(wire.lost(ticket, piece, wire.WITHDRAWN, ""))
            if job is not None:
                self._over.append((job, ""))
        elif kind == wire.OFFER:
            self._ucx.offered(body)
        elif kind == wire.PROBE:
            self._ucx.probed(body)
        else:
            urgency, pieces = wire.parse_ask(body)
            if len(self._asked) + len(self._queue) > MOST_REQUESTS:
                raise ProtocolError(f"{self.name}: {MOST_REQUESTS} requests wait; the host is no jmars")
            for number, (_, start, stop) in enumerate(pieces):
                if (ticket, number) in self._asked or (ticket, number) in self._queue:
                    raise ProtocolError(f"{self.name}: ticket {ticket} came twice")
                self._asked[ticket, number] = (urgency, start, stop, bool(flags & wire.BY_UCX))
            self.events(("asked", self, ticket, pieces))

    def take(self, message: Any) -> None:
        """Handle an order, bytes of a file, or the end of a message by UCX."""
        if message[0] == "give":
            self._give(*message[1:])
        elif message[0] == "sent":
            self._ucx.sent(message[1])
        else:
            self._came(*message[1:])

    def _give(self, ticket: int, piece: int, request: int, place: tuple[Any, ...]) -> None:
        asked = self._asked.pop((ticket, piece), None)
        why = ""
        if asked is not None:
            urgency, start, stop, by_ucx = asked
            job = ServeJob((ticket, piece), request, urgency, start, stop, by_ucx=by_ucx)
            if place[0] == "memory":
                _, job.offset, size = place
            elif place[0] == "file":
                _, job.path, job.sums, size = place
                job.size = size
            else:
                why = place[1]
            if not why and stop > size:
                why = f"bytes {start} to {stop} are no part of the chunk, which has {size}"
            if not why:
                self._queue.add(job)
                return
            self.send(wire.lost(ticket, piece, wire.NOT_HERE, why))
        self.events(("given", self, request, 0, ""))

    # -- files
    def _read_file(self, job: ServeJob, start: int, stop: int, buffer: mmap.mmap) -> None:
        self._files.submit(_read, job, start, stop, buffer, self.inbox.put)

    def _came(self, job: ServeJob, start: int, buffer: mmap.mmap, found: memoryview | StorageError) -> None:
        """Bytes of a file were read, or cannot be."""
        if not isinstance(found, StorageError):
            self._queue.came(job, start, found, buffer)
        elif self._queue.refused(job, buffer):
            reason = wire.DAMAGED if isinstance(found, ChecksumError) else wire.NOT_HERE
            self.send(wire.lost(*job.key, reason, str(found)))
            self._over.append((job, str(found)))

    # -- sending
    def fill(self) -> None:
        """Send small parts together, or a large part alone; by UCX while the lane has not too many there."""
        self._release()
        gathered = 0
        while gathered < GATHERED and not self._ucx.is_full:
            if self._ucx.probe():
                return
            part = self._queue.next()
            if part is None:
                return
            ticket, piece = part.job.key
            size = len(part.view)
            self._sent.append(part)
            if part.is_last:
                self._over.append((part.job, ""))
            if not size:
                self.send(wire.end(ticket, piece, 0))
                continue
            sums = block_sums(part.view)
            if part.job.by_ucx and size > COPIED:
                tag = self._ucx.send(part.view)
                if tag is not None:
                    self.send(wire.away(ticket, piece, part.offset, size, tag, sums, part.is_last))
                    return
            self.send(wire.part(ticket, piece, part.offset, size, sums, part.is_last))
            if size > COPIED:
                self.send_view(part.view)
                return
            self.send(part.view)
            gathered += size

    def _release(self) -> None:
        """No part lies in a buffer to send any more: buffers are free, and requests that are over end."""
        for part in self._sent:
            self._queue.give_back(part.buffer)
        for job, error in self._over:
            self.events(("given", self, job.request, job.sent, error))
        self._sent.clear()
        self._over.clear()

    def ended(self) -> None:
        """End the connection by UCX."""
        self._ucx.close()

    def tick(self, now: float) -> float:
        """Close the lane of a host that waits and is silent, or is idle for long."""
        waits = bool(self._asked or len(self._queue) or self.is_sending)
        silent = now - self.heard
        most = SILENT_SECONDS if waits else IDLE_SECONDS
        if silent >= most:
            self.close(f"the host sent nothing for {silent:.0f} s" if waits else "")
        return max(most - silent, 0.001)


def _read(job: ServeJob, start: int, stop: int, buffer: mmap.mmap, put: Callable[[Any], None]) -> None:
    """Read checked bytes [start, stop) of a spilled chunk."""
    found: memoryview | StorageError
    folder, name = os.path.split(job.path)
    span = Span(job.sums, job.size, start, stop)
    view = memoryview(buffer)[: span.nbytes]
    try:
        read_span(folder, name, span, view, _takes_direct(folder))
        found = view[start - span.start : stop - span.start]
    except StorageError as error:
        found = error
    put(("read", job, start, buffer, found))


@cache
def _takes_direct(folder: str) -> bool:
    return takes_direct(folder)
