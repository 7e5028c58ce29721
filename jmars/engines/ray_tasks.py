"""Group tasks on a Ray cluster: submission, references, cancellation, results and errors.

All methods are called in the loop of the head, `_send_batch` and `_cancel` in the thread that submits. A future of Ray
awaits the report of a task, and costs 35 µs; `ray.wait` takes 30 ms of CPU a call for 10,000 references.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray
from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayTaskError,
    TaskCancelledError,
    WorkerCrashedError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jmars.engines.engine import EngineEvents, GroupReport, GroupTask, Result
from jmars.errors import text_of
from jmars.model.failure import Failure

__all__ = ["RayTasks", "cause_of", "module_missing", "settled"]

BATCH = 100  # tasks that are submitted before the loop hears of them
GRACE = 1.0  # seconds in which a task that was dropped may end by itself
RETRIES = 3  # times that Ray runs a task again whose process died
STOPPED_JOBS = 256  # that are remembered
LEAST_MEMORY = 2**20  # bytes that a task asks for at least

LOST = (ObjectLostError, WorkerCrashedError, NodeDiedError, OutOfMemoryError)  # the first with all that it covers


@dataclass(eq=False, slots=True)
class _Task:
    """A task that has not ended."""

    task: GroupTask
    report: Any = None  # reference; None before the submission
    worker: str = ""  # that started it
    answer: Future[Any] | None = None  # report or error
    released: set[Result] = field(default_factory=set)  # before the submission


@dataclass(eq=False)
class RayTasks:
    """Tasks and results of one cluster of jmars on a Ray cluster.

    Attributes
    ----------
    function
        The remote function of group tasks.
    thread
        Executor of one thread: submissions and cancellations are in order.
    nodes
        Nodes that are there, as keys; a task may be planned for another node.
    memory
        Bytes that a task may ask for; 0 where Ray's nodes tell no memory.
    closed
        Called with the reason when Ray is gone.
    references
        Results that are kept.
    """

    function: Any
    thread: Executor
    events: EngineEvents
    closed: Callable[[str], None]
    nodes: set[str] = field(default_factory=set)
    memory: int = 0
    references: dict[Result, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[str, _Task] = {}
        self._unsent: deque[_Task] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._readers: Counter[Result] = Counter()  # tasks that are not sent, by input
        self._unreleased: set[Result] = set()  # to release when their readers are sent
        self._stopped: dict[int, None] = {}  # jobs, oldest first
        self._inbox: deque[tuple[_Task, Future[Any]]] = deque()
        self._is_woken = False

    def __len__(self) -> int:
        return len(self._tasks)

    def submit(self, task: GroupTask) -> None:
        """Queue a task."""
        entry = self._tasks[task.name] = _Task(task)
        self._unsent.append(entry)
        self._readers.update(task.inputs)
        if self._sender is None:
            self._sender = self._loop.create_task(self._send())

    async def _send(self) -> None:
        """Submit batches until no task is left."""
        try:
            while self._unsent:
                batch = [self._unsent.popleft() for _ in range(min(BATCH, len(self._unsent)))]
                await self._submit_batch(batch)
                self._sent(batch)
        finally:
            self._sender = None

    async def _submit_batch(self, batch: Sequence[_Task]) -> None:
        made = {entry.task.name for entry in batch}
        known = {one: self.references.get(one) for entry in batch for one in entry.task.inputs if one.task not in made}
        submit = partial(self._send_batch, batch, known, set(self.nodes), self.memory)
        try:
            found = await self._loop.run_in_executor(self.thread, submit)
        except Exception as error:
            self.closed(f"Ray takes no tasks: {type(error).__name__}: {text_of(error)}")
            return
        late: list[_Task] = []
        for entry, references in zip(batch, found, strict=True):
            name = entry.task.name
            if references is None:
                self._lost(entry, [name], "its input is lost", "signal")
                continue
            entry.report = references[0]
            if self._tasks.get(name) is not entry:  # dropped meanwhile
                late.append(entry)
                continue
            self.references |= {Result(name, number): one for number, one in enumerate(references[1:])}
            for result in entry.released:
                self.references.pop(result, None)
            if entry.answer is not None:
                self._done(entry, entry.answer)
        self._cancel(late)

    def _send_batch(
        self, batch: Sequence[_Task], known: dict[Result, Any], nodes: set[str], most: int
    ) -> list[list[Any] | None]:
        """References of each task, the report first; None where an input is lost."""
        found: list[list[Any] | None] = []
        for entry in batch:
            task = entry.task
            inputs = [known.get(one) for one in task.inputs]
            if any(one is None for one in inputs):
                found.append(None)
                continue
            options: dict[str, Any] = {"name": task.name, "num_returns": 1 + task.outputs, "max_retries": RETRIES}
            if task.worker in nodes:  # or where a CPU is free, while the planned node has none
                planned = NodeAffinitySchedulingStrategy(task.worker, soft=True, _spill_on_unavailable=True)
                options["scheduling_strategy"] = planned
            if most:
                options["memory"] = _rounded(task.memory, most)
            call = self.function.options(num_cpus=1, **options)
            references = call.remote(task.name, task.job, task.outputs, task.spec, *inputs)
            if not task.outputs:
                references = [references]
            known |= {Result(task.name, number): one for number, one in enumerate(references[1:])}
            references[0].future().add_done_callback(partial(self._post, entry))
            found.append(references)
        return found

    def _sent(self, entries: Iterable[_Task]) -> None:
        """Release results whose last readers have been submitted or dropped."""
        for entry in entries:
            for one in entry.task.inputs:
                self._readers[one] -= 1
                if self._readers[one] <= 0:
                    del self._readers[one]
                    if one in self._unreleased:
                        self._unreleased.discard(one)
                        self.release([one])

    def release(self, results: Sequence[Result]) -> None:
        """Drop references; Ray frees results when no task reads them."""
        for result in results:
            entry = self._tasks.get(result.task)
            if result in self._readers:
                self._unreleased.add(result)
            elif entry is not None and entry.report is None:
                entry.released.add(result)
            else:
                self.references.pop(result, None)

    def stop(self, job: int, tasks: Sequence[str]) -> None:
        """Cancel the tasks without a known start; running tasks see the stop flag of the job."""
        self._stopped[job] = None
        while len(self._stopped) > STOPPED_JOBS:
            del self._stopped[next(iter(self._stopped))]
        dropped = [self._tasks[name] for name in tasks if name in self._tasks and not self._tasks[name].worker]
        unsent = set(self._unsent) & set(dropped)
        self._unsent = deque(entry for entry in self._unsent if entry not in unsent)
        self._sent(unsent)
        self._cancel([entry for entry in dropped if entry.report is not None])
        for entry in dropped:
            self._forget(entry)
            self._loop.call_soon(self.events.ended, entry.task.name, GroupReport("", stopped=True))

    def _cancel(self, entries: Sequence[_Task]) -> None:
        """Cancel tasks; tasks that run nonetheless are ended by force after GRACE seconds."""
        if entries:
            self.thread.submit(_cancel, [entry.report for entry in entries], False)
            self._loop.call_later(GRACE, self._force, entries)

    @property
    def stopped(self) -> Sequence[int]:
        """Jobs whose stop flags are up."""
        return tuple(self._stopped)

    def kill(self, tasks: Sequence[str]) -> None:
        """End the processes of tasks."""
        self._force([self._tasks[name] for name in tasks if name in self._tasks])

    def _force(self, entries: Sequence[_Task]) -> None:
        left = [entry.report for entry in entries if entry.report is not None and entry.answer is None]
        if left:
            self.thread.submit(_cancel, left, True)

    async def drop(self) -> None:
        """Forget all tasks and results; a task that still runs after GRACE seconds is ended by force."""
        if self._sender is not None:
            self._sender.cancel()
        self._unsent.clear()
        reports = [entry.report for entry in self._tasks.values() if entry.report is not None]
        self._tasks.clear()
        self.references.clear()
        self._readers.clear()
        if reports:
            await self._loop.run_in_executor(self.thread, _cancel, reports, False)
            _, left = await self._loop.run_in_executor(self.thread, _wait, reports)
            await self._loop.run_in_executor(self.thread, _cancel, left, True)

    def started(self, name: str, worker: str) -> None:
        """A task runs."""
        entry = self._tasks.get(name)
        if entry is not None:
            entry.worker = worker
            self.events.started(name, worker)

    # ------------------------------------------------------------------ in a thread of Ray

    def _post(self, entry: _Task, answer: Future[Any]) -> None:
        self._inbox.append((entry, answer))
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the head is closed
                self._inbox.clear()

    # ------------------------------------------------------------------ in the head's loop again

    def _drain(self) -> None:
        self._is_woken = False
        while self._inbox:
            entry, answer = self._inbox.popleft()
            entry.answer = answer
            if self._tasks.get(entry.task.name) is entry and entry.report is not None:
                self._done(entry, answer)

    def _done(self, entry: _Task, answer: Future[Any]) -> None:
        """The report of a task came, or its error."""
        name, error = entry.task.name, answer.exception()
        if error is None:
            del self._tasks[name]
            self.events.ended(name, answer.result())
            return
        cause = cause_of(error)
        if isinstance(cause, LocalRayletDiedError):
            self.closed("Ray's node of this process is gone")
        elif entry.task.job in self._stopped and isinstance(cause, TaskCancelledError | WorkerCrashedError):
            self._forget(entry)
            self.events.ended(name, GroupReport(entry.worker, stopped=True))
        elif isinstance(cause, LOST):
            how = "memory" if isinstance(cause, OutOfMemoryError) else "signal"
            lost = self._made_by(getattr(cause, "object_ref_hex", None))
            self._lost(entry, [*lost, name], f"{type(cause).__name__}: {_first_line(cause)}", how)
        elif isinstance(cause, TaskCancelledError):
            self._lost(entry, [name], "Ray cancelled it", "exit")
        else:
            self._forget(entry)
            self.events.failed(name, _failure(error))

    def _made_by(self, identity: str | None) -> list[str]:
        """The ended task of a lost reference."""
        found = [result.task for result, one in self.references.items() if identity and one.hex() == identity]
        return [name for name in found if name not in self._tasks]

    def _lost(self, entry: _Task, names: Sequence[str], why: str, how: str) -> None:
        self._forget(entry)
        gone = set(names)
        self.references = {result: one for result, one in self.references.items() if result.task not in gone}
        self._loop.call_soon(self.events.lost, names, f"task {entry.task.name} cannot run: {why}", how)

    def _forget(self, entry: _Task) -> None:
        if self._tasks.get(entry.task.name) is entry:
            del self._tasks[entry.task.name]
        for number in range(entry.task.outputs):
            output = self.references.pop(Result(entry.task.name, number), None)
            if output is not None:
                output.future()  # Ray prints errors that nothing reads


def settled(reference: Any) -> asyncio.Future[Any]:
    """The value of a reference, in this loop; Ray's own future may not be cancelled."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Any] = loop.create_future()

    def settle(answer: Future[Any]) -> None:
        if found.done():
            answer.exception()
        elif (error := answer.exception()) is not None:
            found.set_exception(error)
        else:
            found.set_result(answer.result())

    def post(answer: Future[Any]) -> None:
        with suppress(RuntimeError):  # the head is closed
            loop.call_soon_threadsafe(settle, answer)

    reference.future().add_done_callback(post)
    return found


