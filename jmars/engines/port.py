"""EngineWorkers: the workers of an engine as a `WorkerPort`, and the events of the engine.

Jobs decide about reports (`EngineJob`); this class numbers workers, keeps chunks by number, submits tasks in bounds,
and ends tasks that do not stop. All calls come in the loop of the head.
Source: docs/explanation/seeds.md, "Execution control".

`engine_status` gives the status of the workers for `why`: running groups, waiting operands, kept bytes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from jmars.engines.engine import EngineWorker, GroupTask, Kept, Result, Results, TaskEngine
from jmars.engines.engine_job import EngineJob, RunningGroup
from jmars.engines.groups import planned_groups
from jmars.errors import ChunkLostError, ClusterError, fault_of
from jmars.kernels.group_run import GroupReport
from jmars.model.messages import ChunksLost, Failure, JobBroken, JobTable, Report, ReportPort, WorkerMoved
from jmars.model.status import NO_STATUS, DeathStatus, HostStatus, WorkerStatus
from jmars.plan import Profile, signature
from jmars.storage.chunks import ChunkElements

log = logging.getLogger("jmars.engines")

MAX_SUBMITTED_TASKS = 10_000  # tasks that the engine has at most
SLICE = 50  # tasks submitted in a turn of the loop, while clients wait
STOP_GRACE_SECONDS = 0.7  # seconds for a task to obey the stop of its job
GONE, IDLE = "lost", "idle"  # states of WorkerMoved


@dataclass(eq=False)
class EngineRow:
    """A worker with a number that no other worker gets.

    Attributes
    ----------
    here, done
        Whether the engine has it still; operands that ended there.
    pid, resident
        Process and its bytes of memory; None while the engine has not told.
    """

    number: int
    worker: EngineWorker
    here: bool = True
    done: int = 0
    pid: int | None = None
    resident: int | None = None
    spilled: int = 0
    why: str = ""  # reason why the worker left; "" while it is here
    left: float = 0.0  # when, by the monotonic clock


class EngineWorkers:
    """The workers of an engine: a `WorkerPort` of the scheduler, and called back by the engine.

    Parameters
    ----------
    engine
        Not started yet.
    prefix
        Begins the names of all tasks, and is no other cluster's.
    closed
        Called with the reason when the engine is gone.
    profile
        Costs of operands, which each job teaches.

    Attributes
    ----------
    rows
        All workers that ever were, by number.
    results
        Chunks by number.
    """

    def __init__(self, engine: TaskEngine[Any], prefix: str, closed: Callable[[str], None], profile: Profile) -> None:
        self.engine, self.profile = engine, profile
        self.rows: list[EngineRow] = []
        self.results = Results(engine.release)
        self.free_chunks = self.results.free  # chunks within groups are not kept, and do not matter
        self.workers_changed: Callable[[], None] = lambda: None
        self._prefix, self._closed = prefix, closed
        self._number: dict[str, int] = {}  # by key of the engine
        self._scheduler: ReportPort | None = None
        self._jobs: dict[str, EngineJob] = {}
        self._tasks: dict[str, EngineJob] = {}  # task submitted to the engine: its job
        self._due: dict[EngineJob, None] = {}  # jobs with news to report
        self._settling = self._submitting = False
        self._tasks_named = 0
        self._storing: set[int] = set()  # chunks that clients bring

    # -- the life of the engine
    async def start(self) -> None:
        """Start the engine; raises ClusterStartError."""
        for worker in await self.engine.start(self):
            self._add(worker)
        if not self.rows:  # an engine that grows from nothing: number of the first worker to come
            self._add(EngineWorker("", f"{self.engine.kind}-0", "", 1, 2**30))

    def connect(self, scheduler: ReportPort) -> None:
        """Send reports to this scheduler from now on."""
        self._scheduler = scheduler

    def announce(self) -> None:
        """Report all workers."""
        for row in self.rows:
            self._tell(row)

    async def close(self) -> None:
        """Free all that is ours on the engine."""
        for job in list(self._jobs.values()):
            job.give_up()
        self._jobs.clear()
        self._due.clear()
        self.results.clear()
        await self.engine.close()

    @property
    def names(self) -> list[str]:
        """Names of all workers, by number."""
        return [row.worker.name for row in self.rows]

    @property
    def here(self) -> list[EngineRow]:
        """Workers that the engine has."""
        return [row for row in self.rows if row.here]

    # -- orders of the scheduler
    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job, and submit groups ahead; an exception leaves no change."""
        here = [row.worker for row in self.here if row.worker.cores] or [row.worker for row in self.rows]
        there = self.results.workers({one: table.chunk[one] for one in table.stored})
        groups = planned_groups(table, here, self.profile, self.engine.task_seconds, there, self.engine.bundle)
        self._jobs[table.job] = EngineJob(table, groups, self)
        self._submit_ahead()

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Operands are ready: report starts, ends and failures."""
        self._jobs[job].enqueue(operands, workers)

    def stop_execution(self, job: str) -> None:
        """Stop the tasks of a job; tasks that go on for STOP_GRACE_SECONDS seconds are killed, or given up."""
        found = self._jobs[job]
        tasks = found.stop()
        if tasks:
            self.engine.stop(found.table.number, tasks)
            asyncio.get_running_loop().call_later(STOP_GRACE_SECONDS, self._overdue, found)

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Give tasks that are submitted from now on new ranks; the engine chooses workers by itself."""
        self._jobs[job].table.rank[:] = rank

    def close_job(self, job: str) -> None:
        """Forget a job once no task of the job runs; then report JobClosed."""
        self._jobs[job].close()

    def report(self, report: Report) -> None:
        """Send a report to the scheduler."""
        if self._scheduler is not None:
            self._scheduler.report(report)

    # -- events of the engine
    def started(self, task: str, worker: str) -> None:
        """A task runs on the worker with that key; may come late or not at all."""
        job = self._tasks.get(task)
        if job is not None:
            job.started(task, self._number_of(worker))

    def ended(self, task: str, report: GroupReport) -> None:
        """A task returned; its results can be read and given to other tasks."""
        job = self._tasks.pop(task, None)
        if job is not None:
            number = self._number_of(report.worker) if report.worker else 0  # "": dropped before it ran
            self.rows[number].done += len(report.microseconds)
            job.ended(task, report, number)
            self._submit_ahead()

    def lost(self, tasks: Sequence[str], why: str, how: str, deaths: int = 1) -> None:
        """Results of tasks are gone for good, or tasks cannot run: workers died under them too often.

        `how` as in `WorkerLost`; so many workers died before the engine gave up.
        """
        others = [task for task in tasks if not any(job.has_ended(task) for job in self._jobs.values())]
        gone = self.results.made_by(others)  # of jobs that have ended, or brought by clients
        if gone:
            self.results.free(gone)
            self.report(ChunksLost(gone, why))
        deaths = deaths if len({self._tasks.get(task) for task in tasks}) == 1 else 1  # the job to blame is unknown
        for job in list(self._jobs.values()):
            job.lost(tasks, why, how, deaths)
        for task in tasks:
            self._tasks.pop(task, None)
        self._submit_ahead()

    def failed(self, task: str, failure: Failure) -> None:
        """The engine could not run a task at all, for another reason than a lost worker."""
        job = self._tasks.pop(task, None)
        if job is not None:
            job.failed(task, failure)
            self._submit_ahead()

    def came(self, worker: EngineWorker) -> None:
        """A worker joined."""
        known = self._number.get(worker.key)
        if known is None:
            self._tell(self._add(worker))
        elif not self.rows[known].worker.cores:  # a task of its spoke first
            self.rows[known].worker = worker
        self.workers_changed()

    def left(self, key: str, why: str) -> None:
        """A worker is gone; the engine runs its tasks elsewhere."""
        number = self._number.get(key)
        if number is not None and self.rows[number].here:
            log.info("%s left: %s", self.rows[number].worker.name, why)
            row = self.rows[number]
            row.here, row.why, row.left = False, why, time.monotonic()
            self._tell(row)
            self.workers_changed()

    def closed(self, why: str) -> None:
        """The engine is gone, with all results."""
        self._closed(why)

    # -- chunks of clients
    async def put(self, chunk: int, data: bytes) -> None:
        """Store a chunk that a client brings, on one worker after the other."""
        self._storing.add(chunk)
        here = self.here
        key = here[chunk % len(here)].worker.key if here else ""
        name = self.name_task(0)
        try:
            await self.engine.put(name, data, key)
        finally:
            wanted = chunk in self._storing
            self._storing.discard(chunk)
        if not wanted:
            self.engine.release([Result(name, 0)])
            raise ClusterError(f"chunk {chunk} was given up before it was stored; store it again")
        self.results.add(chunk, Kept(Result(name, 0), len(data), self._number[key] if key else -1))

    def abandon(self, chunks: Iterable[int]) -> None:
        """Free chunks that a client brings or has brought."""
        chunks = list(chunks)
        self._storing.difference_update(chunks)
        self.results.free(chunks)

    async def read(self, wanted: ChunkElements) -> bytes:
        """Elements of a chunk; raises ChunkLostError for a chunk that is not here, ClusterError for bytes outside."""
        chunk = wanted.chunk
        kept = self.results.kept.get(chunk)
        if kept is None:
            raise ChunkLostError(f"chunk {chunk} is no longer on the cluster; compute it again")
        wanted.check(kept.nbytes)
        if kept.value is not None or not wanted.nbytes:
            return wanted.cut(memoryview(kept.value or b""))
        try:
            return await self.engine.read(kept.result, wanted)
        except ChunkLostError as error:
            if self.results.kept.get(chunk) == kept:
                self.lost([kept.result.task], str(error), "signal")
            raise

    # -- for the view
    async def look(self) -> None:
        """Ask the engine for the memory of its workers."""
        for key, found in (await self.engine.memory()).items():
            if key in self._number:
                row = self.rows[self._number[key]]
                row.resident, row.spilled = found.get("resident"), int(found.get("spilled", 0))
                if found.get("pid", row.pid) != row.pid:
                    row.pid = found["pid"]
                    self._tell(row)

    def running(self) -> dict[int, list[tuple[EngineJob, RunningGroup]]]:
        """By worker, the groups that run there."""
        found: dict[int, list[tuple[EngineJob, RunningGroup]]] = {}
        for job in self._jobs.values():
            for group in job.running.values():
                if group.worker >= 0:
                    found.setdefault(group.worker, []).append((job, group))
        return found

    @property
    def jobs(self) -> Sequence[EngineJob]:
        """Open jobs."""
        return list(self._jobs.values())

    # -- questions of jobs
    def submit(self, job: EngineJob, task: GroupTask) -> None:
        """Give a task of a job to the engine."""
        self._tasks[task.name] = job
        try:
            self.engine.submit(task)
        except BaseException:
            del self._tasks[task.name]
            raise

    def wake(self, job: EngineJob) -> None:
        """Call the `settle` of a job soon."""
        if not self._due and not self._settling:
            asyncio.get_running_loop().call_soon(self._settle)
        self._due[job] = None

    def name_task(self, number: int) -> str:
        """A new name of a task, by number of the job."""
        self._tasks_named += 1
        return f"{self._prefix}-{number}-{self._tasks_named}"

    def key_of(self, number: int) -> str:
        """The engine's name of a worker; "" for a worker that is gone."""
        return self.rows[number].worker.key if 0 <= number < len(self.rows) and self.rows[number].here else ""

    # -- own
    def _submit_ahead(self) -> None:
        """Submit some groups of the oldest jobs, and others in the next turns of the loop."""
        room = min(SLICE, MAX_SUBMITTED_TASKS - len(self._tasks))
        for job in list(self._jobs.values()):
            room -= job.submit_ahead(room)
        more = len(self._tasks) < MAX_SUBMITTED_TASKS and not all(job.is_ahead for job in self._jobs.values())
        if more and not self._submitting:
            self._submitting = True
            asyncio.get_running_loop().call_soon(self._submit_more)

    def _submit_more(self) -> None:
        self._submitting = False
        self._submit_ahead()

    def _settle(self) -> None:
        self._settling = True
        try:
            while self._due:
                job = next(iter(self._due))
                del self._due[job]
                try:
                    job.settle()
                except Exception as error:  # a fault of jmars: the job ends, other jobs go on
                    log.exception("%s cannot go on", job.table.job)
                    job.give_up()
                    self.report(JobBroken(job.table.job, fault_of(error)))
                if job.closed and self._jobs.get(job.table.job) is job:
                    self._forget(job)
        finally:
            self._settling = False

    def _forget(self, job: EngineJob) -> None:
        del self._jobs[job.table.job]
        when = int(time.time())
        for row, (count, seconds) in job.learnt().items():
            if row >= 0 and count:
                program = job.table.programs[row]
                known = signature(program)
                self.profile.observe(known.key, known.size, seconds / count, when=when)

    def _overdue(self, job: EngineJob, killed: bool = False) -> None:
        """Tasks of a stopped job still run: kill them, then give them up."""
        tasks = list(job.running)
        if job.closed or not tasks:
            return
        if not killed and self.engine.kill(tasks):
            asyncio.get_running_loop().call_later(STOP_GRACE_SECONDS, self._overdue, job, True)
            return
        log.warning("%d tasks of %s do not stop, and are waited for no more", len(tasks), job.table.job)
        for task in tasks:
            self._tasks.pop(task, None)
        job.give_up()

    def _number_of(self, key: str) -> int:
        known = self._number.get(key)
        if known is None:  # a report of its tasks came before the worker's own event
            row = self._add(EngineWorker(key, key, "", 0, 0))
            self._tell(row)
            known = row.number
        return known

    def _add(self, worker: EngineWorker) -> EngineRow:
        if len(self.rows) == 1 and not self.rows[0].worker.key:
            row = self.rows[0]
            row.worker = worker
        else:
            name = worker.name
            if any(name == row.worker.name for row in self.rows):
                name = f"{name} ({len(self.rows)})"
            row = EngineRow(len(self.rows), EngineWorker(worker.key, name, worker.host, worker.cores, worker.memory))
            self.rows.append(row)
        self._number[worker.key] = row.number
        return row

    def _tell(self, row: EngineRow) -> None:
        self.report(WorkerMoved(row.number, row.worker.name, row.pid or 0, IDLE if row.here else GONE))


