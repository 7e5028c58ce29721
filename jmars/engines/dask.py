"""DaskEngine: a Dask cluster that runs groups of operands as its tasks.

Other people's tasks run beside: no worker is restarted or ended, and all that jmars made goes at the end.
The head and the user's client have loops in different threads; calls cross over and never wait in a loop.

A batch of tasks travels as a graph: `Client.submit` for each task would cost 2.2 ms of CPU instead of 1.4. Futures are
dropped, never cancelled: Dask's `cancel` breaks the client's connection where a task without a future reads the key.
All methods are called in the loop of the head; `_watch` and `_heard` run in the client's loop and only post, and
`_send_graph` in a thread.
Source: docs/explanation/seeds.md, "Execution control", "Architecture".
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import operator
import os
import pickle
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import dask
import numpy as np
from distributed import CancelledError, Future
from distributed.scheduler import KilledWorker

from jmars.engines.dask_connection import check_client, connect, security_at
from jmars.engines.dask_worker import (
    AGAIN,
    MEGABYTE,
    RESOURCE,
    RUN,
    TRANSFERS,
    Runner,
    TaskCall,
    cleaner,
    cut_result,
    facts,
    inspect_worker,
    memory_plugin,
    placing_plugin,
    raise_flag,
    reviver,
    run_task,
)
from jmars.engines.engine import START_SECONDS, EngineWorker, LinkSpeed, Promises, Result, TaskEngine, TaskEntry, dial
from jmars.engines.group_task import run_group
from jmars.errors import ChunkLostError, ClusterError, ClusterStartError, text_of
from jmars.kernels.group_run import GroupReport
from jmars.model.versions import differences
from jmars.storage.chunks import ChunkElements

POLL = 1.0  # seconds between looks at Dask's workers
PUT_SECONDS, PUT_SPEED = 3.0, 2e7  # seconds for a worker to answer, and least bytes a second that it accepts
WATCHED = 60  # looks at all results after a worker has left
READ_PRIORITY = 1  # before all waiting tasks
FIRST = 1  # priority before all that waits
REPORT_GRACE_SECONDS = 2.0  # seconds that a report may come after its result

Answer = TypeVar("Answer")
_logger = logging.getLogger(__name__)


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


class DaskEngine(TaskEngine[_Entry]):
    """TaskEngine over a Dask cluster; `results` are of the class `Held`.

    Parameters
    ----------
    client
        A `distributed.Client` that is connected and stays the user's, sync or async, an address such as
        "tcp://host:8786", or the path of a scheduler file.
    name
        Unique among the clusters of jmars on that Dask cluster.
    runner
        Function that runs a group in a worker; workers import it.
    """

    kind, places = "dask", "workers"
    task_seconds = 0.005, 0.003
    bundle = 2**25
    _entry = _Entry

    def __init__(self, client: Any, name: str = "", runner: Runner = run_group) -> None:
        super().__init__()
        self._given = os.fspath(client) if isinstance(client, os.PathLike) else client
        self.address = self._given if isinstance(self._given, str) else ""
        self._runner = runner
        self._name = name or uuid.uuid4().hex[:12]
        self._topic = f"jmars-{self._name}"  # of the workers' messages; names the plugins too
        self._client: Any = None
        self._facts: dict[str, Any] = {}  # of Dask's scheduler
        self._direct = False  # whether workers can be reached from here
        self._reads = 0
        self._watch_left = 0  # looks at all results that are still to do
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jmars-dask-send")
        self._watchers: set[asyncio.Task[None]] = set()  # of the client's loop
        self._links = LinkSpeed()  # of transfers between workers

    # ------------------------------------------------------------------ start and close

    async def _connect(self) -> None:
        client = self._given
        if isinstance(client, str):
            client = await connect(client)
        else:
            check_client(client)
        self._client, self._client_loop, self._nudge = client, client.loop.asyncio_loop, asyncio.Event()
        self.address = str(client.scheduler.address)
        self._workers = DaskWorkers(client)

    async def _prepare(self) -> Sequence[EngineWorker]:
        """Check the versions of the workers, and set their memory as a resource of Dask."""
        async with asyncio.timeout(START_SECONDS):
            client = self._client
            self._refuse(await self._workers.check())
            self._facts = await self._ask_scheduler(facts())
            if not self._facts["jmars"]:
                raise ClusterStartError(
                    f"the scheduler of the Dask cluster at {self.address} has no jmars, and reads the graphs of "
                    "groups; install jmars there too"
                )
            places = placing_plugin(self._name, self._topic, client.id)  # first: removes plugins of a killed client
            await self._cross(partial(client.register_plugin, places, name=self._topic))
            await self._cross(partial(client.subscribe_topic, self._topic, self._heard))
            await self._cross(partial(client.register_plugin, memory_plugin(self._topic), name=self._topic))
            known, _ = await self._workers.look()
            self._direct = bool(known) and await can_dial(known[0].key)
            self._spawn(self._poll)
            return known

    async def close(self) -> None:
        """Release all results, and take plugin, resource, topic and keys from the Dask cluster."""
        if self._is_closed or self._client is None:
            return
        for task in self._background:
            task.cancel()
        kept = list(self.results.values())
        self._drop()
        self._let_go(kept)
        self._thread.shutdown(wait=False)
        client = self._client
        with suppress(Exception):
            await self._cross(self._end_watchers)
        if client.status == "running":
            with suppress(Exception):
                async with asyncio.timeout(START_SECONDS):
                    await self._cross(partial(client.unregister_worker_plugin, self._topic))
            with suppress(Exception):
                await self._cross(partial(client.unsubscribe_topic, self._topic))
            clean = cleaner(self._topic, self._name)
            with suppress(Exception):  # a scheduler that runs no functions keeps an empty topic
                for _ in range(40):
                    if not await self._ask_scheduler(clean):
                        break
                    await asyncio.sleep(0.05)
        if client is not self._given:
            await client.close()

    # ------------------------------------------------------------------ tasks

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
            name = f"{self._name}-{task.name}" + (f"{AGAIN}{entry.attempt}" if entry.attempt else "")
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
            self._lose(f"the Dask client does not take tasks: {text_of(error)}")
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

    def _stop_tasks(self, job: int, dropped: Sequence[_Entry]) -> None:
        self._spawn(partial(self._raise_flag, job, dropped))

    async def _raise_flag(self, job: int, dropped: Sequence[_Entry]) -> None:
        """Raise a stop flag on all workers, which answer with the tasks of the job that began before."""
        try:
            began = await self._cross(partial(self._client.run, raise_flag(self._topic, job), on_error="ignore"))
            for worker, tasks in began.items():
                for entry in [self._tasks[name] for name in tasks if name in self._tasks]:
                    entry.worker = worker
        finally:
            self._end_dropped(dropped)

    def kill(self, tasks: Sequence[str]) -> bool:
        """Whether Dask ended tasks: never, since a worker also has other people's tasks and results."""
        return False

    # ------------------------------------------------------------------ chunks

    async def put(self, name: str, data: bytes, worker: str) -> None:
        """Store bytes on a worker; a worker that has left is replaced by any other worker."""
        is_there = worker in self._workers.present
        workers = [worker] if is_there else list(self._workers.present) or None
        key = f"jmars-put-{self._name}-{name}"
        array = np.frombuffer(data, np.uint8)
        scatter = partial(self._client.scatter, {key: array}, hash=False, direct=self._direct or None)
        patience = PUT_SECONDS + len(data) / PUT_SPEED if is_there else None  # Dask itself dials a dead worker for 30 s
        try:
            async with asyncio.timeout(patience):
                futures = await self._cross(partial(scatter, workers=workers))
        except (OSError, TimeoutError, ValueError, KeyError):
            if not is_there:
                raise
            others = [key for key in self._workers.present if key != worker] or None
            futures = await self._cross(partial(scatter, workers=others))
        self.results[Result(name, 0)] = Held(futures[key])

    async def read(self, result: Result, wanted: ChunkElements) -> bytes:
        """Elements of a chunk, cut out by a small task where the chunk lies."""
        held = self.results.get(result)
        if held is None:
            raise ChunkLostError(f"the Dask cluster does not have chunk {result.number} of {result.task}")
        self._reads += 1
        key = f"jmars-read-{self._name}-{self._reads}"

        async def cut_out() -> bytes:
            args = (cut_result, held.future, held.place, *wanted)
            part = self._client.submit(*args, key=key, pure=False, priority=READ_PRIORITY)
            try:
                found: bytes = await self._client.gather(part, direct=self._direct or None)
                return found
            except Exception as error:  # Dask's cancellation too
                raise ChunkLostError(
                    f"chunk {result.number} of {result.task} cannot be read from the Dask cluster: "
                    f"{type(error).__name__}: {text_of(error)}"
                ) from error
            finally:
                part.release()

        data: bytes = await self._cross(cut_out)
        return data

    # ------------------------------------------------------------------ workers

    async def memory(self) -> dict[str, dict[str, Any]]:
        """Memory of the workers at their last heartbeat."""
        return await self._workers.told_memory()

    def bandwidth(self) -> float | None:
        """Bytes a second between two workers, from the transfers of at least 1 MB that the workers log."""
        return self._links.bandwidth

    async def scale(self, n: int) -> None:
        """Ask the Dask cluster for workers."""
        await self._resize("scale", n)

    async def adapt(self, least: int, most: int) -> None:
        """Let the Dask cluster choose the number of its workers."""
        await self._resize("adapt", minimum=least, maximum=most)

    async def _resize(self, how: str, *args: int, **limits: int) -> None:
        cluster: Any = getattr(self._client, "cluster", None)
        method = getattr(cluster, how, None)
        if method is None:
            raise ClusterError(
                f"this Dask client cannot {how} its cluster; give Cluster.dask() the client of a cluster object, such "
                "as LocalCluster(...).get_client(), or add workers where they are started"
            )
        try:
            if getattr(cluster, "asynchronous", False) or getattr(cluster, "_asynchronous", False):
                await cross(self._client, partial(method, *args, **limits), cluster.loop.asyncio_loop)
            else:
                answer = await asyncio.to_thread(method, *args, **limits)
                if inspect.isawaitable(answer):
                    await answer
        except Exception as error:
            raise ClusterError(f"the Dask cluster cannot {how}: {type(error).__name__}: {text_of(error)}") from error

    def promises(self) -> Promises:
        """What Dask does not do as our own workers do."""
        ttl = self._facts.get("ttl") or dask.config.get("distributed.scheduler.worker-ttl", None) or "never"
        when = f"{ttl:.0f} s" if isinstance(ttl, int | float) else str(ttl)
        silent = f"Dask notices a worker that is silent but connected after {when} (worker-ttl)"
        if when == "never":
            silent = "Dask never gives up a worker that is silent but connected (worker-ttl is off)"
        return Promises(
            security_at(self.address),
            (
                silent,
                "a user's function that runs cannot be ended before it returns; kernels stop at the next block",
                "spilled chunks have no checksum",
                "memory is what each group declares, up to 60 % of a worker's limit; beyond the limit the nanny, if "
                "there is one, ends the worker",
                "groups on a lost worker run again, at most as often as Dask's allowed-failures says "
                f"({self._facts.get('failures', dask.config.get('distributed.scheduler.allowed-failures', 3))})",
            ),
        )

    async def _poll(self) -> None:
        """Look at workers every second, and at once when one joins; a look may hang when the scheduler is lost."""
        looking: asyncio.Task[None] | None = None
        while self._client.status == "running":
            with suppress(TimeoutError):
                await asyncio.wait_for(self._nudge.wait(), POLL)
            self._nudge.clear()
            if looking is None or looking.done():
                looking = self._spawn(self._look)
        self._lose(f"the Dask client is {self._client.status}: its scheduler is gone")

    async def _look(self) -> None:
        came, left = await self._workers.look()
        for key, why in left.items():
            self._left(key)
            self._events.left(key, why)
            self._watch_left = WATCHED
        for worker in came:
            self._events.came(worker)
        if came or left:
            await self._ask_scheduler(reviver(self._topic))
        if self._watch_left:
            is_recovering = any(held.future.status == "lost" for held in self.results.values())  # computed again
            self._watch_left = WATCHED if is_recovering else self._watch_left - 1
            lost = self._gone()
            if lost:
                self._events.lost(lost, "their worker left the Dask cluster and nothing can make them again", "exit")

    # ------------------------------------------------------------------ in the client's loop

    def _heard(self, event: tuple[float, bytes]) -> None:
        """A message of a worker about its tasks; an empty one comes from the plugin of a new worker."""
        if event[1]:
            self._post("message", event[1])
        else:
            with suppress(RuntimeError):  # the head is closed
                self._loop.call_soon_threadsafe(self._nudge.set)

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

    async def _end_watchers(self) -> None:
        """End the coroutines that watch futures; called in the client's loop."""
        watchers = list(self._watchers)
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)

    # ------------------------------------------------------------------ in the head's loop again

    def _hear(self, items: Sequence[Any]) -> None:
        killed: dict[str, list[str]] = {}
        for kind, *rest in items:
            if kind == "message":
                for name, said in pickle.loads(rest[0]):
                    if name == TRANSFERS:
                        self._links.observe(*said)
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
            self._started(name, said)
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
            self._fail(entry, error, (error.name or "") if isinstance(error, ModuleNotFoundError) else "")
        elif entry.task.job in self._stopped:
            self._forget(entry)
            self._events.ended(entry.task.name, GroupReport(entry.worker, stopped=True))
        elif reason == "scheduler-connection-lost" or self._client.status != "running":
            self._lose("Dask's scheduler is gone")
        elif reason == "lost dependencies" and entry.batch > 1:
            # Dask refuses a whole graph for a single lost input: resubmit each task by itself.
            self._forget(entry)
            self._add(_Entry(entry.task, released=entry.released, attempt=entry.attempt + 1))
        else:
            lost = self._gone() if reason == "lost dependencies" else ()
            self._lost(entry, f"Dask dropped it: {error}", "exit", lost)

    def _let_go(self, references: Sequence[Any]) -> None:
        """Release futures that watchers hold too; in the client's loop, where 10,000 do not take turns with it."""

        def release() -> None:
            for one in references:
                (one.future if isinstance(one, Held) else one).release()

        with suppress(RuntimeError):  # the client's loop is closed
            self._client_loop.call_soon_threadsafe(release)

    def _left(self, worker: str) -> None:
        """A worker is gone; Dask does not run its dropped tasks again."""
        for entry in [one for one in self._tasks.values() if one.is_dropped and one.worker == worker]:
            self._end(entry, GroupReport(worker))

    def _gone(self) -> list[str]:
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

    def _killed(self, tasks: Sequence[str], address: str) -> None:
        """Workers died under tasks too often."""

        async def tell() -> None:
            memory = address in await self._workers.killed_for_memory()
            names = ", ".join(tasks[:3]) + (" and others" if len(tasks) > 3 else "")
            ended = "was ended by its nanny for memory" if memory else "died"
            why = f"{address}, which {ended} while it had {names}"
            deaths = int(self._facts["failures"]) + 1
            self._events.lost(tasks, why, "memory" if memory else "signal", deaths)

        self._spawn(tell)

    # ------------------------------------------------------------------ between loops

    async def _cross(self, call: Callable[[], Any]) -> Any:
        return await cross(self._client, call)

    async def _ask_scheduler(self, function: Callable[..., Answer]) -> Answer:
        answer: Answer = await self._cross(partial(self._client.run_on_scheduler, function))
        return answer


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


