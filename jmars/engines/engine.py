"""TaskEngine: a Dask or Ray cluster as jmars sees it, and the records between an engine and `EngineWorkers`.

An engine runs group tasks, keeps their results by reference, and moves data between its workers by itself. A result is
named by its task and a number: `(task, 0)` is the first output. A name is used once: a task that runs again gets a new
name. All methods are called in the loop of the head, `_post` in any thread; an engine calls methods of `EngineWorkers`
in the same loop.

Tasks leave in batches. A released result is kept until its task has ended and all tasks that read it were sent. A
stopped job drops tasks whose start was not heard: such a task may run nonetheless, and counts until it cannot start.

`Results` has the result of the engine that is a chunk, with bytes and maker, until the chunk is freed. Parts of chunks
are read in the workers of all engines by code free of Dask and Ray. `LinkSpeed` has the bytes a second between workers,
from the transfers that they report.
Source: docs/explanation/seeds.md, "Execution in a worker", "Execution control".
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from jmars.errors import ClusterError, ClusterStartError, text_of
from jmars.kernels.group_run import GroupReport
from jmars.model.messages import Failure
from jmars.storage.chunks import ChunkElements

if TYPE_CHECKING:
    from jmars.engines.port import EngineWorkers

START_SECONDS = 60.0  # for each step of an engine's start: its connection, the preparation of its workers
BATCH = 100  # tasks that leave together
BATCH_BYTES = 4_000_000  # of their specs: Dask warns from 10 MB
STOPPED_JOBS = 256  # stopped jobs that are remembered

_logger = logging.getLogger(__name__)


class Result(NamedTuple):
    """A chunk that an engine keeps: an output of a task, or an array that was put there (number 0)."""

    task: str
    number: int


@dataclass(frozen=True)
class EngineWorker:
    """A worker process of an engine.

    Attributes
    ----------
    key
        The engine's own name of the worker, an address or an id; a worker that comes again has a new key.
    name
        Name in the view.
    host
        Machine that the worker is on.
    cores
        Tasks that it runs at once.
    memory
        Bytes that our tasks may take there.
    """

    key: str
    name: str
    host: str
    cores: int
    memory: int


@dataclass(frozen=True)
class GroupTask:
    """A task of an engine: operands that run in a process one after the other.

    Attributes
    ----------
    name
        Unique in the engine's lifetime.
    job
        Number of the job, whose stop flag the task reads.
    spec
        A pickled `GroupSpec`.
    inputs
        Results that the task reads, in the order of the spec's inputs.
    outputs
        Number of results.
    worker
        Key of the planned worker, "" for any; the engine may choose another worker.
    memory
        Bytes that inputs, outputs and scratch take at most together.
    priority
        Lower runs first.
    bundles
        Numbers of results that the same tasks read (`groups.Group.bundles`).
    """

    name: str
    job: int
    spec: bytes
    inputs: Sequence[Result]
    outputs: int
    worker: str
    memory: int
    priority: int
    bundles: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Promises:
    """What an engine does not do as jmars's own workers do, for `Cluster.info()` and the how-to.

    Attributes
    ----------
    security
        How the engine's wire is protected, in a sentence.
    missing
        Sentences: promises of jmars's own workers that the engine does not keep.
    """

    security: str
    missing: Sequence[str] = ()


@dataclass(eq=False, slots=True)
class TaskEntry:
    """A task that has not ended.

    Attributes
    ----------
    worker
        Worker that started it; "" while unknown.
    held
        The engine's references beside those in `TaskEngine.results`.
    is_dropped
        Whether its job was stopped before a start was heard.
    released
        Results to release at its end.
    """

    task: GroupTask
    worker: str = ""
    held: list[Any] = field(default_factory=list)
    is_dropped: bool = False
    released: set[Result] = field(default_factory=set)


Entry = TypeVar("Entry", bound=TaskEntry)


class TaskEngine(ABC, Generic[Entry]):
    """A Dask or Ray cluster: its tasks, and the results that are kept, by names of ours.

    Attributes
    ----------
    kind
        "dask" or "ray".
    address
        As a user would enter it.
    task_seconds
        CPU of an empty task: on a worker, and where submission is serial.
    bundle
        Bytes of several chunks that are a result at most; 0 where each chunk is a result.
    results
        The engine's references to results that are kept.
    """

    kind: str
    address: str
    task_seconds: tuple[float, float]
    bundle: int
    places: str  # what the engine calls its workers
    _entry: type[Entry]

    def __init__(self) -> None:
        self.results: dict[Result, Any] = {}
        self._tasks: dict[str, Entry] = {}
        self._unsent: deque[Entry] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._readers: Counter[Result] = Counter()  # tasks that are not sent, by input
        self._unreleased: set[Result] = set()  # to release when their readers are sent
        self._stopped: dict[int, None] = {}  # jobs, oldest first
        self._inbox: deque[Any] = deque()
        self._background: set[asyncio.Task[Any]] = set()
        self._is_woken = self._is_lost = self._is_closed = False

    async def start(self, events: EngineWorkers) -> Sequence[EngineWorker]:
        """Connect, prepare the workers, and return the workers that are there.

        Raises
        ------
        ClusterStartError
            If the engine does not answer or has other versions of jmars, NumPy or Python.
        """
        self._events, self._loop = events, asyncio.get_running_loop()
        try:
            await self._connect()
            return await self._prepare()
        except BaseException as error:
            await self.close()
            if isinstance(error, ClusterError) or not isinstance(error, Exception):
                raise
            raise ClusterStartError(
                f"the {self.kind.title()} cluster at {self.address} could not be prepared: {type(error).__name__}: "
                f"{text_of(error)}"
            ) from error

    def _refuse(self, wrong: Sequence[str]) -> None:
        """Raise ClusterStartError where some workers have other versions."""
        if wrong:
            raise ClusterStartError(
                f"the {self.places} of the {self.kind.title()} cluster at {self.address} differ from this process: "
                f"{'; '.join(wrong)}; use the same environment on all {self.places}"
            )

    # ------------------------------------------------------------------ of each engine

    @abstractmethod
    async def _connect(self) -> None:
        """Connect to the engine."""

    @abstractmethod
    async def _prepare(self) -> Sequence[EngineWorker]:
        """Prepare the workers that are there, and return them."""

    @abstractmethod
    async def _send_batch(self, batch: Sequence[Entry]) -> None:
        """Give tasks to the engine; tasks without their inputs are `_lost`."""

    @abstractmethod
    def _hear(self, items: Sequence[Any]) -> None:
        """Handle messages of `_post`."""

    @abstractmethod
    def _let_go(self, references: Sequence[Any]) -> None:
        """Release the engine's references of tasks that are forgotten."""

    @abstractmethod
    def _stop_tasks(self, job: int, dropped: Sequence[Entry]) -> None:
        """Raise a job's stop flag on all workers, and report the end of dropped tasks by `_end_dropped`."""

    @abstractmethod
    def kill(self, tasks: Sequence[str]) -> bool:
        """End tasks that ignored the stop flag by force; returns whether the engine can do that."""

    @abstractmethod
    async def put(self, name: str, data: bytes, worker: str) -> None:
        """Store bytes as the result `(name, 0)`, an array of uint8, on a worker ("": any)."""

    @abstractmethod
    async def read(self, result: Result, wanted: ChunkElements) -> bytes:
        """Elements of a chunk.

        A worker takes the part out of the chunk, so that the whole chunk never travels. Raises ChunkLostError.
        """

    @abstractmethod
    async def memory(self) -> dict[str, dict[str, Any]]:
        """By worker key: `pid`, `resident` (bytes of the process), `spilled` (bytes on disk).

        A figure that the engine does not know is absent.
        """

    @abstractmethod
    def bandwidth(self) -> float | None:
        """Bytes a second between two workers, as measured; None where the engine does not know."""

    @abstractmethod
    async def scale(self, n: int) -> None:
        """Ask for so many workers; raises ClusterError where the engine cannot."""

    @abstractmethod
    async def adapt(self, least: int, most: int) -> None:
        """Let the engine choose between so many workers; raises ClusterError where the engine cannot."""

    @abstractmethod
    def promises(self) -> Promises:
        """What the engine promises."""

    @abstractmethod
    async def close(self) -> None:
        """Free all that is ours on the engine; an engine that we did not start goes on."""

    # ------------------------------------------------------------------ tasks

    def submit(self, task: GroupTask) -> None:
        """Queue a task, whose inputs may be results of tasks that have not ended; tasks of a turn of the loop travel
        together.
        """
        self._add(self._entry(task))

    def _add(self, entry: Entry) -> None:
        self._tasks[entry.task.name] = entry
        self._unsent.append(entry)
        self._readers.update(entry.task.inputs)
        if self._sender is None:
            self._sender = self._loop.create_task(self._send())

    async def _send(self) -> None:
        """Send batches until no task is left."""
        try:
            while self._unsent:
                batch: list[Entry] = []
                nbytes = 0
                while self._unsent and len(batch) < BATCH and nbytes < BATCH_BYTES:
                    batch.append(self._unsent.popleft())
                    nbytes += len(batch[-1].task.spec)
                await self._send_batch(batch)
                self._sent(batch)
        finally:
            self._sender = None

    def _sent(self, entries: Iterable[Entry]) -> None:
        """Release results that waited for these readers to be sent or dropped."""
        for entry in entries:
            for one in entry.task.inputs:
                self._readers[one] -= 1
                if self._readers[one] <= 0:
                    del self._readers[one]
                    if one in self._unreleased:
                        self._unreleased.discard(one)
                        self.release([one])

    def release(self, results: Sequence[Result]) -> None:
        """Free results now, or when their task has ended and their readers are sent."""
        for result in results:
            if result in self._readers:
                self._unreleased.add(result)
            elif result.task in self._tasks:
                self._tasks[result.task].released.add(result)
            else:
                self.results.pop(result, None)

    def stop(self, job: int, tasks: Sequence[str]) -> None:
        """Drop tasks of a job without a known start, and raise the job's stop flag: running tasks report `stopped`.

        A task that was dropped before it ran is reported as stopped too, without microseconds.
        """
        self._stopped[job] = None
        while len(self._stopped) > STOPPED_JOBS:
            del self._stopped[next(iter(self._stopped))]
        dropped = [self._tasks[name] for name in tasks if name in self._tasks and not self._tasks[name].worker]
        for entry in dropped:
            entry.is_dropped = True
        self._sent(entry for entry in self._unsent if entry.is_dropped)
        self._unsent = deque(entry for entry in self._unsent if not entry.is_dropped)
        self._let_go_of(*dropped)
        self._stop_tasks(job, dropped)

    def _end_dropped(self, entries: Iterable[Entry]) -> None:
        """Report the end of dropped tasks without a reported start; a task that starts later sees the stop flag."""
        for entry in entries:
            if not entry.worker:
                self._end(entry, GroupReport(""))

    def _started(self, name: str, worker: str) -> None:
        """A task runs."""
        entry = self._tasks.get(name)
        if entry is not None:
            entry.worker = worker
            self._events.started(name, worker)

    def _end(self, entry: Entry, report: GroupReport) -> None:
        """A task returned; the results of a dropped task are gone."""
        name = entry.task.name
        if self._tasks.get(name) is not entry:
            return
        del self._tasks[name]
        entry.held = []
        self.release(list(entry.released))
        self._events.ended(name, GroupReport(report.worker, stopped=True) if entry.is_dropped else report)

    def _lost(self, entry: Entry, why: str, how: str, also: Sequence[str] = (), deaths: int = 1) -> None:
        """A task cannot run; `also` names tasks with lost results."""
        self._forget(entry)
        self.results = {result: one for result, one in self.results.items() if result.task not in also}
        name = entry.task.name
        self._loop.call_soon(self._events.lost, [*also, name], f"task {name} cannot run: {why}", how, deaths)

    def _fail(self, entry: Entry, error: BaseException, module: str = "") -> None:
        """The engine could not run a task, where the worker lacks a module since it is not installed there."""
        if module:
            text = f"the {self.kind.title()} worker has no module {module!r}: install it on the {self.places}"
            error = ModuleNotFoundError(text, name=module)
        self._forget(entry)
        self._events.failed(entry.task.name, Failure.of(error))

    def _forget(self, *entries: Entry) -> None:
        """Drop tasks: the engine does not run them then, unless they run already."""
        for entry in entries:
            if self._tasks.get(entry.task.name) is entry:
                del self._tasks[entry.task.name]
        self._let_go_of(*entries)

    def _let_go_of(self, *entries: Entry) -> None:
        references: list[Any] = []
        for entry in entries:
            outputs = [Result(entry.task.name, number) for number in range(entry.task.outputs)]
            references += [*entry.held, *(self.results.pop(one) for one in outputs if one in self.results)]
            entry.held = []
        self._let_go(references)

    def _drop(self) -> None:
        """Forget all tasks and results; later messages are not read, as the loop is about to end."""
        self._is_closed = True
        self._inbox.clear()
        if self._sender is not None:
            self._sender.cancel()
        self._unsent.clear()
        self._readers.clear()
        self._forget(*self._tasks.values())
        self.results.clear()

    # ------------------------------------------------------------------ from other threads

    def _post(self, *item: Any) -> None:
        """Hand a message to `_hear`, together with messages that come meanwhile."""
        self._inbox.append(item)
        if self._is_closed:
            self._inbox.clear()
        elif not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the head is closed
                self._inbox.clear()

    def _drain(self) -> None:
        self._is_woken = False
        if self._is_closed:
            return
        self._hear([self._inbox.popleft() for _ in range(len(self._inbox))])

    # ------------------------------------------------------------------ life of the engine

    def _lose(self, why: str) -> None:
        """The engine is gone."""
        if not self._is_lost and not self._is_closed:
            self._is_lost = True
            self._loop.call_soon(self._events.closed, why)

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[None]:
        """Call this in the background; an error is logged only."""
        task = asyncio.ensure_future(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


async def dial(address: str, seconds: float) -> None:
    """Raise OSError, TimeoutError or ValueError where no process listens at "host:port"."""
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(seconds):
        _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    writer.close()


async def _quietly(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    try:
        await work()
    except Exception as error:
        _logger.debug("a call of the engine failed: %s", error)


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
    used
        Bytes of all chunks.

    Examples
    --------
    >>> freed = []
    >>> results = Results(freed.extend)
    >>> results.add(7, Kept(Result("a", 0), 80, 1))
    >>> results.free([7, 8])
    >>> freed, results.used
    ([Result(task='a', number=0)], 0)
    """

    def __init__(self, release: Callable[[Sequence[Result]], None]) -> None:
        self.used = 0
        self.kept: dict[int, Kept] = {}
        self._values = 0  # bytes of the values
        self._release = release

    def add(self, chunk: int, kept: Kept) -> None:
        """A chunk is there; an earlier result of the same chunk is released."""
        self.free([chunk])
        size = len(kept.value or b"")
        if self._values + size > MOST_VALUES:
            kept, size = kept._replace(value=None), 0
        self._values += size
        self.kept[chunk] = kept
        self.used += kept.nbytes

    def workers(self, chunks: Mapping[int, int]) -> dict[int, int]:
        """Workers that made some chunks, by the keys of `chunks`, where they are known."""
        found = {name: self.kept[chunk].worker for name, chunk in chunks.items() if chunk in self.kept}
        return {name: worker for name, worker in found.items() if worker >= 0}

    def free(self, chunks: Iterable[int]) -> None:
        """Release chunks; chunks that are not here do not matter."""
        freed = [self.kept.pop(chunk) for chunk in chunks if chunk in self.kept]
        if freed:
            self.used -= sum(kept.nbytes for kept in freed)
            self._values -= sum(len(kept.value or b"") for kept in freed)
            self._release([kept.result for kept in freed])

    def made_by(self, tasks: Iterable[str]) -> list[int]:
        """Chunks that are results of these tasks."""
        names = set(tasks)
        return [chunk for chunk, kept in self.kept.items() if kept.result.task in names]

    def clear(self) -> None:
        """Release all chunks."""
        self.free(list(self.kept))

    def __len__(self) -> int:
        return len(self.kept)


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
