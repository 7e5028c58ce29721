"""Chooses the hosts that leave, and the hosts that keep their chunks: pure decisions.

Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from jmars.errors import ClusterError
from jmars.scheduler.places import Places
from jmars.units import format_bytes

__all__ = ["Evacuation", "least_holders"]

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
