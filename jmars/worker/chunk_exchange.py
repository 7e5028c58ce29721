"""ChunkExchange: moves chunks between this host and others, by the carrier where there is a route, else by the head.

The carrier (processes/carrier.py) reads straight from the carrier of another host into shared memory. Where two hosts
cannot connect, the head passes the bytes on.
Source: docs/explanation/seeds.md, "Execution in a worker".

The control process's end of the carrier: pulls chunks of other hosts, and serves theirs. Plain: no loop, no thread.

`CarrierLink` starts the carrier, and after a death the next carrier, with all that the dead carrier knew. A pull that
was under way at three deaths fails. Source: docs/explanation/reliability.md.

ChunkKeepingActor: makes chunks of a leaving host chunks of this host.

Chunks are read into memory like inputs of an operand, and are originals from then on: spilled for want of memory, and
never evicted like copies. Source: docs/explanation/seeds.md, "Memory management".

Serves chunks to other hosts, from memory or from their files, without memory of its own.

A source that needed memory to send could wait for a host that waits for the source. So a chunk is sent from where it
is: from its slot, also while it is being spilled, or from its file.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from jmars.actors import remote_method
from jmars.actors.tls import Credentials
from jmars.actors.tls_link import format_address, parse_address
from jmars.errors import ChunkLostError, ClusterError, JmarsError, StorageError, text_of
from jmars.memory.buffer_manager import AllocationRequest, BufferManager
from jmars.memory.gathering import Pull
from jmars.model.messages import LocateChunks
from jmars.processes.links import ChildLink, Children
from jmars.storage.chunks import ChunkRange, Chunks, SpillFile, checksum
from jmars.storage.spill import Span, read_span
from jmars.worker.execution import ExecutionActor

WITHDRAWN = "the read was withdrawn"
DIAL_SECONDS = 3.0  # for a connection to another host

log = logging.getLogger("jmars.worker")


class ChunkExchange:
    """Chunks to and from other hosts; the actor "peers", to which the head tells of other hosts.

    Parameters
    ----------
    children
        Starts the carrier.
    folder
        Of the files of spilled chunks.
    relay
        Reads from other hosts by the head.
    listening
        Called with the port of the carrier.
    """

    def __init__(
        self,
        execution: ExecutionActor,
        children: Children,
        folder: str,
        relay: Pull,
        listening: Callable[[int], None],
    ) -> None:
        self._chunks, self._buffers = execution.chunks, execution.memory.buffers
        self._children, self._folder, self._relay = children, folder, relay
        self._watch = execution.processes.watch
        self._buffers.pull_by(self.pull)
        self._incarnations: dict[int, int] = {}  # of peers
        self._joined: tuple[str, int, int, Credentials, str] | None = None
        self._begun = False
        self.relayed = 0  # pulls that the head passed on
        self.carrier = CarrierLink(
            self._start, serve=self._serve, served=self._served, damaged=self._buffers.bad_file, listening=listening
        )

    def joined(self, cluster: str, host: int, incarnation: int, credentials: Credentials, address: str) -> None:
        """This host has joined a cluster; other hosts reach it at `address`."""
        self._joined = cluster, host, incarnation, credentials, address

    @remote_method
    def begin(self, ucx: str) -> None:
        """Start the carrier, which listens for other hosts; takes "no", "auto" or "always" for UCX.

        No effect the second time.
        """
        assert self._joined is not None
        if not self._begun:
            self._begun = True
            self.carrier.begin(*self._joined, ucx)

    @remote_method
    def add_peer(self, host: int, incarnation: int, address: str) -> None:
        """Chunks of a host can be read at "address:port"."""
        if self.carrier.add_peer(host, incarnation, address):
            self._incarnations[host] = incarnation

    @remote_method
    async def dial(self, address: str) -> str:
        """Why this host cannot reach "address:port"; empty where a connection comes up."""
        where, port = parse_address(address)
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                _, writer = await asyncio.open_connection(where, port)
        except OSError as error:  # TimeoutError, too
            return text_of(error) or f"no connection within {DIAL_SECONDS:g} s"
        writer.close()
        return ""

    @remote_method
    def drop_peer(self, host: int, incarnation: int) -> None:
        """A host is gone."""
        if self._incarnations.get(host) == incarnation:  # else it is back already
            del self._incarnations[host]
        if self._begun:
            self.carrier.drop_peer(host, incarnation)

    def open_lanes(self) -> None:
        """A job begins: connect to the other hosts before an operand waits for a chunk of theirs."""
        if self._begun and self._incarnations:
            self.carrier.open_lanes()

    def pull(self, wanted: ChunkRange, hosts: Sequence[int], done: Callable[[str], None]) -> Callable[[], None]:
        """Read bytes of a chunk of another host; a `Pull`."""
        holders = [(host, self._incarnations[host]) for host in hosts if host in self._incarnations]
        by_head = partial(self._pull_by_head, wanted, hosts, done)
        if not holders:
            return by_head("no host that has it can be reached from here")
        relayed: list[Callable[[], None]] = []  # withdraws the read by the head, once there is one

        def ended(error: str) -> None:
            if error:
                relayed.append(by_head(error))
            else:
                done("")

        def withdraw() -> None:
            if relayed:
                relayed[0]()
            else:
                self.carrier.withdraw(ticket, partial(done, WITHDRAWN))

        ticket = self.carrier.pull(wanted, holders, ended)
        return withdraw

    # -- own
    def _pull_by_head(
        self, wanted: ChunkRange, hosts: Sequence[int], done: Callable[[str], None], why: str
    ) -> Callable[[], None]:
        log.info("the head passes chunk %d on: %s", wanted.chunk, why)
        self.relayed += 1
        return self._relay(wanted, hosts, done)

    def _start(self) -> ChildLink:
        link = ChildLink("carrier", self.carrier.received, self.carrier.ended)
        self._children.start(link, "carrier")
        self._watch(link)
        return link

    def _serve(self, chunk: int) -> ChunkPlace:
        """Place of a chunk, which stays there until `_served`."""
        source = source_of(self._chunks, self._buffers, chunk)
        self._chunks.pin(chunk)
        if isinstance(source, SpillFile):
            return ("file", f"{self._folder}/{source.name}", source.checksum, source.size)
        return ("memory", source, self._chunks.size(chunk))

    def _served(self, chunk: int) -> None:
        self._buffers.delete(self._chunks.unpin(chunk))
        self._buffers.advance()


def source_of(chunks: Chunks, buffers: BufferManager, chunk: int) -> int | SpillFile:
    """Slot or file from which bytes of a chunk can be sent now: the slot also while the chunk is being spilled.

    Raises
    ------
    ChunkLostError
        If the chunk is not here.
    """
    slot, file = chunks.memory.get(chunk), chunks.disk.get(chunk)
    if slot is not None and (chunk not in chunks.moving or chunk in buffers.spills):
        return slot
    if file is None:
        raise ChunkLostError(f"chunk {chunk} is not on this host; compute its tensor again")
    return file


MARKED = 16  # pulls whose marks are kept between two reports
DEATHS = 3  # of carriers during the same pull, or in a row before they listen

# Where the bytes of a chunk are: ("memory", offset, size), ("file", path, checksums, size), ("none", why).
ChunkPlace = tuple[Any, ...]


class Transfers(NamedTuple):
    """Pulls from a host that have ended."""

    chunks: int = 0
    nbytes: int = 0
    seconds: float = 0.0  # of all pulls together, which may overlap
    marks: tuple[tuple[int, ...], ...] = ()  # of the newest MARKED pulls: chunk, then the marks after "planned" in µs
    ahead: int = 0  # chunks that were read before an operand asked for them


@dataclass
class _Pull:
    """An order that has not been answered."""

    message: tuple[Any, ...]
    done: Callable[[str], None]
    planned: float  # time of the order
    withdrawn: Callable[[], None] | None = None
    deaths: int = 0


class CarrierLink:
    """Sends orders to the carrier, and answers its requests.

    Parameters
    ----------
    start
        Forks a carrier.
    serve
        Gives the place of a chunk, and pins the chunk; a StorageError stands for ("none", why).
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
        start: Callable[[], ChildLink],
        *,
        serve: Callable[[int], ChunkPlace],
        served: Callable[[int], None],
        damaged: Callable[[int, str], None],
        listening: Callable[[int], None],
    ) -> None:
        self.links: dict[int, tuple[float, float]] = {}
        self.transports: dict[int, tuple[str, str]] = {}
        self._start, self._serve, self._served = start, serve, served
        self._damaged, self._listening = damaged, listening
        self._process: ChildLink | None = None
        self._identity: dict[str, Any] = {}
        self._address = ""  # to listen at, without the port
        self._port = 0  # of this carrier or the one before
        self._peers: dict[tuple[int, int], str] = {}  # address by host and incarnation
        self._gone: set[tuple[int, int]] = set()
        self._pulls: dict[int, _Pull] = {}
        self._asked: dict[int, int] = {}  # chunk of each request that has a place
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
        self._address = address
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
    def pull(self, wanted: ChunkRange, holders: Sequence[tuple[int, int]], done: Callable[[str], None]) -> int:
        """Read a range into the arena; returns the ticket.

        Parameters
        ----------
        holders
            Hosts and incarnations, in order of preference.
        done
            Called with "" or an error, when the carrier does not write there any more.
        """
        self._tickets += 1
        message = ("pull", self._tickets, wanted, list(holders))
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
    def _answer(self, request: int, chunk: int) -> None:
        try:
            place = self._serve(chunk)
        except StorageError as error:
            place = ("none", str(error))
        if place[0] != "none":
            self._asked[request] = chunk
        self._tell("give", request, place)

    # -- the carrier
    def received(self, link: ChildLink, message: Any) -> None:
        """Handle a report of the carrier; reports of a dead carrier come too late."""
        if link is not self._process:
            return
        kind, *args = message
        if kind == "pulled":
            self._pulled(*args)
        elif kind == "asked":
            request, _, chunk, _, _ = args
            self._answer(request, chunk)
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
            chunks, moved, seconds, told, ahead = self._transfers.get(host, Transfers())
            completed = max(marks[-1], round(1e6 * (time.monotonic() - pull.planned)))
            wanted = pull.message[2]
            told = (*told[1 - MARKED :], (wanted.chunk, *marks, completed))
            ahead += wanted.ahead
            self._transfers[host] = Transfers(chunks + 1, moved + nbytes, seconds + 1e-6 * marks[-1], told, ahead)
        if pull.withdrawn is not None:
            pull.withdrawn()
        else:
            pull.done(error)

    def _end_request(self, request: int, error: str) -> None:
        chunk = self._asked.pop(request, None)
        if chunk is None:
            log.info("request %d of another host has no place to give back", request)
            return
        self._served(chunk)
        if error:
            self._damaged(chunk, error)

    def ended(self, link: ChildLink, why: str) -> None:
        """The carrier ended: the next carrier gets all orders again. Peers ask the next carrier again by themselves."""
        if link is not self._process:
            return
        self._process = None
        for chunk in list(self._asked.values()):
            self._served(chunk)
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
        process.send(("begin", {**self._identity, "bind": format_address(self._address, self._port)}))
        for (host, incarnation), address in self._peers.items():
            process.send(("peer", host, incarnation, address))
        for holder in self._gone:
            process.send(("gone", *holder))
        for pull in self._pulls.values():
            process.send(pull.message)


