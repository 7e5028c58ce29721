"""The mover as the control process sees it: started when it is first needed, told what to move, and its time counted.

Used by `storing`, which acts on what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from jmars.processes.links import ChildLink

__all__ = ["MoverLink"]

UNANSWERED = ("delete", "sweep")  # orders that the mover says nothing about
DEATHS = 3  # of movers in a row over the same orders


class MoverLink:
    """One mover process after another.

    Parameters
    ----------
    start
        Forks one; raises StorageError where it has no folder for its files.
    """

    def __init__(self, start: Callable[[], ChildLink]) -> None:
        self.direct: bool | None = None  # whether it passes the page cache by; None before it has said so
        self.seconds = 0.0  # in which it had something to write or read
        self._start = start
        self._link: ChildLink | None = None
        self._orders = 0  # that it has not reported yet
        self._since = 0.0  # when it got the first of them, or reported last
        self._deaths = 0  # of movers since one did something

    def begin(self) -> None:
        """Have one."""
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
        """It has done what it was told first."""
        self._orders -= 1
        self._deaths = 0
        now = perf_counter()
        self.seconds += now - self._since
        self._since = now

    @property
    def silent(self) -> float:
        """Seconds for which it works on one order by now."""
        return perf_counter() - self._since if self._orders else 0.0

    def died(self) -> bool:
        """Its process ended; whether too many did over what they were told, so that it is not told again."""
        self._link, self._orders = None, 0
        self._deaths = (self._deaths + 1) % DEATHS
        return not self._deaths
