"""Ends of connections that do what no carrier does: a proxy that cuts or holds, and hosts that send anything."""

from __future__ import annotations

import contextlib
import select
import socket
import threading

from jmars.transport import wire
from jmars.transport.tls_sockets import accept, dial, listen


class Proxy:
    """Passes TCP bytes on to a port, until it is told to cut or to hold.

    Attributes
    ----------
    connections
        Number of connections so far.
    passed
        Bytes that passed.
    """

    def __init__(self, port):
        self.connections = 0
        self._to = port
        self._listener = listen("127.0.0.1:0")
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs = []
        self._holds = self._ends = False
        self._wake, self._waker = socket.socketpair()
        self.passed, self._limit = 0, None
        self._reached = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def after(self, nbytes, what):
        """Cut (what="cut") or hold ("hold") all connections when so many bytes more have passed; waits for that."""
        self._reached.clear()
        self._limit = (self.passed + nbytes, what)
        self._waker.send(b"x")
        return self._reached

    def resume(self):
        """Pass bytes on again; held connections are cut."""
        self._limit = (0, "cut")
        self._holds = False
        self._waker.send(b"x")

    def close(self):
        """Cut all connections, and end."""
        self._ends = True
        self._waker.send(b"x")
        self._thread.join()

    def _serve(self):
        while not self._ends:
            ends = {} if self._holds else {a: b for pair in self._pairs for a, b in (pair, pair[::-1])}
            ready, _, _ = select.select([self._listener, self._wake, *ends], [], [])
            for one in ready:
                if one is self._wake:
                    self._wake.recv(100)
                elif one is self._listener:
                    self.connections += 1
                    self._pairs.append((one.accept()[0], socket.create_connection(("127.0.0.1", self._to))))
                elif one in ends:
                    self._pass(one, ends[one])
            if self._limit is not None and self.passed >= self._limit[0]:
                if self._limit[1] == "cut":
                    self._cut()
                else:
                    self._holds = True
                self._limit = None
                self._reached.set()
        self._cut()
        for one in (self._listener, self._wake, self._waker):
            one.close()

    def _pass(self, one, other):
        try:
            data = one.recv(2**16)
            if data:
                self.passed += len(data)
                other.sendall(data)
                return
        except OSError:
            pass
        for pair in self._pairs:
            if one in pair:
                for end in pair:
                    end.close()
        self._pairs = [pair for pair in self._pairs if one not in pair]

    def _cut(self):
        for pair in self._pairs:
            for end in pair:
                end.close()
        self._pairs.clear()


@contextlib.contextmanager
def proxy(port):
    """A proxy to a port of this machine."""
    found = Proxy(port)
    try:
        yield found
    finally:
        found.close()


@contextlib.contextmanager
def rogue_source(who, answer):
    """A host with valid proofs that greets every connection, then calls `answer(link, read)`; yields its address.

    `read()` gives the next frame `(kind, piece, ticket, body)`.
    """
    listener = listen("127.0.0.1:0")
    threads, links, ends = [], [], threading.Event()

    def greet(raw):
        try:
            link, _ = accept(who.context(is_server=True), who, raw, lambda *_: "")
        except OSError:
            return
        links.append(link)
        with contextlib.suppress(OSError, EOFError):
            answer(link, lambda: read_frame(link))

    def serve():
        while True:
            raw, _ = listener.accept()
            if ends.is_set():
                raw.close()
                return
            threads.append(threading.Thread(target=greet, args=(raw,)))
            threads[-1].start()

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ends.set()
        socket.create_connection(listener.getsockname()).close()
        serving.join()
        listener.close()
        for link in links:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(link, socket.SHUT_RDWR)  # SSLSocket's would have its thread read ciphertext
        for thread in threads:
            thread.join()
        for link in links:
            link.close()


def rogue_reader(who, host):
    """A connection with valid proofs to a host's carrier."""
    return dial(who.context(is_server=False), who, *host.holder, f"127.0.0.1:{host.port}")


def read_frame(link):
    """The next frame: kind, piece, ticket, body; offers of UCX are declined."""
    kind, _, piece, ticket, length = wire.parse_head(read_exactly(link, wire.HEAD))
    body = read_exactly(link, length)
    if kind == wire.OFFER:
        link.sendall(wire.answer(False, 0, b"a test"))
        return read_frame(link)
    return kind, piece, ticket, body


def read_exactly(link, size):
    """So many bytes; EOFError if the other end hangs up."""
    data = b""
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