class ChunkKeepingActor:
    """The actor "keeping" of a host; only the head reaches it."""

    def __init__(self, execution: ExecutionActor) -> None:
        self._execution = execution
        self._chunks, self._buffers = execution.chunks, execution.memory.buffers

    @remote_method
    async def keep(
        self,
        chunks: Sequence[int],
        nbytes: Sequence[int],
        hosts: Sequence[Sequence[int]],
        shapes: Mapping[int, Sequence[int]] | None = None,
    ) -> list[int]:
        """Read chunks of further hosts, and keep the chunks; returns the chunks that are originals here now.

        Parameters
        ----------
        chunks, nbytes, hosts, shapes
            As of `LocateChunks`.
        """
        reads = self._buffers.reads
        rows = [row for row in zip(chunks, nbytes, hosts, strict=True) if row[0] not in reads]  # else they come already
        locate = LocateChunks([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows], shapes)
        self._execution.locate_chunks(locate)
        kept = await asyncio.gather(*[self._keep(chunk) for chunk in chunks])
        return [chunk for chunk, is_here in zip(chunks, kept, strict=True) if is_here]

    async def _keep(self, chunk: int) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def granted(_: int) -> None:
            self._chunks.keep(chunk)
            answer.set_result(True)

        def refused(error: Exception) -> None:
            log.info("chunk %d of another host cannot be kept here: %s", chunk, error)
            answer.set_result(False)

        if chunk in self._chunks.disk:
            return True  # an original, of a host that had it before
        try:
            self._buffers.refuse_too_large([self._chunks.size(chunk)], "a chunk of a host that leaves")
        except JmarsError as error:
            refused(error)
        else:
            self._buffers.enqueue(AllocationRequest([chunk], None, granted, refused, "a chunk of a host that leaves"))
        return await answer


