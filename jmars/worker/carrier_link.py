"""The control process's end of the carrier: pulls chunks of other hosts, and serves theirs. Plain: no loop, no thread.

`CarrierLink` starts the carrier, and after a death the next carrier, with all that the dead carrier knew. A pull that
was under way at three deaths fails. Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from jmars.actors.tls import Credentials
from jmars.errors import StorageError

__all__ = ["CarrierLink", "CarrierProcess", "ChunkPlace", "Transfers"]

log = logging.getLogger("jmars.worker")

MARKED = 16  # pulls whose marks are kept between two reports
DEATHS = 3  # of carriers during the same pull, or in a row before they listen

# Where the bytes of a chunk are: ("memory", offset, size), ("file", path, checksums, size), ("none", why).
ChunkPlace = tuple[Any, ...]


class CarrierProcess(Protocol):
    """A running carrier."""

    def send(self, message: Any) -> None:
        """Send an order."""


class Transfers(NamedTuple):
    """Pulls from a host that have ended."""

    chunks: int = 0
    nbytes: int = 0
    seconds: float = 0.0  # of all pulls together, which may overlap
    marks: tuple[tuple[int, ...], ...] = ()  # of the newest MARKED pulls: chunk, then the marks after "planned" in µs


@dataclass
class _Pull:
    """An order that has not been answered."""

    message: tuple[Any, ...]
    done: Callable[[str], None]
    planned: float  # time of the order
    withdrawn: Callable[[], None] | None = None
    deaths: int = 0


@dataclass
class _Asked:
    """A request of another host."""

    chunk: int
    start: int
    stop: int
    has_place: bool = False


class CarrierLink:
    """Sends orders to the carrier, and answers its requests.

    Parameters
    ----------
    start
        Forks a carrier.
    serve
        Gives the place of bytes [start, stop) of a chunk, and pins it; None if the chunk moves just now: `serve_again`
        asks once more. A StorageError stands for ("none", why).
    served
        Unpins a chunk: once for each place but "none".
    damaged
        Called with a chunk whose file cannot be read, and the reason.
    listening
        Called with the port of the carrier, also if the next carrier has another one.

    Attributes
    ----------
    links
        Bytes a second and seconds of a round trip by host.
    transports
        "tls" or "ucx" and the reason by host, where there was a choice.
    """

    def __init__(
        self,
        start: Callable[[], CarrierProcess],
        *,
        serve: Callable[[int, int, int], ChunkPlace | None],
        served: Callable[[int], None],
        damaged: Callable[[int, str], None],
        listening: Callable[[int], None],
    ) -> None:
        self.links: dict[int, tuple[float, float]] = {}
        self.transports: dict[int, tuple[str, str]] = {}
        self._start, self._serve, self._served = start, serve, served
        self._damaged, self._listening = damaged, listening
        self._process: CarrierProcess | None = None
        self._identity: dict[str, Any] = {}
        self._address = ""  # to listen at, without the port
        self._port = 0  # of this carrier or the one before
        self._peers: dict[tuple[int, int], str] = {}  # address by host and incarnation
        self._gone: set[tuple[int, int]] = set()
        self._pulls: dict[int, _Pull] = {}
        self._asked: dict[int, _Asked] = {}
        self._transfers: dict[int, Transfers] = {}
        self._tickets = 0
        self._deaths = 0  # in a row, of carriers that did not listen yet
        self._closed = False

    # -- hosts
    def begin(
        self, cluster: str, host: int, incarnation: int, credentials: Credentials, address: str, ucx: str = "no"
    ) -> None:
        """Start the carrier of this host.

        Parameters
        ----------
        address
            Where peers connect, without a port: the system chooses one, and `listening` tells it.
        ucx
            "no", "auto" or "always".
        """
        self._address = f"[{address}]" if ":" in address else address
        self._identity = {
            "cluster": cluster,
            "host": host,
            "incarnation": incarnation,
            "key": credentials.key,
            "certificate": credentials.certificate,
            "ca": credentials.ca,
            "ucx": ucx,
        }
        self._launch()

    def add_peer(self, host: int, incarnation: int, address: str) -> bool:
        """A host may be asked, and may ask, from here on, at "address:port"; returns False for a host that is gone."""
        if (host, incarnation) in self._gone:
            log.info("host %d, incarnation %d is gone, and listens at %s", host, incarnation, address)
            return False
        self._peers[host, incarnation] = address
        self._tell("peer", host, incarnation, address)
        return True

    def drop_peer(self, host: int, incarnation: int) -> None:
        """A host is gone: its pulls go elsewhere or fail, and it is refused for ever."""
        self._peers.pop((host, incarnation), None)
        self._gone.add((host, incarnation))
        if not any(number == host for number, _ in self._peers):
            self.links.pop(host, None)
            self.transports.pop(host, None)
        self._tell("gone", host, incarnation)

    def open_lanes(self) -> None:
        """A job begins: connect to the other hosts, where there is no connection yet."""
        self._tell("open")

    def close(self) -> None:
        """The cluster ends: start no carrier any more."""
        self._closed = True

    # -- pulls
    def pull(
        self,
        chunk: int,
        start: int,
        stop: int,
        offset: int,
        holders: Sequence[tuple[int, int]],
        urgency: tuple[int, int],
        done: Callable[[str], None],
    ) -> int:
        """Read bytes [start, stop) of a chunk to `offset` of the arena; returns the ticket.

        Parameters
        ----------
        holders
            Hosts and incarnations, in order of preference.
        urgency
            Number of the job, and rank of the operand that reads.
        done
            Called with "" or an error, when the carrier does not write there any more.
        """
        self._tickets += 1
        job, rank = urgency
        message = ("pull", self._tickets, (job << 32) + rank, chunk, start, stop, offset, list(holders))
        self._pulls[self._tickets] = _Pull(message, done, time.monotonic())
        self._tell(*message)
        return self._tickets

    def withdraw(self, ticket: int, done: Callable[[], None]) -> None:
        """A pull is not wanted any more: `done` is called instead of the pull's own, when the slot is free.

        No effect on a pull that has ended, or was withdrawn before.
        """
        pull = self._pulls.get(ticket)
        if pull is None or pull.withdrawn is not None:
            return
        pull.withdrawn = done
        self._tell("withdraw", ticket)

    def take_transfers(self) -> dict[int, Transfers]:
        """Pulls that ended since the last call, by source host."""
        found, self._transfers = self._transfers, {}
        return found

    # -- requests of other hosts
    def serve_again(self) -> None:
        """Chunks have moved: ask for the places of requests that wait."""
        for request, asked in list(self._asked.items()):
            if not asked.has_place:
                self._answer(request, asked)

    def _answer(self, request: int, asked: _Asked) -> None:
        try:
            place = self._serve(asked.chunk, asked.start, asked.stop)
        except StorageError as error:
            place = ("none", str(error))
        if place is None:
            return
        asked.has_place = True
        if place[0] == "none":
            del self._asked[request]
        self._tell("give", request, place)

    # -- the carrier
    def received(self, link: CarrierProcess, message: Any) -> None:
        """Handle a report of the carrier; reports of a dead carrier come too late."""
        if link is not self._process:
            return
        kind, *args = message
        if kind == "pulled":
            self._pulled(*args)
        elif kind == "asked":
            request, _, chunk, start, stop = args
            asked = self._asked[request] = _Asked(chunk, start, stop)
            self._answer(request, asked)
        elif kind == "given":
            request, _, error = args
            self._end_request(request, error)
        elif kind == "withdrawn":
            pull = self._pulls.pop(args[0], None)
            if pull is not None and pull.withdrawn is not None:
                pull.withdrawn()
        elif kind == "link":
            host, bandwidth, latency = args
            self.links[host] = (bandwidth, latency)
        elif kind == "transport":
            host, transport, why = args
            self.transports[host] = (transport, why)
            log.info("chunks of host %d come by %s: %s", host, transport, why)
        elif kind == "listening":
            self._deaths = 0
            if args[0] != self._port:
                self._port = args[0]
                self._listening(self._port)

    def _pulled(self, ticket: int, error: str, host: int, nbytes: int, marks: Sequence[int]) -> None:
        pull = self._pulls.pop(ticket, None)
        if pull is None:
            log.info("pull %d is over already, and ends once more: %s", ticket, error or "its bytes came")
            return
        if not error:
            chunks, moved, seconds, told = self._transfers.get(host, Transfers())
            completed = max(marks[-1], round(1e6 * (time.monotonic() - pull.planned)))
            told = (*told[1 - MARKED :], (pull.message[3], *marks, completed))
            self._transfers[host] = Transfers(chunks + 1, moved + nbytes, seconds + 1e-6 * marks[-1], told)
        if pull.withdrawn is not None:
            pull.withdrawn()
        else:
            pull.done(error)

    def _end_request(self, request: int, error: str) -> None:
        asked = self._asked.pop(request, None)
        if asked is None or not asked.has_place:
            log.info("request %d of another host has no place to give back", request)
            return
        self._served(asked.chunk)
        if error:
            self._damaged(asked.chunk, error)

    def ended(self, link: CarrierProcess, why: str) -> None:
        """The carrier ended: the next carrier gets all orders again. Peers ask the next carrier again by themselves."""
        if link is not self._process:
            return
        self._process = None
        for asked in list(self._asked.values()):
            if asked.has_place:
                self._served(asked.chunk)
        self._asked.clear()
        if self._closed:
            return
        self._deaths += 1
        gives_up = self._deaths >= DEATHS
        log.warning("the process that moves chunks between hosts ended: %s", why)
        error = f"the process that reads chunks of other hosts ended again and again ({why}); see the log"
        for ticket, pull in list(self._pulls.items()):
            pull.deaths += 1
            if pull.withdrawn is not None or pull.deaths >= DEATHS or gives_up:
                del self._pulls[ticket]
                if pull.withdrawn is not None:
                    pull.withdrawn()
                else:
                    pull.done(error)
        if gives_up:
            log.error("no process can move chunks between hosts until the next order: %s", why)
            self._deaths = 0
        elif self._process is None:
            self._launch()

    # -- own
    def _tell(self, *message: Any) -> None:
        """Send an order; a carrier that is started now gets all orders."""
        if self._process is None:
            self._launch()
        else:
            self._process.send(message)

    def _launch(self) -> None:
        """Start a carrier, and tell all that is known."""
        if self._closed or not self._identity:
            return
        process = self._process = self._start()
        process.send(("begin", {**self._identity, "bind": f"{self._address}:{self._port}"}))
        for (host, incarnation), address in self._peers.items():
            process.send(("peer", host, incarnation, address))
        for holder in self._gone:
            process.send(("gone", *holder))
        for pull in self._pulls.values():
            process.send(pull.message)
