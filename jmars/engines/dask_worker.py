"""Functions in the workers and in the scheduler of a Dask cluster: group tasks, stop flags, plugins, clean-up.

A worker imports this module with the first group task. The memory plugin is a local class, so that cloudpickle sends
its code: a late worker without jmars must not fail.

In the scheduler (places of group tasks, facts, clean-up) all are local classes and functions, so that cloudpickle sends
their code: a scheduler imports nothing of this module.
Source: docs/explanation/seeds.md, "Execution in a worker", "Execution control".
"""

from __future__ import annotations

import asyncio
import importlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import takewhile
from operator import attrgetter
from threading import Lock
from time import monotonic
from typing import Any

import psutil
from distributed import get_worker
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin
from tornado.ioloop import PeriodicCallback

from jmars.kernels.group_run import GroupReport
from jmars.model.versions import versions
from jmars.storage.chunks import ChunkElements

RESOURCE = "jmars-MB"  # Dask resource: memory of a worker that group tasks may take
MEGABYTE = 10**6
SHARE = 0.6  # of a worker's memory limit: Dask spills above
PERIOD = 0.1  # seconds between messages of a worker about its tasks, on average
RUN, AGAIN = "jmars-run-", "-again-"  # parts of a task's key: RUN, cluster, name, AGAIN with a number
TRANSFERS = ""  # in place of a task's name: bytes and seconds of transfers from other workers
LARGE = 10**6  # bytes: shorter transfers tell of latency
BURST = 10  # messages that may leave at once after a pause
REMEMBERED = 256  # stop flags of ended jobs, and closed clusters

