"""Results: which result of the engine each chunk is, with bytes and maker, for as long as the chunk is needed.

Parts of chunks are read in the workers of all engines by code free of Dask and Ray.

`LinkSpeed` has the bytes a second between workers, from the transfers that they report.
Source: docs/explanation/seeds.md, "Execution in a worker", "Execution control".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jmars.engines.engine import Result

MOST_VALUES = 2**24  # bytes that reports told, in this process at once


class Kept(NamedTuple):
    """A chunk that the engine keeps; worker -1 made chunks that a client brought.

    Attributes
    ----------
    value
        All its bytes in C order, if the report of its task had them.
    """

    result: Result
    nbytes: int
    worker: int
    value: bytes | None = None


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
        self._values = 0  # bytes of the values
        self._release = release

    def add(self, chunk: int, kept: Kept) -> None:
        """A chunk is there; an earlier result of the same chunk is released."""
        self.free([chunk])
        size = len(kept.value or b"")
        if self._values + size > MOST_VALUES:
            kept, size = kept._replace(value=None), 0
        self._values += size
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
            self._values -= sum(len(kept.value or b"") for kept in freed)
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


BANDWIDTH = 0.3e9  # bytes a second between workers, as measured for Dask and Ray on plain TCP, until the engine tells
LEAST = 2**24  # bytes from which on a speed is known
HALF_WEIGHT_BYTES = 2**33  # bytes after which older transfers count half
SLOWEST, FASTEST = 1e6, 1e11  # bytes a second that a plan believes


@dataclass
class LinkSpeed:
    """Sums over transfers and their times: two transfers at once have the speed of a single transfer.

    Attributes
    ----------
    nbytes, seconds
        Of transfers so far; older transfers count less.

    Examples
    --------
    >>> links = LinkSpeed()
    >>> links.observe(10**6, 0.01)
    >>> links.bandwidth
    >>> links.observe(99 * 10**6, 0.19)
    >>> links.bandwidth
    500000000
    """

    nbytes: float = 0.0
    seconds: float = 0.0

    def observe(self, nbytes: float, seconds: float) -> None:
        """Add transfers."""
        if nbytes > 0 and seconds > 0:
            if self.nbytes > HALF_WEIGHT_BYTES:
                self.nbytes, self.seconds = self.nbytes / 2, self.seconds / 2
            self.nbytes, self.seconds = self.nbytes + nbytes, self.seconds + seconds

    @property
    def bandwidth(self) -> int | None:
        """Bytes a second; None until LEAST bytes were moved."""
        if self.nbytes < LEAST:
            return None
        return round(min(max(self.nbytes / self.seconds, SLOWEST), FASTEST))
