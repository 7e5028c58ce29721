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
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import dask
from distributed import CancelledError, Future
from distributed.scheduler import KilledWorker

from jmars.engines.dask_worker import AGAIN, MEGABYTE, RESOURCE, RUN, TRANSFERS, Runner, TaskCall, run_task
from jmars.engines.engine import GroupTask, Result
from jmars.engines.results import LinkSpeed
from jmars.engines.task_book import TaskBook, TaskEntry
from jmars.errors import text_of
from jmars.kernels.group_run import GroupReport
from jmars.model.messages import Failure

if TYPE_CHECKING:
    from jmars.engines.port import EngineWorkers

FIRST = 1  # priority before all that waits
REPORT_GRACE_SECONDS = 2.0  # seconds that a report may come after its result


@dataclass(eq=False, slots=True)
class _Entry(TaskEntry):
    """A task that has not ended; a task without outputs holds a future."""

    attempt: int = 0  # of sending; the key of a task that is sent again differs
    batch: int = 1  # tasks of its graph
    report: GroupReport | None = None
    is_finished: bool = False  # its results are in memory


@dataclass(frozen=True, slots=True)
class Held:
    """A result with its future: the future's value is the chunk, or a tuple with the chunk at `place`."""

    future: Any
    place: int | None = None


class DaskTasks(TaskBook[_Entry]):
    """Tasks and results of a cluster of jmars on a Dask cluster; `results` are of the class `Held`.

    Parameters
    ----------
    client
        A `distributed.Client` that runs.
    cluster
        Part of all keys, unique among the clusters on the same scheduler.
    topic
        Topic of the workers' messages.
    killed
        Called with tasks whose workers died too often, and the address of the last worker.

    Attributes
    ----------
    links
        Speed of transfers between workers.
    """

    def __init__(
        self,
        client: Any,
        cluster: str,
        topic: str,
        runner: Runner,
        events: EngineWorkers,
        closed: Callable[[str], None],
        killed: Callable[[Sequence[str], str], None],
    ) -> None:
        super().__init__(events, closed)
        self._client, self._cluster, self._topic, self._runner, self._killed = client, cluster, topic, runner, killed
        self._client_loop: asyncio.AbstractEventLoop = client.loop.asyncio_loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jmars-dask-send")
        self._watchers: set[asyncio.Task[None]] = set()  # of the client's loop
        self.links = LinkSpeed()

    def _entry(self, task: GroupTask) -> _Entry:
        return _Entry(task)

    async def _send_batch(self, batch: Sequence[_Entry]) -> None:
        fresh: dict[Result, Held] = {}  # of this batch, with keys in place of futures
        places_of: dict[str, list[tuple[int, int | None]]] = {}  # task: (bundle, place in it) of each output
        graph: dict[str, tuple[Any, ...]] = {}
        priorities: dict[str, int] = {}
        workers: dict[str, list[str]] = {}
        resources: dict[str, dict[str, int]] = {}
        keys_of: dict[str, list[str]] = {}  # by task: of its bundles
        for entry in batch:
            task = entry.task
            name = f"{self._cluster}-{task.name}" + (f"{AGAIN}{entry.attempt}" if entry.attempt else "")
            inputs = [fresh.get(one) or self.results.get(one) for one in task.inputs]
            if any(one is None for one in inputs):
                self._lost(entry, "its input is lost", "exit")
                continue
            key = f"{RUN}{name}"
            bundles = task.bundles or tuple([(number,) for number in range(task.outputs)])
            parts, places = _parts([one for one in inputs if one is not None])
            call = TaskCall(self._topic, task.name, task.job, bundles, task.spec, places)
            graph[key] = (run_task, self._runner, call, parts)
            outputs = [key]
            if len(bundles) > 1:
                outputs = [f"jmars-item-{name}-{number}" for number in range(len(bundles))]
                graph |= {output: (operator.getitem, key, number) for number, output in enumerate(outputs)}
            place_of = {
                number: (bundle, at if len(some) > 1 else None)
                for bundle, some in enumerate(bundles)
                for at, number in enumerate(some)
            }
            places_of[task.name] = [place_of[number] for number in range(task.outputs)]
            for number, (bundle, place) in place_of.items():
                fresh[Result(task.name, number)] = Held(outputs[bundle], place)
            for one in outputs:  # taken out where the group ran, before other groups: its bytes do not move
                priorities[one], workers[one], resources[one] = FIRST, [], {RESOURCE: 0}
            priorities[key], workers[key] = -task.priority, [task.worker] if task.worker else []
            resources[key] = {RESOURCE: max(1, math.ceil(task.memory / MEGABYTE))}
            keys_of[task.name] = outputs
        if not graph:
            return
        send = partial(self._send_graph, graph, keys_of, priorities, workers, resources)
        try:
            futures = await self._loop.run_in_executor(self._thread, send)
        except Exception as error:
            self.closed(f"the Dask client does not take tasks: {text_of(error)}")
            return
        watched = []
        for entry in batch:
            name, sent = entry.task.name, futures.get(entry.task.name, [])
            entry.batch = len(batch)
            if entry.is_dropped or self._tasks.get(name) is not entry:  # dropped meanwhile
                self._let_go(sent)
                continue
            if entry.task.outputs:
                for number, (bundle, place) in enumerate(places_of[name]):
                    own = sent[bundle] if place is None else Future(sent[bundle].key, self._client)
                    self.results[Result(name, number)] = Held(own, place)
            else:
                entry.held = sent
            watched.append((name, entry.attempt, sent))
        self._client_loop.call_soon_threadsafe(self._watch, watched)

    def _send_graph(
        self,
        graph: dict[str, tuple[Any, ...]],
        keys_of: dict[str, list[str]],
        priorities: dict[str, int],
        workers: dict[str, list[str]],
        resources: dict[str, dict[str, int]],
    ) -> dict[str, list[Any]]:
        # Dask calls a function that is an annotation with each key; `get` of a dict can be pickled.
        annotations = {"priority": priorities.get, "workers": workers.get, "resources": resources.get}
        with dask.annotate(**annotations):  # type: ignore[attr-defined]
            futures = self._client.get(graph, list(keys_of.values()), sync=False)
        return dict(zip(keys_of, futures))

    def flagged(self, dropped: Sequence[_Entry], running: Mapping[str, str]) -> None:
        """Workers see a stop flag from now on; `running` has tasks of the job that began before, with their workers."""
        for name, worker in running.items():
            if name in self._tasks:
                self._tasks[name].worker = worker
        self.end_dropped(dropped)

    def left(self, worker: str) -> None:
        """A worker is gone; Dask does not run its dropped tasks again."""
        for entry in [one for one in self._tasks.values() if one.is_dropped and one.worker == worker]:
            self._end(entry, GroupReport(worker))

    def drop(self) -> None:
        """Forget all tasks and results."""
        kept = list(self.results.values())
        self._drop()
        self._let_go(kept)
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
        for result, held in self.results.items():
            future = held.future
            # An array that was put there cannot be computed again, so "lost" is final; other results come again.
            final = ("cancelled", "lost") if future.key.startswith("jmars-put-") else ("cancelled", "error")
            if result.task not in self._tasks and future.status in final:
                found[result.task] = None
        self.results = {result: held for result, held in self.results.items() if result.task not in found}
        return list(found)

    def recovering(self) -> bool:
        """Whether Dask computes a result again that was there."""
        return any(held.future.status == "lost" for held in self.results.values())

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

    # ------------------------------------------------------------------ in the head's loop again

    def _hear(self, items: Sequence[Any]) -> None:
        killed: dict[str, list[str]] = {}
        for kind, *rest in items:
            if kind == "message":
                for name, said in pickle.loads(rest[0]):
                    if name == TRANSFERS:
                        self.links.observe(*said)
                    else:
                        self._said(name, said)
                continue
            name, attempt, error = rest
            entry = self._tasks.get(name)
            if entry is None or entry.attempt != attempt or entry.is_dropped:
                continue
            if isinstance(error, KilledWorker):
                self._forget(entry)
                killed.setdefault(error.last_worker.address, []).append(name)
            else:
                self._done(entry, error)
        for address, names in killed.items():
            self._killed(names, address)

    def _said(self, name: str, said: str | GroupReport) -> None:
        """A worker started a task (`said` is the address) or reports; only the first report of a task counts."""
        if isinstance(said, str):
            self.started(name, said)
        elif (entry := self._tasks.get(name)) is not None:
            entry.report, entry.worker = said, said.worker
            if entry.is_finished or entry.is_dropped:
                self._end(entry, said)

    def _done(self, entry: _Entry, error: Exception | None) -> None:
        """Futures of a task have a result, an error, or were cancelled."""
        reason = getattr(error, "reason", "")  # of a cancellation
        if error is None:
            entry.is_finished = True
            if entry.report is not None:
                self._end(entry, entry.report)
            else:
                self._loop.call_later(
                    REPORT_GRACE_SECONDS, lambda: self._end(entry, entry.report or GroupReport(entry.worker))
                )
        elif not isinstance(error, CancelledError):
            self._forget(entry)
            self.events.failed(entry.task.name, _failure(error))
        elif entry.task.job in self._stopped:
            self._forget(entry)
            self.events.ended(entry.task.name, GroupReport(entry.worker, stopped=True))
        elif reason == "scheduler-connection-lost" or self._client.status != "running":
            self.closed("Dask's scheduler is gone")
        elif reason == "lost dependencies" and entry.batch > 1:
            # Dask refuses a whole graph for a single lost input: resubmit each task by itself.
            self._forget(entry)
            self._add(_Entry(entry.task, released=entry.released, attempt=entry.attempt + 1))
        else:
            self._lost(entry, f"Dask dropped it: {error}", "exit", self.gone() if reason == "lost dependencies" else ())

    def _let_go(self, references: Sequence[Any]) -> None:
        """Release futures that watchers hold too; in the client's loop, where 10,000 do not take turns with it."""

        def release() -> None:
            for one in references:
                (one.future if isinstance(one, Held) else one).release()

        with suppress(RuntimeError):  # the client's loop is closed
            self._client_loop.call_soon_threadsafe(release)


def _parts(inputs: Sequence[Held]) -> tuple[list[Any], tuple[tuple[int, int | None], ...]]:
    """The distinct results among inputs, futures or keys, and `TaskCall.places`."""
    number: dict[str, int] = {}
    parts: list[Any] = []
    places = []
    for one in inputs:
        key = one.future if isinstance(one.future, str) else one.future.key
        if key not in number:
            number[key] = len(parts)
            parts.append(one.future)
        places.append((number[key], one.place))
    return parts, tuple(places)


def _failure(error: BaseException) -> Failure:
    if isinstance(error, ModuleNotFoundError) and error.name:
        text = f"the Dask worker has no module {error.name!r}: install it on the workers"
        error = ModuleNotFoundError(text, name=error.name)
    return Failure.of(error)
