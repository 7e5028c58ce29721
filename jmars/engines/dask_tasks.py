"""Group tasks on a Dask cluster: batches of tasks go to Dask's scheduler; starts, ends and losses come back.

A batch travels as a graph: `Client.submit` for each task would cost 2.2 ms of CPU instead of 1.4. Futures are dropped,
never cancelled: Dask's `cancel` breaks the client's connection where a task without a future reads the key.
All methods are called in the loop of the head; `_watch` and `heard` run in the client's loop and only post, and
`_send_graph` in a thread.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import asyncio
import math
import operator
import pickle
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dask
from distributed import CancelledError
from distributed.scheduler import KilledWorker

from jmars.engines.dask_worker import MEGABYTE, RESOURCE, Runner, run_task
from jmars.engines.engine import EngineEvents, GroupReport, GroupTask, Result
from jmars.errors import text_of
from jmars.model.failure import Failure

__all__ = ["DaskTasks"]

BATCH = 100  # tasks of one graph
BATCH_BYTES = 4_000_000  # of specs in one graph: Dask warns from 10 MB
FIRST = 1  # priority before all that waits
GRACE = 2.0  # seconds that a report may come after its result
STOPPED_JOBS = 256  # that are remembered


@dataclass(eq=False, slots=True)
class _Task:
    """A task that has not ended."""

    task: GroupTask
    attempt: int = 0  # of sending; the key of a task that is sent again differs
    batch: int = 1  # tasks of its graph
    futures: list[Any] = field(default_factory=list)  # of its outputs, or of the task where it has none
    worker: str = ""  # that started it
    report: GroupReport | None = None
    is_finished: bool = False  # its results are in memory
    released: set[Result] = field(default_factory=set)


@dataclass(eq=False)
class DaskTasks:
    """Tasks and results of a cluster of jmars on a Dask cluster.

    Attributes
    ----------
    client
        A `distributed.Client` that runs.
    cluster
        Part of all keys, unique among the clusters on the same scheduler.
    topic
        Topic of the workers' messages.
    closed
        Called with the reason when Dask's scheduler is gone.
    killed
        Called with tasks whose workers died too often, and the address of the last worker.
    futures
        Results that are kept.
    """

    client: Any
    cluster: str
    topic: str
    runner: Runner
    events: EngineEvents
    closed: Callable[[str], None]
    killed: Callable[[Sequence[str], str], None]
    futures: dict[Result, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._client_loop: asyncio.AbstractEventLoop = self.client.loop.asyncio_loop
        self._tasks: dict[str, _Task] = {}
        self._unsent: deque[_Task] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jmars-dask")
        self._readers: Counter[Result] = Counter()  # tasks that are not sent, by input
        self._unreleased: set[Result] = set()  # to release when their readers are sent
        self._stopped: dict[int, None] = {}  # jobs, oldest first
        self._watchers: set[asyncio.Task[None]] = set()  # of the client's loop
        self._inbox: deque[tuple[Any, ...]] = deque()
        self._is_woken = False

    def __len__(self) -> int:
        return len(self._tasks)

    def submit(self, task: GroupTask) -> None:
        """Queue a task; all tasks of this turn of the loop travel together."""
        self._add(_Task(task))

    def _add(self, entry: _Task) -> None:
        self._tasks[entry.task.name] = entry
        self._unsent.append(entry)
        self._readers.update(entry.task.inputs)
        if self._sender is None:
            self._sender = self._loop.create_task(self._send())

    async def _send(self) -> None:
        """Send batches until no task is left; a thread makes the graphs."""
        try:
            while self._unsent:
                batch: list[_Task] = []
                nbytes = 0
                while self._unsent and len(batch) < BATCH and nbytes < BATCH_BYTES:
                    batch.append(self._unsent.popleft())
                    nbytes += len(batch[-1].task.spec)
                await self._send_batch(batch)
                self._sent(batch)
        finally:
            self._sender = None

    def _sent(self, entries: Iterable[_Task]) -> None:
        """Release results that waited for these readers to be sent or dropped."""
        for entry in entries:
            for one in entry.task.inputs:
                self._readers[one] -= 1
                if self._readers[one] <= 0:
                    del self._readers[one]
                    if one in self._unreleased:
                        self._unreleased.discard(one)
                        self.release([one])

    async def _send_batch(self, batch: Sequence[_Task]) -> None:
        keys: dict[Result, str] = {}
        graph: dict[str, tuple[Any, ...]] = {}
        priorities: dict[str, int] = {}
        workers: dict[str, list[str]] = {}
        resources: dict[str, dict[str, int]] = {}
        wanted: dict[str, list[str]] = {}
        for entry in batch:
            task = entry.task
            name = f"{self.cluster}-{task.name}" + (f"-again-{entry.attempt}" if entry.attempt else "")
            inputs = [keys[one] if one in keys else self.futures.get(one) for one in task.inputs]
            if None in inputs:
                self._lost(entry, "its input is lost")
                continue
            key = f"jmars-run-{name}"
            graph[key] = (run_task, self.runner, self.topic, task.name, task.job, task.outputs, task.spec, inputs)
            outputs = [key]
            if task.outputs > 1:
                outputs = [f"jmars-item-{name}-{number}" for number in range(task.outputs)]
                graph |= {output: (operator.getitem, key, number) for number, output in enumerate(outputs)}
            keys |= {Result(task.name, number): output for number, output in enumerate(outputs)}
            for one in outputs:  # taken out where the group ran, before other groups: nothing of it moves
                priorities[one], workers[one], resources[one] = FIRST, [], {RESOURCE: 0}
            priorities[key], workers[key] = -task.priority, [task.worker] if task.worker else []
            resources[key] = {RESOURCE: max(1, math.ceil(task.memory / MEGABYTE))}
            wanted[task.name] = outputs
        if not graph:
            return
        send = partial(self._send_graph, graph, wanted, priorities, workers, resources)
        try:
            futures = await self._loop.run_in_executor(self._thread, send)
        except Exception as error:
            self.closed(f"the Dask client does not take tasks: {text_of(error)}")
            return
        watched = []
        for entry in batch:
            name, sent = entry.task.name, futures.get(entry.task.name, [])
            entry.futures, entry.batch = sent, len(batch)
            if self._tasks.get(name) is not entry:  # dropped meanwhile
                self._forget(entry)
                continue
            if entry.task.outputs:
                self.futures.update((Result(name, number), future) for number, future in enumerate(sent))
            watched.append((name, entry.attempt, sent))
        self._client_loop.call_soon_threadsafe(self._watch, watched)

    def _send_graph(
        self,
        graph: dict[str, tuple[Any, ...]],
        wanted: dict[str, list[str]],
        priorities: dict[str, int],
        workers: dict[str, list[str]],
        resources: dict[str, dict[str, int]],
    ) -> dict[str, list[Any]]:
        # Dask calls a function that is an annotation with each key; `get` of a dict can be pickled.
        annotations = {"priority": priorities.get, "workers": workers.get, "resources": resources.get}
        with dask.annotate(**annotations):  # type: ignore[attr-defined]
            futures = self.client.get(graph, list(wanted.values()), sync=False)
        return dict(zip(wanted, futures))

    def release(self, results: Sequence[Result]) -> None:
        """Free results now, or when their task ends."""
        for result in results:
            if result in self._readers:
                self._unreleased.add(result)
            elif result.task in self._tasks:
                self._tasks[result.task].released.add(result)
            else:
                self.futures.pop(result, None)

    def stop(self, job: int, tasks: Sequence[str]) -> None:
        """Drop the tasks that no worker has started."""
        self._stopped[job] = None
        while len(self._stopped) > STOPPED_JOBS:
            del self._stopped[next(iter(self._stopped))]
        dropped = [self._tasks[name] for name in tasks if name in self._tasks and not self._tasks[name].worker]
        unsent = set(self._unsent) & set(dropped)
        self._unsent = deque(entry for entry in self._unsent if entry not in unsent)
        self._sent(unsent)
        self._forget(*dropped)
        for entry in dropped:
            self._loop.call_soon(self.events.ended, entry.task.name, GroupReport("", stopped=True))

    def drop(self) -> None:
        """Forget all tasks and results."""
        if self._sender is not None:
            self._sender.cancel()
        self._unsent.clear()
        self._forget(*self._tasks.values())
        self._let_go(self.futures.values())
        self.futures.clear()
        self._thread.shutdown(wait=False)

    async def end_watchers(self) -> None:
        """End the coroutines that watch futures; called in the client's loop."""
        watchers = list(self._watchers)
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)

    def gone(self) -> list[str]:
        """Forgets results that the engine has lost for good; returns the tasks that made them."""
        found: dict[str, None] = {}
        for result, future in self.futures.items():
            # An array that was put there cannot be computed again, so "lost" is final; other results come again.
            final = ("cancelled", "lost") if future.key.startswith("jmars-put-") else ("cancelled", "error")
            if result.task not in self._tasks and future.status in final:
                found[result.task] = None
        self.futures = {result: future for result, future in self.futures.items() if result.task not in found}
        return list(found)

    def recovering(self) -> bool:
        """Whether Dask computes a result again that was there."""
        return any(future.status == "lost" for future in self.futures.values())

    # ------------------------------------------------------------------ in the client's loop

    def heard(self, message: bytes) -> None:
        """A worker's message about its tasks."""
        self._post("message", message)

    def _watch(self, watched: Iterable[tuple[str, int, list[Any]]]) -> None:
        for name, attempt, futures in watched:
            watcher = asyncio.ensure_future(self._watch_task(name, attempt, futures))
            self._watchers.add(watcher)
            watcher.add_done_callback(self._watchers.discard)

    async def _watch_task(self, name: str, attempt: int, futures: list[Any]) -> None:
        error: Exception | None = None
        try:
            for future in futures:
                while future.status in ("pending", "lost"):
                    await future.exception()
                if future.status == "error":
                    error = await future.exception()
                    break
                if future.status == "cancelled":
                    await future.result()  # raises, with the reason
        except Exception as cancelled:  # `concurrent.futures.CancelledError`
            error = cancelled
        self._post("done", name, attempt, error)

    def _post(self, *item: Any) -> None:
        self._inbox.append(item)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the head is closed
                self._inbox.clear()

    # ------------------------------------------------------------------ in the head's loop again

    def _drain(self) -> None:
        self._is_woken = False
        killed: dict[str, list[str]] = {}
        while self._inbox:
            kind, *rest = self._inbox.popleft()
            if kind == "message":
                for name, said in pickle.loads(rest[0]):
                    self._said(name, said)
                continue
            name, attempt, error = rest
            entry = self._tasks.get(name)
            if entry is None or entry.attempt != attempt:
                continue
            if isinstance(error, KilledWorker):
                self._forget(entry)
                killed.setdefault(error.last_worker.address, []).append(name)
            else:
                self._done(entry, error)
        for address, names in killed.items():
            self.killed(names, address)

    def _said(self, name: str, said: str | GroupReport) -> None:
        """A worker started a task (`said` is the address) or reports; only the first report of a task counts."""
        entry = self._tasks.get(name)
        if entry is None:
            return
        if isinstance(said, str):
            entry.worker = said
            self.events.started(name, said)
            return
        entry.report, entry.worker = said, said.worker
        if entry.is_finished:
            self._end(entry)

    def _done(self, entry: _Task, error: Exception | None) -> None:
        """Futures of a task have a result, an error, or were cancelled."""
        if error is None:
            entry.is_finished = True
            if entry.report is not None:
                self._end(entry)
            else:
                self._loop.call_later(GRACE, self._end, entry)
        elif not isinstance(error, CancelledError):
            self._forget(entry)
            self.events.failed(entry.task.name, _failure(error))
        elif entry.task.job in self._stopped:
            self._forget(entry)
            self.events.ended(entry.task.name, GroupReport(entry.worker, stopped=True))
        elif (reason := getattr(error, "reason", "")) == "scheduler-connection-lost" or self.client.status != "running":
            self.closed("Dask's scheduler is gone")
        elif reason == "lost dependencies" and entry.batch > 1:
            # Dask refuses a whole graph for one lost input: each task by itself then.
            self._forget(entry)
            self._add(_Task(entry.task, entry.attempt + 1, released=entry.released))
        else:
            self._lost(entry, f"Dask dropped it: {error}", self.gone() if reason == "lost dependencies" else ())

    def _end(self, entry: _Task) -> None:
        name = entry.task.name
        if self._tasks.get(name) is not entry:
            return
        del self._tasks[name]
        entry.futures = []
        self.release(list(entry.released))
        self.events.ended(name, entry.report or GroupReport(entry.worker))

    def _lost(self, entry: _Task, why: str, also: Sequence[str] = ()) -> None:
        """A task cannot run; `also` names tasks with lost results."""
        self._forget(entry)
        tasks = [*also, entry.task.name]
        self._loop.call_soon(self.events.lost, tasks, f"task {entry.task.name} cannot run: {why}", "exit")

    def _forget(self, *entries: _Task) -> None:
        """Drop tasks: Dask does not run them then, unless they run already."""
        dropped = []
        for entry in entries:
            if self._tasks.get(entry.task.name) is entry:
                del self._tasks[entry.task.name]
            for number in range(entry.task.outputs):
                self.futures.pop(Result(entry.task.name, number), None)
            dropped += entry.futures
            entry.futures = []
        self._let_go(dropped)

    def _let_go(self, futures: Iterable[Any]) -> None:
        """Release futures that watchers hold too; in the client's loop, where 10,000 do not take turns with it."""

        def release(futures: Sequence[Any]) -> None:
            for future in futures:
                future.release()

        with suppress(RuntimeError):  # the client's loop is closed
            self._client_loop.call_soon_threadsafe(release, list(futures))


def _failure(error: BaseException) -> Failure:
    if isinstance(error, ModuleNotFoundError) and error.name:
        text = f"the Dask worker has no module {error.name!r}: install it on the workers"
        error = ModuleNotFoundError(text, name=error.name)
    return Failure.of(error)