MEMORY_EVENTS = "worker-restart-memory"  # topic of Dask's nannies
ANSWER = 3.0  # seconds for a new worker to answer; otherwise the next poll asks again
WORKER_DIAL_SECONDS = 1.0  # seconds to reach a worker from here, if it can be reached


async def cross(client: Any, call: Callable[[], Any], loop: asyncio.AbstractEventLoop | None = None) -> Any:
    """Call a function in the loop of a Dask client, or in any loop, and wait for the answer in this loop."""

    async def run() -> Any:
        answer = call()
        return await answer if inspect.isawaitable(answer) else answer

    there = loop or client.loop.asyncio_loop
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), there))


async def can_dial(address: str) -> bool:
    """Whether this machine can reach a worker; where not, data go through Dask's scheduler."""
    try:
        await dial(address.rpartition("://")[2], WORKER_DIAL_SECONDS)
    except (OSError, ValueError):
        return False
    return True


async def identities(client: Any) -> Mapping[str, Any]:
    """Dask's facts about all workers, by address."""
    # Versions that lack n_workers tell all workers.
    is_new = "n_workers" in inspect.signature(client.scheduler_info).parameters
    identity = partial(client.scheduler.identity, **({"n_workers": -1} if is_new else {}))
    workers: Mapping[str, Any] = (await cross(client, identity))["workers"]
    return workers


