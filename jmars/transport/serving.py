"""ChunkServer: the requests of other hosts, from the lanes to the control process and back.

The control process answers a request with a place. The place stays valid until "given" is reported: exactly once, also
if the lane has gone meanwhile. Reports are messages to the control process (processes/carrier.py).

A `ServeLane` passes requests on, and sends the bytes. A request is answered once, by bytes or by LOST, and reported
once to be over, so that the chunk is unpinned. A lane that closes reports no request: `ChunkServer` has the list.

`PartQueue` chooses the next part to send: the lowest urgency first, part by part. Parts of chunks in memory are sent
from their slots. Parts of spilled chunks are read ahead into two buffers, checked, and sent from there, so that the
disk and the network work at the same time and a chunk that is read needs no memory.
Source: docs/explanation/reliability.md; docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

import logging
import mmap
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from typing import Any

from jmars.actors.tls import gives_way
from jmars.errors import ChecksumError, ProtocolError, StorageError
from jmars.storage.spill import CHECKED, Span, block_sums, read_span, takes_direct
from jmars.transport import wire
from jmars.transport.lanes import BulkLane, FrameReader
from jmars.transport.pulls import Holder
from jmars.transport.tls_sockets import HostIdentity, accept
from jmars.transport.ucx import Ucx, UcxSource
from jmars.transport.wire import PART_BYTES

log = logging.getLogger("jmars.transport")

MOST_STRANGERS = 64  # connections that have not proved an identity


class _Request:
    """A piece that a host asked for."""

    __slots__ = ("key", "lane", "place")

    def __init__(self, lane: ServeLane, key: tuple[int, int]) -> None:
        self.lane: ServeLane | None = lane  # None after its end
        self.key = key  # ticket and piece
        self.place = ""  # kind of the chunk's place; "" until known


class ChunkServer:
    """Serves the hosts that connect.

    Parameters
    ----------
    report
        Sends a message to the control process.
    events
        Takes events of lanes, in any thread; they come back by `event`.
    ucx
        Sends parts to hosts that ask for it; None for TLS only.
    """

    def __init__(
        self,
        identity: HostIdentity,
        memory: memoryview,
        report: Callable[..., None],
        events: Callable[..., None],
        ucx: Ucx | None = None,
    ) -> None:
        self._ucx = ucx
        self._identity, self._memory, self._report, self._events = identity, memory, report, events
        self._context: ssl.SSLContext = identity.context(is_server=True)
        self._files = ThreadPoolExecutor(1, "spilled chunks")  # starts its thread at the first read
        self.peers: set[Holder] = set()
        self._gone: set[Holder] = set()
        self._requests: dict[int, _Request] = {}
        self._lanes: dict[ServeLane, set[int]] = {}  # requests by lane
        self._strangers: dict[ServeLane, socket.socket] = {}  # lanes before their greeting; a socket to cut each
        self._addresses: dict[ServeLane, str] = {}  # and where they come from
        self._number = 0

    # -- hosts
    def drop_peer(self, holder: Holder) -> None:
        """A host is gone, and refused from here on."""
        self._gone.add(holder)
        self.peers.discard(holder)
        for lane in self._lanes:
            if (lane.host, lane.incarnation) == holder:
                lane.inbox.put(("close", "the host is gone"))

    def accept(self, raw: socket.socket) -> None:
        """A host has connected."""
        if len(self._strangers) >= MOST_STRANGERS:
            self._send_away()
        try:
            address, cut = raw.getpeername()[0], raw.dup()
        except OSError:  # closed meanwhile, or no descriptor is left
            raw.close()
            return
        known = (self._context, self._identity, self._refusal, self._memory)
        lane = ServeLane(raw, *known, self._files, self._events, self._ucx)
        try:
            lane.start()
        except RuntimeError:  # the system has no thread left; the host tries again
            raw.close()
            cut.close()
            lane.inbox.close()
            return
        self._lanes[lane] = set()
        self._strangers[lane], self._addresses[lane] = cut, address

    def _send_away(self) -> None:
        """Cut a connection, since there are too many."""
        lane = gives_way(self._addresses)
        try:
            self._strangers[lane].shutdown(socket.SHUT_RDWR)  # its thread sees the end
        except OSError:
            pass  # closed already
        self._known(lane)

    def _known(self, lane: ServeLane) -> None:
        """A lane is open, has ended or was sent away."""
        cut = self._strangers.pop(lane, None)
        if cut is not None:
            cut.close()
            del self._addresses[lane]

    def _refusal(self, host: int, incarnation: int) -> str:
        """Why a host may not ask; called in threads of lanes."""
        if (host, incarnation) in self._gone:
            return f"host {host}, incarnation {incarnation} is gone: join the cluster again"
        return "" if (host, incarnation) in self.peers else f"host {host}, incarnation {incarnation} is not known here"

    # -- requests
    def event(self, kind: str, lane: ServeLane, args: Sequence[Any]) -> None:
        """Act on an event of a lane; no effect after the lane has closed."""
        if lane not in self._lanes:
            log.info("%s told %r after its end", lane.name, kind)
            return
        if kind in ("open", "closed"):
            self._known(lane)
        if kind == "asked":
            ticket, pieces = args
            for piece, (chunk, start, stop) in enumerate(pieces):
                self._number += 1
                self._requests[self._number] = _Request(lane, (ticket, piece))
                self._lanes[lane].add(self._number)
                self._report("asked", self._number, lane.host, chunk, start, stop)
        elif kind == "given":
            number, nbytes, error = args
            self._lanes[lane].discard(number)
            self._end(number, nbytes, error)
        elif kind == "open":
            if (lane.host, lane.incarnation) in self._gone:  # the host left during the greeting
                lane.inbox.put(("close", "the host is gone"))
        elif kind == "closed":
            lane.join()
            for number in self._lanes.pop(lane):
                request = self._requests.get(number)
                if request is None:
                    continue
                request.lane = None
                if request.place:
                    self._end(number, 0, "")

    def give(self, number: int, place: tuple[Any, ...]) -> None:
        """The control process answers a request; no effect on a request that is over."""
        request = self._requests.get(number)
        if request is None:
            log.info("request %d is over, and is answered: %s", number, place[0])
            if place[0] != "none":
                self._report("given", number, 0, "")
            return
        request.place = place[0]
        if request.lane is None:
            self._end(number, 0, "")
        else:
            request.lane.inbox.put(("give", *request.key, number, place))

    def _end(self, number: int, nbytes: int, error: str) -> None:
        request = self._requests.pop(number, None)
        if request is None:
            log.info("request %d is over already", number)
        elif request.place != "none":
            self._report("given", number, nbytes, error)


PEER_SILENT_SECONDS = 8.0  # without a byte while bytes are due; a pulling host beats every second
PEER_IDLE_SECONDS = 120.0  # without a byte; the other end closes an idle lane earlier
MOST_REQUESTS = 2**16  # unanswered requests of a lane
COPIED = CHECKED  # bytes of a part; a shorter part is copied, to be encrypted together with its neighbours
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
        self._over: list[tuple[ServeJob, str]] = []  # (job with a last part in a buffer, error of its file)

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
        most = PEER_SILENT_SECONDS if waits else PEER_IDLE_SECONDS
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


BUFFERS = 2  # of PART_BYTES each, for spilled chunks


@dataclass(eq=False, slots=True)
class ServeJob:
    """Bytes [start, stop) of a chunk that a host has asked for."""

    key: tuple[int, int]  # ticket and piece
    request: int
    urgency: int
    start: int
    stop: int
    offset: int = -1  # of the chunk in the arena; -1: in a file
    path: str = ""
    sums: bytes = b""
    size: int = 0  # bytes of the file
    by_ucx: bool = False  # parts may be sent by UCX
    sent: int = 0
    read: int = 0  # bytes that were read from the file, or are being read
    is_over: bool = False  # no more bytes are sent


@dataclass(eq=False, slots=True)
class ChunkPart:
    """A part to send now."""

    job: ServeJob
    offset: int  # in the piece
    view: memoryview
    is_last: bool
    buffer: mmap.mmap | None = None  # to give back when the part was sent


class PartQueue:
    """Jobs of a lane.

    Parameters
    ----------
    memory
        The arena.
    read
        Starts to read bytes [start, stop) of a job's chunk into a buffer; `came` or `refused` follows.
    """

    def __init__(self, memory: memoryview, read: Callable[[ServeJob, int, int, mmap.mmap], None]) -> None:
        self._memory, self._read = memory, read
        self._jobs: dict[tuple[int, int], ServeJob] = {}
        self._in_memory: list[tuple[int, int, ServeJob]] = []  # heap by urgency
        self._in_files: list[tuple[int, int, ServeJob]] = []  # heap of jobs with bytes to read
        self._came: list[tuple[int, int, ChunkPart]] = []  # heap of parts that were read
        self._buffers: list[mmap.mmap] | None = None  # free buffers; None before the first read
        self._number = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, key: object) -> bool:
        return key in self._jobs

    def add(self, job: ServeJob) -> None:
        """A new job."""
        self._jobs[job.key] = job
        self._number += 1
        heap = self._in_memory if job.offset >= 0 else self._in_files
        heappush(heap, (job.urgency, self._number, job))

    def drop(self, key: tuple[int, int]) -> ServeJob | None:
        """A piece is not wanted any more; None if there is no such job."""
        job = self._jobs.pop(key, None)
        if job is not None:
            job.is_over = True
        return job

    def next(self) -> ChunkPart | None:
        """The part to send now; None without a part in memory, perhaps until a read ends."""
        self._read_ahead()
        while self._in_memory and self._in_memory[0][2].is_over:
            heappop(self._in_memory)
        while self._came and self._came[0][2].job.is_over:
            self.give_back(heappop(self._came)[2].buffer)
        if not self._in_memory or (self._came and self._came[0][0] < self._in_memory[0][0]):
            return self._sent(heappop(self._came)[2]) if self._came else None
        job = self._in_memory[0][2]
        start = job.start + job.sent
        stop = min(job.stop, start + PART_BYTES)
        if stop == job.stop:
            heappop(self._in_memory)
        view = self._memory[job.offset + start : job.offset + stop]
        return self._sent(ChunkPart(job, job.sent, view, stop == job.stop))

    def came(self, job: ServeJob, start: int, view: memoryview, buffer: mmap.mmap) -> None:
        """Bytes from `start` on were read."""
        stop = start + len(view)
        self._number += 1
        part = ChunkPart(job, start - job.start, view, stop == job.stop, buffer)
        heappush(self._came, (job.urgency, self._number, part))

    def refused(self, job: ServeJob, buffer: mmap.mmap) -> bool:
        """Bytes cannot be read; returns whether the job was still wanted."""
        self.give_back(buffer)
        return self.drop(job.key) is job

    def give_back(self, buffer: mmap.mmap | None) -> None:
        """A buffer is free again."""
        if buffer is not None and self._buffers is not None:
            self._buffers.append(buffer)

    def _read_ahead(self) -> None:
        """Read parts of the most urgent jobs while there are buffers."""
        while self._in_files:
            job = self._in_files[0][2]
            start = job.start + job.read
            if job.is_over or (start == job.stop and job.read):
                heappop(self._in_files)
                continue
            if self._buffers is None:
                self._buffers = [mmap.mmap(-1, PART_BYTES) for _ in range(BUFFERS)]
            if not self._buffers:
                return
            stop = min(job.stop, start // CHECKED * CHECKED + PART_BYTES)  # later parts begin with a checked block
            job.read += stop - start
            if stop == job.stop:
                heappop(self._in_files)
            self._read(job, start, stop, self._buffers.pop())

    def _sent(self, part: ChunkPart) -> ChunkPart:
        part.job.sent += len(part.view)
        if part.is_last:
            self.drop(part.job.key)
        return part
