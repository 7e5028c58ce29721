"""Decides how many hosts a cluster should have, from the work that waits: pure, the time is a parameter.

Source: docs/explanation/seeds.md, "Architecture"; the patience downwards as in Dask's `Adaptive` (`wait_count`).

Chooses the hosts that leave, and the hosts that keep their chunks: pure decisions.

Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from jmars.errors import ClusterError
from jmars.scheduler.hosts import Places
from jmars.units import format_bytes

WORTH = 5.0  # seconds of waiting work for each executor of a host, for which the host is worth its start
IDLE_SECONDS = 30.0  # for which fewer hosts must be enough, before hosts leave


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

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most
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
        if now - self._fewer_since < IDLE_SECONDS:
            return min(hosts, self.most)
        self._fewer_since = None
        return self._enough


MOST_REFUSED = 3  # times that hosts may refuse to keep a chunk, before the host that has it stays


@dataclass
class Evacuation:
    """The chunks of a leaving host.

    Where a second host has a copy of a chunk, the copy becomes an original, and no byte moves. Further chunks go to the
    host with most free memory.

    Examples
    --------
    >>> places = Places()
    >>> for chunk in (7, 8, 9):
    ...     places.stored(chunk, host=1, size=100)
    >>> places.copied(8, 3)
    >>> evacuation = Evacuation(places, number=1)
    >>> evacuation.next({2: 250, 3: 200})
    {3: [8], 2: [7, 9]}
    >>> places.copied(7, 2), places.copied(9, 2)
    (None, None)
    >>> evacuation.done(2, asked=[7, 9], kept=[7, 9])
    >>> evacuation.next({2: 250, 3: 200})
    {3: [8]}
    """

    places: Places
    number: int
    kept: dict[int, int] = field(default_factory=dict)  # chunks that other hosts have as originals, and the host
    refused: dict[int, int] = field(default_factory=dict)  # by chunk, how often

    def next(self, memory: Mapping[int, int], most: int = 16) -> dict[int, list[int]]:
        """Chunks to keep next by host, at most `most` for a host.

        Parameters
        ----------
        memory
            Bytes for chunks by number of a staying host.

        Raises
        ------
        ClusterError
            If hosts refused a chunk again and again for want of room.
        """
        places = self.places
        left = [one for one in places.of_host(self.number) if not self._is_kept(one)]
        if not left:
            return {}
        hopeless = [chunk for chunk in left if self.refused.get(chunk, 0) >= MOST_REFUSED]
        if hopeless:
            size = sum(places.size[chunk] for chunk in left)
            raise ClusterError(
                f"the other hosts have no room for the {format_bytes(size)} that the host has and that are still "
                "needed, so it stays; free arrays, or add a host first"
            )
        held = places.held_by_host()
        free = {number: size - held.get(number, 0) for number, size in memory.items()}
        found: dict[int, list[int]] = {}
        for chunk in left:
            tries = self.refused.get(chunk, 0)
            holders = [number for number in places.holders(chunk) if number in free]
            ranked = holders if holders and not tries else sorted(free, key=lambda one: (-free[one], one))
            target = ranked[tries % len(ranked)]
            if len(found.get(target, ())) < most:
                found.setdefault(target, []).append(chunk)
                if target not in holders:
                    free[target] -= places.size[chunk]
        return dict(sorted(found.items(), key=lambda one: len(one[1])))

    def _is_kept(self, chunk: int) -> bool:
        """Whether the host that took a chunk has it still."""
        return chunk in self.kept and self.places.has(chunk, self.kept[chunk])

    def done(self, host: int, asked: Sequence[int], kept: Collection[int]) -> None:
        """Notes the answer of a host: the kept chunks."""
        self.kept.update(dict.fromkeys(kept, host))
        for chunk in asked:
            if not self._is_kept(chunk):
                self.refused[chunk] = self.refused.get(chunk, 0) + 1


def least_holders(places: Places, hosts: Collection[int], count: int) -> list[int]:
    """The hosts that hold fewest bytes, the last numbers first among equals.

    Examples
    --------
    >>> places = Places()
    >>> places.stored(7, host=1, size=100)
    >>> least_holders(places, [1, 2, 3], 2)
    [3, 2]
    """
    held = places.held_by_host()
    return sorted(hosts, key=lambda number: (held.get(number, 0), -number))[:count]
