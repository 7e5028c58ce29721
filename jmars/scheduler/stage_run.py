"""StageRun: the operands of a job, or of a stage of the job, while they run on the workers.

From the opening of the stage on the workers to their report of the closing: reports change the operands' rows
(OperandActor); the rows' decisions become orders to the workers and events in the log. Reports that come twice or too
late have no effect. Source: docs/explanation/seeds.md, "Execution control" and "Cancelling a job".

StageListener: the stage's view of the job.

Opens a job, or its next stage, on the workers: chunk numbers, inputs from outside, then the job's table.

FailedStageCleanup: releases a stage that failed with an unexpected error.

The stage's rows may be half changed, so they decide no more: the workers stop and forget the stage, and then
chunks that only this stage needed are freed. So a fault of jmars ends a single job, not other jobs and not the cluster.
Source: docs/explanation/reliability.md, "Faults of jmars itself".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from time import monotonic
from typing import Any, Protocol

import numpy as np

from jmars.errors import ChunkLostError
from jmars.model import events
from jmars.model.messages import (
    ChunksLost,
    Failed,
    Failure,
    Finished,
    InputsMissing,
    Interrupted,
    JobClosed,
    JobReport,
    JobTable,
    Refused,
    Spilled,
    Started,
    WorkerLost,
)
from jmars.model.status import OperandState as S
from jmars.scheduler.job_summaries import blame_operand, chunk_loss_error, worker_killer_error
from jmars.scheduler.operand_rows import Moved
from jmars.scheduler.prepare import Ready
from jmars.scheduler.progress import Eta
from jmars.scheduler.ranking import refuse_unfit
from jmars.scheduler.replanning import watch_over
from jmars.scheduler.scheduler_context import SchedulerContext
from jmars.scheduler.shards import Shards, make_rows
from jmars.scheduler.stages import Stages
from jmars.tensor.source_line import SourceLine


class StageRun:
    """One stage on the workers.

    Attributes
    ----------
    operands
        The rows.
    ready
        What is run.
    given
        Operand: chunk of another tensor, or of an earlier stage, that it stands for.
    ended
        Whether nothing runs any more, and the workers were told to close it.
    known
        What they know of it.
    """

    def __init__(
        self,
        job: str,
        listener: StageListener,
        context: SchedulerContext,
        ready: Ready,
        table: JobTable,
        given: dict[int, int],
    ) -> None:
        prepared = ready.prepared
        self.ready, self.table, self.given = ready, table, given
        n, workers, places = prepared.settings.get("shards", 1), len(context.workers), context.places
        self.operands = make_rows(prepared.pool.acquire(), table.nbytes, prepared.assign, workers, n, places)
        watched, told = prepared.watched, prepared.picture.get("predicted")
        planned = None if watched is None else watched.graph.cost
        makespan = None if told is None else told["makespan"]
        self.eta = Eta(table.program, len(context.here()), planned, makespan, begun=monotonic())
        self.ended = False
        self.known = RegistrationState.OPEN
        self._job, self._listener, self._context = job, listener, context
        self._port, self._meta, self._log = context.port, context.meta, context.log
        ports = context.port, context.log, listener.isolate_faults
        self._replanning = watch_over(prepared.watched, job, self.operands, table.rank, *ports, context.machine, given)
        self._computed = 0.0  # seconds that operands took, of all workers
        self._stopping = False
        self._succeeded = False
        self._on_disk: set[int] = set()  # operands whose chunk was spilled and not reloaded since
        self._line: SourceLine | None = None  # of the operand that is to blame

    def start(self) -> None:
        """Hand out the first operands."""
        if isinstance(self.operands, Shards):
            self._log.append(events.OPERANDS_SPREAD, self._job, {"operands": [one.own for one in self.operands.shards]})
        if self.operands.is_done:  # all is here: a job does not end before who submits it has heard of it
            asyncio.get_running_loop().call_soon(self._listener.isolate_faults, self._nothing_to_do)
            return
        self._submit(*self.operands.start())
        self.hosts_changed("")  # while the graph was prepared

    def _nothing_to_do(self) -> None:
        if not self._stopping and not self.ended:
            self._over(succeeded=True)

    # -- reports of the workers
    def report(self, report: JobReport | ChunksLost) -> None:
        """Act on a report of the workers."""
        _HANDLERS[type(report)](self, report)

    def started(self, operands: Sequence[int], worker: int) -> None:
        """A worker took operands."""
        self._moved(S.RUNNING, self.operands.started(operands, worker), worker)

    def finished(
        self,
        operands: Sequence[int],
        worker: int,
        sizes: Mapping[int, tuple[int, ...]] | None = None,
        microseconds: Sequence[int] = (),
    ) -> None:
        """Chunks are stored: submit operands that became ready, free chunks without a reader left."""
        rows = self.operands
        for operand, shape in (sizes or {}).items():
            rows.sized(operand, shape, self.table.bytes_of(operand, shape))
        ready, workers, freed = rows.finished(operands, worker)
        if rows.odd:
            operands, microseconds = self._without_odd(operands, microseconds)
        self.eta.ended(operands, microseconds)
        self._computed += 1e-6 * sum(microseconds)
        self._moved(S.FINISHED, operands, worker)
        if freed:
            self._free(freed)
        if self._stopping:
            self._end_if_still()
        elif rows.is_done:
            self._over(succeeded=True)
        else:
            if ready:
                self._submit(ready, workers)
            if self._replanning is not None:
                self._replanning.ended(operands, worker, microseconds)

    def failed(self, operand: int, failure: Failure, again: bool = True) -> None:
        """Retry an operand that raised, or make the operand and all descendants FATAL and stop the rest.

        `again` is False while a job is resumed: ready operands are then submitted later.
        """
        rows = self.operands
        rule = self.ready.prepared.retry_rule(operand)
        moved = rows.raised(operand, rule.most(failure, self._computed / max(1, len(self._context.workers))))
        delay = rule.delay(failure, rows.tries[operand]) if moved.ready else 0.0
        if moved.ready and (delay or not again):
            self._moved(S.READY, moved.ready)
            if again:
                asyncio.get_running_loop().call_later(delay, self._listener.isolate_faults, self._try_again, operand)
        elif S.FATAL in moved.states:
            where = self._blame(operand, failure.member) + rule.told(failure, rows.tries[operand])
            self._fatal(moved, failure.at(where))
        else:
            self._act(moved)

    def refused(self, operand: int, failure: Failure) -> None:
        """An operand can never run on this host; with -1 no operand of the job can, and the workers have forgotten
        the job.
        """
        if operand < 0:
            self._never_opened(failure)
            return
        moved = self.operands.refused(operand)
        if S.FATAL in moved.states:
            self._fatal(moved, failure.at(self._blame(operand)))
        else:
            self._act(moved)

    def interrupted(self, operands: Sequence[int]) -> None:
        """Operands were stopped before their end: as ordered, or because they stood behind a failed operand."""
        self._act(self.operands.dropped(operands))

    def lost(self, operands: Sequence[int], why: str, how: str, deaths: int = 1) -> None:
        """The worker died: its operands run again elsewhere, except operands that ended too many workers alone."""
        rows = self.operands
        causes = rows.died(operands, how, deaths)
        if causes:
            *others, where = [self._blame(one) for one in reversed(causes)]
            fatal, *more = [rows.hopeless(one) for one in causes]
            for moved in more:
                self._tell(moved)
            known = rows.blame.deaths[causes[0]]
            error = worker_killer_error(where, known, why, how, self._context.memory_advice(), others)
            self._fatal(fatal, Failure.of(error, where))
        self._act(rows.dropped(operands))

    def chunks_lost(self, chunks: Iterable[int], why: str) -> None:
        """Chunks are gone from the workers: their operands run again, after operands of freed inputs."""
        base, program = self.table.base, self.table.program
        mine = [one - base for one in chunks if 0 <= one - base < len(program) and program[one - base] >= 0]
        outside = set(chunks) & set(self.given.values())
        if self._stopping or self.ended:
            return
        if outside:
            self._lost_outside(outside, why)
        elif mine:
            self._recover(mine, why)

    def missing(self, operands: Sequence[int]) -> None:
        """Operands that a worker had cannot run, because inputs are gone: they wait for the inputs."""
        self._act(self.operands.missing(operands))

    def spilled(self, operands: Sequence[int], on_disk: bool) -> None:
        """Chunks went to disk or came back: shown like a state, though it is none."""
        state = self.operands.state
        (self._on_disk.update if on_disk else self._on_disk.difference_update)(operands)
        self._moved(S.SPILLED if on_disk else S.FINISHED, [one for one in operands if state[one] == S.FINISHED])

    @property
    def states(self) -> bytes:
        """State of each operand as events tell it: SPILLED where a finished operand's chunk is on disk."""
        states = bytearray(self.operands.state)
        for one in self._on_disk:
            if states[one] == S.FINISHED:
                states[one] = S.SPILLED
        return bytes(states)

    def closed(self, measured: dict[str, Any] | None) -> None:
        """The workers have forgotten the stage; `measured` is None where the stage never came to them."""
        self.known = RegistrationState.CLOSED
        self.ready.prepared.pool.release(self.operands.close())  # nothing more is reported
        if self._succeeded and measured is not None:
            self._context.ran(self.ready.prepared, measured)
        self._listener.closed(measured, self._succeeded)

    # -- what follows from them
    def _submit(self, operands: Sequence[int], workers: Sequence[int]) -> None:
        if operands:
            self._moved(S.READY, operands)
            self._port.enqueue_graph(self._job, operands, workers)

    def _free(self, freed: Sequence[int]) -> None:
        self._moved(S.FREED, freed)
        program, chunk = self.table.program, self.table.chunk
        self._port.free_chunks([chunk[one] for one in freed if program[one] >= 0])
        if self.given:
            read = [self.given.pop(one) for one in freed if program[one] < 0]
            self._port.free_chunks(self._meta.release(read))

    def _without_odd(self, operands: Sequence[int], microseconds: Sequence[int]) -> tuple[list[int], list[int]]:
        """The valid part of a report; chunks of operands that were given up meanwhile are freed."""
        rows = self.operands
        odd, rows.odd = set(rows.odd), []
        given_up = [one for one in odd if rows.state[one] in (S.CANCELLED, S.FATAL)]
        self._port.free_chunks([self.table.chunk[one] for one in given_up])
        kept = [place for place, one in enumerate(operands) if one not in odd]
        return [operands[k] for k in kept], [microseconds[k] for k in kept] if microseconds else []

    def _try_again(self, operand: int) -> None:
        """Submit an operand again some time after the exception, unless the operand is not needed any more or lacks
        inputs.
        """
        if self.known is RegistrationState.OPEN and self.operands.state[operand] == S.READY:
            self._act(self.operands.missing([operand]))

    def _recover(self, lost: Sequence[int], why: str) -> None:
        found = self.operands.lost(lost, monotonic())
        if found is None:
            return
        self._on_disk.difference_update(found.again)
        self._moved(S.UNSCHEDULED, found.again)
        chunks = [self.table.chunk[one] for one in found.again]
        self._log.append(events.CHUNKS_LOST, self._job, {"chunks": chunks, "operands": list(found.again), "why": why})
        gone = self._take_back(found.given)
        if gone:
            self._lost_outside(gone, why)
        elif found.worst >= 0:
            where = self._blame(found.worst)
            times = self.operands.losses.of(found.worst)
            self._fatal(self.operands.hopeless(found.worst), Failure.of(chunk_loss_error(where, times, why), where))
        else:
            self._submit(found.ready, found.workers)

    def _take_back(self, given: Sequence[int]) -> set[int]:
        """Hold chunks from outside that were released and are read again; returns chunks that are gone by now."""
        self._moved(S.FINISHED, given)
        chunks = {operand: self.table.chunk[operand] for operand in given}
        gone = {chunk for chunk in chunks.values() if not self._meta.is_held(chunk)}
        if not gone:
            self._meta.hold(chunks.values())
            self.given.update(chunks)
        return gone

    def _lost_outside(self, chunks: Iterable[int], why: str) -> None:
        """Chunks that no operand of this job makes are gone: whoever holds the graph must compute them."""
        keys = self._meta.lost(chunks)
        text = (
            f"chunks that were computed or sent before this job are gone ({why}); who has their graph submits it "
            "again, without being asked; else run the cell that made them once more"
        )
        read = set(chunks)
        readers = self.operands.descendants(operand for operand, chunk in self.given.items() if chunk in read)
        hopeless = self.operands.hopeless(readers[0]) if readers else None  # none: it is itself a result
        self._fatal(hopeless, Failure.of(ChunkLostError(text, keys)))

    # -- ending
    def _act(self, moved: Moved) -> None:
        """Log state changes, submit ready operands, and end where no operand is left to wait for."""
        self._tell(moved)
        self._submit(moved.ready, moved.workers)
        self._end_if_still()

    def _fatal(self, moved: Moved | None, error: Failure) -> None:
        """Give up an operand: its descendants are FATAL, the rest is stopped."""
        if not self._stopping:
            self._listener.failing(error, self._line)
        if moved is not None:
            self._tell(moved)
        self.stop()

    def stop(self) -> None:
        """Stop running operands and drop waiting operands; no effect when that was done before, or none is left."""
        if self._stopping or self.ended:
            return
        self._stopping = True
        self._tell(self.operands.stop())
        self._listener.stopping()
        self._port.stop_execution(self._job)
        self._end_if_still()

    def _never_opened(self, failure: Failure) -> None:
        where, line = blame_operand(failure.unpickled(), self.ready)
        self._listener.failing(failure.at(where), line)
        self._stopping = self.ended = True
        self._moved(S.CANCELLED, self.operands.stop().states.get(S.CANCELLED, []))
        self._port.free_chunks(self.let_go())
        self.closed(None)

    def _end_if_still(self) -> None:
        if self._stopping and not self.operands.running and not self.ended:
            self._over(succeeded=False)

    def _over(self, succeeded: bool) -> None:
        """End the stage: keep the results or free the chunks, and order the workers to close the stage."""
        self.ended, self._succeeded = True, succeeded
        rows, chunk = self.operands, self.table.chunk
        if succeeded:
            prepared, bound = self.ready
            shapes = {chunk[operand]: shape for operand, shape in rows.sizes.items()}
            self._listener.keep(
                {bound.key(name): [chunk[i] for i in ids] for name, ids in prepared.results.items()}, shapes
            )
        else:
            freed, program = rows.free(), self.table.program
            self._moved(S.FREED, freed)
            self._port.free_chunks([chunk[i] for i in freed if program[i] >= 0])
        self._port.free_chunks(self.let_go())
        self.known = RegistrationState.CLOSING
        self._port.close_job(self._job)

    def hosts_changed(self, why: str) -> None:
        """Plan the remaining operands for the present hosts, if the plan is for different hosts."""
        if self._replanning and self._context.machine:
            self._replanning.hosts_changed(self._context.machine, why)

    def let_go(self) -> list[int]:
        """Release chunks from outside; returns chunks without a holder now."""
        if self._replanning:
            self._replanning.close()
        given, self.given = self.given, {}
        return self._meta.release(given.values())

    # -- telling
    def _blame(self, operand: int, member: int = -1) -> str:
        """An operand in words; notes the line that asked for it."""
        text, self._line = self.ready.prepared.blame(operand, self.ready.bound, member)
        return text

    def _tell(self, moved: Moved) -> None:
        for state, operands in moved.states.items():
            self._moved(state, operands)

    def _moved(self, state: S, operands: Sequence[int], worker: int = -1) -> None:
        if operands:
            ids = np.array(operands, "<u4").tobytes()
            self._log.append(events.OPERANDS_MOVED, self._job, {"state": int(state), "ids": ids, "worker": worker})


