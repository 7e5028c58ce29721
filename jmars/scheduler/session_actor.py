"""SessionActor: the jobs of a cluster; takes calls of clients and reports of workers.

Source: docs/explanation/seeds.md, "Submitting a job".
"""

from __future__ import annotations

import asyncio
import logging
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from jmars.actors import remote_method
from jmars.errors import UnknownTaskError, fault_of
from jmars.model import events
from jmars.model.limits import REMEMBERED_JOBS
from jmars.model.messages import (
    ChunksKept,
    ChunksLost,
    GpuRefused,
    InputsMissing,
    Printed,
    Report,
    Submission,
    Timed,
    WorkerMoved,
    WorkerPort,
)
from jmars.model.status import TERMINAL
from jmars.model.status import OperandState as S
from jmars.scheduler.event_log import EventLog
from jmars.scheduler.graph_actor import GraphActor
from jmars.scheduler.plans import Plans
from jmars.scheduler.prepare import Ready
from jmars.scheduler.ranking import Machine
from jmars.scheduler.scheduler_context import ChunkMetaActor, SchedulerContext
from jmars.tensor.structure import Bindings

log = logging.getLogger("jmars.scheduler")

PLAN_BYTES = 4 * 2**20  # default of `plan_bytes`: size of the cache of prepared graphs
PICTURES = 3  # number of ended jobs whose graphs are kept for late readers
ABSENT = ("lost", "leaving", "left")  # states of workers for which nothing is planned
FREED_AT_ONCE = 1_000  # chunks of dropped tensors in a turn of the loop: about a millisecond
SHOWN = 4  # limit of the graphs of ended jobs, in `plan_bytes`


