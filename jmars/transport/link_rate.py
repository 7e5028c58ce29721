"""LinkRate: bandwidth and latency of the link from a host, measured on pulls.

Bandwidth is bytes by seconds of a busy time, from the first request until no bytes are under way. Short busy times
measure latency rather than bandwidth and are left out. Latency is the shortest of the last round trips, since a busy
link delays the rest. Source: RFC 6817, section 3.4 (base delay).
"""

from __future__ import annotations

from collections import deque

__all__ = ["LinkRate"]

ENOUGH = 2**20  # bytes of a busy time that tell a bandwidth
NEWEST = 0.3  # weight of the newest bandwidth
TRIPS = 16  # round trips that are kept


class LinkRate:
    """Measures a link.

    Attributes
    ----------
    bandwidth
        Bytes a second; 0.0 before the first measurement.

    Examples
    --------
    >>> rate = LinkRate()
    >>> rate.begin(now=1.0)
    >>> rate.moved(2**21, now=1.5)
    >>> rate.bandwidth
    4194304.0
    """

    def __init__(self) -> None:
        self.bandwidth = 0.0
        self._trips: deque[float] = deque(maxlen=TRIPS)
        self._since = 0.0  # begin of the busy time, or the last measurement in it
        self._bytes = 0  # moved since then
        self._told = (0.0, 0.0)

    @property
    def latency(self) -> float:
        """Seconds of a round trip."""
        return min(self._trips, default=0.0)

    def begin(self, now: float) -> None:
        """A request goes out on an idle link."""
        self._since, self._bytes = now, 0

    def moved(self, nbytes: int, now: float) -> None:
        """Bytes have arrived."""
        self._bytes += nbytes
        if self._bytes >= ENOUGH and now > self._since:
            newest = self._bytes / (now - self._since)
            self.bandwidth += (newest - self.bandwidth) * (NEWEST if self.bandwidth else 1.0)
            self._since, self._bytes = now, 0

    def trip(self, seconds: float) -> None:
        """A round trip took so long."""
        self._trips.append(seconds)

    @property
    def has_news(self) -> bool:
        """Whether `news` has something to tell."""
        return bool(self.bandwidth) and (self.bandwidth, self.latency) != self._told

    def news(self) -> tuple[float, float] | None:
        """Bandwidth and latency if they have changed since the last call."""
        if not self.has_news:
            return None
        self._told = (self.bandwidth, self.latency)
        return self._told
