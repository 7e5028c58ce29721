"""BulkLane: an end of a TLS connection between two hosts, and the thread that reads and writes there.

The host that reads chunks dials; the host that has chunks serves. An end has a single thread, since OpenSSL forbids two
threads in a connection, and the socket does not block, since two ends that both wait to write would wait for ever. The
thread tries to write and to read, and waits for the socket or the inbox only if neither goes on; encryption and copies
run without Python's lock.

`Inbox` has messages to a thread that also waits for sockets. `FrameReader` makes frames out of a stream that arrives in
pieces, without a socket: `space` tells where the next bytes belong, `received` takes their number. Small frames are
collected in a buffer; the bytes of a large part are received where they stay, without a copy.
Source: `SSL_write(3)`; docs/explanation/reliability.md.
"""

from __future__ import annotations

import logging
import os
import select
import ssl
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator
from time import monotonic
from typing import Any

from jmars.errors import AuthenticationError, ProtocolError, fault_of, text_of
from jmars.transport import wire

log = logging.getLogger("jmars.transport")

READS, WRITES = 64, 8  # records and buffers in a row, until the thread looks at other things


class BulkLane(ABC):
    """Opens a connection, then serves the socket and the inbox until the connection ends.

    Parameters
    ----------
    events
        Called in the lane's thread with `("open", lane)` once, and `("closed", lane, why)` at last: the lane writes
        nothing after that.

    Attributes
    ----------
    inbox
        Orders; `("close", why)` closes the lane.
    heard
        Time of the last byte from the other end.
    carried
        Time of the last byte of a chunk.
    is_open
        Whether both ends have greeted each other.
    """

    def __init__(self, name: str, events: Callable[..., None], reader: FrameReader) -> None:
        self.name = name
        self.inbox = Inbox()
        self.heard = monotonic()
        self.carried = self.heard
        self.is_open = False
        self.events = events
        self._reader = reader
        self._out: deque[bytes | memoryview] = deque()  # buffers to send
        self._small = bytearray()  # frames to send after them
        self._closes = False
        self._why = ""  # reason of the end
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; raises RuntimeError if the system has none to give."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the thread, right after "closed"."""
        self._thread.join()

    # -- for the two kinds of lanes to define
    @abstractmethod
    def connect(self) -> ssl.SSLSocket:
        """Open the connection; raises like `tls_sockets.dial`."""

    @abstractmethod
    def take(self, message: Any) -> None:
        """Handle an order."""

    @abstractmethod
    def receive(self, kind: int, flags: int, piece: int, ticket: int, body: Any) -> None:
        """Handle a frame."""

    @abstractmethod
    def fill(self) -> None:
        """All bytes are sent, and all views are free again: send more."""

    @abstractmethod
    def tick(self, now: float) -> float | None:
        """Look at the time; returns seconds until the next look, None for no further look."""

    def ended(self) -> None:  # noqa: B027
        """The connection has ended: let go of what belongs to it."""

    # -- for the two kinds of lanes to call
    def send(self, frame: bytes | memoryview) -> None:
        """Send a small frame."""
        self._small += frame

    def send_view(self, view: memoryview) -> None:
        """Send bytes behind the frames so far, without a copy; they must stay until `fill` is called."""
        self._flush_small()
        self._out.append(view)

    def close(self, why: str) -> None:
        """Close the connection; an empty reason is no trouble."""
        self._why = self._why or why
        self._closes = True

    @property
    def is_sending(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._out or self._small)

    # -- the thread
    def _run(self) -> None:
        """Serve until the connection ends."""
        link = None
        try:
            link = self.connect()
            link.setblocking(False)
            self.is_open = True
            self.events(("open", self))
            self._serve(link)
        except (AuthenticationError, ProtocolError) as error:
            self._why = text_of(error)
            log.warning("%s: %s", self.name, self._why)
        except OSError as error:
            self._why = self._why or f"{type(error).__name__}: {text_of(error)}"
        except Exception as error:
            self._why = f"an error of jmars: {fault_of(error)}"
            log.exception("%s failed", self.name)
        finally:
            self.is_open = False
            if link is not None:
                link.close()
            self._out.clear()
            self.ended()
            self.inbox.close()
            self.events(("closed", self, self._why))

    def _serve(self, link: ssl.SSLSocket) -> None:
        poll = select.poll()
        poll.register(link, select.POLLIN)
        poll.register(self.inbox.fd, select.POLLIN)
        socket = link.fileno()
        reads, writes = False, False  # the socket may have bytes; poll waits for room to write
        while not self._closes:
            for message in self.inbox.take():
                if message[0] == "close":
                    self.close(message[1])
                else:
                    self.take(message)
            goes_on = self._write(link)
            wait = self.tick(monotonic())
            is_blocked = self.is_sending and not goes_on
            if reads or goes_on:
                wait = 0.0
            if is_blocked != writes:
                writes = is_blocked
                poll.modify(link, select.POLLIN | (select.POLLOUT if writes else 0))
            for fd, found in poll.poll(None if wait is None else 1e3 * wait):
                reads = reads or (fd == socket and found != select.POLLOUT)
            if reads and not self._closes:
                reads = self._read(link)

    def _write(self, link: ssl.SSLSocket) -> bool:
        """Send for a while; returns whether to go on: the socket is not full, and there may be more to send."""
        for _ in range(WRITES):
            if not self.is_sending:
                self.fill()
            self._flush_small()
            if not self._out:
                return False
            try:
                link.send(self._out[0])
            except ssl.SSLWantWriteError:
                return False
            self._out.popleft()
        return True

    def _flush_small(self) -> None:
        if self._small:
            self._out.append(bytes(self._small))
            self._small.clear()

    def _read(self, link: ssl.SSLSocket) -> bool:
        """Receive for a while; returns whether there may be more."""
        reader = self._reader
        for _ in range(READS):
            try:
                count = link.recv_into(reader.space())
            except ssl.SSLWantReadError:
                return False
            if not count:
                self.close("the other end hung up")
                return False
            self.heard = monotonic()
            for frame in reader.received(count):
                self.receive(*frame)
            if reader.current is not None:
                self.carried = self.heard
        return True


