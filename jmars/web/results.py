"""Reads the elements of results from the cluster's chunks, piece by piece, while they are sent.

A result is sent in C order. A piece is put together from the chunks that overlap it; of each chunk only the bytes
between the first and the last wanted element are read. Bytes travel with a checksum. `ClusterConnection` calls actors
of the cluster with a time limit and reports ended jobs and the end of the cluster.

A lost chunk is computed again, from the document of the graph, and the stream continues at the same element. The
gateway keeps the document of each graph, the keys of the tensors that the document read by name, and a fingerprint of
the graph. When a chunk of a result is lost, the document is built once more. If the new graph has the same fingerprint,
the result is computed under its old key. Lost inputs of the result are computed first. Two cases cannot be recovered:
an uploaded array, and a graph that draws random numbers without a seed.
Source: client/job.py, the same for Python; docs/explanation/recovery.md.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import xxhash

from jmars.actors import ActorChannel, Mailbox, connect, remote_method
from jmars.actors.registry import Entry
from jmars.errors import ChunkLostError, ClusterLostError, JmarsError
from jmars.model.messages import Failure
from jmars.model.status import JobState
from jmars.storage.chunks import ChunkElements, received
from jmars.tensor.operand import Splits
from jmars.tensor.structure import bindings, digest_of
from jmars.tensor.tensor_graph import TensorGraph
from jmars.web.sessions import SubmittedGraph, WebSession

if TYPE_CHECKING:
    from jmars.web.gateway import Gateway

MAX_CHUNK_READS = 64  # chunks of a piece that are read at the same time
MOVING = 600.0  # seconds that a chunk may wait for memory, or take to be read from disk


class ResultReader:
    """Reads results for a gateway and counts the bytes sent in `counts`."""

    def __init__(self, cluster: ClusterConnection, recovery: ResultRecovery, counts: Counter[tuple[str, ...]]) -> None:
        self._cluster, self._recovery, self._counts = cluster, recovery, counts

    async def read(
        self, key: str, dtype: np.dtype[Any], splits: Splits, selection: Selection
    ) -> AsyncGenerator[bytes, None]:
        """Yields the elements of a selection as bytes in C order, piece by piece; computes lost chunks again."""
        coming: asyncio.Task[bytes] | None = None  # the next piece is read while the last piece is sent
        try:
            for box in pieces(selection.ranges, dtype.itemsize):
                before, coming = coming, asyncio.ensure_future(self._piece(box, key, dtype, splits))
                if before is not None:
                    yield await before
            if coming is not None:
                yield await coming
        finally:
            if coming is not None:
                coming.cancel()

    async def _piece(self, box: Sequence[range], key: str, dtype: np.dtype[Any], splits: Splits) -> bytes:
        """Reads the elements of a box from all chunks that overlap it."""
        for left in reversed(range(RECOVERIES + 1)):
            try:
                (chunks,) = await self._cluster.ask("session", "chunks", [key])
                return await self._gathered(box, chunks, dtype, splits)
            except ChunkLostError as error:
                if not left:
                    raise
                await self._recovery.again(key, error)
        raise AssertionError("the last try returns or raises")

    async def _gathered(
        self, box: Sequence[range], chunks: Sequence[int], dtype: np.dtype[Any], splits: Splits
    ) -> bytes:
        piece = np.empty([len(one) for one in box], dtype)
        parts = list(chunk_reads(box, splits, dtype.itemsize))
        for some in (parts[i : i + MAX_CHUNK_READS] for i in range(0, len(parts), MAX_CHUNK_READS)):
            answers = [
                self._part(ChunkElements(chunks[one.chunk], one.start, dtype.itemsize, one.shape, one.strides))
                for one in some
            ]
            for one, data in zip(some, await asyncio.gather(*answers)):
                target: Any = (*one.target, ...)
                piece[target] = np.frombuffer(data, dtype).reshape(one.shape)
        self._counts["bytes", "out"] += piece.nbytes
        return piece.tobytes()

    async def _part(self, wanted: ChunkElements) -> bytes:
        data, sent = await self._cluster.ask("passing", "gather", wanted, patience=MOVING)
        return received(data, sent, f"chunk {wanted.chunk}")


log = logging.getLogger("jmars.web")

RECOVERIES = 3  # recomputations of a lost result per request


def fingerprint(graph: TensorGraph) -> str:
    """A digest that is equal for graphs with equal values: operands, parameters and random streams."""
    values = cloudpickle.dumps(bindings(graph.operands, [meta.key for meta in graph.metas]).values)
    return f"{digest_of(graph, {}).hex()}{xxhash.xxh3_128_hexdigest(values)}"


class ResultRecovery:
    """Computes lost results again, a tensor at most once at a time.

    Parameters
    ----------
    graph_of_result
        Finds the session and graph of a result by its tensor key.
    source
        Loads the document of a graph, with settings and fingerprint.
    runner
        Builds documents and runs graphs.
    """

    def __init__(
        self,
        graph_of_result: Callable[[str], tuple[WebSession, SubmittedGraph] | None],
        source: Callable[[WebSession, SubmittedGraph], dict[str, Any] | None],
        runner: Gateway,
    ) -> None:
        self._graph_of_result, self._source, self._runner = graph_of_result, source, runner
        self._running: dict[str, asyncio.Task[None]] = {}  # by key

    async def again(self, key: str, lost: ChunkLostError) -> None:
        """Computes a lost tensor again, or waits for the computation of the same tensor in progress.

        Raises
        ------
        ChunkLostError
            `lost`, with the reason, if the tensor cannot be computed again.
        """
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.ensure_future(self._again(key, lost))
            task.add_done_callback(lambda _: self._running.pop(key, None))
        await asyncio.shield(task)

    def close(self) -> None:
        """Cancels all recoveries in progress."""
        for task in list(self._running.values()):
            task.cancel()

    async def _again(self, key: str, lost: ChunkLostError) -> None:
        found = self._graph_of_result(key)
        if found is None:
            raise _hopeless(lost, "an uploaded array, or a result of a forgotten graph, cannot be computed again")
        session, graph = found
        source = self._source(session, graph)
        if source is None:
            raise _hopeless(lost, f"the document of {graph.id} is not stored any more")
        report: Mapping[str, Any] = {}
        for _ in range(RECOVERIES):
            try:
                made = await self._runner.build(session, source["document"], source["reads"])
            except JmarsError as error:  # e.g. an array that the graph reads was deleted since
                raise _hopeless(lost, f"{graph.id} cannot be built once more: {error}") from error
            if fingerprint(TensorGraph.of(list(made.values()))) != source["fingerprint"]:
                raise _hopeless(lost, f"{graph.id} has no seed, so it would draw other random numbers")
            name = next(name for name, one in graph.results.items() if one.key == key)
            made[name].key = key
            log.info("a result of %s is computed again: %s", graph.id, lost)
            again = TensorGraph.of([made[name]])
            report = await self._runner.run(again, f"{graph.name} (again)", source["settings"])
            if report["state"] == JobState.SUCCEEDED:
                if self._graph_of_result(key) is None:  # its session was closed meanwhile
                    self._runner.drop([key])
                return
            for other in _lost_keys(report["error"]):
                await self.again(other, lost)
        why = str(report["error"]) if report.get("error") else "it was cancelled"
        raise _hopeless(lost, f"it was computed again, and then {why}")


def _lost_keys(failure: Failure | None) -> list[str]:
    """Keys of the lost tensors that a failed job's report names."""
    is_loss = failure is not None and failure.name == ChunkLostError.__name__  # other errors are not unpickled here
    told = failure.unpickled() if failure is not None and is_loss else None
    return list(told.keys) if isinstance(told, ChunkLostError) else []