# By class of the report; a `match` takes four times as long, and a report comes for every batch.
_HANDLERS: dict[type, Callable[[StageRun, Any], None]] = {
    Started: lambda stage, told: stage.started(told.operands, told.worker),
    Finished: lambda stage, told: stage.finished(told.operands, told.worker, told.shapes, told.microseconds),
    Failed: lambda stage, told: stage.failed(told.operand, told.failure),
    Interrupted: lambda stage, told: stage.interrupted(told.operands),
    WorkerLost: lambda stage, told: stage.lost(told.operands, told.why, told.how, told.deaths),
    Spilled: lambda stage, told: stage.spilled(told.operands, told.on_disk),
    Refused: lambda stage, told: stage.refused(told.operand, told.failure),
    ChunksLost: lambda stage, told: stage.chunks_lost(told.chunks, told.why),
    InputsMissing: lambda stage, told: stage.missing(told.operands),
    JobClosed: lambda stage, told: stage.closed(told.measured),
}


class RegistrationState(Enum):
    """Knowledge that the workers have of a stage."""

    OPEN = "open"
    CLOSING = "closing"  # they were told to forget it
    CLOSED = "closed"


class StageListener(Protocol):
    """The job that a stage belongs to."""

    def isolate_faults(self, act: Callable[..., None], *args: Any) -> None:
        """Call `act` for the job; an unexpected error ends this job alone."""

    def failing(self, error: Failure, line: SourceLine | None) -> None:
        """An operand cannot be computed: the stage stops."""

    def stopping(self) -> None:
        """The stage is about to stop its running operands."""

    def keep(self, chunks: Mapping[str, list[int]], shapes: Mapping[int, tuple[int, ...]]) -> None:
        """All operands are done: chunks of the results by key, and the shapes that were not known before."""

    def closed(self, measured: dict[str, Any] | None, succeeded: bool) -> None:
        """The stage is over, and the workers have forgotten it."""


