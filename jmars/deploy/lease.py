"""Lease: how long an unused detached cluster lives on.

Plain: the host reports clients and jobs with the time, and asks when to look again.
"""

from __future__ import annotations

import math

__all__ = ["Lease"]


class Lease:
    """Ends after `seconds` without clients and jobs; never where `seconds` is infinite.

    Examples
    --------
    >>> lease = Lease(10.0, now=0.0)
    >>> lease.update(clients=0, active=True, now=5.0)
    inf
    >>> lease.update(clients=0, active=False, now=7.0)
    17.0
    >>> lease.is_over(16.9), lease.is_over(17.0)
    (False, True)
    """

    def __init__(self, seconds: float, now: float) -> None:
        self.seconds = seconds
        self._ends = now + seconds

    def update(self, clients: int, active: bool, now: float) -> float:
        """Note the number of clients and whether jobs run; returns the end of the lease, infinity while the cluster
        is used.
        """
        if clients or active:
            self._ends = math.inf
        elif self._ends == math.inf:
            self._ends = now + self.seconds
        return self._ends

    def is_over(self, now: float) -> bool:
        """Whether the lease has ended."""
        return now >= self._ends
