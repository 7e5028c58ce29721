"""RayEngine: a Ray cluster that runs groups of operands as its tasks.

It works beside other people's tasks. `close` frees all tasks and results of the cluster, and ends a Ray that was
started here. Calls of Ray that block run in threads.

All methods are called in the loop of the head, `_submit` and the function `_cancel` in the thread that submits. A
future of Ray awaits the report of a task, and costs 35 µs; `ray.wait` takes 30 ms of CPU a call for 10,000 references.
Source: docs/explanation/seeds.md, "Execution control", "Architecture".
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import ray
from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    TaskCancelledError,
    WorkerCrashedError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jmars.engines.engine import START_SECONDS, EngineWorker, Promises, Result, TaskEngine, TaskEntry, dial
from jmars.engines.group_task import run_group
from jmars.engines.ray_cluster import (
    RayConnection,
    cause_of,
    module_missing,
    nodes_of,
    request_nodes,
    security,
    settled,
    wrong_versions,
)
from jmars.engines.ray_worker import Board, Runner, cut_values, group_function
from jmars.errors import ChunkLostError, text_of
from jmars.kernels.group_run import GroupReport
from jmars.storage.chunks import ChunkElements

POLL = 1.0  # seconds between looks at Ray's nodes
SILENT = 20.0  # seconds without an answer after which Ray is considered gone; Ray itself ends this process after 60
HEAD_DIAL_SECONDS = 2.0  # seconds for a connection to the head of Ray
END = 10.0  # seconds for each step of the end
THREADS = 4  # threads for blocking calls, beside the submitting thread
PROCESSES = 5000  # processes that may wait at the actor
WHOLE_CHUNK_BYTES = 100 * 1024  # bytes of a chunk that is fetched whole: Ray keeps such a chunk in this process

DROP_GRACE_SECONDS = 1.0  # for a dropped task to end by itself
HEARD_SECONDS = 0.5  # for the start of a task to be heard
RETRIES = 3  # times that Ray runs a task again whose process died
LEAST_MEMORY = 2**20  # bytes that a task asks for at least

LOST = (ObjectLostError, WorkerCrashedError, NodeDiedError, OutOfMemoryError)  # the first includes its subclasses

Answer = TypeVar("Answer")
_logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Entry(TaskEntry):
    """A task that has not ended."""

    report: Any = None  # reference; None before the submission
    submitted: Any = None  # the same reference, from the moment of the submission
    answer: Future[Any] | None = None  # report or error


class RayEngine(TaskEngine[_Entry]):
    """TaskEngine over a Ray cluster; `results` are references. A worker is a node, with its CPUs as cores.

    Parameters
    ----------
    address
        None for the Ray of this process, else of $RAY_ADDRESS, else of `ray start` on this machine, else a new Ray;
        "auto" also for a Ray that another program started here; "local" for a new Ray; "host:port" for a cluster with
        this machine as a node; "ray://host:port" for a Ray client.
    name
        Unique among the clusters of jmars on that Ray cluster.
    runner
        Function that runs a group in a worker; workers import it.
    options
        More arguments of `ray.init`.
    """

    kind, places = "ray", "nodes"
    task_seconds = 0.0017, 0.0014
    bundle = 0  # each chunk is a return value
    _entry = _Entry

    def __init__(self, address: str | None = None, name: str = "", runner: Runner = run_group, **options: Any) -> None:
        super().__init__()
        self.address = address or "auto"
        self._given, self._runner, self._options = address, runner, options
        self._name = name or uuid.uuid4().hex[:12]
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="jmars-ray")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jmars-ray-submit")  # keeps the order of its calls
        self._board: Any = None
        self._workers: dict[str, EngineWorker] = {}
        self._refused: set[str] = set()  # nodes with other versions
        self._is_connected = self._has_requested = False

    # ------------------------------------------------------------------ start and close

    async def _connect(self) -> None:
        self.address = await self._call(RayConnection.open, self._given, self._options)
        self._is_connected = True

    async def _prepare(self) -> Sequence[EngineWorker]:
        """Check the versions of the nodes, and start the actor for stop flags."""
        nodes = nodes_of(await self._call(ray.nodes))
        self._board = await self._call(_start_board, self._name)
        wrong = await self._call(wrong_versions, list(nodes))  # while the actor starts
        self._refuse([f"{nodes[key].name}: {why}" for key, why in wrong.items()])
        async with asyncio.timeout(START_SECONDS):
            await settled(await self._call(self._board.resident.remote))
        self._function: Any = ray.remote(group_function(self._runner, self._board))
        self._cutter: Any = ray.remote(cut_values)
        self._workers = nodes
        self._spawn(self._listen)
        self._spawn(self._poll)
        return list(nodes.values())

    async def close(self) -> None:
        """Free all results, end the actor and running tasks, and leave the connection."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._background:
            task.cancel()
        with suppress(Exception):
            async with asyncio.timeout(END):
                if self._has_requested and not self._is_lost:
                    await self._call(request_nodes, 1, 0)
                if self._board is not None and not self._is_lost:  # running groups notice that
                    await self._call(ray.kill, self._board)
                await self._drop_tasks()
        self._board = self._cutter = self._function = None
        with suppress(Exception):
            async with asyncio.timeout(END):
                if self._is_connected:
                    await self._call(RayConnection.close)
        stuck = self._is_lost  # calls of a Ray that is gone may never return
        for pool in (self._thread, self._pool):
            pool.shutdown(wait=not stuck, cancel_futures=True)

    # ------------------------------------------------------------------ tasks

    async def _send_batch(self, batch: Sequence[_Entry]) -> None:
        made = {entry.task.name for entry in batch}
        known = {one: self.results.get(one) for entry in batch for one in entry.task.inputs if one.task not in made}
        most = max((worker.memory for worker in self._workers.values()), default=0)  # 0 where nodes tell no memory
        submit = partial(self._submit, batch, known, set(self._workers), most)
        try:
            found = await self._loop.run_in_executor(self._thread, submit)
        except Exception as error:
            self._lose(f"Ray takes no tasks: {type(error).__name__}: {text_of(error)}")
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

    def _stop_tasks(self, job: int, dropped: Sequence[_Entry]) -> None:
        """Cancel the tasks without a known start; running tasks see the stop flag of the job."""
        self._cancel([entry for entry in dropped if entry.report is not None])
        self._loop.call_later(HEARD_SECONDS, self._end_dropped, dropped)
        self._thread.submit(_tell_board, self._board, (job,))

    def _cancel(self, entries: Sequence[_Entry]) -> None:
        """Cancel tasks; tasks that run nonetheless are ended by force after DROP_GRACE_SECONDS seconds."""
        if entries:
            self._thread.submit(_cancel, [entry.report for entry in entries], False)
            self._loop.call_later(DROP_GRACE_SECONDS, self._force, entries)

    def kill(self, tasks: Sequence[str]) -> bool:
        """End the processes of tasks; a process of Ray runs a single task."""
        self._force([self._tasks[name] for name in tasks if name in self._tasks])
        return True

    def _force(self, entries: Sequence[_Entry]) -> None:
        left = [entry.report for entry in entries if entry.report is not None and entry.answer is None]
        if left:
            self._thread.submit(_cancel, left, True)

    async def _drop_tasks(self) -> None:
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
            self._lose("Ray's node of this process is gone")
        elif entry.task.job in self._stopped and isinstance(cause, TaskCancelledError | WorkerCrashedError):
            self._forget(entry)
            self._events.ended(name, GroupReport(entry.worker, stopped=True))
        elif isinstance(cause, LOST):
            how = "memory" if isinstance(cause, OutOfMemoryError) else "signal"
            lost = self._made_by(getattr(cause, "object_ref_hex", None))
            deaths = RETRIES + 1 if isinstance(cause, WorkerCrashedError) else 1
            self._lost(entry, f"{type(cause).__name__}: {_first_line(cause)}", how, lost, deaths)
        elif isinstance(cause, TaskCancelledError):
            self._lost(entry, "Ray cancelled it", "exit")
        else:
            self._fail(entry, cause, module_missing(error))

    def _made_by(self, identity: str | None) -> list[str]:
        """The ended task of a lost reference."""
        found = [result.task for result, one in self.results.items() if identity and one.hex() == identity]
        return [name for name in found if name not in self._tasks]

    def _let_go(self, references: Sequence[Any]) -> None:
        for one in references:
            one.future()  # retrieved: Ray prints errors that are never read

    # ------------------------------------------------------------------ chunks

    async def put(self, name: str, data: bytes, worker: str) -> None:
        """Store bytes on the node of this process; Ray moves them to the tasks."""
        self.results[Result(name, 0)] = await self._call(ray.put, np.frombuffer(data, np.uint8))

    async def read(self, result: Result, wanted: ChunkElements) -> bytes:
        """Elements of a chunk; a small task cuts them out on the node of the chunk, this process if it is near."""
        reference = self.results.get(result)
        try:
            if reference is None:
                raise KeyError("it was released")
            if await self._call(_is_near, reference, wanted.nbytes):
                return await self._call(wanted.cut, await settled(reference))
            cutter = self._cutter.options(num_cpus=0, name=f"jmars-read-{result.task}")
            part = await self._call(cutter.remote, reference, *wanted)
            found: bytes = await settled(part)
            return found
        except Exception as error:
            cause = cause_of(error)
            raise ChunkLostError(
                f"chunk {result.number} of {result.task} cannot be read from the Ray cluster: "
                f"{type(cause).__name__}: {text_of(cause)}"
            ) from error

    # ------------------------------------------------------------------ workers

    async def memory(self) -> dict[str, dict[str, Any]]:
        """Resident bytes of the processes that run groups, by node with such processes.

        A node has no process to name, and Ray does not tell spilled bytes.
        """
        try:
            async with asyncio.timeout(POLL):
                found: dict[str, int] = await settled(await self._call(self._board.resident.remote))
        except Exception:  # the actor starts again elsewhere, or Ray is gone
            return {}
        return {key: {"resident": found[key]} if key in found else {} for key in self._workers}

    def bandwidth(self) -> float | None:
        """None: Ray's nodes do not tell their transfers."""
        return None

    async def scale(self, n: int) -> None:
        """Ask Ray's autoscaler for nodes like the largest one."""
        cores = max((worker.cores for worker in self._workers.values()), default=1)
        await self._call(request_nodes, cores, n)
        self._has_requested = True

    async def adapt(self, least: int, most: int) -> None:
        """Ask Ray's autoscaler for `least` nodes; the autoscaler starts more as tasks wait, up to its own limit."""
        await self.scale(least)

    def promises(self) -> Promises:
        """Promises of jmars's own workers that Ray does not keep."""
        return Promises(
            security(),
            (
                "a task that does not stop within a second is ended with its process, and what Ray had queued for "
                "this process starts again elsewhere",
                "spilled chunks have no checksum",
                "memory is what each group declares, and is not enforced; where a node runs out of memory, Ray's "
                "memory monitor ends processes, and runs their groups again",
                f"groups on a lost node or in a lost process run again, at most {RETRIES} times",
                "arrays of this process are uploaded to the node of this process, and are lost with it",
                "Ray notices a node that is gone after about 15 s, and runs its groups again then",
                f"when the head of Ray is gone this cluster ends after {SILENT:.0f} s; where you called ray.init "
                "yourself, Ray ends this process after 60 s",
                "the largest number of nodes is a setting of Ray's autoscaler; adapt() asks for the least number",
            ),
        )

    async def _poll(self) -> None:
        """Look at nodes every second."""
        heard = self._loop.time()
        while True:
            await asyncio.sleep(POLL)
            if not ray.is_initialized():
                return self._lose("ray.shutdown() was called in this process")
            try:
                # Not `ray.nodes` at once: without an answer Ray ends this process.
                if not RayConnection.is_client():
                    await dial(self.address, HEAD_DIAL_SECONDS)
                async with asyncio.timeout(SILENT):
                    nodes = nodes_of(await self._call(ray.nodes))
            except Exception as error:
                if self._loop.time() - heard >= SILENT:
                    return self._lose(f"the head of Ray does not answer: {type(error).__name__}: {text_of(error)}")
                continue
            heard = self._loop.time()
            await self._look(nodes)

    async def _look(self, nodes: dict[str, EngineWorker]) -> None:
        for key in [key for key in self._workers if key not in nodes]:
            worker = self._workers.pop(key)
            self._events.left(key, f"{worker.name} left the Ray cluster")
        self._refused &= nodes.keys()
        new = [key for key in nodes if key not in self._workers and key not in self._refused]
        if not new:
            return
        wrong = await self._call(wrong_versions, new)
        for key, why in wrong.items():
            _logger.warning(
                "the Ray node %s differs from this process and its results cannot be trusted: %s", nodes[key].name, why
            )
        self._refused |= wrong.keys()
        for key in new:
            if key not in wrong:
                self._workers[key] = nodes[key]
                self._events.came(nodes[key])

    async def _listen(self) -> None:
        """Receive starts of tasks; an actor that Ray restarted is sent the stopped jobs."""
        while True:
            try:
                for task, node in await settled(await self._call(self._board.heard.remote)):
                    self._started(task, node)
            except RayActorError:
                await asyncio.sleep(POLL)
                await self._call(_tell_board, self._board, tuple(self._stopped))

    # ------------------------------------------------------------------ own

    async def _call(self, function: Callable[..., Answer], *args: Any) -> Answer:
        """Call a function that may block."""
        return await self._loop.run_in_executor(self._pool, partial(function, *args))


def _start_board(name: str) -> Any:
    """The actor of a cluster, near this process where that is a node of Ray."""
    options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": PROCESSES}
    with suppress(Exception):  # a Ray client is no node
        here = ray.get_runtime_context().get_node_id()
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(here, soft=True)
    kind: Any = ray.remote(Board)
    return kind.options(name=f"jmars-{name}", **options).remote()


def _tell_board(board: Any, jobs: Sequence[int]) -> None:
    if jobs:
        board.stop.remote(tuple(jobs))


def _is_near(reference: Any, wanted: int) -> bool:
    """Whether a chunk lies in this process or on its node, or is at most twice as large as the wanted part."""
    try:
        found = ray.experimental.get_object_locations([reference]).get(reference) or {}
        if found.get("object_size", 0) > max(WHOLE_CHUNK_BYTES, 2 * wanted):
            return ray.get_runtime_context().get_node_id() in found["node_ids"]
        return bool(found)
    except Exception:  # a Ray client is no node
        return False


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
