"""Chunks on their way into memory: from files by the mover, from GPUs, from other hosts by the carrier.

A read from another host fills a slot of its own. The chunk is in memory only after the last byte, so that a chunk freed
meanwhile never appears. Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NoReturn, Protocol

from jmars.errors import ClusterError
from jmars.storage.chunks import Chunks, Elsewhere, SpillFile

__all__ = ["ChunkReads", "CopyDown", "Pull", "no_copy_down", "no_pull"]

log = logging.getLogger("jmars.memory")

CopyDown = Callable[[int, int, Callable[[str], None]], None]  # chunk on a GPU, slot; calls back with "" or an error


class Pull(Protocol):
    """Reads bytes of a chunk from another host into a slot."""

    def __call__(
        self,
        chunk: int,
        start: int,
        stop: int,
        offset: int,
        hosts: Sequence[int],
        urgency: tuple[int, int],
        done: Callable[[str], None],
    ) -> Callable[[], None]:
        """Read bytes [start, stop) to `offset`; `done` is called with "" or an error, when nothing writes there now.

        Returns a function that withdraws the read: `done` follows as soon as nothing writes there any more.
        """
        ...


def no_pull(chunk: int, start: int, stop: int, offset: int, hosts: Any, urgency: Any, done: Any) -> NoReturn:
    """The `Pull` of a host without others."""
    raise ClusterError(f"chunk {chunk} cannot be read from host {list(hosts)}: this cluster has one host")


def no_copy_down(chunk: int, slot: int, done: Callable[[str], None]) -> NoReturn:
    """The `CopyDown` of a host without a GPU."""
    raise ClusterError(f"chunk {chunk} cannot be read from a GPU: this host has none")


class ChunkReads:
    """Reads under way.

    Parameters
    ----------
    tell
        Sends the mover a message.
    pull
        Reads from other hosts.
    fetched
        Called with a chunk, whether it is in memory as a copy now, and the error, after a read from another host or,
        with False, from a GPU.
    """

    def __init__(
        self, chunks: Chunks, tell: Callable[..., None], pull: Pull, fetched: Callable[[int, bool, str], None]
    ) -> None:
        self.loads: dict[int, tuple[SpillFile, int]] = {}  # chunk: its file and slot
        self.fetches: dict[int, tuple[Elsewhere, int]] = {}  # chunk: hosts that have it, and the slot
        self.downs: dict[int, int] = {}  # chunk on its way from a GPU: its slot
        self.copy_down: CopyDown = no_copy_down
        self.withdrawn: set[int] = set()  # chunks of `fetches` that nobody waits for
        self._withdraw: dict[int, Callable[[], None]] = {}  # by chunk of `fetches`
        self._chunks, self._tell, self._pull, self._fetched = chunks, tell, pull, fetched

    def __contains__(self, chunk: int) -> bool:
        return chunk in self.loads or chunk in self.fetches or chunk in self.downs

    def start(self, chunk: int, slot: int, size: int, urgency: tuple[int, int]) -> None:
        """Read a chunk of `size` bytes into a slot."""
        chunks = self._chunks
        if chunk in chunks.disk:
            place = chunks.start_load(chunk, slot)
            self.loads[chunk] = (place, slot)
            self._tell("load", chunk, slot, size, place.name, place.checksum)
            return
        if chunk in chunks.on_device:
            self.downs[chunk] = slot
            self.copy_down(chunk, slot, partial(self._came_down, chunk))
            return
        away = chunks.elsewhere[chunk]
        self.fetches[chunk] = (away, slot)
        self._withdraw[chunk] = self._pull(chunk, 0, size, slot, away.hosts, urgency, partial(self._came, chunk))

    def withdraw(self, chunks: set[int]) -> None:
        """Stop reads of chunks from other hosts; no effect on reads from files and GPUs."""
        for chunk in chunks.intersection(self.fetches) - self.withdrawn:
            self.withdrawn.add(chunk)
            self._withdraw[chunk]()

    def again(self) -> None:
        """The mover died: have the next mover read what was not read."""
        for chunk, (place, slot) in self.loads.items():
            self._tell("load", chunk, slot, place.size, place.name, place.checksum)

    def leave_downs(self, chunks: Iterable[int]) -> list[int]:
        """The GPU's process may still write to the slots of these chunks; returns the slots, for the caller to free."""
        return [self.downs.pop(chunk) for chunk in chunks if chunk in self.downs]

    def _came_down(self, chunk: int, error: str) -> None:
        slot = self.downs.pop(chunk, None)
        if slot is not None:
            self._chunks.down_done(chunk, slot, error)
        self._fetched(chunk, False, error)

    def _came(self, chunk: int, error: str) -> None:
        if chunk not in self.fetches:
            log.info("the read of chunk %d is over already: %s", chunk, error or "its bytes came")
            return
        place, slot = self.fetches.pop(chunk)
        self._withdraw.pop(chunk, None)
        if chunk in self.withdrawn:
            self.withdrawn.discard(chunk)
            self._chunks.fetch_withdrawn(slot)
            self._fetched(chunk, False, error)
        else:
            self._fetched(chunk, self._chunks.fetch_done(chunk, place, slot, error), error)