class Inbox:
    """A queue with a descriptor that is readable while there are messages.

    Any thread puts; a single thread takes. Messages to a closed inbox are lost.
    """

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._messages: deque[Any] = deque()
        self._is_rung = False
        self._lock = threading.Lock()

    def put(self, *messages: Any) -> None:
        """Add messages."""
        self._messages.extend(messages)
        if not self._is_rung:
            with self._lock:
                self._ring()

    def _ring(self) -> None:
        if not self._is_rung and self.fd >= 0:
            self._is_rung = True
            os.eventfd_write(self.fd, 1)

    def take(self) -> Iterator[Any]:
        """All messages, oldest first."""
        if self._is_rung:
            with self._lock:
                if self.fd >= 0:
                    os.eventfd_read(self.fd)
                self._is_rung = False  # before the messages are taken, so that a later message rings again
        messages = self._messages
        while messages:
            yield messages.popleft()

    def close(self) -> None:
        """Close the descriptor."""
        with self._lock:
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1


BUFFER = 2**16  # bytes that are collected at most; any frame but a PART is shorter

# (ticket, piece, offset, size) -> view of `size` bytes for a part; None if the part is not needed any more.
PartPlace = Callable[[int, int, int, int], memoryview | None]


class FrameReader:
    """Cuts a stream into frames.

    Parameters
    ----------
    kinds
        Frames that the other end may send.
    place
        Gives the place of a part; None where no parts may come.
    """

    def __init__(self, kinds: Collection[int], place: PartPlace | None = None) -> None:
        self._kinds, self._place = frozenset(kinds), place
        self._buffer = memoryview(bytearray(BUFFER))
        self._low = self._high = 0  # bytes of the buffer that are not parsed
        self._rest: memoryview | None = None  # missing bytes of the current part
        self._part: tuple[Any, ...] = ()  # the current part's frame
        self._junk: memoryview | None = None  # buffer for parts that are not needed

    @property
    def current(self) -> tuple[int, int] | None:
        """Ticket and piece of the part that is being received."""
        return None if self._rest is None else (self._part[3], self._part[2])

    def space(self) -> memoryview:
        """Memory for the next bytes; never empty."""
        if self._rest is not None:
            return self._rest
        if self._low and self._high > BUFFER // 2:
            left = bytes(self._buffer[self._low : self._high])
            self._low, self._high = 0, len(left)
            self._buffer[: len(left)] = left
        return self._buffer[self._high :]

    def received(self, count: int) -> list[tuple[Any, ...]]:
        """Frames that `count` received bytes complete: `(kind, flags, piece, ticket, body)`, in order.

        The body of a PART is `(view, checksums)`; the view is None if the part was not wanted.

        Raises
        ------
        ProtocolError
            If the bytes are no frames; do not go on with this stream.
        """
        if self._rest is not None:
            self._rest = self._rest[count:]
            if len(self._rest):
                return []
            self._rest = None
            return [self._part]
        self._high += count
        frames: list[tuple[Any, ...]] = []
        buffer = self._buffer
        while self._high - self._low >= wire.HEAD:
            kind, flags, piece, ticket, length = wire.parse_head(buffer, self._low)
            if kind not in self._kinds:
                raise ProtocolError(f"a frame of kind {kind} does not belong here; the other end is no jmars")
            body = self._low + wire.HEAD
            if kind == wire.PART:
                if self._high - body < wire.PART_FIXED or not self._begin_part(flags, piece, ticket, length):
                    break
                frames.append(self._part)
                continue
            if self._high - body < length:
                break
            frames.append((kind, flags, piece, ticket, bytes(buffer[body : body + length])))
            self._low = body + length
        if self._low == self._high:
            self._low = self._high = 0
        return frames

    def redirect(self) -> None:
        """Receive the rest of the current part elsewhere, and drop the part."""
        assert self._rest is not None
        kind, flags, piece, ticket, (_, sums) = self._part
        self._rest = self._waste(len(self._rest))
        self._part = (kind, flags, piece, ticket, (None, sums))

    def _begin_part(self, flags: int, piece: int, ticket: int, length: int) -> bool:
        """Take a part's head and the bytes behind the head; returns whether the part is whole."""
        assert self._place is not None
        body = self._low + wire.HEAD
        offset, size, nsums = wire.parse_part(self._buffer, body, length)
        start = body + wire.PART_FIXED + nsums
        if self._high < start:
            return False
        sums = bytes(self._buffer[start - nsums : start])
        view = self._place(ticket, piece, offset, size)
        into = self._waste(size) if view is None else view
        here = min(size, self._high - start)
        into[:here] = self._buffer[start : start + here]
        self._part = (wire.PART, flags, piece, ticket, (view, sums))
        self._low = start + here
        if here < size:
            self._low = self._high = 0
            self._rest = into[here:]
        return here == size

    def _waste(self, size: int) -> memoryview:
        """Memory for bytes that are dropped."""
        if self._junk is None:
            self._junk = memoryview(bytearray(wire.PART_BYTES))
        return self._junk[:size]