def open_stage(
    job: str, number: int, listener: StageListener, context: SchedulerContext, ready: Ready, stages: Stages | None
) -> StageRun:
    """Open a job, or the next stage of a job, on the workers; an exception leaves no change.

    Raises
    ------
    ClusterError
        If a tensor that it reads was dropped, or too many jobs are open.
    ChunkLostError
        If chunks of it were lost.
    MemoryLimitError
        If one of its operands does not fit in memory by itself.
    """
    prepared, bound = ready
    most = prepared.hungriest
    machine = None if context.machine is None else context.machine()
    if most is not None and machine is not None and most.nbytes > machine.largest:
        what = prepared.blame(most.operand, bound)[0]
        refuse_unfit(most, machine.largest, what, machine.advice, machine.giver())
    meta, port = context.meta, context.port
    table = prepared.open(job, number, context.take_chunks(prepared.plan.dag.n), bound)
    given: dict[int, int] = {}
    if stages is not None:
        stages.hold(meta)
    for name, operands in prepared.stored.items():
        key = bound.key(name)
        held = meta.chunks(key if stages is None else stages.name(key))
        for operand, index in operands:
            given[operand] = table.chunk[operand] = held[index]
    run = StageRun(job, listener, context, ready, table, given)
    try:
        port.open_job(table)
    except Exception:
        prepared.pool.release(run.operands.counters)
        raise
    meta.hold(given.values())
    if stages is not None:
        port.free_chunks(stages.begin(meta))
    return run


