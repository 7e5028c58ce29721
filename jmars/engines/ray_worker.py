"""Code of jmars in the processes of a Ray cluster: group tasks, and a small actor for stop flags and starts.

A worker process of Ray runs a task at a time. While a task runs, a thread of the process waits for stop flags at the
actor `Board` and tells the actor of the task; an idle process asks no more, so that Ray may end the process.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

import psutil
import ray
from ray.exceptions import ActorUnavailableError, RayActorError

from jmars.kernels.group_run import GroupReport
from jmars.model.versions import versions
from jmars.storage.chunks import ChunkElements

PERIOD = 0.1  # seconds between messages of a process, and between messages to the head
WAIT = 1.0  # seconds until the actor answers a question for flags that did not change
HEARD_WAIT = 30.0  # seconds until the actor answers the head without news
LINGER = 5.0  # seconds for which the thread of a process waits for the next task
MEMORY_SECONDS = 3.0  # seconds for which the memory of a process counts
REMEMBERED = 256  # stop flags of ended jobs

Runner = Callable[[bytes, Sequence[Any], Callable[[], bool], str], tuple[GroupReport, Sequence[Any]]]


class Board:
    """Actor without a CPU: stop flags for the worker processes, and starts of tasks for the head.

    A question waits in the actor for its answer (a long poll), so processes do not poll at a high rate.
    """

    def __init__(self) -> None:
        self._stopped: dict[int, None] = {}  # jobs, oldest first
        self._version = 0
        self._flags_changed = asyncio.Event()
        self._starts: list[tuple[str, str]] = []
        self._starts_came = asyncio.Event()
        self._processes: dict[tuple[str, int], tuple[int, float]] = {}  # resident bytes and when, by node and pid

    async def stop(self, jobs: Sequence[int]) -> None:
        """Raise the stop flags of jobs."""
        self._stopped |= dict.fromkeys(jobs)
        while len(self._stopped) > REMEMBERED:
            del self._stopped[next(iter(self._stopped))]
        self._version += 1
        changed, self._flags_changed = self._flags_changed, asyncio.Event()
        changed.set()

    async def flags(self, version: int, node: str, pid: int, resident: int) -> tuple[int, tuple[int, ...]]:
        """Version and stopped jobs, at once where the version is another, else after WAIT seconds."""
        self._processes[node, pid] = resident, monotonic()
        if version == self._version:
            try:
                async with asyncio.timeout(WAIT):
                    await self._flags_changed.wait()
            except TimeoutError:
                pass
        return self._version, tuple(self._stopped)

    async def tell(self, task: str, node: str) -> None:
        """A task has started on a node."""
        self._starts.append((task, node))
        self._starts_came.set()

    async def heard(self) -> list[tuple[str, str]]:
        """Tasks that have started, with their nodes; waits for the first."""
        try:
            async with asyncio.timeout(HEARD_WAIT):
                await self._starts_came.wait()
            await asyncio.sleep(PERIOD)
        except TimeoutError:
            pass
        starts, self._starts = self._starts, []
        self._starts_came.clear()
        return starts

    async def resident(self) -> dict[str, int]:
        """Bytes of the processes that run groups, by node."""
        now = monotonic()
        found: dict[str, int] = {}
        self._processes = {key: one for key, one in self._processes.items() if now - one[1] < MEMORY_SECONDS}
        for (node, _), (size, _) in self._processes.items():
            found[node] = found.get(node, 0) + size
        return found


class _Process:
    """This process as a worker of a cluster: the task that runs, and the flags of stopped jobs."""

    def __init__(self, board: Any, node: str) -> None:
        self.node = node
        self._board = board
        self._stopped: frozenset[int] = frozenset()
        self._is_closed = False  # the head has ended the actor
        self._task = ""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin(self, task: str) -> None:
        """A task runs from now on."""
        with self._changed:
            self._task = task
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="jmars-flags", daemon=True)
                self._thread.start()

    def end(self) -> None:
        """No task runs."""
        self._task = ""

    def is_stopped(self, job: int) -> bool:
        """Whether a job's stop flag is up."""
        return self._is_closed or job in self._stopped

    def _watch(self) -> None:
        """Ask for flags while tasks run, and tell of tasks that run for longer than PERIOD."""
        process = psutil.Process()
        version, told, question = 0, "", None
        while True:
            with self._changed:
                if question is None and not self._changed.wait_for(lambda: self._task, LINGER):
                    self._thread = None
                    return
            task = self._task
            if task and task != told:
                self._board.tell.remote(task, self.node)
                told = task
            if question is None:
                question = self._board.flags.remote(version, self.node, process.pid, process.memory_info().rss)
            if not ray.wait([question], timeout=PERIOD)[0]:
                continue
            try:
                version, stopped = ray.get(question)
                self._stopped = frozenset(stopped)
            except ActorUnavailableError:  # the actor restarts elsewhere; the head tells it of stopped jobs
                version = 0
            except RayActorError:
                self._is_closed = True
                with self._changed:
                    self._thread = None
                return
            question = None


_lock = threading.Lock()
_processes: dict[Any, _Process] = {}  # by actor: clusters of a driver share the processes


def _process(board: Any) -> _Process:
    with _lock:
        found = _processes.get(board._actor_id)
        if found is None:
            found = _processes[board._actor_id] = _Process(board, ray.get_runtime_context().get_node_id())
        return found


def run_task(runner: Runner, board: Any, task: str, job: int, outputs: int, spec: bytes, inputs: Sequence[Any]) -> Any:
    """A task of Ray: runs a group of operands; returns its report, and with outputs a tuple of report and chunks."""
    process = _process(board)
    process.begin(task)
    try:
        report, chunks = runner(spec, inputs, partial(process.is_stopped, job), process.node)
    finally:
        process.end()
    return (report, *chunks) if outputs else report


def group_function(runner: Runner, board: Any) -> Callable[..., Any]:
    """The function of all group tasks of a cluster; Ray sends it once to each process."""

    def jmars_group(task: str, job: int, outputs: int, spec: bytes, *inputs: Any) -> Any:
        return run_task(runner, board, task, job, outputs, spec, inputs)

    return jmars_group


def cut_values(chunk: Any, *wanted: Any) -> bytes:
    """A task of Ray: `ChunkElements` of a chunk, where the chunk is."""
    return ChunkElements(*wanted).cut(chunk)


def inspect_node() -> dict[str, str]:
    """A task of Ray: versions of a node, and its process."""
    return versions() | {"pid": str(os.getpid())}
