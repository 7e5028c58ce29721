"""LinkSpeed: bytes a second between workers of an engine, from the transfers that the workers report.

Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BANDWIDTH", "LinkSpeed"]

BANDWIDTH = 0.3e9  # bytes a second between workers, as measured for Dask and Ray on plain TCP, until the engine tells
LEAST = 2**24  # bytes from which a speed is known
RECENT = 2**33  # bytes after which older transfers count half
SLOWEST, FASTEST = 1e6, 1e11  # bytes a second that a plan believes


@dataclass
class LinkSpeed:
    """Sums over transfers and their times: two transfers at once have the speed of a single transfer.

    Attributes
    ----------
    nbytes, seconds
        Of transfers so far; older transfers count less.

    Examples
    --------
    >>> links = LinkSpeed()
    >>> links.observe(10**6, 0.01)
    >>> links.bandwidth
    >>> links.observe(99 * 10**6, 0.19)
    >>> links.bandwidth
    500000000
    """

    nbytes: float = 0.0
    seconds: float = 0.0

    def observe(self, nbytes: float, seconds: float) -> None:
        """Add transfers."""
        if nbytes > 0 and seconds > 0:
            if self.nbytes > RECENT:
                self.nbytes, self.seconds = self.nbytes / 2, self.seconds / 2
            self.nbytes, self.seconds = self.nbytes + nbytes, self.seconds + seconds

    @property
    def bandwidth(self) -> int | None:
        """Bytes a second; None until LEAST bytes were moved."""
        if self.nbytes < LEAST:
            return None
        return round(min(max(self.nbytes / self.seconds, SLOWEST), FASTEST))
