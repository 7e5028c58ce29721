"""Network of simulated workers: at most one transfer out of and one transfer into a worker at a time.

`SimNetwork` queues transfers and starts the most urgent transfer whose two ends are free. Ports are matched when they
become free: reserving ports when a transfer is requested made communication up to 3.4 times too slow.
"""

from __future__ import annotations

import heapq

__all__ = ["SimNetwork"]


class SimNetwork:
    """Waiting transfers and busy ports of `p` workers."""

    def __init__(self, p: int) -> None:
        self._p = p
        self._out = bytearray(p)  # 1: busy
        self._in = bytearray(p)
        self._line: list[dict[int, list[tuple[int, int, int]]]] = [{} for _ in range(p)]  # by target, then by source
        self._targets: list[set[int]] = [set() for _ in range(p)]  # targets with waiting transfers from this source
        self._asked = 0

    def ask(self, urgency: int, chunk: int, source: int, target: int) -> bool:
        """Queues a transfer; lower `urgency` goes first. Returns whether both ends are free, so it starts now."""
        self._asked += 1
        heapq.heappush(self._line[target].setdefault(source, []), (urgency, self._asked, chunk))
        self._targets[source].add(target)
        return not self._out[source] and not self._in[target]

    def start(self, source: int, target: int) -> int:
        """Starts the most urgent transfer between two free ends; returns its chunk."""
        line = self._line[target][source]
        chunk = heapq.heappop(line)[2]
        if not line:
            del self._line[target][source]
            self._targets[source].discard(target)
        self._out[source] = self._in[target] = 1
        return chunk

    def end(self, source: int, target: int) -> list[tuple[int, int]]:
        """Frees both ends of a transfer; returns the pairs (source, target) to `start` next, at most two."""
        self._out[source] = self._in[target] = 0
        found = []
        waiting = [(line[0], s) for s, line in self._line[target].items() if not self._out[s]]
        if waiting:
            first = min(waiting)[1]
            found.append((first, target))
            if first == source:
                return found
        others = [(self._line[t][source][0], t) for t in self._targets[source] if not self._in[t]]
        if found:
            others = [other for other in others if other[1] != target]
        if others:
            found.append((source, min(others)[1]))
        return found
