"""DaskEngine: a Dask cluster that runs groups of operands as its tasks.

Works beside other people's tasks: nothing is restarted, no worker is ended, and all that is ours goes at the end.
The head and the user's client have loops in different threads; calls cross over and never wait in a loop.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import uuid
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import dask
import numpy as np

from jmars.engines.dask_connect import check_client, connect, security_at
from jmars.engines.dask_scheduler import cleaner, facts, placing_plugin, reviver
from jmars.engines.dask_tasks import DaskTasks, Held
from jmars.engines.dask_worker import Runner, cut_result, memory_plugin, raise_flag
from jmars.engines.dask_workers import DaskWorkers, can_dial, cross
from jmars.engines.engine import START_SECONDS, EngineEvents, EngineWorker, GroupTask, Promises, Result
from jmars.engines.task import run_group
from jmars.errors import ChunkLostError, ClusterError, ClusterStartError, text_of

__all__ = ["DaskEngine"]

POLL = 1.0  # seconds between looks at Dask's workers
PUT_SECONDS, PUT_SPEED = 3.0, 2e7  # that a worker may take to answer, and bytes a second that it takes at least
WATCHED = 60  # looks at all results after a worker has left
READ_PRIORITY = 1  # before everything that waits

Answer = TypeVar("Answer")
_logger = logging.getLogger(__name__)


class DaskEngine:
    """TaskEngine over a Dask cluster.

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

    kind = "dask"
    task_seconds = 0.005, 0.003
    bundle = 2**25

    def __init__(self, client: Any, name: str = "", runner: Runner = run_group) -> None:
        self._given = os.fspath(client) if isinstance(client, os.PathLike) else client
        self._runner = runner
        self._name = name or uuid.uuid4().hex[:12]
        self._plugin = self._topic = f"jmars-{self._name}"
        self._client: Any = None
        self._facts: dict[str, Any] = {}  # of Dask's scheduler
        self._direct = False  # whether workers can be reached from here
        self._reads = 0
        self._watch = 0  # looks at all results that are still to do
        self._background: set[asyncio.Task[Any]] = set()
        self._is_lost = self._is_closed = False
        self.address = self._given if isinstance(self._given, str) else ""

    # ------------------------------------------------------------------ start and close

    async def start(self, events: EngineEvents) -> Sequence[EngineWorker]:
        """Connect, check the versions of the workers, and set their memory as a resource of Dask."""
        self._events, self._loop = events, asyncio.get_running_loop()
        self._nudge = asyncio.Event()
        self._client = await self._connect()
        try:
            async with asyncio.timeout(START_SECONDS):
                return await self._prepare(events)
        except BaseException as error:
            await self.close()
            if isinstance(error, ClusterError) or not isinstance(error, Exception):
                raise
            raise ClusterStartError(
                f"the Dask cluster at {self.address} could not be prepared: {type(error).__name__}: {text_of(error)}"
            ) from error

    async def _connect(self) -> Any:
        client = self._given
        if isinstance(client, str):
            client = await connect(client)
        else:
            check_client(client)
        self.address = str(client.scheduler.address)
        return client

    async def _prepare(self, events: EngineEvents) -> Sequence[EngineWorker]:
        client = self._client
        self._tasks = DaskTasks(client, self._name, self._topic, self._runner, events, self._lose, self._killed)
        self._workers = DaskWorkers(client)
        wrong = await self._workers.check()
        if wrong:
            raise ClusterStartError(
                f"the workers of the Dask cluster at {self.address} differ from this process: {'; '.join(wrong)}; "
                "use the same environment on all workers"
            )
        self._facts = await self._ask_scheduler(facts())
        if not self._facts["jmars"]:
            raise ClusterStartError(
                f"the scheduler of the Dask cluster at {self.address} has no jmars, and reads the graphs of groups; "
                "install jmars there too"
            )
        places = placing_plugin(self._name, self._topic, client.id)  # first: it removes the others from a killed client
        await self._cross(partial(client.register_plugin, places, name=self._plugin))
        await self._cross(partial(client.subscribe_topic, self._topic, self._heard))
        await self._cross(partial(client.register_plugin, memory_plugin(self._topic), name=self._plugin))
        known, _ = await self._workers.look()
        self._direct = bool(known) and await can_dial(known[0].key)
        self._spawn(self._poll)
        return known

    async def close(self) -> None:
        """Release all results, and take plugin, resource, topic and keys from the Dask cluster."""
        if self._is_closed or self._client is None:
            return
        self._is_closed = True
        for task in self._background:
            task.cancel()
        client = self._client
        tasks: DaskTasks | None = getattr(self, "_tasks", None)
        if tasks is not None:
            tasks.drop()
            with suppress(Exception):
                await self._cross(tasks.end_watchers)
        if client.status == "running" and tasks is not None:
            with suppress(Exception):
                async with asyncio.timeout(START_SECONDS):
                    await self._cross(partial(client.unregister_worker_plugin, self._plugin))
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

    def submit(self, task: GroupTask) -> None:
        """Queue a task."""
        self._tasks.submit(task)

    def release(self, results: Sequence[Result]) -> None:
        """Free results."""
        self._tasks.release(results)

    def stop(self, job: int, tasks: Sequence[str]) -> None:
        """Drop queued tasks; running tasks see the job's stop flag."""
        self._spawn(partial(self._raise_flag, job, self._tasks.stop(job, tasks)))

    async def _raise_flag(self, job: int, dropped: Sequence[Any]) -> None:
        running: dict[str, str] = {}
        try:
            told = await self._cross(partial(self._client.run, raise_flag(self._topic, job), on_error="ignore"))
            running = {task: worker for worker, tasks in told.items() for task in tasks}
        finally:
            self._tasks.flagged(dropped, running)

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
        self._tasks.results[Result(name, 0)] = Held(futures[key])

    async def read(
        self, result: Result, start: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]
    ) -> bytes:
        """Elements of a chunk, cut out by a small task where the chunk lies."""
        held = self._tasks.results.get(result)
        if held is None:
            raise ChunkLostError(f"the Dask cluster does not have chunk {result.number} of {result.task}")
        self._reads += 1
        key = f"jmars-read-{self._name}-{self._reads}"

        def submit() -> Any:
            args = (cut_result, held.future, held.place, start, itemsize, tuple(shape), tuple(strides))
            return self._client.submit(*args, key=key, pure=False, priority=READ_PRIORITY)

        async def cut_out() -> bytes:
            part = submit()
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
        return self._tasks.links.bandwidth

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
            self._tasks.left(key)
            self._events.left(key, why)
            self._watch = WATCHED
        for worker in came:
            self._events.came(worker)
        if came or left:
            await self._ask_scheduler(reviver(self._plugin))
        if self._watch:
            self._watch = WATCHED if self._tasks.recovering() else self._watch - 1
            lost = self._tasks.gone()
            if lost:
                self._events.lost(lost, "their worker left the Dask cluster and nothing can make them again", "exit")

    # ------------------------------------------------------------------ called back

    def _heard(self, event: tuple[float, bytes]) -> None:
        """A message of a worker; an empty one comes from the plugin of a new worker. Runs in the client's loop."""
        if event[1]:
            self._tasks.heard(event[1])
        else:
            with suppress(RuntimeError):  # the head is closed
                self._loop.call_soon_threadsafe(self._nudge.set)

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

    def _lose(self, why: str) -> None:
        if not self._is_lost and not self._is_closed:
            self._is_lost = True
            self._loop.call_soon(self._events.closed, why)

    # ------------------------------------------------------------------ between loops

    async def _cross(self, call: Callable[[], Any]) -> Any:
        return await cross(self._client, call)

    async def _ask_scheduler(self, function: Callable[..., Answer]) -> Answer:
        answer: Answer = await self._cross(partial(self._client.run_on_scheduler, function))
        return answer

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


async def _quietly(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    try:
        await work()
    except Exception as error:
        _logger.debug("a call of the Dask cluster failed: %s", error)
