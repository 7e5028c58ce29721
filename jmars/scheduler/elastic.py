"""Decides how many hosts a cluster should have, from the work that waits: pure, the time is a parameter.

Source: docs/explanation/seeds.md, "Architecture"; the patience downwards as in Dask's `Adaptive` (`wait_count`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Demand", "Elastic"]

WORTH = 5.0  # seconds of waiting work for each executor of a host, for which the host is worth its start
PATIENCE = 30.0  # seconds for which fewer hosts must be enough, before hosts leave


@dataclass(frozen=True)
class Demand:
    """Work of all running jobs.

    Attributes
    ----------
    seconds
        Of computing that has not begun.
    runnable
        Operands that run or wait for a worker.
    """

    seconds: float = 0.0
    runnable: int = 0


class Elastic:
    """The number of hosts over time.

    Hosts come at once, and leave when fewer have been enough for a while. No host comes for operands that cannot run
    at the same time.

    Parameters
    ----------
    least, most
        Bounds of the number of hosts.

    Examples
    --------
    >>> elastic = Elastic(1, 4)
    >>> elastic.look(0.0, hosts=1, executors=2, demand=Demand(seconds=25.0, runnable=100))
    3
    >>> elastic.look(1.0, hosts=3, executors=6, demand=Demand())
    3
    >>> elastic.look(31.0, hosts=3, executors=6, demand=Demand())
    1
    """

    def __init__(self, least: int, most: int, patience: float = PATIENCE) -> None:
        self.least, self.most, self._patience = least, most, patience
        self._fewer_since: float | None = None
        self._enough = 0  # most hosts that were needed since then

    def look(self, now: float, hosts: int, executors: int, demand: Demand) -> int:
        """Number of hosts wanted now, with `hosts` hosts of `executors` executors in all."""
        each = executors / hosts if hosts else 1.0
        useful = math.ceil(demand.runnable / each)  # hosts whose executors all have an operand
        needed = min(math.ceil(demand.seconds / (WORTH * each)), useful)
        if needed < hosts and useful:
            needed = max(needed, min(hosts, math.ceil(min(demand.runnable, executors) / each)))
        wanted = min(self.most, max(self.least, needed))
        if wanted >= hosts:
            self._fewer_since = None
            return wanted
        if self._fewer_since is None:
            self._fewer_since, self._enough = now, wanted
        self._enough = max(self._enough, wanted)
        if now - self._fewer_since < self._patience:
            return min(hosts, self.most)
        self._fewer_since = None
        return self._enough