def _hopeless(lost: ChunkLostError, why: str) -> ChunkLostError:
    return ChunkLostError(f"{lost} ({why})", lost.keys)


PATIENCE = 8.0  # seconds that a cluster may take to answer


class ClusterConnection:
    """An authenticated channel to the cluster.

    Parameters
    ----------
    entry
        The cluster.
    ended
        Called with the report of each job that ends.
    """

    def __init__(self, entry: Entry, ended: Callable[[dict[str, Any]], None]) -> None:
        self.entry = entry
        self.lost = asyncio.Event()  # set when the cluster is gone
        self._ended = ended
        self._channel: ActorChannel | None = None

    async def open(self) -> None:
        """Connects; raises ClusterLostError or AuthenticationError."""
        mailbox = Mailbox()
        mailbox.add("jobs", _Jobs(self._ended))
        self._channel = await connect(self.entry.socket, self.entry.token, mailbox, lambda _: self.lost.set())
        await self.ask("session", "call_me", "web")  # a fixed name: the next gateway gets this gateway's tensors

    async def ask(self, actor: str, method: str, *args: Any, patience: float = PATIENCE) -> Any:
        """Calls `actor.method(*args)` on the cluster and returns the answer.

        Raises
        ------
        ClusterLostError
            If the connection is closed, or the cluster does not answer within `patience` seconds.
        """
        assert self._channel is not None
        try:
            async with asyncio.timeout(patience):
                return await self._channel.ask(actor, method, *args)
        except TimeoutError:
            raise ClusterLostError(
                f"cluster {self.entry.id} has not answered for {patience:g} s; it may be stopped or busy: try again"
            ) from None

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Calls a method without waiting for the answer."""
        assert self._channel is not None
        self._channel.tell(actor, method, *args)

    def close(self) -> None:
        """Closes the channel."""
        if self._channel is not None:
            self._channel.close()


class _Jobs:
    """The actor "jobs"; the cluster calls it when a job ends."""

    def __init__(self, ended: Callable[[dict[str, Any]], None]) -> None:
        self._told = ended

    @remote_method
    def ended(self, report: dict[str, Any]) -> None:
        """Passes on the report of an ended job."""
        self._told(report)

    @remote_method
    def stalled(self, told: dict[str, Any]) -> None:
        """Ignores stalls: the job's events contain them."""

    @remote_method
    def printed(self, told: dict[str, Any]) -> None:
        """Ignores lines that functions print."""

    @remote_method
    def scaled(self, facts: dict[str, Any]) -> None:
        """Ignores a new number of workers: the summary tells it."""

    @remote_method
    def broken(self, why: str) -> None:
        """Ignores the end of the control process: the channel ends too."""

    @remote_method
    def stopped(self, by: str) -> None:
        """Ignores the end of the cluster: the channel ends too."""


