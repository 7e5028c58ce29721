"""Functions in the workers of a Dask cluster: group tasks, stop flags, and the memory plugin.

A worker imports this module with the first group task. The plugin is a local class, so that cloudpickle sends its code:
a late worker without jmars must not fail.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from threading import Lock
from time import monotonic
from typing import Any

import psutil
from distributed import get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from jmars.engines.parts import cut
from jmars.kernels.group_run import GroupReport
from jmars.model.versions import versions

__all__ = [
    "AGAIN",
    "MEGABYTE",
    "RESOURCE",
    "RUN",
    "TRANSFERS",
    "Runner",
    "TaskCall",
    "cut_result",
    "forget",
    "inspect_worker",
    "memory_plugin",
    "raise_flag",
    "run_task",
    "set_flag",
    "task_moved",
]

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
        if not channel.knows(call.task):  # the first one: this module was not there when it was about to begin
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


def cut_result(
    value: Any, place: int | None, start: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]
) -> bytes:
    """Task of Dask: elements of a chunk, or of the chunk at a place in a bundle; as `parts.cut`."""
    return cut(value if place is None else value[place], start, itemsize, shape, strides)


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
        self._due = 0.0  # monotonic time from which the next message may leave
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
        del self._items[: len(items)]  # a thread may add one meanwhile
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
