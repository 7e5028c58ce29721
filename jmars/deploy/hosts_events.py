"""Events of the hosts of a cluster: hosts that join or are lost, links, and chunks that move from host to host.

Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from jmars.model import events

__all__ = ["HostsEvents", "MovedChunks"]

Note = Callable[[str, str, dict[str, Any]], None]  # logs an event: kind, job, data

MARKED = 16  # transfers of an event whose marks are told
EVERY = 0.1  # seconds between two events about chunks that moved


class MovedChunks:
    """Sums of transfers that were not told yet, by pair of hosts.

    Examples
    --------
    >>> moved = MovedChunks()
    >>> moved.add(0, 1, chunks=1, nbytes=100, seconds=0.5)
    >>> moved.add(1, 0, chunks=1, nbytes=7, seconds=0.25)
    >>> moved.add(0, 1, chunks=2, nbytes=50, seconds=0.25)
    >>> moved.take()
    {'from': 0, 'to': 1, 'chunks': 3, 'bytes': 150, 'seconds': 0.75, 'marks': []}
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int], tuple[int, int, float, list[list[int]]]] = {}

    def add(
        self, source: int, target: int, chunks: int, nbytes: int, seconds: float, marks: Sequence[Sequence[int]] = ()
    ) -> None:
        """Add chunks that a host read from another host; the marks of the newest MARKED are kept."""
        known = self._sums.get((source, target), (0, 0, 0.0, []))
        told = [*known[3], *map(list, marks)][-MARKED:]
        self._sums[source, target] = known[0] + chunks, known[1] + nbytes, known[2] + seconds, told

    def take(self) -> dict[str, Any] | None:
        """The sums of the pair that has waited longest, as an event's data; None if there are none."""
        pair = next(iter(self._sums), None)
        if pair is None:
            return None
        chunks, nbytes, seconds, marks = self._sums.pop(pair)
        told = {"from": pair[0], "to": pair[1], "chunks": chunks, "bytes": nbytes, "seconds": round(seconds, 6)}
        return told | {"marks": marks}


class HostsEvents:
    """Logs the events, those about moved chunks at most ten times a second."""

    def __init__(self) -> None:
        self._note: Note | None = None
        self._early: list[tuple[str, str, dict[str, Any]]] = []  # from before there was a log
        self._chunks = MovedChunks()
        self._timer: asyncio.TimerHandle | None = None

    def connect(self, note: Note) -> None:
        """Log with `note` from now on, what was told before first."""
        self._note = note
        early, self._early = self._early, []
        for told in early:
            note(*told)

    def moved(self, host: int, name: str, state: str, why: str) -> None:
        """A host joined, or has another state."""
        self._tell(events.HOST_MOVED, {"host": host, "name": name, "state": state, "why": why})

    def transferred(
        self, source: int, target: int, chunks: int, nbytes: int, seconds: float, marks: Sequence[Sequence[int]] = ()
    ) -> None:
        """Chunks moved from host `source` to host `target`: count, bytes, seconds, and marks of single transfers."""
        self._chunks.add(source, target, chunks, nbytes, seconds, marks)
        if self._timer is None:
            self._next()

    def linked(self, link: dict[str, Any]) -> None:
        """A link between two hosts was measured."""
        self._tell(events.LINK_MEASURED, link)

    def flush(self) -> None:
        """Log all transfers now: a job has ended, and whoever reads its events reads no further."""
        while (found := self._chunks.take()) is not None:
            self._tell(events.CHUNKS_MOVED, found)

    def _next(self) -> None:
        found = self._chunks.take()
        self._timer = None
        if found is not None:
            self._tell(events.CHUNKS_MOVED, found)
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._next)

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        if self._note is None:
            self._early.append((kind, "", data))
        else:
            self._note(kind, "", data)
