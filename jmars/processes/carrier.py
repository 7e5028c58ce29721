"""The carrier process: brings chunks of other hosts straight into the arena, and sends chunks to them.

Only a host with peers has a carrier. The control process decides about places: it names holders and slots, and answers
the requests of peers. A connection is a thread (transport/lanes.py); the main thread, here, has all books.

Orders: `("begin", {cluster, host, incarnation, key, certificate, ca, bind, ucx})`, once and first, where `ucx` is
"no", "auto" or "always"; `("peer", host, incarnation, address)`; `("gone", host, incarnation)`, refused for ever from
here on; `("pull", ticket, ChunkRange, holders)`; `("withdraw", ticket)`; `("give", request, place)`, where `place` is
`("memory", offset, size)`, `("file", path, checksums, size)` or `("none", why)`. Answers: `("listening", port)`;
`("asked", request, host, chunk, start, stop)`; `("given", request, bytes, error of the file)`, once per place but
"none"; `("pulled", ticket, error, host, bytes, [microseconds until started, loaded, received, unloaded])`;
`("withdrawn", ticket)`; `("link", host, bytes a second, seconds)`; `("transport", host, "tls" or "ucx", why)`. The
carrier does not write into a slot any more after "pulled" or "withdrawn". Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import socket
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

from jmars.actors.frames import Decoder, pack
from jmars.storage.chunks import ChunkRange
from jmars.transport.lanes import Inbox
from jmars.transport.pulling import Puller, PullLane
from jmars.transport.pulls import PullOrder
from jmars.transport.serving import ChunkServer
from jmars.transport.tls_sockets import HostIdentity, listen
from jmars.transport.ucx import Ucx, UcxWish

RECEIVED = 2**18  # bytes of orders that are read at once
PAUSE_SECONDS = 0.5  # without accepting, after the system had no descriptor left


class Carrier:
    """The main thread: orders from the control process, events from lanes, connections of hosts.

    Parameters
    ----------
    link
        Socket of the control process.
    memory
        The arena.
    """

    def __init__(self, link: socket.socket, memory: memoryview) -> None:
        self._link, self._memory = link, memory
        self._events = Inbox()
        self._poll = select.poll()
        self._reports = bytearray()
        self._listener: socket.socket | None = None
        self._pauses = False  # the system had no descriptor left for a connection
        self._puller: Puller
        self._server: ChunkServer

    def run(self) -> None:
        """Serve until the control process hangs up."""
        orders: dict[str, Callable[..., None]] = {
            "begin": self._begin,
            "peer": self._add_peer,
            "gone": self._drop_peer,
            "open": self._open_lanes,
            "pull": self._pull,
            "withdraw": self._withdraw,
            "give": self._give,
        }
        decoder = Decoder()
        poll = self._poll
        poll.register(self._link, select.POLLIN)
        poll.register(self._events.fd, select.POLLIN)
        wait: float | None = None
        while True:
            ready = {fd for fd, _ in poll.poll(None if wait is None else 1e3 * wait)}
            if self._link.fileno() in ready:
                data = self._link.recv(RECEIVED)
                if not data:
                    return
                for kind, *args in decoder.feed(data):
                    orders[kind](*args)
            for kind, lane, *args in self._events.take():
                if isinstance(lane, PullLane):
                    self._puller.event(kind, lane, args, monotonic())
                else:
                    self._server.event(kind, lane, args)
            if self._listener is None:
                continue
            now = monotonic()
            wait = self._puller.advance(now)
            if self._listener.fileno() in ready or self._pauses:
                self._accept(self._listener)
            if self._pauses:
                wait = min(wait or PAUSE_SECONDS, PAUSE_SECONDS)
            if self._reports:
                self._link.sendall(self._reports)
                self._reports.clear()

    # -- orders
    def _begin(self, given: dict[str, Any]) -> None:
        bind, wanted = given.pop("bind"), given.pop("ucx", "no")
        identity = HostIdentity(**given)
        if wanted != "no":
            os.dup2(2, 1)  # libraries below UCX write to standard output, where launchers read
        wish = UcxWish(Ucx(), always=wanted == "always") if wanted != "no" else None
        common = (identity, self._memory, self._report, self._events.put)
        self._puller = Puller(*common, wish=wish)
        self._server = ChunkServer(*common, wish.ucx if wish is not None else None)
        try:
            self._listener = listen(bind)
        except OSError as error:
            address, _, port = bind.rpartition(":")
            if error.errno != errno.EADDRINUSE or port == "0":
                raise
            self._listener = listen(f"{address}:0")  # the previous carrier's port was taken meanwhile
        self._listener.setblocking(False)
        self._poll.register(self._listener, select.POLLIN)
        self._report("listening", self._listener.getsockname()[1])

    def _add_peer(self, host: int, incarnation: int, address: str) -> None:
        self._puller.add_peer((host, incarnation), address)
        self._server.peers.add((host, incarnation))

    def _drop_peer(self, host: int, incarnation: int) -> None:
        self._server.drop_peer((host, incarnation))
        self._puller.drop_peer((host, incarnation), monotonic())

    def _open_lanes(self) -> None:
        self._puller.open_lanes(monotonic())

    def _pull(self, ticket: int, wanted: Any, holders: Any) -> None:
        order = PullOrder(ticket, ChunkRange(*wanted), holders)
        self._puller.pull(order, monotonic())

    def _withdraw(self, ticket: int) -> None:
        self._puller.withdraw(ticket)

    def _give(self, request: int, place: tuple[Any, ...]) -> None:
        self._server.give(request, place)

    # -- own
    def _report(self, *message: Any) -> None:
        self._reports += pack(message)

    def _accept(self, listener: socket.socket) -> None:
        """Accept a connection; without a free descriptor, try again later."""
        pauses = False
        try:
            raw, _ = listener.accept()
        except OSError as error:
            pauses = error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
        else:
            self._server.accept(raw)
        if pauses != self._pauses:
            self._pauses = pauses
            self._poll.modify(listener, 0 if pauses else select.POLLIN)


def run_carrier(link: socket.socket, arena_fd: int, arena_size: int) -> None:
    """Serve until the control process hangs up."""
    sys.setswitchinterval(1e-4)  # threads that come back from encryption are many, and wait for little
    try:
        Carrier(link, memoryview(mmap.mmap(arena_fd, arena_size))).run()
    except ConnectionError:
        pass
    os._exit(0)  # with all lanes; peers see their ends
