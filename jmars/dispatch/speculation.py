"""Speculative execution: revokes batches of busy workers and starts duplicates of late operands.

`Stragglers` decides, `SpeculativeExecution` acts. A copy has a separate slot and scratch. When the first of the two
runs finishes an operand, the process of the second is killed at once, since the slot is free only then, and is replaced
in some milliseconds. The scheduler hears of revoked operands as interrupted, and of copies only the results. Time
counts only while this host looks, so that a machine that slept finds no stragglers.

`Stragglers` finds operands that wait behind a long operand, to revoke, and operands that run far too long, to copy. A
batch behind a long operand is revoked, so that the first free worker takes it, earlier jobs first; while memory is
short (inputs are loaded meanwhile) batches of other jobs than the operand's, and as many more as there are idle
workers. If no batch can be revoked, an idle worker runs a copy of an operand that takes 1.5 times the program's third
quartile, or of a process that hangs; the first run to finish counts. The first run of a program in a process may take
longer: a killed process would load libraries anew in each job. Only repeatable operands are copied: kernels of jmars,
no user functions.

`WorkerRecycling` replaces a worker's executor process for retained or refused memory, or after each operand of a job.

Batches of executors that died or cannot be started are recovered: their memory is freed and the scheduler told. The
running operands of a dead executor are lost; the scheduler counts them against a limit and runs them elsewhere. A batch
that only waited is interrupted and not to blame.
Source: docs/explanation/seeds.md, "Operand states", "Cost-driven graph partitioning", "Future work"; Spark
`TaskSetManager.scala` (spark.speculation.quantile 0.75, spark.speculation.multiplier 1.5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic

from jmars.dispatch.ledger import Estimate
from jmars.dispatch.task_queue import TaskQueue
from jmars.dispatch.workers import DISCARDED, RECYCLED, Batch, OpenJobs, Worker
from jmars.memory import HostMemory
from jmars.model.limits import WAITS_BEHIND
from jmars.model.messages import Interrupted, Report, WorkerLost
from jmars.processes.executor_messages import RUN, RunBatch
from jmars.processes.links import ChildLink
from jmars.processes.vitals import LOOK_SECONDS
from jmars.units import format_bytes

MOST_PASSED = 2 * LOOK_SECONDS  # seconds between two looks; the machine slept if more passed


class SpeculativeExecution:
    """Revoked batches and duplicates.

    Parameters
    ----------
    is_short
        Tells whether memory is short.
    report
        Sends a report to the scheduler.
    """

    def __init__(
        self,
        memory: HostMemory,
        jobs: OpenJobs,
        queue: TaskQueue,
        workers: Sequence[Worker],
        estimate: Estimate,
        is_short: Callable[[], bool],
        report: Callable[[Report], None],
    ) -> None:
        self.stragglers = Stragglers()
        self._memory, self._jobs, self._programs, self._queue = memory, jobs, jobs.programs, queue
        self._workers, self._estimate, self._is_short, self._report = workers, estimate, is_short, report
        self._looked = 0.0
        self._ran: dict[int, tuple[float, float]] = {}  # by worker: its `since`, and seconds seen to pass since then

    def look(self) -> bool:
        """Revoke and copy batches as needed; returns whether batches were revoked, so that there are some to send."""
        if not any(worker.batches for worker in self._workers):
            return False
        now = monotonic()
        passed, self._looked = min(now - self._looked, MOST_PASSED), now
        loads = [self._load(worker, self._seconds(worker, now, passed)) for worker in self._workers]
        take, copies = self.stragglers.choose(loads, tight=self._is_short())
        found = [self.revoke(self._workers[index]) for index in take]
        for late, idle in copies:
            self._copy(self._workers[late], self._workers[idle])
        return any(found)

    def _seconds(self, worker: Worker, now: float, passed: float) -> float:
        """Seconds for which a worker was seen to run the same batch; `passed` since the last look."""
        since, seconds = self._ran.get(worker.index, (-1.0, 0.0))
        seconds = seconds + passed if since == worker.since else min(now - worker.since, MOST_PASSED)
        self._ran[worker.index] = worker.since, seconds
        return seconds

    def _load(self, worker: Worker, seconds: float) -> WorkerLoad:
        jobs = self._jobs
        if worker.has_gpu:
            return WorkerLoad()  # a GPU's operands have their own rules, and a GPU takes no operands from other workers
        barred = bool(worker.state) or worker.revoking or not worker.link.pid
        if not worker.batches:
            return WorkerLoad(idle=not (barred or self._queue or self._memory.staged))
        batch = worker.batches[0]
        table = batch.table
        number = -1
        if batch.operands and not self._memory.outputs.waits(worker.index) and table.number not in jobs.stopping:
            number = self._programs.number_of(table, batch.operands[0])
        return WorkerLoad(
            seconds=seconds,
            program=number,
            usual=self._estimate.known(number) if number >= 0 else 0.0,
            repeatable=batch.duplicate is None and all(_repeatable(batch, operand) for operand in batch.operands),
            waits=len(worker.batches) > 1 and not worker.revoking and worker.batches[-1].duplicate is None,
            other=worker.batches[-1].table is not table,
            stuck=bool(worker.state),
            loads=batch.loads,
        )

    def revoke(self, worker: Worker) -> bool:
        """Revoke the last batch of a worker; returns False if the executor has begun."""
        if not worker.link.revoke():
            return False
        worker.revoking = True
        batch = worker.batches.pop()
        table, operands = batch.table, list(batch.operands)
        for operand, slot in zip(operands, batch.outs, strict=True):
            self._memory.give_back(table, operand, slot)
        self._report(Interrupted(table.job, operands, worker.index))
        return True

    def _copy(self, late: Worker, idle: Worker) -> None:
        """Run the batch of a worker on an idle worker too, if there is memory."""
        memory, batch = self._memory, late.batches[0]
        table, copy = batch.table, Batch(batch.table)
        copy.is_copy, wire = True, []
        for operand in batch.operands:
            slot = memory.reserve_copy(table, operand)
            if slot is None:
                break
            row = table.program[operand]
            number = self._programs.numbers(table)[row]
            self._programs.make_known(idle, number, table, row)
            copy.operands.append(operand)
            copy.outs.append(slot)
            args = table.args[operand] if table.args is not None else ()
            inputs = [memory.chunks.memory[table.chunk[i]] for i in table.inputs[operand]]
            wire.append((number, slot, inputs, args))
        if len(wire) < len(batch.operands):
            self.drop(copy)
            return
        copy.duplicate, batch.duplicate = batch, copy
        idle.since = monotonic()
        idle.batches.append(copy)
        idle.link.post()
        idle.link.send(RunBatch(RUN, self._jobs.flags.index(table.number), wire, None))

    def won(self, batch: Batch) -> None:
        """A batch finished an operand before the duplicate, and the duplicate is discarded."""
        if (duplicate := batch.duplicate) is None:
            return
        loser = next(worker for worker in self._workers if duplicate in worker.batches)
        loser.batches.remove(duplicate)
        loser.quarantined += duplicate.outs
        self._release(duplicate)
        self._stay(batch)
        loser.state = DISCARDED
        loser.link.silence()
        loser.link.kill(DISCARDED)

    def drop(self, batch: Batch) -> None:
        """A duplicate, or a copy that was never sent, ends without a result: the other run goes on."""
        for slot in batch.outs:
            if slot:
                self._memory.free_slot(slot)
        self._release(batch)
        if batch.duplicate is not None:
            self._stay(batch.duplicate)

    def _stay(self, batch: Batch) -> None:
        """A batch is the only run left."""
        batch.duplicate = None
        if batch.is_copy:
            batch.is_copy = False
            for operand in batch.operands:
                self._memory.promote_copy(batch.table.job, operand)

    def _release(self, batch: Batch) -> None:
        """Free the scratch of a batch."""
        for operand in batch.operands:
            self._memory.release_scratch(batch.table.job, operand, batch.is_copy)


def _repeatable(batch: Batch, operand: int) -> bool:
    program = batch.table.programs[batch.table.program[operand]]
    once = batch.table.late or operand in batch.table.pinned
    return not (once or program.has_unsized or program.runs_user_code or program.gathers)


QUANTILE, MULTIPLIER = 0.75, 1.5
LEAST_SEEN = 3  # ended operands of a program before an operand of it can be late
LEAST_LATE = 1.0  # seconds beyond the usual: a shorter delay is not worth a copy
LOADING = 10.0  # further seconds for the first run of a program in a process: libraries, on a busy machine
LONG = 0.05  # seconds; longer run times are remembered singly, shorter times by their mean
REMEMBERED = 64


@dataclass(frozen=True)
class WorkerLoad:
    """Load of a worker.

    Attributes
    ----------
    seconds
        For which it runs its batch.
    program
        Number of the running program, -1 for none.
    usual
        Mean seconds of that program's operands, 0 if none has ended.
    repeatable
        Whether its batch may run twice, and has no copy yet.
    waits
        Whether another batch waits behind.
    other
        Whether the waiting batch belongs to another job than the running batch.
    idle
        Whether it could run a batch, and neither has one nor finds operands queued.
    stuck
        Whether its process hangs.
    loads
        Whether its process runs the program for the first time.
    """

    seconds: float = 0.0
    program: int = -1
    usual: float = 0.0
    repeatable: bool = False
    waits: bool = False
    other: bool = False
    idle: bool = False
    stuck: bool = False
    loads: bool = False


class Stragglers:
    """Recent run times of operands, by program.

    Examples
    --------
    >>> late = Stragglers()
    >>> late.learn(7, [2_000_000] * 4)
    >>> busy = WorkerLoad(seconds=5.0, program=7, usual=2.0, repeatable=True)
    >>> late.choose([busy, WorkerLoad(idle=True)])
    ([], [(0, 1)])
    """

    def __init__(self) -> None:
        self.seen: dict[int, deque[float]] = {}  # seconds by program

    def learn(self, program: int, microseconds: Iterable[int]) -> None:
        """Learn run times of a program's operands."""
        for one in microseconds:
            if one >= LONG * 1e6:
                self.seen.setdefault(program, deque(maxlen=REMEMBERED)).append(one * 1e-6)

    def limit(self, program: int, usual: float) -> float:
        """Seconds after which an operand of a program is late; infinite if no time is known."""
        seen = self.seen.get(program, ())
        if len(seen) >= LEAST_SEEN:
            usual = sorted(seen)[int(QUANTILE * (len(seen) - 1))]
        return max(MULTIPLIER * usual, usual + LEAST_LATE) if usual else float("inf")

    def choose(self, workers: Sequence[WorkerLoad], tight: bool = False) -> tuple[list[int], list[tuple[int, int]]]:
        """Workers with a waiting batch to revoke, and pairs (late, idle) to copy between; `tight`: memory is short."""
        idle = [index for index, one in enumerate(workers) if one.idle]
        take: list[int] = []
        for index in sorted(range(len(workers)), key=lambda i: -workers[i].seconds):
            one = workers[index]
            wanted = not tight or one.other or len(take) < len(idle)
            if one.waits and (one.stuck or (wanted and one.seconds >= WAITS_BEHIND)):
                take.append(index)
        copies: list[tuple[int, int]] = []
        for index, one in enumerate(workers):
            late = one.stuck or one.seconds > self.limit(one.program, one.usual) + LOADING * one.loads
            if not take and one.program >= 0 and one.repeatable and late and len(copies) < len(idle):
                copies.append((index, idle[len(copies)]))
        return take, copies