class ServingActor:
    """The actor "serving" of a host, for reads that the head passes on.

    Parameters
    ----------
    memory
        The shared mapping.
    folder
        Of the files of spilled chunks.
    """

    def __init__(self, execution: ExecutionActor, memory: mmap.mmap, folder: str) -> None:
        self._chunks, self._buffers = execution.chunks, execution.memory.buffers
        self._memory, self._folder = memory, folder

    @remote_method
    async def read(self, chunk: int, start: int, stop: int) -> tuple[bytes, bytes]:
        """Bytes of a chunk and their checksum; ask for a few MiB at a time.

        Raises
        ------
        ChunkLostError
            If the chunk is not here.
        StorageError
            If its file cannot be read.
        """
        source = source_of(self._chunks, self._buffers, chunk)
        if isinstance(source, SpillFile):
            data = await asyncio.to_thread(_from_file, self._folder, source, start, stop)
        elif 0 <= start <= stop <= self._chunks.size(chunk):
            data = self._memory[source + start : source + stop]
        else:
            raise ClusterError(f"bytes {start} to {stop} are no part of chunk {chunk}")
        return data, checksum(data)


def _from_file(folder: str, place: SpillFile, start: int, stop: int) -> bytes:
    span = Span(place.checksum, place.size, start, stop)
    buffer = bytearray(span.nbytes)
    read_span(folder, place.name, span, memoryview(buffer))
    return bytes(buffer[start - span.start : stop - span.start])
