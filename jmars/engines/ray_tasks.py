"""Group tasks on a Ray cluster: submission, references, cancellation, results and errors.

All methods are called in the loop of the head, `_submit` and the function `_cancel` in the thread that submits. A
future of Ray awaits the report of a task, and costs 35 µs; `ray.wait` takes 30 ms of CPU a call for 10,000 references.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

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

from jmars.engines.engine import GroupTask, Result
from jmars.engines.task_book import TaskBook, TaskEntry
from jmars.errors import text_of
from jmars.kernels.group_run import GroupReport
from jmars.model.messages import Failure

if TYPE_CHECKING:
    from jmars.engines.port import EngineWorkers

DROP_GRACE_SECONDS = 1.0  # for a dropped task to end by itself
HEARD_SECONDS = 0.5  # for the start of a task to be heard
RETRIES = 3  # times that Ray runs a task again whose process died
LEAST_MEMORY = 2**20  # bytes that a task asks for at least

LOST = (ObjectLostError, WorkerCrashedError, NodeDiedError, OutOfMemoryError)  # the first includes its subclasses


@dataclass(eq=False, slots=True)
class _Entry(TaskEntry):
    """A task that has not ended."""

    report: Any = None  # reference; None before the submission
    submitted: Any = None  # the same reference, from the moment of the submission
    answer: Future[Any] | None = None  # report or error


class RayTasks(TaskBook[_Entry]):
    """Tasks and results of one cluster of jmars on a Ray cluster; `results` are references.

    Parameters
    ----------
    function
        The remote function of group tasks.
    thread
        Executor of one thread: submissions and cancellations are in order.

    Attributes
    ----------
    nodes
        Nodes that are there, as keys; a task may be planned for another node.
    memory
        Bytes that a task may ask for; 0 where Ray's nodes tell no memory.
    """

    def __init__(self, function: Any, thread: Executor, events: EngineWorkers, closed: Callable[[str], None]) -> None:
        super().__init__(events, closed)
        self._function, self._thread = function, thread
        self.nodes: set[str] = set()
        self.memory = 0

    def _entry(self, task: GroupTask) -> _Entry:
        return _Entry(task)

    async def _send_batch(self, batch: Sequence[_Entry]) -> None:
        made = {entry.task.name for entry in batch}
        known = {one: self.results.get(one) for entry in batch for one in entry.task.inputs if one.task not in made}
        submit = partial(self._submit, batch, known, set(self.nodes), self.memory)
        try:
            found = await self._loop.run_in_executor(self._thread, submit)
        except Exception as error:
            self.closed(f"Ray takes no tasks: {type(error).__name__}: {text_of(error)}")
            return
        late: list[_Entry] = []
        for entry, references in zip(batch, found, strict=True):
            name = entry.task.name
            if references is None:
                self._lost(entry, "its input is lost", "signal")
                continue
            entry.report = references[0]
            if entry.is_dropped or self._tasks.get(name) is not entry:  # dropped meanwhile
                late.append(entry)
            else:
                self.results |= {Result(name, number): one for number, one in enumerate(references[1:])}
            if entry.answer is not None:
                self._done(entry, entry.answer)
        self._cancel(late)

    def _submit(
        self, batch: Sequence[_Entry], known: dict[Result, Any], nodes: set[str], most: int
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
            call = self._function.options(num_cpus=1, **options)
            references = call.remote(task.name, task.job, task.outputs, task.spec, *inputs)
            if not task.outputs:
                references = [references]
            known |= {Result(task.name, number): one for number, one in enumerate(references[1:])}
            entry.submitted = references[0]
            references[0].future().add_done_callback(partial(self._post, entry))
            found.append(references)
        return found

    def stop(self, job: int, tasks: Sequence[str]) -> Sequence[_Entry]:
        """Cancel the tasks without a known start; running tasks see the stop flag of the job."""
        dropped = super().stop(job, tasks)
        self._cancel([entry for entry in dropped if entry.report is not None])
        self._loop.call_later(HEARD_SECONDS, self.end_dropped, dropped)
        return dropped

    def _cancel(self, entries: Sequence[_Entry]) -> None:
        """Cancel tasks; tasks that run nonetheless are ended by force after DROP_GRACE_SECONDS seconds."""
        if entries:
            self._thread.submit(_cancel, [entry.report for entry in entries], False)
            self._loop.call_later(DROP_GRACE_SECONDS, self._force, entries)

    @property
    def stopped(self) -> Sequence[int]:
        """Jobs whose stop flags are up."""
        return tuple(self._stopped)

    def kill(self, tasks: Sequence[str]) -> None:
        """End the processes of tasks."""
        self._force([self._tasks[name] for name in tasks if name in self._tasks])

    def _force(self, entries: Sequence[_Entry]) -> None:
        left = [entry.report for entry in entries if entry.report is not None and entry.answer is None]
        if left:
            self._thread.submit(_cancel, left, True)

    async def drop(self) -> None:
        """Forget all tasks and results; a task that still runs after DROP_GRACE_SECONDS seconds is ended by force."""
        entries = list(self._tasks.values())
        self._tasks.clear()
        self._drop()
        if entries:
            reports = await self._loop.run_in_executor(self._thread, _cancel_submitted, entries)
            _, left = await self._loop.run_in_executor(self._thread, _wait, reports)
            await self._loop.run_in_executor(self._thread, _cancel, left, True)

    def _hear(self, items: Sequence[tuple[_Entry, Future[Any]]]) -> None:
        for entry, answer in items:
            entry.answer = answer
            if self._tasks.get(entry.task.name) is entry and entry.report is not None:
                self._done(entry, answer)

    def _done(self, entry: _Entry, answer: Future[Any]) -> None:
        """The report of a task came, or its error."""
        name, error = entry.task.name, answer.exception()
        cause = cause_of(error) if error is not None else None
        if error is None or cause is None:
            self._end(entry, answer.result())
        elif entry.is_dropped:
            self._end(entry, GroupReport(entry.worker))
        elif isinstance(cause, LocalRayletDiedError):
            self.closed("Ray's node of this process is gone")
        elif entry.task.job in self._stopped and isinstance(cause, TaskCancelledError | WorkerCrashedError):
            self._forget(entry)
            self.events.ended(name, GroupReport(entry.worker, stopped=True))
        elif isinstance(cause, LOST):
            how = "memory" if isinstance(cause, OutOfMemoryError) else "signal"
            lost = self._made_by(getattr(cause, "object_ref_hex", None))
            deaths = RETRIES + 1 if isinstance(cause, WorkerCrashedError) else 1
            self._lost(entry, f"{type(cause).__name__}: {_first_line(cause)}", how, lost, deaths)
        elif isinstance(cause, TaskCancelledError):
            self._lost(entry, "Ray cancelled it", "exit")
        else:
            self._forget(entry)
            self.events.failed(name, _failure(error))

    def _made_by(self, identity: str | None) -> list[str]:
        """The ended task of a lost reference."""
        found = [result.task for result, one in self.results.items() if identity and one.hex() == identity]
        return [name for name in found if name not in self._tasks]

    def _let_go(self, references: Sequence[Any]) -> None:
        for one in references:
            one.future()  # retrieved: Ray prints errors that are never read


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
        with suppress(Exception):  # ended, or Ray is gone
            ray.cancel(one, force=force, recursive=False)


def _cancel_submitted(entries: Sequence[_Entry]) -> list[Any]:
    """Cancel tasks, also of batches submitted during the close; returns the reports."""
    reports = [entry.submitted for entry in entries if entry.submitted is not None]
    _cancel(reports, False)
    return reports


def _wait(references: Sequence[Any]) -> Any:
    if not references:
        return [], []
    return ray.wait(list(references), num_returns=len(references), timeout=DROP_GRACE_SECONDS, fetch_local=False)
