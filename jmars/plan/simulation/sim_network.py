"""The network of simulated workers: one transfer out and one in at a time, for each worker.

`SimNetwork` queues transfers and starts one whenever its two ends are free, the most urgent first. SimNetwork that were reserved
when a transfer is asked for made communication up to 3.4 times too slow, so they are matched when they become free.
`simulate` has one.
Source: PLANNING 3.1, "Lesson".
"""

from __future__ import annotations

import heapq

__all__ = ["SimNetwork"]


class SimNetwork:
    """Which transfers wait and which ends are busy, for `p` workers."""

    def __init__(self, p: int) -> None:
        self._p = p
        self._out = bytearray(p)  # 1: busy
        self._in = bytearray(p)
        self._line: list[dict[int, list[tuple[int, int, int]]]] = [{} for _ in range(p)]  # by target, then by source
        self._targets: list[set[int]] = [set() for _ in range(p)]  # who waits for something of this source
        self._asked = 0

    def ask(self, urgency: int, chunk: int, source: int, target: int) -> bool:
        """Queue a transfer; lower `urgency` goes first. Returns whether both ends are free, so that it starts now."""
        self._asked += 1
        heapq.heappush(self._line[target].setdefault(source, []), (urgency, self._asked, chunk))
        self._targets[source].add(target)
        return not self._out[source] and not self._in[target]

    def start(self, source: int, target: int) -> int:
        """Take the most urgent transfer between two free ends; returns its chunk."""
        line = self._line[target][source]
        chunk = heapq.heappop(line)[2]
        if not line:
            del self._line[target][source]
            self._targets[source].discard(target)
        self._out[source] = self._in[target] = 1
        return chunk

    def end(self, source: int, target: int) -> list[tuple[int, int]]:
        """Both ends are free again; returns the pairs (source, target) that go next, at most two, to `start` each."""
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
