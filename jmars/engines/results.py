"""Results: which result of the engine each chunk is, with bytes and maker, for as long as the chunk is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from jmars.engines.engine import Result

__all__ = ["Kept", "Results"]


class Kept(NamedTuple):
    """A chunk that the engine keeps; worker -1 made chunks that a client brought."""

    result: Result
    nbytes: int
    worker: int


class Results:
    """Chunks by their cluster-wide number.

    Attributes
    ----------
    used, peak
        Bytes of all chunks, now and at most.

    Examples
    --------
    >>> freed = []
    >>> results = Results(freed.extend)
    >>> results.add(7, Kept(Result("a", 0), 80, 1))
    >>> results.free([7, 8])
    >>> freed, results.used, results.peak
    ([Result(task='a', number=0)], 0, 80)
    """

    def __init__(self, release: Callable[[Sequence[Result]], None]) -> None:
        self.used = self.peak = 0
        self._kept: dict[int, Kept] = {}
        self._release = release

    def add(self, chunk: int, kept: Kept) -> None:
        """A chunk is there; an earlier result of the same chunk is released."""
        self.free([chunk])
        self._kept[chunk] = kept
        self.used += kept.nbytes
        self.peak = max(self.peak, self.used)

    def find(self, chunk: int) -> Kept | None:
        """Where a chunk is; None for a chunk that is not here."""
        return self._kept.get(chunk)

    def workers(self, chunks: Mapping[int, int]) -> dict[int, int]:
        """Workers that made some chunks, by the keys of `chunks`, where they are known."""
        found = {name: self._kept[chunk].worker for name, chunk in chunks.items() if chunk in self._kept}
        return {name: worker for name, worker in found.items() if worker >= 0}

    def free(self, chunks: Iterable[int]) -> None:
        """Release chunks; chunks that are not here do not matter."""
        freed = [self._kept.pop(chunk) for chunk in chunks if chunk in self._kept]
        if freed:
            self.used -= sum(kept.nbytes for kept in freed)
            self._release([kept.result for kept in freed])

    def made_by(self, tasks: Iterable[str]) -> list[int]:
        """Chunks that are results of these tasks."""
        names = set(tasks)
        return [chunk for chunk, kept in self._kept.items() if kept.result.task in names]

    def clear(self) -> None:
        """Release all chunks."""
        self.free(list(self._kept))

    def __len__(self) -> int:
        return len(self._kept)
