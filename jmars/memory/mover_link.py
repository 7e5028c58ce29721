"""The control process's end of the mover: starts a mover at the first order, sends orders, counts the time."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

__all__ = ["MoverLink", "MoverProcess"]

UNANSWERED = ("delete", "sweep")  # orders without an answer
DEATHS = 3  # of movers in a row over the same orders


class MoverProcess(Protocol):
    """A running mover."""

    def send(self, message: Any) -> None:
        """Send an order."""


class MoverLink:
    """Sends orders to the mover, or after a death to the next mover.

    Parameters
    ----------
    start
        Forks a mover; raises StorageError if there is no folder for files.
    """

    def __init__(self, start: Callable[[], MoverProcess]) -> None:
        self.direct: bool | None = None  # whether files are written past the page cache; None until a mover said so
        self.seconds = 0.0  # during which an order was unanswered
        self._start = start
        self._link: MoverProcess | None = None
        self._orders = 0  # unanswered
        self._since = 0.0  # time of the first unanswered order, or of the last answer
        self._deaths = 0  # of movers since the last answer

    def begin(self) -> None:
        """Start a mover if none runs."""
        if self._link is None:
            self._link = self._start()

    def tell(self, *message: Any) -> None:
        """Send an order."""
        self.begin()
        assert self._link is not None
        if message[0] not in UNANSWERED:
            self._since = self._since if self._orders else perf_counter()
            self._orders += 1
        self._link.send(message)

    def reported(self) -> None:
        """The mover answered the oldest order."""
        self._orders -= 1
        self._deaths = 0
        now = perf_counter()
        self.seconds += now - self._since
        self._since = now

    @property
    def silent(self) -> float:
        """Seconds since the mover began the current order; 0.0 without an order."""
        return perf_counter() - self._since if self._orders else 0.0

    def died(self) -> bool:
        """The mover process ended; returns whether DEATHS movers in a row did, so that orders are not repeated."""
        self._link, self._orders = None, 0
        self._deaths = (self._deaths + 1) % DEATHS
        return not self._deaths
