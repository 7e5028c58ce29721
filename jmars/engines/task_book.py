"""TaskBook: the tasks that an engine has or is about to get, and the results that are kept, by names of ours.

Tasks leave in batches. A released result is kept until its task has ended and all tasks that read it were sent. A
stopped job drops tasks whose start was not heard: such a task may run nonetheless, and counts until it cannot start.
All methods are called in the loop of the head, `_post` in any thread.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jmars.engines.engine import GroupTask, Result
from jmars.kernels.group_run import GroupReport

if TYPE_CHECKING:
    from jmars.engines.port import EngineWorkers

BATCH = 100  # tasks that leave together
BATCH_BYTES = 4_000_000  # of their specs: Dask warns from 10 MB
STOPPED_JOBS = 256  # stopped jobs that are remembered


@dataclass(eq=False, slots=True)
class TaskEntry:
    """A task that has not ended.

    Attributes
    ----------
    worker
        Worker that started it; "" while unknown.
    held
        The engine's references beside those in `TaskBook.results`.
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


class TaskBook(ABC, Generic[Entry]):
    """Tasks and results of a cluster of jmars on an engine.

    Parameters
    ----------
    closed
        Called with the reason when the engine is gone.

    Attributes
    ----------
    results
        The engine's references to results that are kept.
    """

    def __init__(self, events: EngineWorkers, closed: Callable[[str], None]) -> None:
        self.events, self.closed = events, closed
        self.results: dict[Result, Any] = {}
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[str, Entry] = {}
        self._unsent: deque[Entry] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._readers: Counter[Result] = Counter()  # tasks that are not sent, by input
        self._unreleased: set[Result] = set()  # to release when their readers are sent
        self._stopped: dict[int, None] = {}  # jobs, oldest first
        self._inbox: deque[Any] = deque()
        self._is_woken = False
        self._is_closed = False

    # ------------------------------------------------------------------ of each engine

    @abstractmethod
    def _entry(self, task: GroupTask) -> Entry:
        """The entry of a new task."""

    @abstractmethod
    async def _send_batch(self, batch: Sequence[Entry]) -> None:
        """Give tasks to the engine; tasks without their inputs are `_lost`."""

    @abstractmethod
    def _hear(self, items: Sequence[Any]) -> None:
        """Handle messages of `_post`."""

    @abstractmethod
    def _let_go(self, references: Sequence[Any]) -> None:
        """Release the engine's references of tasks that are forgotten."""

    # ------------------------------------------------------------------ tasks

    def submit(self, task: GroupTask) -> None:
        """Queue a task; all tasks of this turn of the loop travel together."""
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

    def stop(self, job: int, tasks: Sequence[str]) -> Sequence[Entry]:
        """Drop the tasks without a known start; returns them, for `end_dropped`."""
        self._stopped[job] = None
        while len(self._stopped) > STOPPED_JOBS:
            del self._stopped[next(iter(self._stopped))]
        dropped = [self._tasks[name] for name in tasks if name in self._tasks and not self._tasks[name].worker]
        for entry in dropped:
            entry.is_dropped = True
        self._sent(entry for entry in self._unsent if entry.is_dropped)
        self._unsent = deque(entry for entry in self._unsent if not entry.is_dropped)
        self._let_go_of(*dropped)
        return dropped

    def end_dropped(self, entries: Iterable[Entry]) -> None:
        """Report the end of dropped tasks without a reported start; a task that starts later sees the stop flag."""
        for entry in entries:
            if not entry.worker:
                self._end(entry, GroupReport(""))

    def started(self, name: str, worker: str) -> None:
        """A task runs."""
        entry = self._tasks.get(name)
        if entry is not None:
            entry.worker = worker
            self.events.started(name, worker)

    def _end(self, entry: Entry, report: GroupReport) -> None:
        """A task returned; the results of a dropped task are gone."""
        name = entry.task.name
        if self._tasks.get(name) is not entry:
            return
        del self._tasks[name]
        entry.held = []
        self.release(list(entry.released))
        self.events.ended(name, GroupReport(report.worker, stopped=True) if entry.is_dropped else report)

    def _lost(self, entry: Entry, why: str, how: str, also: Sequence[str] = (), deaths: int = 1) -> None:
        """A task cannot run; `also` names tasks with lost results."""
        self._forget(entry)
        self.results = {result: one for result, one in self.results.items() if result.task not in also}
        name = entry.task.name
        self._loop.call_soon(self.events.lost, [*also, name], f"task {name} cannot run: {why}", how, deaths)

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
