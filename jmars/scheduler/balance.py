"""Moves waiting operands from hosts that are behind to hosts that have nothing to do: a pure decision.

A plan is made before the run; a long function, a slow machine or a host that came later make it wrong. Then a host is
idle while operands wait elsewhere. Source: docs/explanation/seeds.md, "Execution in a worker"; Blumofe and Leiserson,
"Scheduling multithreaded computations by work stealing" (1999).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Balance", "HostLoad", "Shift"]

BEHIND_SECONDS = 0.3  # of waiting work, for which operands are moved
KEEP = 0.5  # of a rate that was measured before


@dataclass(frozen=True)
class HostLoad:
    """Work of a host.

    Attributes
    ----------
    workers
        Processes that compute.
    running, waiting
        Operands that run, and that wait for a worker there.
    done
        Operands that ended there since the start.
    """

    workers: int
    running: int
    waiting: int
    done: int


@dataclass(frozen=True)
class Shift:
    """Move so many waiting operands from a host to another."""

    source: int
    target: int
    count: int


class Balance:
    """Rates of hosts, as they were seen.

    Examples
    --------
    >>> balance = Balance()
    >>> balance.look(0.0, {0: HostLoad(1, 1, 9, 0), 1: HostLoad(1, 1, 0, 0)})
    []
    >>> balance.look(1.0, {0: HostLoad(1, 1, 9, 0), 1: HostLoad(1, 0, 0, 5)})  # host 0 ended nothing in a second
    [Shift(source=0, target=1, count=5)]
    """

    def __init__(self) -> None:
        self._rate: dict[int, float] = {}  # operands a second, by host
        self._done: dict[int, int] = {}
        self._looked = -math.inf

    def look(self, now: float, loads: Mapping[int, HostLoad]) -> list[Shift]:
        """Operands to move now; hosts without work take them, in turn."""
        passed = now - self._looked
        self._looked = now
        for host, load in loads.items():
            ended = load.done - self._done.get(host, load.done)
            rate = ended / passed if math.isfinite(passed) and passed > 0 else 0.0
            self._rate[host] = KEEP * self._rate.get(host, rate) + (1 - KEEP) * rate
            self._done[host] = load.done
        if not math.isfinite(passed):
            return []
        idle = [host for host, load in loads.items() if not load.waiting and load.running < load.workers]
        behind = {
            host: load for host, load in loads.items() if load.waiting and self._left(host, load) > BEHIND_SECONDS
        }
        found = []
        while idle and behind:
            source = max(behind, key=lambda host: self._left(host, behind[host]))
            load, target = behind.pop(source), idle.pop(0)
            free = loads[target].workers - loads[target].running
            count = math.ceil(load.waiting * free / (free + load.workers))
            found.append(Shift(source, target, count))
        return found

    def _left(self, host: int, load: HostLoad) -> float:
        """Seconds until the waiting operands of a host have begun, at its rate."""
        return load.waiting / self._rate[host] if self._rate[host] else math.inf
