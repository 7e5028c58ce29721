"""Places: which hosts have each chunk, as a bit set by chunk.

A host that computed or received a chunk has the original. Other hosts are told where the chunk lies, and may have a
copy since; a report confirms the copy. Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections.abc import Iterable


class Places:
    """Holders of the chunks of a cluster; hosts are numbered from 0.

    Examples
    --------
    >>> places = Places()
    >>> places.stored(7, host=1, size=80)
    >>> places.has(7, 1), places.has(7, 0)
    (True, False)
    >>> places.located(7, 0)  # host 0 is going to read the chunk
    >>> places.holders(7)
    [1]
    >>> places.free([7])  # both hosts hear of the end
    {0: [7], 1: [7]}
    """

    def __init__(self) -> None:
        self.have: dict[int, int] = {}  # by chunk, hosts that have it
        self.know: dict[int, int] = {}  # by chunk, hosts that were told where it lies, and may have a copy
        self.heard: dict[int, int] = {}  # by chunk, hosts that lack it and are told again, but may have a note of it
        self.size: dict[int, int] = {}  # bytes, by chunk
        self.shape: dict[int, tuple[int, ...]] = {}  # of chunks whose shape only the run told

    def __len__(self) -> int:
        return len(self.have)

    def stored(self, chunk: int, host: int, size: int) -> None:
        """A host has the original of a chunk."""
        self.have[chunk] = self.have.get(chunk, 0) | 1 << host
        self.size[chunk] = size

    def copied(self, chunk: int, host: int) -> None:
        """A host has a copy; no effect after the chunk was freed."""
        if chunk in self.have:
            self.have[chunk] |= 1 << host

    def located(self, chunk: int, host: int) -> None:
        """A host was told where a chunk lies."""
        self.know[chunk] = self.know.get(chunk, 0) | 1 << host

    def has(self, chunk: int, host: int) -> bool:
        """Whether a host has a chunk."""
        return bool(self.have.get(chunk, 0) >> host & 1)

    def holders(self, chunk: int) -> list[int]:
        """Hosts that have a chunk, the lowest number first: the original before most copies."""
        return bits(self.have.get(chunk, 0))

    def gone(self, chunk: int, host: int) -> bool:
        """A host has a chunk no more; returns whether another host has it.

        The host is told again where the chunk lies before it reads it. It still hears of the end: it may have a note of
        where the chunk lay, and a read under way may give it a copy.
        """
        left = self.have.get(chunk, 0) & ~(1 << host)
        if chunk in self.have:
            self.have[chunk] = left
            self.heard[chunk] = self.heard.get(chunk, 0) | 1 << host
        if chunk in self.know:
            self.know[chunk] &= ~(1 << host)
        return bool(left)

    def free(self, chunks: Iterable[int]) -> dict[int, list[int]]:
        """Forget chunks; returns by host the chunks that the host has or may have."""
        have, know, heard, size, shape = self.have, self.know, self.heard, self.size, self.shape
        found: dict[int, list[int]] = {}
        for chunk in chunks:
            mask = have.pop(chunk, 0) | know.pop(chunk, 0)
            if heard:
                mask |= heard.pop(chunk, 0)
            size.pop(chunk, None)
            if shape:
                shape.pop(chunk, None)
            for host in bits(mask):
                found.setdefault(host, []).append(chunk)
        return dict(sorted(found.items()))

    def of_host(self, host: int) -> list[int]:
        """Chunks that a host has."""
        return [chunk for chunk, mask in self.have.items() if mask >> host & 1]

    def held_by_host(self) -> dict[int, int]:
        """Bytes of all chunks, by host that has them."""
        return self.held(self.have)

    def lost(self, host: int) -> tuple[list[int], dict[int, list[int]]]:
        """A host is gone.

        Returns
        -------
        list of int, dict of int to list
            Chunks that no host has now, still to be freed where they are known; and for each chunk that another host
            has, one of the hosts that have it: chunks by host.
        """
        bit = 1 << host
        orphans: list[int] = []
        left: dict[int, list[int]] = {}
        for chunk, mask in self.have.items():
            if mask & bit:
                rest = self.have[chunk] = mask & ~bit
                if rest:
                    left.setdefault((rest & -rest).bit_length() - 1, []).append(chunk)
                else:
                    orphans.append(chunk)
        for told in (self.know, self.heard):
            for chunk, mask in told.items():
                if mask & bit:
                    told[chunk] = mask & ~bit
        return orphans, left

    def held(self, chunks: Iterable[int]) -> dict[int, int]:
        """Bytes of these chunks by host that has them."""
        found: dict[int, int] = {}
        for chunk in chunks:
            for host in bits(self.have.get(chunk, 0)):
                found[host] = found.get(host, 0) + self.size[chunk]
        return found


def bits(mask: int) -> list[int]:
    """Numbers of the bits that are set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
