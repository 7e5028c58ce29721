"""ChunkServer: the requests of other hosts, from the lanes to the control process and back.

The control process answers a request with a place. The place stays valid until "given" is reported: exactly once, also
if the lane has gone meanwhile. Reports are messages to the control process
(processes/carrier.py).
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jmars.actors.crowd import gives_way
from jmars.transport.pulls import Holder
from jmars.transport.serve_lanes import ServeLane
from jmars.transport.tls_sockets import HostIdentity
from jmars.transport.ucx import Ucx

__all__ = ["ChunkServer"]

log = logging.getLogger("jmars.transport")

MOST_STRANGERS = 64  # connections that have not proved an identity


class _Request:
    """A piece that a host asked for."""

    __slots__ = ("key", "lane", "place")

    def __init__(self, lane: ServeLane, key: tuple[int, int]) -> None:
        self.lane: ServeLane | None = lane  # None after its end
        self.key = key  # ticket and piece
        self.place = ""  # kind of the place, once it is known


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
        self._files = ThreadPoolExecutor(1, "spilled chunks")  # starts its thread when it reads first
        self._peers: set[Holder] = set()
        self._gone: set[Holder] = set()
        self._requests: dict[int, _Request] = {}
        self._lanes: dict[ServeLane, set[int]] = {}  # requests by lane
        self._strangers: dict[ServeLane, socket.socket] = {}  # lanes that are not open yet, each with a way to cut it
        self._addresses: dict[ServeLane, str] = {}  # and where they come from
        self._number = 0

    # -- hosts
    def add_peer(self, holder: Holder) -> None:
        """A host may ask from here on."""
        self._peers.add(holder)

    def drop_peer(self, holder: Holder) -> None:
        """A host is gone, and refused from here on."""
        self._gone.add(holder)
        self._peers.discard(holder)
        for lane in self._lanes:
            if (lane.host, lane.incarnation) == holder:
                lane.inbox.put(("close", "the host is gone"))

    def accept(self, raw: socket.socket) -> None:
        """A host has connected."""
        if len(self._strangers) >= MOST_STRANGERS:
            self._send_away()
        try:
            address, cut = raw.getpeername()[0], raw.dup()
        except OSError:  # it has ended, or the system has no descriptor left
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
            pass  # it has ended already
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
        return "" if (host, incarnation) in self._peers else f"host {host}, incarnation {incarnation} is not known here"

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
            if (lane.host, lane.incarnation) in self._gone:  # it went while it said hello
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