class SessionActor:
    """All jobs of one cluster; implements ReportPort."""

    def __init__(
        self,
        port: WorkerPort,
        workers: Sequence[str],
        log: EventLog,
        job_ended: Callable[[dict[str, Any]], None],
        plan_bytes: int = PLAN_BYTES,
    ) -> None:
        self.meta = ChunkMetaActor()
        self.plans = Plans(plan_bytes)
        self._workers = list(workers)  # names by number; numbers are never used again
        self.context = SchedulerContext(self._workers, port, self.meta, log, self.plans, self.fresh_chunks, self._ended)
        self.log = log
        log.standing = self._standing
        self._port, self._job_ended = port, job_ended
        self.tell_printed: Callable[[dict[str, Any]], None] = lambda told: None  # tells clients what functions print
        self.graphs: dict[str, GraphActor] = {}  # remembered jobs
        self._ended_jobs: dict[str, None] = {}  # in order of their end
        self._number = 0
        self._chunk = 0
        self._dropped: deque[int] = deque()  # chunks of dropped tensors, to be freed
        self._hosts: dict[int, dict[str, Any]] = {}  # newest HOST_MOVED by number of the host
        self._links: dict[tuple[int, int], dict[str, Any]] = {}  # newest LINK_MEASURED by source and reader
        self._absent = self.context.absent
        self._planned: Machine | None = None  # the newest whose workers are all known
        self._changed: dict[str, None] = {}  # changes of hosts in this turn of the loop, in words
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}  # by job: calls of `wait`
        self.idle_since: float | None = time.time()  # time of the last job's end; None while a job runs
        self._tickets: dict[str, str] = {}  # ticket of a submission: job
        self._tasks: set[asyncio.Task[None]] = set()
        self.submitted = asyncio.Event()  # set at each submission; cleared by the caller that waits

    # -- for clients
    @remote_method
    async def submit(self, submission: Submission) -> str:
        """Start a job; returns the job's id at once.

        Returns "" for a submission without a graph if the structure is not kept any more.
        """
        bound = None if submission.bindings is None else Bindings(*submission.bindings)
        prepared = None if submission.graph else self.plans.find(submission.structure, self.context.machine, bound)
        if prepared is None and not submission.graph:
            return ""
        number = self._number + 1
        graph = self.register_job(f"job-{number}", number, submission.name, submission.ticket)
        if prepared is None:
            self.prepare(graph, submission)
        else:
            assert bound is not None
            graph.isolate_faults(graph.run, Ready(prepared, bound))
        return graph.job

    @remote_method
    async def cancel(self, job: str) -> None:
        """Stop a job; no effect on an ended job."""
        graph = self.graph(job)
        graph.isolate_faults(graph.cancel)

    @remote_method
    def withdraw(self, ticket: str) -> None:
        """Stop the job of an interrupted submission, if it came, and drop the results; the client knows no
        job id.
        """
        graph = self.graphs.get(self._tickets.pop(ticket, ""))
        if graph is not None:
            graph.isolate_faults(graph.cancel)
            self.drop(graph.results)

    def break_jobs(self, why: str) -> None:
        """End all jobs that run: a fault of jmars may have hit each of them."""
        for graph in list(self.graphs.values()):
            graph.broken(why)

    def close(self) -> None:
        """Stop all jobs that run."""
        for graph in list(self.graphs.values()):
            graph.isolate_faults(graph.cancel)

    @remote_method
    async def describe(self, job: str) -> dict[str, Any]:
        """State, counts of operands by state, progress, seconds, error."""
        return self.graph(job).describe()

    @remote_method
    async def wait(self, job: str, timeout: float | None = None) -> None:
        """Return when the job has ended, or `timeout` seconds have passed."""
        if self.graph(job).state not in TERMINAL:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(job, []).append(ended)
            try:
                await asyncio.wait([ended], timeout=timeout)
            finally:
                self._no_longer_waits(job, ended)

    @remote_method
    async def arrived(self, job: str, seen: int) -> tuple[int, list[Any]]:
        """Results of a job while the job runs; see GraphActor.arrived."""
        return await self.graph(job).arrived(seen)

    @remote_method
    async def jobs(self) -> list[dict[str, Any]]:
        """All jobs that are remembered, oldest first."""
        return [job.describe() for job in self.graphs.values()]

    @remote_method
    async def read(self, since: int, job: str = "", limit: int = 5_000) -> tuple[list[events.Event], int]:
        """Events after `since`; see EventLog.read."""
        return self.log.read(since, job, limit)

    @remote_method
    async def take_chunks(self, count: int) -> int:
        """The first of `count` fresh chunk numbers."""
        return self.fresh_chunks(count)

    def fresh_chunks(self, count: int) -> int:
        """The first of `count` fresh chunk numbers, for operands."""
        first, self._chunk = self._chunk, self._chunk + count
        return first

    @remote_method
    async def keep(self, key: str, first: int, count: int) -> None:
        """Make chunks that a client has stored the tensor `key`; the same chunks may come twice."""
        self._port.free_chunks(self.meta.keep(key, range(first, first + count)))

    @remote_method
    def drop(self, keys: Sequence[str]) -> None:
        """Free tensors that no client needs any more; of many chunks some in each turn of the loop, so that no answer
        waits behind all of them.
        """
        waits = bool(self._dropped)
        self._dropped += [chunk for key in keys for chunk in self.meta.drop(key)]
        if not waits:
            self._free_some()

    def free_dropped(self) -> None:
        """Free the rest of the dropped tensors now."""
        dropped, self._dropped = self._dropped, deque()
        self._port.free_chunks([*dropped])

    def _free_some(self) -> None:
        self._port.free_chunks([self._dropped.popleft() for _ in range(min(FREED_AT_ONCE, len(self._dropped)))])
        if self._dropped:
            asyncio.get_running_loop().call_soon(self._free_some)

    @remote_method
    async def chunks(self, keys: Sequence[str]) -> list[list[int]]:
        """Chunk numbers of kept tensors, each in C order of the grid; raises ChunkLostError of the first lost."""
        return [self.meta.chunks(key) for key in keys]

    @remote_method
    async def unreadable(self, keys: Sequence[str]) -> list[str]:
        """Those of these tensors that are not here, or of which chunks are lost."""
        return [key for key in keys if not self.meta.is_readable(key)]

    def plan_for(self, machine: Callable[[], Machine]) -> Callable[[], Machine]:
        """Plan for this machine once reports have named all its workers; the rows of tensors are those of chunks."""

        def located() -> Machine:
            new, old = machine(), self._planned
            found = self._planned = new if old is None or len(new.row_of_worker) <= len(self._workers) else old

            def row_of(key: str, index: int) -> int:  # for any thread
                chunks = self.meta.tensors.get(key, ())
                return found.row_of_chunk(chunks[index]) if index < len(chunks) else -1

            return found if found.rows is None else replace(found, row_of=row_of)

        self.context.machine = located
        return located

    @remote_method
    async def demand(self) -> tuple[float, int]:
        """Seconds of work of all running jobs that has not begun, and operands that could run at the same time."""
        rows = [(graph.stage.eta, graph.stage.operands.state) for graph in self.graphs.values() if graph.stage]
        seconds = sum(eta.waiting(state) for eta, state in rows)
        return seconds, sum(state.count(S.READY) + state.count(S.RUNNING) for _, state in rows)

    # -- for workers
    def report(self, report: Report) -> None:
        """Take a report of the workers, or hand the report to the job's GraphActor; a late report has no effect."""
        handler = _HANDLERS.get(type(report))
        if handler is not None:
            handler(self, report)
        else:
            self._hand_over(report)

    def _hand_over(self, report: Any) -> None:
        graph = self.graphs.get(report.job)
        if graph is not None:
            graph.report(report)

    def _timed(self, report: Timed) -> None:
        ids = array("I", report.operands).tobytes()
        told = {"ids": ids, "worker": report.worker, "microseconds": list(report.microseconds)}
        told["backends"] = [list(one) for one in report.backends]
        self.log.append(events.OPERANDS_TIMED, report.job, told)

    def _printed(self, report: Printed) -> None:
        worker = self._workers[report.worker]
        self.tell_printed({"job": report.job, "worker": worker, "lines": list(report.lines), "live": report.live})

    def _gpu_refused(self, report: GpuRefused) -> None:
        graph = self.graphs.get(report.job)
        if graph is not None:
            graph.on_cores(report, self._workers[report.worker])

    def _worker_moved(self, report: WorkerMoved) -> None:
        is_new = report.worker >= len(self._workers)
        if is_new:
            self._add_worker(report)
        is_absent, was_absent = report.state in ABSENT, report.worker in self._absent
        if is_absent:
            self._absent.add(report.worker)
            self._host_changed(report.name, f"is {report.state}")
        elif is_new or was_absent:
            self._absent.discard(report.worker)
            self._host_changed(report.name, "joined")
        if report.gpu_bytes or is_absent != was_absent:
            self.plans.forget()  # made for other workers, or other warm GPUs
        told = {"worker": report.worker, "name": report.name, "pid": report.pid, "state": report.state}
        self.log.append(events.WORKER_MOVED, "", told)

    def _add_worker(self, report: WorkerMoved) -> None:
        """A worker with a new number: running jobs count for that worker too, and later jobs are planned anew."""
        names = [f"worker-{number}" for number in range(len(self._workers), report.worker)]
        self._workers += [*names, report.name]
        self.plans.forget()
        for graph in self.graphs.values():
            if graph.stage is not None:
                graph.stage.operands.grow(len(self._workers))

    def _host_changed(self, worker: str, what: str) -> None:
        """Tell running jobs once in this turn of the loop; names of a single host's workers name no host."""
        host = worker.rpartition("/")[0]
        if host:
            if not self._changed:
                asyncio.get_running_loop().call_soon(self._tell_changed)
            self._changed[f"{host} {what}"] = None

    def _tell_changed(self) -> None:
        why = ", ".join(self._changed)
        self._changed.clear()
        for graph in self.graphs.values():
            if graph.stage is not None:
                graph.isolate_faults(graph.stage.hosts_changed, why)

    def _lost(self, report: ChunksLost) -> None:
        self.meta.lost(report.chunks)
        for graph in list(self.graphs.values()):
            graph.report(report)

    def _kept(self, report: ChunksKept) -> None:
        for graph in self.graphs.values():
            if graph.stage is not None:
                base, n = graph.stage.table.base, len(graph.stage.table.program)
                graph.stage.operands.kept([c - base for c in report.chunks if 0 <= c - base < n], report.worker)

    def _missing(self, report: InputsMissing) -> None:
        self._lost(ChunksLost(report.chunks, report.why))
        self._hand_over(report)

    # -- jobs, new or from an earlier scheduler
    def register_job(self, job: str, number: int, name: str, ticket: str) -> GraphActor:
        """Make the GraphActor of a job, new or begun by an earlier scheduler."""
        self._number = max(self._number, number)
        graph = self.graphs[job] = GraphActor(job, number, name or job, self.context)
        if ticket:
            self._tickets[ticket] = job
        self.submitted.set()
        self.idle_since = None
        return graph

    def prepare(self, graph: GraphActor, submission: Submission) -> None:
        """Compile a job's graph in a thread, then run it."""
        task = asyncio.ensure_future(graph.submit(submission))
        self._tasks.add(task)
        task.add_done_callback(partial(self._prepared, graph))

    def remember(self, graph: GraphActor) -> None:
        """Remember an ended job, perhaps of an earlier scheduler, and forget the oldest."""
        self._ended_jobs[graph.job] = None
        ended = list(self._ended_jobs)
        for name in ended[:-REMEMBERED_JOBS]:
            del self._ended_jobs[name]
            del self.graphs[name]
        if len(ended) > REMEMBERED_JOBS:
            self.log.drop_oldest(lambda job: job not in self.graphs)
        self._tickets = {ticket: job for ticket, job in self._tickets.items() if job in self.graphs}
        for name in ended[-REMEMBERED_JOBS:-PICTURES]:
            self.graphs[name].forget_picture()
        self._bound_pictures(ended[-PICTURES:])
        self.idle_since = None if self.active else time.time()

    def _bound_pictures(self, ended: Sequence[str]) -> None:
        """Keep plans and pictures of these jobs as long as they are small together; the last picture always stays."""
        left = SHOWN * self.plans.budget
        for name in reversed(ended):
            graph = self.graphs[name]
            if graph.newest is not None:
                left -= graph.newest.prepared.size + graph.newest.prepared.weight
            if left < 0 or graph.newest is None:
                graph.forget_plan() if name == ended[-1] else graph.forget_picture()

    @property
    def number(self) -> int:
        """Of the newest job."""
        return self._number

    def begin_chunks(self, first: int) -> None:
        """Fresh chunk numbers begin there."""
        self._chunk = first

    # -- own
    @property
    def active(self) -> bool:
        """Whether some job has not ended."""
        return any(job.state not in TERMINAL for job in self.graphs.values())

    def note(self, kind: str, job: str, data: dict[str, Any]) -> None:
        """Log an event of the host; MEMORY_CHANGED gets the bytes of each worker's chunks."""
        if kind == events.HOST_MOVED:
            self._hosts[data["host"]] = data
            if data["state"] != "suspect":
                self.plans.forget()  # made for other hosts
                self._links = {pair: link for pair, link in self._links.items() if data["host"] not in pair}
        if kind == events.LINK_MEASURED:
            self._links[data["from"], data["to"]] = data
            self.plans.forget()
        if kind == events.MEMORY_CHANGED:
            held = self.held()  # 0 for workers of a new host whose report has not come yet
            data["workers"] = [{**told, "bytes": held[index]} for index, told in enumerate(data["workers"])]
        self.log.append(kind, job, data)

    def held(self) -> Counter[int]:
        """Bytes of the running jobs' chunks by the worker that made them."""
        found = Counter[int]()
        for job in self.graphs.values():
            found.update(dict(enumerate(job.held())))
        return found

    def graph(self, job: str) -> GraphActor:
        """A remembered job; raises UnknownTaskError for other ids."""
        known = self.graphs.get(job)
        if known is None:
            raise UnknownTaskError(f"there is no job {job!r} here; `Cluster.jobs()` lists those that are remembered")
        return known

    def _ended(self, graph: GraphActor) -> None:
        self.remember(graph)
        for waiting in self._waiting.pop(graph.job, ()):
            if not waiting.done():
                waiting.set_result(None)
        report = {"job": graph.job, "state": str(graph.state), "error": graph.error, "line": graph.line}
        left = {"results": graph.results, "settled": graph.settled, "warned": graph.warnings.rows}
        self._job_ended(report | left)

    def _no_longer_waits(self, job: str, ended: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(job, [])
        if ended in waiting:
            waiting.remove(ended)
            if not waiting:
                del self._waiting[job]

    def _prepared(self, graph: GraphActor, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("%s ends by a fault of ours", graph.job, exc_info=error)
            graph.broken(fault_of(error))

    def _standing(self, job: str) -> list[tuple[str, str, dict[str, Any]]]:
        graphs = [self.graphs[job]] if job in self.graphs else list(self.graphs.values()) if not job else []
        hosts = [(events.HOST_MOVED, "", data) for data in self._hosts.values()]
        hosts += [(events.LINK_MEASURED, "", data) for data in self._links.values()]
        return hosts + [record for graph in graphs for record in graph.standing()]


_HANDLERS: dict[type, Callable[[SessionActor, Any], None]] = {  # for reports that concern more than one job
    Timed: SessionActor._timed,
    Printed: SessionActor._printed,
    GpuRefused: SessionActor._gpu_refused,
    WorkerMoved: SessionActor._worker_moved,
    ChunksKept: SessionActor._kept,
    ChunksLost: SessionActor._lost,
    InputsMissing: SessionActor._missing,
}