PIECE_BYTES = 4 * 2**20  # bytes of a piece, about
_PART = re.compile(r"(-?\d+)|(-?\d*):(-?\d*)(?::(-?\d*))?")
AxisSplits = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Selection:
    """Elements selected along the axes, and the axes that an integer index removed."""

    ranges: tuple[range, ...]
    dropped: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the selection without the removed axes."""
        return tuple(len(one) for one, gone in zip(self.ranges, self.dropped) if not gone)


def parse_slice(text: str, shape: Sequence[int]) -> Selection:
    """Parses a slice such as "0:10,::2,-1"; axes left out are whole.

    Parameters
    ----------
    text
        For each axis an int or start:stop or start:stop:step with a step of 1 or more, joined by commas; "" is all.

    Raises
    ------
    ValueError
        If the text has another form or too many axes, or an index is out of bounds.

    Examples
    --------
    >>> parse_slice("1:,::2", (3, 5)).shape, parse_slice("-1", (3, 5)).shape
    ((2, 3), (5,))
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if len(parts) > len(shape):
        raise ValueError(f"slice {text!r} has {len(parts)} axes and the array {len(shape)}; give one part per axis")
    ranges, dropped = [], []
    for axis, length in enumerate(shape):
        part = parts[axis] if axis < len(parts) else ":"
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} in slice {text!r} is no int and no start:stop:step; write e.g. 0:10,::2,-1")
        if found[1] is not None:
            index = int(found[1])
            if not -length <= index < length:
                raise ValueError(f"index {index} is outside of axis {axis}, which has {length} elements")
            ranges.append(range(index % length, index % length + 1))
        else:
            start, stop, step = (int(one) if one else None for one in found.group(2, 3, 4))
            if step is not None and step < 1:
                raise ValueError(f"step {step} in slice {text!r}; steps are 1 or more")
            ranges.append(range(*slice(start, stop, step).indices(length)))
        dropped.append(found[1] is not None)
    return Selection(tuple(ranges), tuple(dropped))