MAX_LISTED_DEPARTURES = 20  # departed workers that status lists


def engine_status(workers: EngineWorkers) -> HostStatus:
    """Status of the engine now."""
    running, used = workers.running(), workers.results.used
    capacity = sum(row.worker.memory for row in workers.here)
    departed = sorted((row for row in workers.rows if not row.here), key=lambda row: row.left)
    return {
        **NO_STATUS,
        "workers": [_worker(row, running.get(row.number, [])) for row in workers.here],
        "queued": {job.table.job: job.waiting() for job in workers.jobs},
        "memory": {**NO_STATUS["memory"], "capacity": capacity, "used": used, "kept": used},
        "deaths": [_left(row) for row in departed[-MAX_LISTED_DEPARTURES:]],
    }


def _left(row: EngineRow) -> DeathStatus:
    return {
        "worker": row.worker.name,
        "pid": row.pid or 0,
        "job": "",
        "operand": -1,
        "what": "",
        "how": f"ended by the engine or its owner ({row.why})",
        "peak": 0,
        "cap": 0,
        "seconds": monotonic() - row.left,
    }


def _worker(row: EngineRow, running: list[tuple[EngineJob, RunningGroup]]) -> WorkerStatus:
    found: WorkerStatus = {
        "name": row.worker.name,
        "pid": row.pid or 0,
        "process": "",
        "state": "idle",
        "job": "",
        "operand": -1,
        "what": "",
        "seconds": 0.0,
        "usual": 0.0,
        "behind": 0,
    }
    if running:
        job, group = min(running, key=lambda one: one[1].since)
        operand = job.operand_of(group)
        name = job.table.programs[job.table.program[operand]].name
        found |= {"state": "busy", "job": job.table.job, "operand": operand, "what": f"operand {name}"}
        found["seconds"] = monotonic() - group.since
        found["behind"] = len(group.plan.operands) - 1
    return found
