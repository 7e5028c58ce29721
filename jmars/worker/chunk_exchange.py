"""ChunkExchange: moves chunks between this host and others, by the carrier where there is a route, else by the head.

The carrier (processes/carrier.py) reads straight from the carrier of another host into shared memory. Where two hosts
cannot connect, the head passes the bytes on.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from jmars.actors import remote_method
from jmars.actors.tls import Credentials
from jmars.actors.tls_dial import parse_address
from jmars.errors import ChunkLostError, text_of
from jmars.memory.chunk_reads import Pull
from jmars.processes.links import ChildLink, Children
from jmars.worker.carrier_link import CarrierLink, ChunkPlace
from jmars.worker.execution import ExecutionActor

__all__ = ["WITHDRAWN", "ChunkExchange", "PeersActor"]

WITHDRAWN = "the read was withdrawn"
DIAL_SECONDS = 3.0  # for a connection to another host

log = logging.getLogger("jmars.worker")


class ChunkExchange:
    """Chunks to and from other hosts.

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
        self._incarnations: dict[int, int] = {}  # of peers
        self._begun = False
        self.relayed = 0  # pulls that the head passed on
        self.carrier = CarrierLink(
            self._start, serve=self._serve, served=self._served, damaged=self._buffers.bad_file, listening=listening
        )

    def begin(
        self, cluster: str, host: int, incarnation: int, credentials: Credentials, address: str, ucx: str = "no"
    ) -> None:
        """Start the carrier, which listens at `address`; no effect the second time."""
        if not self._begun:
            self._begun = True
            self.carrier.begin(cluster, host, incarnation, credentials, address, ucx)

    def add_peer(self, host: int, incarnation: int, address: str) -> None:
        """Chunks of a host can be read at "address:port"."""
        if self.carrier.add_peer(host, incarnation, address):
            self._incarnations[host] = incarnation

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

    def pull(
        self,
        chunk: int,
        start: int,
        stop: int,
        offset: int,
        hosts: Sequence[int],
        urgency: tuple[int, int],
        done: Callable[[str], None],
    ) -> Callable[[], None]:
        """Read bytes of a chunk of another host; a `Pull`."""
        holders = [(host, self._incarnations[host]) for host in hosts if host in self._incarnations]
        by_head = partial(self._pull_by_head, chunk, start, stop, offset, hosts, urgency, done)
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

        ticket = self.carrier.pull(chunk, start, stop, offset, holders, urgency, ended)
        return withdraw

    def close(self) -> None:
        """Start no carrier any more."""
        self.carrier.close()

    # -- own
    def _pull_by_head(
        self,
        chunk: int,
        start: int,
        stop: int,
        offset: int,
        hosts: Sequence[int],
        urgency: tuple[int, int],
        done: Callable[[str], None],
        why: str,
    ) -> Callable[[], None]:
        log.info("the head passes chunk %d on: %s", chunk, why)
        self.relayed += 1
        return self._relay(chunk, start, stop, offset, hosts, urgency, done)

    def _start(self) -> ChildLink:
        link = ChildLink("carrier", self.carrier.received, self.carrier.ended)
        self._children.start(link, "carrier")
        self._watch(link)
        return link

    def _serve(self, chunk: int, start: int, stop: int) -> ChunkPlace | None:
        """Place of a chunk, which stays there until `_served`."""
        chunks = self._chunks
        slot, file = chunks.memory.get(chunk), chunks.disk.get(chunk)
        if slot is not None and (chunk not in chunks.moving or chunk in self._buffers.spills):
            chunks.pin(chunk)
            return ("memory", slot, chunks.size(chunk))
        if file is not None:
            chunks.pin(chunk)
            return ("file", f"{self._folder}/{file.name}", file.checksum, file.size)
        raise ChunkLostError(f"chunk {chunk} is not on this host; compute its tensor again")

    def _served(self, chunk: int) -> None:
        self._buffers.delete(self._chunks.unpin(chunk))
        self._buffers.advance()


class PeersActor:
    """The actor "peers": the head tells of other hosts.

    Parameters
    ----------
    begin
        Starts the carrier of this host; takes "no", "auto" or "always" for UCX.
    """

    def __init__(self, exchange: ChunkExchange, begin: Callable[[str], None]) -> None:
        self._exchange, self._begin = exchange, begin

    @remote_method
    def begin(self, ucx: str) -> None:
        """There are other hosts: listen for them."""
        self._begin(ucx)

    @remote_method
    def add(self, host: int, incarnation: int, address: str) -> None:
        """A host listens."""
        self._exchange.add_peer(host, incarnation, address)

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
    def drop(self, host: int, incarnation: int) -> None:
        """A host is gone."""
        self._exchange.drop_peer(host, incarnation)
