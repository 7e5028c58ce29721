"""HostLinks: bandwidth and latency between hosts, as plans take them. Pure: measurements in, news out.

The host that reads measures a link (transport/pulls.py); reads that the head passes on are measured by the head. A
plan keeps its value while a link changes by less than half, since all plans are dropped when a new value is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BANDWIDTH = 0.5e9  # bytes a second between hosts, until links are measured
LATENCY = 1e-3
CHANGE = 1.5  # factor by which a link must change to be told again
ENOUGH = 2**20  # bytes of a read by the head that tell a bandwidth
NEWEST = 0.3  # weight of the newest read by the head
_CHANGED = {"head": "the head passes bytes on", "tls": "parts come by TLS now", "ucx": "parts come by UCX now"}


class MeasuredLink(NamedTuple):
    """What was told of a link last."""

    bandwidth: float  # bytes a second
    latency: float  # seconds of a round trip; 0.0 where unknown
    transport: str  # "tls" or "ucx", or "head" where the head passes bytes on


class HostLinks:
    """Links by the host that is read and the host that reads.

    Parameters
    ----------
    tell
        Called with an event's data when a link is measured for the first time, or has changed.

    Examples
    --------
    >>> links = HostLinks(lambda news: print(news["from"], news["to"], news["why"]))
    >>> links.measured(2, {1: (4e8, 2e-4)})
    1 2 measured for the first time
    >>> links.measured(2, {1: (5e8, 2e-4)})
    >>> links.bandwidth([1, 2]).tolist()
    [[500000000.0, 400000000.0], [500000000.0, 500000000.0]]
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell
        self._links: dict[tuple[int, int], MeasuredLink] = {}
        self._reasons: dict[tuple[int, int], str] = {}  # of the choice of the transport
        self._by_head: dict[tuple[int, int], float] = {}  # mean bytes a second of reads by the head

    def measured(
        self,
        reader: int,
        links: Mapping[int, tuple[float, float]],
        transports: Mapping[int, tuple[str, str]] = MappingProxyType({}),
    ) -> None:
        """What a host measured: bytes a second and seconds of a round trip, by the host that it reads.

        Parameters
        ----------
        transports
            How bytes come, and why, where the host had a choice.
        """
        for source, (bandwidth, latency) in links.items():
            transport, reason = transports.get(source, ("tls", ""))
            self._take(source, reader, MeasuredLink(bandwidth, latency, transport), reason)

    def passed(self, source: int, reader: int, nbytes: int, seconds: float) -> None:
        """The head passed bytes on from one host to another."""
        if nbytes < ENOUGH or seconds <= 0.0:
            return
        newest, mean = nbytes / seconds, self._by_head.get((source, reader))
        mean = self._by_head[source, reader] = newest if mean is None else mean + NEWEST * (newest - mean)
        self._take(source, reader, MeasuredLink(mean, 0.0, "head"))

    def tell_all(self) -> None:
        """Tell all links again."""
        for (source, reader), link in self._links.items():
            self._tell({"from": source, "to": reader, **link._asdict(), "why": ""})

    def info(self, names: Mapping[int, str]) -> list[dict[str, Any]]:
        """Each link with what was told of it last; see Cluster.info."""
        return [
            {"from": names[a], "to": names[b], **link._asdict(), "why": self._reasons.get((a, b), "")}
            for (a, b), link in sorted(self._links.items())
            if a in names and b in names
        ]

    def lost(self, host: int) -> None:
        """A host is gone; it may be back over other links."""
        for known in (self._links, self._by_head, self._reasons):
            for pair in [pair for pair in known if host in pair]:
                del known[pair]

    def bandwidth(self, hosts: Sequence[int]) -> NDArray[np.float64]:
        """Bytes a second from each host to each, shape (P, P)."""
        unknown = MeasuredLink(BANDWIDTH, LATENCY, "")
        found = [[self._links.get((a, b), unknown).bandwidth for b in hosts] for a in hosts]
        return np.array(found, np.float64).reshape(len(hosts), len(hosts))

    def latency(self, hosts: Sequence[int]) -> float:
        """Seconds until the first byte of a read: the mean of the links between these hosts."""
        pairs = [(a, b) for a in hosts for b in hosts if a != b]
        known = [link.latency for link in map(self._links.get, pairs) if link is not None and link.latency]
        return (sum(known) + LATENCY * (len(pairs) - len(known))) / len(pairs) if pairs else LATENCY

    def _take(self, source: int, reader: int, link: MeasuredLink, reason: str = "") -> None:
        before = self._links.get((source, reader))
        if before is None:
            why = "measured for the first time"
        elif before.transport != link.transport:
            why = _CHANGED[link.transport]
        elif before.bandwidth * CHANGE <= link.bandwidth:
            why = f"{link.bandwidth / before.bandwidth:.1f} times as fast as before"
        elif link.bandwidth * CHANGE <= before.bandwidth:
            why = f"{before.bandwidth / link.bandwidth:.1f} times as slow as before"
        else:
            return
        self._links[source, reader] = link
        if reason and reason != self._reasons.get((source, reader)):
            self._reasons[source, reader] = reason
            why = f"{why}; {reason}"
        self._tell({"from": source, "to": reader, **link._asdict(), "why": why})