class FailedStageCleanup:
    """Takes the remaining reports for a stage.

    Parameters
    ----------
    stage
        The one that is given up; no report reaches it any more.
    job, context
        Its job, and what that shares with others.
    gone
        Called once, when the workers know nothing of it and nothing is held for it.
    """

    def __init__(self, stage: StageRun, job: str, context: SchedulerContext, gone: Callable[[], None]) -> None:
        self._stage, self._job, self._context, self._gone = stage, job, context, gone

    def stop(self) -> None:
        """Make the workers stop and forget the stage, unless they were told to."""
        if self._stage.known is RegistrationState.CLOSED:
            self._bury()
        elif self._stage.known is RegistrationState.OPEN:
            self._stage.known = RegistrationState.CLOSING  # so that a try which it has planned comes to nothing
            self._context.port.stop_execution(self._job)
            self._context.port.close_job(self._job)

    def report(self, report: JobReport | ChunksLost) -> None:
        """Take a report of the workers; only the end of the stage on the workers has an effect."""
        if isinstance(report, JobClosed) or (isinstance(report, Refused) and report.operand < 0):
            self._bury()

    def _bury(self) -> None:
        stage, context = self._stage, self._context
        free = stage.let_go()
        made = [chunk for row, chunk in zip(stage.table.program, stage.table.chunk, strict=True) if row >= 0]
        context.port.free_chunks(free + [chunk for chunk in made if not context.meta.is_held(chunk)])
        if stage.known is not RegistrationState.CLOSED:
            stage.ready.prepared.pool.release(stage.operands.counters)
        self._gone()