Bundles = tuple[tuple[int, ...], ...]
Runner = Callable[[bytes, Sequence[Any], Callable[[], bool], str], tuple[GroupReport, Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class TaskCall:
    """The task of `run_task` without chunks; Dask looks for keys in tuples and lists, and not in this object.

    Attributes
    ----------
    topic
        Of the cluster's messages.
    task
        Name.
    job
        Number of the job.
    bundles
        Numbers of the results in each bundle.
    spec
        A pickled `GroupSpec`.
    places
        Of each input of the spec: the part, and the place in the part; None where the part is the chunk.
    """

    topic: str
    task: str
    job: int
    bundles: Bundles
    spec: bytes
    places: tuple[tuple[int, int | None], ...]


def run_task(runner: Runner, call: TaskCall, parts: Sequence[Any]) -> Any:
    """Task of Dask: runs a group of operands, sends start and report to the head, and returns chunks.

    Parameters
    ----------
    runner
        Runs the group.
    call
        The task.
    parts
        Results of Dask, each read once: chunks and bundles of chunks.

    Returns
    -------
    The only bundle, a tuple of several bundles, or None. A bundle is a chunk, or a tuple of several chunks.
    """
    worker: Any = get_worker()
    channel = _channel(worker, call.topic)
    running = call.topic, call.task
    with _lock:
        _running[running] = call.job
    try:
        if not channel.knows(call.task):  # first task: this module was not loaded when the task was about to begin
            channel.begin(call.task)
            worker.loop.add_callback(channel.flush)
        inputs = [parts[part] if place is None else parts[part][place] for part, place in call.places]
        report, chunks = runner(call.spec, inputs, partial(_is_stopped, call.topic, call.job), worker.address)
        channel.add((call.task, report))  # leaves with the end of the task
    finally:
        _running.pop(running, None)
    found = [chunks[one[0]] if len(one) == 1 else tuple([chunks[number] for number in one]) for one in call.bundles]
    if len(found) < 2:
        return found[0] if found else None
    return tuple(found)


def cut_result(value: Any, place: int | None, *wanted: Any) -> bytes:
    """Task of Dask: `ChunkElements` of a chunk, or of the chunk at a place in a bundle."""
    return ChunkElements(*wanted).cut(value if place is None else value[place])


class _Channel:
    """Messages of a worker's tasks to the head: at once after a pause and when no task waits, together where tasks are
    short.

    They leave in the worker's loop when Dask's worker moves a task, in one message with what it says itself then: the
    end of a task, its report and the start of the next task cost the wire and Dask's scheduler one message, not three.
    """

    def __init__(self, worker: Any, topic: str) -> None:
        self._worker, self._topic = worker, topic
        self._items: list[Any] = []
        self._begun: dict[str, None] = {}  # tasks that were told last
        self._due = 0.0  # monotonic time from which the next message may be sent
        self._is_waiting = False
        self._last: Any = None  # entry of the worker's log of transfers

    def knows(self, task: str) -> bool:
        """Whether the start of a task was told."""
        return task in self._begun

    def begin(self, task: str) -> None:
        """A task starts."""
        _remember(self._begun, task)
        self.add((task, self._worker.address))

    def add(self, item: Any) -> None:
        """Take an item for the next message; called by the threads of tasks too."""
        self._items.append(item)

    def flush(self) -> None:
        """Send the items, now or with other items; called in the worker's loop."""
        state = self._worker.state
        is_last = not (state.ready or state.constrained)
        if not self._items or (self._is_waiting and not is_last):
            return
        now = monotonic()
        self._due = max(self._due + PERIOD, now - (BURST - 1) * PERIOD)
        if is_last or self._due <= now:
            self._send()
        else:
            self._is_waiting = True
            self._worker.loop.call_later(self._due - now, self._send)

    def _send(self) -> None:
        self._is_waiting = False
        items = self._items[:]
        del self._items[: len(items)]  # a thread may append meanwhile
        if items and (moved := self._moved())[0]:
            items.append((TRANSFERS, moved))
        if items and self._topic not in _closed:  # the scheduler would keep the topic of a closed cluster
            self._worker.log_event(self._topic, pickle.dumps(items))

    def _moved(self) -> tuple[int, float]:
        """Bytes and seconds of the large transfers to this worker since the last message."""
        log = list(self._worker.transfer_incoming_log)
        new = list(takewhile(lambda entry: entry is not self._last, reversed(log)))
        self._last = log[-1] if log else None
        large = [entry for entry in new if entry["total"] >= LARGE]
        return sum(entry["total"] for entry in large), sum(entry["duration"] for entry in large)


_lock = Lock()
_channels: dict[tuple[str, str], _Channel] = {}  # by worker address, since a process may have several workers
_flags: dict[str, dict[int, None]] = {}  # stopped jobs by topic, oldest first
_running: dict[tuple[str, str], int] = {}  # jobs by topic and task
_closed: dict[str, None] = {}  # topics of clusters that are closed


def _channel(worker: Any, topic: str) -> _Channel:
    with _lock:
        key = worker.address, topic
        if key not in _channels:
            _channels[key] = _Channel(worker, topic)
        return _channels[key]


def task_moved(worker: Any, topic: str, key: Any, finish: str) -> None:
    """A task of a worker has another state; called in the worker's loop."""
    if finish == "executing" and isinstance(key, str) and key.startswith(RUN):
        cluster, name = topic.removeprefix("jmars-"), key.removeprefix(RUN)
        if name.startswith(f"{cluster}-"):
            _channel(worker, topic).begin(name[len(cluster) + 1 :].partition(AGAIN)[0])
    channel = _channels.get((worker.address, topic))
    if channel is not None:
        channel.flush()


def _is_stopped(topic: str, job: int) -> bool:
    return topic in _closed or job in _flags.get(topic, ())


def set_flag(topic: str, job: int) -> list[str]:
    """Raise the stop flag of a job on this worker; returns tasks that began before."""
    with _lock:
        _remember(_flags.setdefault(topic, {}), job)
        return [task for (other, task), number in _running.items() if (other, number) == (topic, job)]


def forget(topic: str) -> None:
    """End a closed cluster on this worker: running tasks stop; flags and messages are deleted."""
    with _lock:
        _remember(_closed, topic)
        _flags.pop(topic, None)
        for key in [key for key in _channels if key[1] == topic]:
            del _channels[key]


def _remember(seen: dict[Any, None], key: Any) -> None:
    seen[key] = None
    while len(seen) > REMEMBERED:
        del seen[next(iter(seen))]


def raise_flag(topic: str, job: int) -> Callable[[], list[str]]:
    """Function for `Client.run`: `set_flag`; workers without jmars do nothing."""
    name = __name__

    def raise_it() -> list[str]:
        return sys.modules[name].set_flag(topic, job) if name in sys.modules else []

    return raise_it


def memory_plugin(topic: str) -> WorkerPlugin:
    """Worker plugin that declares the memory of a worker as a resource; clusters on the same worker share it.

    Dask starts a task only where the task's resources are free, so a worker with other versions than this process, or
    without jmars, declares none and gets no group tasks.
    """
    module, tell, wanted = __name__, versions.__module__, versions()

    class JmarsMemory(WorkerPlugin):
        worker: Any

        async def setup(self, worker: Any) -> None:
            self.worker = worker
            if not hasattr(worker, "jmars_topics"):
                worker.jmars_topics = set()
            worker.jmars_topics.add(topic)
            if self.has_versions() and len(worker.jmars_topics) == 1:  # a scheduler forgets after the last cluster
                limit = worker.memory_manager.memory_limit or psutil.virtual_memory().total
                await worker.set_resources(**{RESOURCE: max(1, int(limit * SHARE / MEGABYTE))})
            worker.log_event(topic, b"")

        def has_versions(self) -> bool:
            try:
                found: bool = importlib.import_module(tell).versions() == wanted
                return found
            except Exception:  # no jmars, or a jmars without such a function
                return False

        def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
            if module in sys.modules:
                sys.modules[module].task_moved(self.worker, topic, key, finish)

        def teardown(self, worker: Any) -> None:
            worker.jmars_topics.discard(topic)
            if module in sys.modules:
                sys.modules[module].forget(topic)
            worker.loop.call_later(1.0, self.remove)

        def remove(self) -> None:
            """Delete the resource after the last group task: Dask fails where a task's resource is unknown."""
            state = self.worker.state
            if self.worker.jmars_topics or self.worker.status.name.startswith("clos"):
                return
            if any(RESOURCE in (task.resource_restrictions or ()) for task in state.tasks.values()):
                self.worker.loop.call_later(1.0, self.remove)
            else:
                state.total_resources.pop(RESOURCE, None)
                state.available_resources.pop(RESOURCE, None)

    return JmarsMemory()


def inspect_worker(dask_worker: Any) -> dict[str, Any]:
    """Versions and process id of a worker, for `Client.run`."""
    return {"pid": os.getpid(), "versions": versions()}


LONG = 1.0  # seconds: tasks behind a task that runs for longer go elsewhere
LATE = 5.0  # seconds in which a worker's message may come after the end
TRIES = 200  # to find the last task of a client that is gone, in 10 s
LOOK_PERIOD = 0.5  # seconds between looks for such tasks, as often as workers tell


def placing_plugin(cluster: str, topic: str, owner: str) -> SchedulerPlugin:
    """Scheduler plugin that chooses where the group tasks of a cluster of jmars run.

    **Places.** The planned worker is a preference, the memory of the task a condition. Dask's `allow_other_workers`
    would lift both: a task could come to a worker without the resource, where Dask fails, or to a worker with other
    versions. The plugin deletes the planned worker when the task is given to a worker, so that Dask's stealing may move
    the task, or when that worker cannot take the task. A demand beyond every worker is lowered to the largest.

    **Busy workers.** Idle workers take tasks that wait behind a long task. Dask's stealing reckons with the mean time
    of all tasks with the same prefix, so that short tasks would wait there for seconds, and outputs for ever.

    **A killed kernel.** Dask frees the tasks of a client that is gone; where that client is `owner`, the plugin removes
    worker plugin, topic, resource and itself.
    """
    clean = cleaner(topic, cluster)

    class JmarsPlaces(SchedulerPlugin):
        scheduler: Any

        async def start(self, scheduler: Any) -> None:
            self.scheduler = scheduler
            self.busy: set[Any] = set()
            self.is_due = False
            self.looking = PeriodicCallback(self.look, LOOK_PERIOD * 1000)
            self.looking.start()

        def end(self) -> None:
            self.looking.stop()

        async def close(self) -> None:
            self.end()

        def update_graph(self, scheduler: Any, *, tasks: Iterable[Any], **kwargs: Any) -> None:
            self.check(tasks)

        def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
            if finish == "processing" and self.is_ours(key):
                self.scheduler.tasks[key].worker_restrictions = None
            if self.busy and "processing" in (start, finish) and not self.is_due:
                self.is_due = True
                self.scheduler.loop.add_callback(self.move)

        def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
            self.check([key for key, task in scheduler.tasks.items() if task.state in ("waiting", "no-worker")])

        def remove_client(self, scheduler: Any, client: str) -> None:
            if client == owner:
                scheduler.loop.add_callback(self.clean_up)

        async def clean_up(self) -> None:
            """Remove everything that an ended client left."""
            with suppress(Exception):  # the client was gone before it had a worker plugin
                await self.scheduler.unregister_worker_plugin(comm=None, name=topic)
            for _ in range(TRIES):
                if not clean(self.scheduler):
                    return
                await asyncio.sleep(0.05)

        def is_ours(self, key: Any) -> bool:
            return isinstance(key, str) and key.startswith("jmars-") and cluster in key

        def check(self, keys: Iterable[Any]) -> None:
            """Lift conditions that no worker meets from tasks that no worker has."""
            there = self.scheduler.resources.get(RESOURCE, {})
            for key in filter(self.is_ours, keys):
                task = self.scheduler.tasks[key]
                asked = (task.resource_restrictions or {}).get(RESOURCE)
                if asked is not None and there and asked > max(there.values()):
                    asked = max(there.values())
                    task.resource_restrictions = {**task.resource_restrictions, RESOURCE: asked}
                planned = task.worker_restrictions or ()
                if planned and not any(there.get(worker, -1) >= (asked or 0) for worker in planned):
                    task.worker_restrictions = None

        def look(self) -> None:
            """Find workers with long tasks (over LONG seconds at the last heartbeat) in all threads."""
            self.busy = {
                worker
                for worker in self.scheduler.workers.values()
                if sum(seconds > LONG for task, seconds in worker.executing.items() if task in worker.processing)
                >= worker.nthreads
            }
            self.move()

        def move(self) -> None:
            """Ask busy workers for as many tasks as idle workers can start at once."""
            self.is_due = False
            stealing = self.scheduler.extensions["stealing"]
            free: dict[Any, int] = {}
            for worker in self.scheduler.running if self.busy else ():
                threads = worker.nthreads - len(worker.processing) - stealing.in_flight_tasks[worker]
                if threads > 0:
                    free[worker] = threads
            for victim in self.busy if free else ():
                waiting = [
                    task
                    for task in victim.processing
                    if self.is_ours(task.key) and task not in victim.executing and task not in stealing.in_flight
                ]
                for task in nsmallest(sum(free.values()), waiting, key=attrgetter("priority")):
                    valid = self.scheduler.valid_workers(task)
                    thief = next((worker for worker in free if valid is None or worker in valid), None)
                    if thief is not None:
                        stealing.move_task_request(task, victim, thief)
                        free[thief] -= 1
                        if not free[thief]:
                            del free[thief]

    return JmarsPlaces()


def reviver(plugin: str) -> Callable[..., None]:
    """Function for `Client.run_on_scheduler` that starts group tasks that Dask set aside for want of a worker.

    Dask tries such tasks again when a worker joins, but that worker has no resource yet.
    """

    def revive(dask_scheduler: Any) -> None:
        places = dask_scheduler.plugins[plugin]
        places.check([task.key for task in dask_scheduler.unrunnable])
        for worker in list(dask_scheduler.running):
            found = dask_scheduler.bulk_schedule_unrunnable_after_adding_worker(worker)
            dask_scheduler.transitions(found, plugin)

    return revive


def facts() -> Callable[..., dict[str, Any]]:
    """Function for `Client.run_on_scheduler`: `worker-ttl`, `allowed-failures`, and whether jmars is installed."""

    def tell(dask_scheduler: Any) -> dict[str, Any]:
        from importlib.util import find_spec

        has = find_spec("jmars") is not None
        return {"ttl": dask_scheduler.worker_ttl, "failures": dask_scheduler.allowed_failures, "jmars": has}

    return tell


def cleaner(topic: str, cluster: str) -> Callable[..., int]:
    """Function for `Client.run_on_scheduler` that deletes plugin, topic, resource; returns the number of leftovers.

    Call until the function returns 0, since releases travel on another connection. The resource stays while other
    clusters of jmars use the Dask cluster.
    """

    def clean(dask_scheduler: Any) -> int:
        places = dask_scheduler.plugins.pop(topic, None)
        if places is not None:
            places.end()
        left = sum(str(key).startswith("jmars-") and cluster in str(key) for key in dask_scheduler.tasks)
        with suppress(Exception):  # private in Dask; otherwise at most 1,000 events would stay
            left += dask_scheduler._broker._topics.pop(topic, None) is not None
        others = any(str(name).startswith("jmars-") for name in dask_scheduler.worker_plugins)
        if left:
            return left
        with suppress(Exception):  # a message of a worker may be on the way
            dask_scheduler.loop.call_later(LATE, dask_scheduler._broker._topics.pop, topic, None)
        if not others and not any(
            RESOURCE in (task.resource_restrictions or ()) for task in dask_scheduler.tasks.values()
        ):
            for worker in dask_scheduler.workers.values():
                worker.resources.pop(RESOURCE, None)
                worker.used_resources.pop(RESOURCE, None)
            dask_scheduler.resources.pop(RESOURCE, None)
        return 0

    return clean