def chunk_selection(text: str, splits: AxisSplits) -> Selection:
    """Selects the elements of a chunk by place in the grid, such as "3,0".

    Raises
    ------
    ValueError
        If there is no such chunk.
    """
    grid = [len(axis) for axis in splits]
    try:
        place = [int(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        place = [-1] * len(grid)
    if len(place) != len(grid) or any(not 0 <= at < n for at, n in zip(place, grid)):
        raise ValueError(f"there is no chunk {text!r}; the grid is {','.join(map(str, grid))}, counted from 0")
    ranges = []
    for at, axis in zip(place, splits):
        start = sum(axis[:at])
        ranges.append(range(start, start + axis[at]))
    return Selection(tuple(ranges), (False,) * len(grid))


def pieces(ranges: Sequence[range], itemsize: int, most: int = PIECE_BYTES) -> Iterator[tuple[range, ...]]:
    """Splits a selection into boxes in C order, of at most `most` bytes unless an element is larger.

    Examples
    --------
    >>> [tuple(map(list, box)) for box in pieces((range(3), range(2)), 1, most=4)]
    [([0, 1], [0, 1]), ([2], [0, 1])]
    """
    if not math.prod(map(len, ranges)):
        return
    axis, inner = len(ranges), itemsize
    while axis > 0 and inner * len(ranges[axis - 1]) <= most:
        axis -= 1
        inner *= len(ranges[axis])
    if axis == 0:
        yield tuple(ranges)
        return
    cut, step = ranges[axis - 1], max(1, most // max(1, inner))
    for lead in product(*ranges[: axis - 1]):
        for at in range(0, len(cut), step):
            yield (*(range(i, i + 1) for i in lead), cut[at : at + step], *ranges[axis:])


@dataclass(frozen=True)
class ChunkRead:
    """The elements of a chunk that a box takes.

    Attributes
    ----------
    chunk
        Place in C order of the grid.
    start, stop
        Bytes of the chunk to read.
    shape, strides, offset
        Layout of the wanted elements among those bytes, as `np.ndarray` takes it, from `start`.
    target
        Place of the elements in the box, in elements along each axis.
    """

    chunk: int
    start: int
    stop: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    target: tuple[slice, ...]


def chunk_reads(box: Sequence[range], splits: AxisSplits, itemsize: int) -> Iterator[ChunkRead]:
    """The chunks that overlap a box, with the bytes to read."""
    axes = [list(_met(cut, lengths)) for cut, lengths in zip(box, splits)]
    grid = [len(lengths) for lengths in splits]
    for place in product(*axes):
        chunk = 0
        for (at, *_), n in zip(place, grid):
            chunk = chunk * n + at
        step = itemsize
        strides, start, last = [], 0, 0
        for (at, within, _), lengths in zip(reversed(place), reversed(list(splits))):
            strides.append(step * within.step)
            start += step * within[0]
            last += step * within[-1]
            step *= lengths[at]
        shape = tuple(len(within) for _, within, _ in place)
        yield ChunkRead(chunk, start, last + itemsize, shape, tuple(reversed(strides)), tuple(t for *_, t in place))


def count_chunks(ranges: Sequence[range], splits: AxisSplits) -> int:
    """Number of chunks that a selection overlaps."""
    return math.prod(sum(1 for _ in _met(cut, lengths)) for cut, lengths in zip(ranges, splits))


def _met(cut: range, lengths: Sequence[int]) -> Iterator[tuple[int, range, slice]]:
    """Chunks of an axis that overlap `cut`: number, elements within the chunk, and their place in the cut."""
    ends = list(accumulate(lengths))
    taken = 0
    while taken < len(cut):
        at = bisect_right(ends, cut[taken])
        begin, end = ends[at] - lengths[at], ends[at]
        count = min(len(cut) - taken, -(-(end - cut[taken]) // cut.step))
        first = cut[taken] - begin
        yield at, range(first, first + (count - 1) * cut.step + 1, cut.step), slice(taken, taken + count)
        taken += count
