"""Batches of rows for training loops: `x.batches(size, shuffle=True)`.

An epoch gives each row of the tensors once. The order consists of windows: some neighbouring chunks along the first
axis; with `shuffle` some chunks in random order, with the rows permuted within the window; parts of large chunks,
where a part is read alone. The order depends on seed, epoch, chunks, pieces of files and dtypes alone, so that a loop
can go on at any batch. Jobs of the cluster compute windows ahead, at most a quarter of the memory limit; the chunks of
a window are freed when a loop has its rows.
Source: `torch.utils.data.DataLoader`, PyTorch 2, for the protocol; tf.data's `shuffle(buffer_size)` for windows.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jmars.tensor.engine import get_engine
from jmars.units import whole_number

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

WINDOW_BYTES, WINDOW_CHUNKS = 64 * 2**20, 64  # of a window, at most
MIXED_CHUNKS = 4  # of a window with `shuffle`, at least
MOST_AHEAD = 4  # windows that are computed while the loop uses one
WINDOWS_PART = 4  # of the memory limit, for windows ahead: the loop has a window, and readers take memory, too
IN_ORDER_PART = 16  # of the memory limit, for a window without `shuffle`
Array = np.ndarray[Any, Any]


class Position(NamedTuple):
    """A place in the batches of all epochs: of the batch that comes next."""

    epoch: int
    batch: int


class Batches:
    """Batches of rows, an epoch for each iteration; `torch.utils.data.DataLoader(batches, batch_size=None)` takes them.

    Attributes
    ----------
    position
        Epoch and number of the next batch: `x.batches(..., start=position)` goes on there.
    """

    def __init__(
        self, tensors: Sequence[Tensor], size: int, shuffle: bool, seed: int, drop_last: bool, start: Any
    ) -> None:
        self._tensors, self._shuffle, self._drop_last = list(tensors), shuffle, drop_last
        self._size, self._seed = whole_number("size", size), whole_number("seed", seed)
        if self._size < 1:
            raise ValueError(f"size is {size}; give the number of rows of a batch, 1 or more")
        if self._seed < 0:
            raise ValueError(f"seed is {seed}; give a number from 0 on")
        if any(not one.ndim for one in tensors):
            raise ValueError("a tensor without axes has no rows")
        lengths = [len(one) for one in tensors]
        if len(set(lengths)) > 1:
            raise ValueError(
                f"the tensors have {', '.join(map(str, lengths))} rows; batches in step need equal numbers"
            )
        edges: list[int] = [0, *map(int, itertools.accumulate(tensors[0].chunks[0]))]
        self._edges = _finer(edges, tensors) if shuffle else edges
        if not isinstance(start, Sequence | np.ndarray) or len(start) != 2:
            raise TypeError(f"start is {start!r}; give an epoch and a batch, such as `position` of earlier batches")
        epoch, batch = [whole_number("a part of start", one) for one in start]
        if epoch < 0 or not 0 <= batch <= len(self):
            raise ValueError(f"start is {tuple(start)}; give an epoch from 0 on and a batch from 0 to {len(self)}")
        self.position = Position(epoch, batch)
        self._begins = True  # whether the next iteration goes on at `position`
        self._running: Iterator[Any] | None = None  # for `__getitem__`

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        whole, rest = divmod(self._edges[-1], self._size)
        return whole + bool(rest and not self._drop_last)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{one.shape} {one.dtype}" for one in self._tensors)
        order = f"shuffled with seed {self._seed}" if self._shuffle else "in order"
        last = self._edges[-1] - (len(self) - 1) * self._size
        rows = f"{self._size} rows" + (f", the last of {last}" if 0 < last < self._size else "")
        return f"<Batches of {shapes}: {len(self)} of {rows}, {order}; next: {tuple(self.position)}>"

    def __iter__(self) -> Iterator[Any]:
        """Give the batches of the next epoch; the first iteration goes on at `start`."""
        if not self._begins:
            self.position = Position(self.position.epoch + 1, 0)
        self._begins = False
        return self._epoch(*self.position)

    def __getitem__(self, batch: int) -> Any:
        """Give a batch by number; 0 begins the next epoch. In order no batch is computed twice."""
        if not 0 <= whole_number("batch", batch) < len(self):
            raise IndexError(f"there is no batch {batch}; an epoch has batches 0 to {len(self) - 1}")
        if batch == 0 and self.position.batch != 0 or self._running is None or self._begins:
            self._running = iter(self)
        if batch != self.position.batch:
            self.position = Position(self.position.epoch, batch)
            self._running = self._epoch(*self.position)
        return next(self._running)

    def _epoch(self, epoch: int, first: int) -> Iterator[Any]:
        """The batches of an epoch from number `first` on."""
        tensors = [one[:] for one in self._tensors]  # later writes to the tensors are for later epochs
        windows = self._windows(epoch)
        skipped = first * self._size
        while windows and skipped >= (rows := self._rows(windows[0][1])):
            skipped -= rows
            windows.popleft()
        waiting: deque[_Window] = deque()
        kept = _Rows(len(tensors))
        try:
            for number in range(first, len(self)):
                while kept.n < min(self._size, self._edges[-1] - number * self._size):
                    while windows and len(waiting) <= self._ahead(tensors):
                        waiting.append(self._begin(tensors, *windows.popleft(), epoch))
                    kept.add(*waiting.popleft().values(), skipped)
                    skipped = 0
                batch = kept.take(self._size)
                self.position = Position(epoch, number + 1)
                yield batch[0] if len(batch) == 1 else tuple(batch)
        finally:
            for one in waiting:
                one.cancel()

    def _windows(self, epoch: int) -> deque[tuple[int, list[int]]]:
        """Numbers of the windows of an epoch, and their chunks, in order."""
        chunks = np.arange(len(self._edges) - 1)
        if self._shuffle:
            chunks = np.random.default_rng([self._seed, epoch]).permutation(chunks)
        row_bytes = sum(one.nbytes // max(1, len(one)) for one in self._tensors)
        largest = max(1, max(np.diff(self._edges), default=1) * row_bytes)
        least = MIXED_CHUNKS if self._shuffle else 1
        room = WINDOW_BYTES if self._shuffle else min(WINDOW_BYTES, get_engine().limits()[0] // IN_ORDER_PART)
        step = int(min(WINDOW_CHUNKS, max(least, room // largest)))
        self._window_bytes = step * int(largest)
        found = (chunks[k : k + step].tolist() for k in range(0, len(chunks), step))
        return deque(enumerate(found))

    def _rows(self, chunks: Sequence[int]) -> int:
        return sum(self._edges[k + 1] - self._edges[k] for k in chunks)

    def _ahead(self, tensors: Sequence[Tensor]) -> int:
        """Number of windows to compute ahead."""
        memory, _ = get_engine().limits()
        return max(0, min(MOST_AHEAD, memory // WINDOWS_PART // self._window_bytes - 1))

    def _begin(self, tensors: Sequence[Tensor], number: int, chunks: Sequence[int], epoch: int) -> _Window:
        pieces = [[one[self._edges[k] : self._edges[k + 1]] for k in chunks] for one in tensors]
        drawn = np.random.default_rng([self._seed, epoch, number])
        return _Window(pieces, drawn.permutation(self._rows(chunks)) if self._shuffle else None)


def _finer(edges: list[int], tensors: Sequence[Tensor]) -> list[int]:
    """Edges of chunks, and of parts of large chunks, so that a window of `MIXED_CHUNKS` parts is small."""
    rows = math.lcm(*(one.data.op.rows_together for one in tensors))
    if not rows:
        return edges
    nbytes = sum(one.nbytes // max(1, len(one)) for one in tensors) * rows
    step = max(1, WINDOW_BYTES // MIXED_CHUNKS // max(1, nbytes)) * rows
    return sorted({*edges, *(k for low, high in itertools.pairwise(edges) for k in range(low, high, step))})


class _Window:
    """Rows that are computed together.

    Parameters
    ----------
    pieces
        For each tensor, the rows of the window chunk by chunk.
    order
        Permutation of the rows; None for none.
    """

    def __init__(self, pieces: Sequence[Sequence[Tensor]], order: Array | None) -> None:
        self._pieces, self._order = pieces, order
        self._job = get_engine().begin([one.data for row in pieces for one in row])

    def values(self) -> tuple[list[list[Array]], Array | None]:
        """Values of the pieces, computed by now, and the order."""
        if self._job is not None:
            self._job.finish()
        return [[_plain(one.fetch(copy=False)) for one in row] for row in self._pieces], self._order

    def cancel(self) -> None:
        """Give up the computation."""
        if self._job is not None:
            self._job.cancel()


def _plain(value: Any) -> Array:
    if type(value) is not np.ndarray:
        raise TypeError(f"batches are NumPy arrays, and the chunks are {type(value).__name__}; make them arrays first")
    return value


class _Rows:
    """Rows of windows that no batch has taken yet, in order."""

    def __init__(self, tensors: int) -> None:
        self.n = 0
        self._tensors = tensors
        self._windows: deque[list[Any]] = deque()  # pieces of each tensor, edges of the pieces, order, next row

    def add(self, pieces: list[list[Array]], order: Any, skip: int) -> None:
        """Add a window without the first `skip` rows."""
        edges = np.cumsum([0, *map(len, pieces[0])])
        if order is not None:
            numbers = np.repeat(np.arange(len(pieces[0]), dtype=np.uint8), np.diff(edges))[order]
            order = numbers, order - edges[numbers]
        self.n += int(edges[-1]) - skip
        self._windows.append([pieces, edges, order, skip])

    def take(self, size: int) -> list[Array]:
        """The next rows of each tensor: a view where they lie in a piece in order."""
        size = min(size, self.n)
        self.n -= size
        parts: list[list[Array]] = [[] for _ in range(self._tensors)]
        while size:
            window = self._windows[0]
            pieces, edges, order, at = window
            n = min(size, int(edges[-1]) - at)
            size -= n
            window[3] += n
            if window[3] == edges[-1]:
                self._windows.popleft()
            for part, mine in zip(parts, pieces, strict=True):
                part += _in_order(mine, edges, at, n) if order is None else [_permuted(mine, order, at, at + n)]
        return [part[0] if len(part) == 1 else np.concatenate(part) for part in parts]


def _in_order(pieces: Sequence[Array], edges: Array, at: int, n: int) -> list[Array]:
    """Rows [at, at + n) as views of pieces."""
    bounds = zip(pieces, edges[:-1].tolist(), edges[1:].tolist())
    return [piece[max(at - low, 0) : at + n - low] for piece, low, high in bounds if low < at + n and at < high]


def _permuted(pieces: Sequence[Array], order: tuple[Array, Array], low: int, high: int) -> Array:
    """A copy of rows [low, high) of an order: numbers of pieces, and places in the pieces."""
    numbers, places = (one[low:high] for one in order)
    if len(pieces) == 1:
        return pieces[0].take(places, axis=0, mode="clip")
    found = np.empty((high - low, *pieces[0].shape[1:]), pieces[0].dtype)
    for number in np.flatnonzero(np.bincount(numbers)).tolist():
        mine = np.flatnonzero(numbers == number)
        found[mine] = pieces[number].take(places[mine], axis=0, mode="clip")  # a check takes a fifth of the time
    return found