class WorkerRecycling:
    """Workers with processes to replace."""

    def __init__(self, memory: HostMemory, workers: Sequence[Worker], speculation: SpeculativeExecution) -> None:
        self._memory, self._workers, self._speculation = memory, workers, speculation

    def retained(self, worker: Worker, nbytes: int, imported: bool) -> None:
        """An executor measured the memory that functions left allocated; `imported`: functions imported modules."""
        if self._memory.retained.update(worker.index, nbytes, imported):
            self.recycle(worker)

    def recycle(self, worker: Worker) -> None:
        """Replace a process between two batches; a batch that has not begun goes to other workers."""
        worker.state = RECYCLED
        if worker.batches and worker.batches[-1].duplicate is None:
            self._speculation.revoke(worker)
        self.rested(worker)

    def at_once(self, worker: Worker) -> None:
        """Replace a process now: a library that was refused memory while loading stays broken."""
        worker.state = RECYCLED
        worker.link.kill(DISCARDED)

    def batch_ended(self, worker: Worker, batch: Batch) -> None:
        """A batch has ended: end an ephemeral process, or a recycled process without further batches."""
        if batch.table.ephemeral and worker.state in ("", RECYCLED):
            self.recycle(worker)
        else:
            self.rested(worker)

    def rested(self, worker: Worker) -> None:
        """Replace the process of a recycled worker without further batches."""
        if worker.state == RECYCLED and not worker.batches:
            worker.link.kill(DISCARDED)

    def shed(self) -> bool:
        """Recycle all workers that retain memory, since a request finds no room; returns whether some will end.

        A worker that waits for a slot does not end by itself; its result is dropped (`memory.dynamic_outputs`).
        """
        retaining = [one for one in self._workers if one.link.pid and self._memory.retained.retains(one.index)]
        for worker in retaining:
            if worker.state != RECYCLED:
                self.recycle(worker)
        return any(not worker.batches or not self._memory.outputs.waits(worker.index) for worker in retaining)