@dataclass(eq=False)
class DaskWorkers:
    """Table of the workers that group tasks may use.

    Attributes
    ----------
    client
        A `distributed.Client` that runs.
    present
        Workers by address.
    refused
        Addresses of workers with other versions.
    """

    client: Any
    present: dict[str, EngineWorker] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    _pids: dict[str, int] = field(default_factory=dict)

    async def check(self) -> list[str]:
        """Refuses new workers with other versions; returns a sentence for each refused worker."""
        keys = [key for key in await self._addresses() if key not in self._pids]
        if not keys:
            return []
        wrong = []
        for key, told in zip(keys, await asyncio.gather(*map(self._inspect, keys)), strict=True):
            if isinstance(told, OSError):  # TimeoutError, too
                continue  # the worker dies, or is about to answer: the next look asks again
            if isinstance(told, BaseException):
                wrong.append(f"{key}: {type(told).__name__}: {text_of(told)}")
            elif other := differences(told["versions"]):
                wrong.append(f"{key} has {other}")
            else:
                self._pids[key] = told["pid"]
                continue
            self.refused.add(key)
        return wrong

    async def look(self) -> tuple[list[EngineWorker], dict[str, str]]:
        """Workers that joined since the last look, and workers that left, with reasons."""
        there = set(await self._addresses())
        gone = [key for key in self.present if key not in there]
        killed = await self.killed_for_memory() if gone else set()
        left = {}
        for key in gone:
            del self.present[key]
            self._pids.pop(key, None)
            why = "its nanny ended it for memory" if key in killed else "it left the Dask cluster"
            left[key] = f"worker {key}: {why}"
        self.refused &= there
        came: list[EngineWorker] = []
        if there - set(self.present) - self.refused:
            for wrong in await self.check():
                _logger.warning("a Dask worker differs from this process and its results cannot be trusted: %s", wrong)
            came = await self._describe(there)
            self.present |= {worker.key: worker for worker in came}
        return came, left

    async def told_memory(self) -> dict[str, dict[str, Any]]:
        """Memory of the workers at their last heartbeat."""
        found: dict[str, dict[str, Any]] = {}
        for key, told in (await identities(self.client)).items():
            if key in self.present:
                metrics = told.get("metrics", {})
                spilled = metrics.get("spilled_bytes", {}).get("disk", 0)
                told_now = {"pid": self._pids.get(key), "resident": metrics.get("memory"), "spilled": spilled}
                found[key] = {name: figure for name, figure in told_now.items() if figure is not None}
        return found

    async def killed_for_memory(self) -> set[str]:
        """Workers that their nannies ended for memory."""
        with suppress(Exception):
            events = await cross(self.client, partial(self.client.get_events, MEMORY_EVENTS))
            return {event["worker"] for _, event in events}
        return set()

    async def _inspect(self, key: str) -> Any:
        """The answer of `inspect_worker` in a worker, or the error; one that is stopped holds up no other."""
        ask = partial(self.client.run, inspect_worker, workers=[key], on_error="return")
        try:
            async with asyncio.timeout(ANSWER):
                return (await cross(self.client, ask))[key]
        except OSError as error:
            return error

    async def _addresses(self) -> list[str]:
        return list(await cross(self.client, self.client.nthreads))

    async def _describe(self, there: set[str]) -> list[EngineWorker]:
        """New workers with declared memory; workers without are described at a later look."""
        found = []
        for key, told in (await identities(self.client)).items():
            memory = int(told.get("resources", {}).get(RESOURCE, 0)) * MEGABYTE
            if memory and key in there and key in self._pids and key not in self.present:
                host, name = str(told.get("host", "")), str(told.get("name", key))
                found.append(EngineWorker(key, name, host, int(told["nthreads"]), memory))
        return found
