"""Chunks of several hosts for clients: the actor "passing" of the head, which passes bytes on.

Clients send and read pieces; the host that has a chunk takes the piece out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jmars.actors import remote_method
from jmars.deploy.roster import Roster
from jmars.errors import ChunkLostError, ClusterError, ClusterLostError
from jmars.model.messages import ChunksLost
from jmars.storage.chunks import ChunkElements, received


class HostsChunks:
    """The actor "passing"; has the methods of EngineChunks."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._coming: dict[int, list[int]] = {}  # chunk that comes in pieces: its host, and bytes that have not come
        self._turn = 0

    @remote_method
    async def gather(self, asked: Sequence[Any]) -> tuple[bytes, bytes]:
        """`ChunkElements`, and their checksum."""
        chunk = ChunkElements(*asked).chunk
        error: Exception | None = None
        tried: set[int] = set()
        while further := [number for number in self._roster.holders(chunk) if number not in tried]:
            number = further[0]
            tried.add(number)
            channel = self._roster.links[number].channel
            try:
                data, sent = await channel.ask("passing", "gather", asked)
            except (ChunkLostError, ClusterLostError) as problem:  # of a copy that was evicted, or of a host that went
                error = problem
                if isinstance(problem, ChunkLostError):
                    self._roster.hosts.take(number, [ChunksLost([chunk], str(problem))])
                continue
            return data, sent
        raise ChunkLostError(f"chunk {chunk} is no longer on the cluster ({error}); compute it again") from error

    @remote_method
    async def put(self, chunk: int, data: bytes, sent: bytes) -> None:
        """Store a fresh chunk; `sent` is the sender's checksum."""
        await self._store(self._next_host(), chunk, 0, len(data), data, sent)

    @remote_method
    async def put_piece(self, chunk: int, start: int, size: int, data: bytes, sent: bytes) -> None:
        """Bytes of a fresh chunk from `start` on; the chunk of `size` bytes is stored when all have come."""
        if chunk not in self._coming:
            self._coming[chunk] = [self._next_host(), size]
        number = self._coming[chunk][0]
        await self._store(number, chunk, start, size, data, sent)

    async def _store(self, number: int, chunk: int, start: int, size: int, data: bytes, sent: bytes) -> None:
        coming = self._coming.setdefault(chunk, [number, size])
        link = self._roster.links.get(number)
        if link is None:
            raise ClusterError(f"the host that took chunk {chunk} is gone; send the array again")
        if size == len(data):
            await link.channel.ask("passing", "put", chunk, data, sent)
        else:
            await link.channel.ask("passing", "put_piece", chunk, start, size, data, sent)
        coming[1] -= len(data)
        if self._coming.get(chunk) is not coming:
            link.channel.tell("passing", "abandon", chunk, 1)
            raise ClusterError(f"chunk {chunk} was given up before it was stored; store it again")
        if coming[1] <= 0:
            del self._coming[chunk]
            if number not in self._roster.links:
                raise ClusterError(f"the host that took chunk {chunk} is gone; send the array again")
            self._roster.hosts.places.stored(chunk, number, size)
            self._roster.heard_of(number)

    def _next_host(self) -> int:
        """Hosts take turns."""
        numbers = sorted(row.number for row in self._roster.hosts.staying if row.number in self._roster.links)
        if not numbers:
            raise ClusterLostError("no host of the cluster is here; wait until one is back, or start a new cluster")
        self._turn += 1
        return numbers[self._turn % len(numbers)]

    def is_coming(self, number: int) -> bool:
        """Whether a chunk is on its way to a host."""
        return any(host == number for host, _ in self._coming.values())

    def abandon(self, first: int, count: int) -> None:
        """Free fresh chunks that come in pieces or were stored."""
        for chunk in range(first, first + count):
            coming = self._coming.pop(chunk, None)
            link = None if coming is None else self._roster.links.get(coming[0])
            if coming is not None:
                self._roster.heard_of(coming[0])
            if link is not None:
                link.channel.tell("passing", "abandon", chunk, 1)
        self._roster.hosts.free_chunks(range(first, first + count))

    async def read(self, chunk: int, size: int) -> bytes:
        """The first `size` bytes of a chunk."""
        if not size:
            return b""
        data, sent = await self.gather(ChunkElements.first(chunk, size))
        return received(data, sent, f"chunk {chunk}")