def cause_of(error: BaseException) -> BaseException:
    """The exception of a task, in place of Ray's error about the task."""
    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException) and error.cause is not error:
        error = error.cause
    return error


def module_missing(error: BaseException) -> str:
    """Name of the module that a worker lacks; "" for other errors.

    Examples
    --------
    >>> module_missing(ModuleNotFoundError("No module named 'mine'", name="mine"))
    'mine'
    """
    cause = cause_of(error)
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        return cause.name
    found = re.search(r"ModuleNotFoundError: No module named '([^']+)'", str(error))
    return found[1] if found else ""


def _failure(error: BaseException) -> Failure:
    module = module_missing(error)
    if module:
        text = f"the Ray worker has no module {module!r}: install it on the nodes"
        return Failure.of(ModuleNotFoundError(text, name=module))
    return Failure.of(cause_of(error))


def _first_line(error: BaseException) -> str:
    return text_of(error).partition("\n")[0]


def _rounded(size: int, most: int) -> int:
    """A power of two of bytes, or `most`: Ray has a queue and processes for each demand.

    Examples
    --------
    >>> _rounded(5 * 2**20, 2**30) // 2**20
    8
    """
    return min(most, max(LEAST_MEMORY, 1 << (size - 1).bit_length()))


def _cancel(references: Sequence[Any], force: bool) -> None:
    for one in references:
        with suppress(Exception):  # it has ended, or Ray is gone
            ray.cancel(one, force=force, recursive=False)


def _wait(references: Sequence[Any]) -> Any:
    return ray.wait(list(references), num_returns=len(references), timeout=GRACE, fetch_local=False)