CANCELLED = "cancelled"  # end of a process that ignored the order to stop
DEATHS_KEPT = 20  # deaths that can be asked about


@dataclass(frozen=True)
class Death:
    """A process that ended.

    Attributes
    ----------
    operand, what
        The operand that it ran, by number and name; -1 for none.
    how
        signal, exit, memory, stopped, cancelled or gpu.
    why
        The same in words.
    peak, cap
        The most bytes that it had in memory, shared memory counted, and the most that a user's function might take; 0
        if unknown.
    time
        By the monotonic clock.
    """

    worker: str
    pid: int
    job: str
    operand: int
    what: str
    how: str
    why: str
    peak: int
    cap: int
    time: float


class BatchRecovery:
    """Batches of executors that are gone.

    Attributes
    ----------
    deaths
        The last processes that ended, the newest last.
    """

    def __init__(
        self,
        memory: HostMemory,
        jobs: OpenJobs,
        workers: Sequence[Worker],
        speculation: SpeculativeExecution,
        report: Callable[[Report], None],
    ) -> None:
        self.deaths: deque[Death] = deque(maxlen=DEATHS_KEPT)
        self._memory, self._jobs, self._programs = memory, jobs, jobs.programs
        self._workers, self._speculation, self._report = workers, speculation, report

    def ended(self, worker: Worker, link: ChildLink, lost: Sequence[Batch], why: str) -> None:
        """The process `link` of a worker ended with `lost` batches."""
        if lost:
            self._memory.outputs.withdraw(worker.index)
        first = lost[0] if lost else None
        by_itself = link.how in ("memory", "exit") or (link.how == "signal" and "SIGKILL" not in why)
        if first is not None and first.capped and first.operands and by_itself:
            # a library that got no memory may end its process; the operand runs again, alone, with all memory
            table, operand = first.table, first.operands[0]
            self._memory.function_wants_all(table, operand, self._programs.number_of(table, operand))
        text = f"{why}: {worker.name} (pid {link.pid})" + _peak(link.peak, first.cap if first is not None else 0)
        how = "exit" if link.how == "gpu" and runs_user_code(lost[:1]) else link.how
        for number, batch in enumerate(lost):
            self.recover(worker, batch, text, how, running=not number)

    def recover(self, worker: Worker, batch: Batch, why: str, how: str, running: bool) -> None:
        """Free the memory of a batch and report the operands: lost if the batch was running, else interrupted."""
        table, operands = batch.table, list(batch.operands)
        if batch.duplicate is not None:
            self._speculation.drop(batch)
            return
        for operand, slot in zip(operands, batch.outs, strict=True):
            self._memory.give_back(table, operand, slot)
        if not running or how in (DISCARDED, CANCELLED) or table.number in self._jobs.stopping:
            self._report(Interrupted(table.job, operands, worker.index))
        else:
            self._jobs.suspects.update((table.number, operand) for operand in operands)
            self._report(WorkerLost(table.job, operands, worker.index, why, how or "signal"))

    def quarantine(self, worker: Worker | None) -> Callable[[], None]:
        """The process of a worker cannot die: keep the slots; returns a function that frees them after the end."""
        slots: list[int] = []
        if worker is not None:
            for batch in worker.batches:
                slots += [slot for slot in batch.outs if slot]
                batch.outs = deque([0] * len(batch.outs))
            slots += worker.quarantined + self._memory.devices.leave_downs(worker.index)
            worker.quarantined = []
        self._memory.buffers.kept.update(slots)

        def release() -> None:
            self._memory.buffers.kept.difference_update(slots)
            for slot in slots:
                self._memory.free_slot(slot)
            self._memory.advance()

        return release

    def remember(self, worker: Worker, link: ChildLink, batch: Batch | None, why: str) -> None:
        """Record a death, unless dispatch was the cause."""
        if link.how == DISCARDED:
            return
        job, operand, what = "", -1, ""
        if batch is not None and batch.operands:
            job, operand = batch.table.job, batch.operands[0]
            what = batch.table.programs[batch.table.program[operand]].name
        cap = batch.cap if batch is not None else 0
        how = link.how or "signal"
        self.deaths.append(Death(worker.name, link.pid, job, operand, what, how, why, link.peak, cap, monotonic()))


def runs_user_code(batches: Iterable[Batch]) -> bool:
    """Whether a function of a user is among the operands of batches."""
    return any(
        batch.table.programs[batch.table.program[one]].runs_user_code for batch in batches for one in batch.operands
    )


def _peak(peak: int, cap: int) -> str:
    """Peak memory of a process and the cap in words, for the operand's error; "" if unknown."""
    of = f" of the {format_bytes(cap)} that it might take" if cap else ""
    return f", which took at most {format_bytes(peak)}{of}" if peak else ""
