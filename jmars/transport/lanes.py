"""BulkLane: an end of a TLS connection between two hosts, and the thread that reads and writes there.

The host that reads chunks dials; the host that has chunks serves. An end has a single thread, since OpenSSL forbids two
threads in a connection, and the socket does not block, since two ends that both wait to write would wait for ever. The
thread tries to write and to read, and waits for the socket or the inbox only if neither goes on; encryption and copies
run without Python's lock.
Source: `SSL_write(3)`; docs/explanation/reliability.md.
"""

from __future__ import annotations

import logging
import select
import ssl
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from jmars.errors import AuthenticationError, ProtocolError, fault_of, text_of
from jmars.transport.frame_reader import FrameReader
from jmars.transport.inbox import Inbox

__all__ = ["BulkLane"]

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

    # -- what the two kinds of lanes do
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

    # -- what they use
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
