"""Group tasks on a Dask cluster: batches of tasks to Dask's scheduler, and what becomes of them.

Many tasks travel as one graph, since a call of `Client.submit` for each would cost 2.2 ms of CPU a task instead of 1.4.
Futures are dropped, never cancelled: Dask's `cancel` fails where a task that no client holds reads the key.
All methods are called in the loop of the head; `_watch` and `heard` run in the client's loop and only post.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import asyncio
import math
import operator
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import dask
from distributed import CancelledError
from distributed.scheduler import KilledWorker

from jmars.engines.dask_worker import MEGABYTE, RESOURCE, Runner, run_task
from jmars.engines.engine import EngineEvents, GroupReport, GroupTask, Result
from jmars.model.failure import Failure

__all__ = ["DaskTasks"]

BATCH = 200  # tasks of one graph
BATCH_BYTES = 4_000_000  # of specs in one graph: Dask warns from 10 MB
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
    """Tasks and results of one cluster of jmars on a Dask cluster.

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
    memory
        Bytes for our tasks on the largest worker, 0 where there is none yet.
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
    memory: int = 0
    futures: dict[Result, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._client_loop: asyncio.AbstractEventLoop = self.client.loop.asyncio_loop
        self._tasks: dict[str, _Task] = {}
        self._unsent: deque[_Task] = deque()
        self._unreleased: list[Result] = []  # readers may be among the unsent
        self._stopped: dict[int, None] = {}  # jobs, oldest first
        self._watchers: set[asyncio.Task[None]] = set()  # of the client's loop
        self._inbox: deque[tuple[Any, ...]] = deque()
        self._is_woken = False

    def __len__(self) -> int:
        return len(self._tasks)

    def submit(self, task: GroupTask) -> None:
        """Queue a task; it is sent with all tasks of this turn of the loop."""
        self._add(_Task(task))

    def _add(self, entry: _Task) -> None:
        self._tasks[entry.task.name] = entry
        self._unsent.append(entry)
        if len(self._unsent) == 1:
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        """Send one batch; the next batch has the next turn of the loop."""
        batch: list[_Task] = []
        nbytes = 0
        while self._unsent and len(batch) < BATCH and nbytes < BATCH_BYTES:
            batch.append(self._unsent.popleft())
            nbytes += len(batch[-1].task.spec)
        if batch:
            self._send_batch(batch)
        if self._unsent:
            self._loop.call_soon(self._send)
        else:
            unreleased, self._unreleased = self._unreleased, []
            self.release(unreleased)

    def _send_batch(self, batch: Sequence[_Task]) -> None:
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
            planned = [task.worker] if task.worker else []
            for one in {key, *outputs}:
                priorities[one], workers[one], resources[one] = -task.priority, planned, {}
            asked = min(task.memory, self.memory) if self.memory else task.memory
            resources[key] = {RESOURCE: max(1, math.ceil(asked / MEGABYTE))}
            wanted[task.name] = outputs
        futures = self._send_graph(graph, wanted, priorities, workers, resources)
        watched = []
        for entry in batch:
            if entry.task.name in futures:
                entry.futures, entry.batch = futures[entry.task.name], len(batch)
                if entry.task.outputs:
                    results = [Result(entry.task.name, number) for number in range(entry.task.outputs)]
                    self.futures.update(zip(results, entry.futures))
                watched.append((entry.task.name, entry.attempt, entry.futures))
        self._client_loop.call_soon_threadsafe(self._watch, watched)

    def _send_graph(
        self,
        graph: dict[str, tuple[Any, ...]],
        wanted: dict[str, list[str]],
        priorities: dict[str, int],
        workers: dict[str, list[str]],
        resources: dict[str, dict[str, int]],
    ) -> dict[str, list[Any]]:
        # Loose, so that the tasks of a dead worker run elsewhere. Dask calls a function that is an annotation with each
        # key; `get` of a dict can be pickled.
        annotations = {"priority": priorities.get, "workers": workers.get, "resources": resources.get}
        if not graph:
            return {}
        try:
            with dask.annotate(allow_other_workers=True, **annotations):  # type: ignore[attr-defined]
                futures = self.client.get(graph, list(wanted.values()), sync=False)
        except Exception as error:
            self.closed(f"the Dask client does not take tasks: {error}")
            return {}
        return dict(zip(wanted, futures))

    def release(self, results: Sequence[Result]) -> None:
        """Free results now, or when their task ends."""
        if self._unsent:
            self._unreleased += results
            return
        for result in results:
            if result.task in self._tasks:
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
        for entry in dropped:
            self._forget(entry)
            self._loop.call_soon(self.events.ended, entry.task.name, GroupReport("", stopped=True))

    def drop(self) -> None:
        """Forget all tasks and results."""
        self._unsent.clear()
        for entry in list(self._tasks.values()):
            self._forget(entry)
        for future in self.futures.values():
            future.release()
        self.futures.clear()

    async def end_watchers(self) -> None:
        """End the coroutines that watch futures; called in the client's loop."""
        watchers = list(self._watchers)
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)

    def gone(self) -> list[str]:
        """Tasks that have ended and whose results are lost for good; their results are forgotten."""
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
        """A worker started a task (its address) or reports of it; a task that ran twice is heard once."""
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
            self._lost(entry, f"Dask dropped it: {error}")

    def _end(self, entry: _Task) -> None:
        name = entry.task.name
        if self._tasks.get(name) is not entry:
            return
        del self._tasks[name]
        entry.futures = []
        self.release(list(entry.released))
        self.events.ended(name, entry.report or GroupReport(entry.worker))

    def _lost(self, entry: _Task, why: str) -> None:
        self._forget(entry)
        self._loop.call_soon(self.events.lost, [entry.task.name], f"task {entry.task.name} cannot run: {why}", "exit")

    def _forget(self, entry: _Task) -> None:
        """Drop a task: Dask does not run it then, unless it runs already."""
        if self._tasks.get(entry.task.name) is entry:
            del self._tasks[entry.task.name]
        for number in range(entry.task.outputs):
            self.futures.pop(Result(entry.task.name, number), None)
        for future in entry.futures:
            future.release()
        entry.futures = []


def _failure(error: BaseException) -> Failure:
    if isinstance(error, ModuleNotFoundError) and error.name:
        text = f"the Dask worker has no module {error.name!r}: install it on the workers"
        error = ModuleNotFoundError(text, name=error.name)
    return Failure.of(error)
