"""StageRun: the operands of a job, or of a stage of the job, while they run on the workers.

GraphActor opens a stage on the workers and hands it their reports. Reports change the operands' rows (OperandActor);
the rows' decisions become orders to the workers and events in the log. The stage calls its GraphActor before running
operands are stopped (`stopping`) and when all operands are done (`keep`). Reports that come twice or too late have no
effect. Source: docs/explanation/seeds.md, "Execution control" and "Cancelling a job".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.errors import ChunkLostError
from jmars.flow import Counters
from jmars.model import events
from jmars.model.messages import (
    ChunksLost,
    Failed,
    Failure,
    Finished,
    InputsMissing,
    Interrupted,
    JobReport,
    JobTable,
    Refused,
    Spilled,
    Started,
    WorkerLost,
)
from jmars.model.status import OperandState as S
from jmars.scheduler.job_summaries import chunk_loss_error, worker_killer_error
from jmars.scheduler.operand_rows import Moved
from jmars.scheduler.prepare import Ready
from jmars.scheduler.progress import Eta
from jmars.scheduler.replanning import Replanning
from jmars.scheduler.scheduler_context import SchedulerContext
from jmars.scheduler.shards import Shards, make_rows
from jmars.tensor.operand import SourceLine

if TYPE_CHECKING:
    from jmars.scheduler.graph_actor import GraphActor


class StageRun:
    """One stage on the workers.

    Attributes
    ----------
    operands
        Rows of the operands.
    ready
        The prepared structure, with the bindings of this run.
    given
        By operand: the chunk of another tensor, or of an earlier stage, that the operand stands for.
    ended, succeeded
        Whether no operand is left to wait for, so that the workers were ordered to close the stage; whether all
        operands are done.
    known
        Knowledge that the workers have of the stage.
    read
        Bytes of sources that the ended operands have read; an operand that runs again counts again.
    """

    def __init__(
        self,
        graph: GraphActor,
        context: SchedulerContext,
        ready: Ready,
        table: JobTable,
        given: dict[int, int],
    ) -> None:
        prepared = ready.prepared
        self.ready, self.table, self.given = ready, table, given
        n, workers, places = prepared.settings.get("shards", 1), len(context.workers), context.places
        self.operands = make_rows(Counters(prepared.flow), table.nbytes, prepared.assign, workers, n, places)
        watched, told = prepared.watched, prepared.picture.get("predicted")
        planned = None if watched is None else watched.graph.cost
        makespan = None if told is None else told["makespan"]
        self.eta = Eta(table.program, len(context.here()), planned, makespan, begun=monotonic())
        self.ended = self.succeeded = False
        self.known = RegistrationState.OPEN
        self._graph, self._job, self._context = graph, graph.job, context
        self._port, self._meta, self._log = context.port, context.meta, context.log
        self._replanning: Replanning | None = None  # None for a stage that is too short
        if watched is not None:
            ports, machine = (context.port, context.log, graph.isolate_faults), context.machine
            rows, rank = self.operands, table.rank
            self._replanning = Replanning(graph.job, watched.watch(), rows, rank, *ports, machine, given)
        self.read = 0
        reads = [program.reads for program in table.programs]
        self._reads = [*reads, 0] if any(reads) else None  # bytes of sources by program; -1, a stored chunk, is last
        self._stopping = self._closed = False
        self._on_disk: set[int] = set()  # operands whose chunk was spilled and not reloaded since
        self._line: SourceLine | None = None  # user's line of the operand to blame
        self._places: dict[int, list[tuple[str, int]]] | None = None  # by operand of a result, once a client asked
        self._arrived: list[int] = []  # such operands in order of their end, the same again after a loss

    def start(self) -> None:
        """Hand out the first operands."""
        if isinstance(self.operands, Shards):
            self._log.append(events.OPERANDS_SPREAD, self._job, {"operands": [one.own for one in self.operands.shards]})
        if self.operands.is_done:  # all results are stored; the job ends after the submitting client has its id
            asyncio.get_running_loop().call_soon(self._graph.isolate_faults, self._nothing_to_do)
            return
        self._submit(*self.operands.start())
        self.hosts_changed("")  # hosts may have changed during the preparation

    def _nothing_to_do(self) -> None:
        if not self._stopping and not self.ended:
            self._end_stage(succeeded=True)

    # -- reports of the workers
    def report(self, report: JobReport | ChunksLost) -> None:
        """Act on a report of the workers."""
        _HANDLERS[type(report)](self, report)

    def started(self, operands: Sequence[int], worker: int) -> None:
        """A worker took operands, perhaps readers of some of them too."""
        state = self.operands.state
        early = [one for one in operands if state[one] == S.UNSCHEDULED] if self.table.chains else []
        taken = self.operands.started(operands, worker)
        self._moved(S.READY, [one for one in early if state[one] == S.RUNNING])
        self._moved(S.RUNNING, taken, worker)

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
        if rows.stale:
            operands, microseconds = self._drop_stale(operands, microseconds)
        self.eta.ended(operands, microseconds, worker)
        if self._reads is not None:
            program = self.table.program
            self.read += sum(self._reads[program[one]] for one in operands)
        self._moved(S.FINISHED, operands, worker)
        if self._places is not None and (arrived := [one for one in operands if one in self._places]):
            self._arrived += arrived
            self._graph.changed.set()
        if freed:
            self._free(freed)
        if self._stopping:
            self._end_if_idle()
        elif rows.is_done:
            self._end_stage(succeeded=True)
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
        moved = rows.raised(operand, rule.most(failure))
        delay = rule.delay(rows.tries[operand]) if moved.ready else 0.0
        if moved.ready and (delay or not again):
            self._moved(S.READY, moved.ready)
            if again:
                asyncio.get_running_loop().call_later(delay, self._graph.isolate_faults, self._try_again, operand)
        elif S.FATAL in moved.states:
            where = self._blame(operand, failure.member) + rule.in_words(failure, rows.tries[operand])
            self._fatal(moved, failure.at(where))
        else:
            self._act(moved)

    def refused(self, operand: int, failure: Failure) -> None:
        """An operand can never run on this host."""
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

    def arrived(self, seen: int) -> list[tuple[str, int, int, tuple[int, ...] | None]]:
        """Stored chunks of results beyond the first `seen`, in order of their end: the name of the tensor, the chunk's
        place in C order, the chunk, and a shape that only the run told.
        """
        if self._places is None:
            places = self._places = {}
            for name, operands in self.ready.prepared.results.items():
                for place, operand in enumerate(operands):
                    places.setdefault(operand, []).append((name, place))
            self._arrived = [one for one in places if self.operands.state[one] == S.FINISHED]
        chunk, sizes = self.table.chunk, self.operands.sizes
        found = [(one, *told) for one in self._arrived[seen:] for told in self._places[one]]
        return [(name, place, chunk[one], sizes.get(one)) for one, name, place in found]

    def hosts_changed(self, why: str) -> None:
        """Plan the remaining operands for the present hosts, if the plan is for different hosts."""
        if self._replanning and self._context.machine:
            self._replanning.hosts_changed(self._context.machine, why)

    @property
    def told(self) -> int:
        """Chunks that `arrived` has told of."""
        return len(self._arrived)

    @property
    def states(self) -> bytes:
        """State of each operand as events tell it: SPILLED where a finished operand's chunk is on disk."""
        states = bytearray(self.operands.state)
        for one in self._on_disk:
            if states[one] == S.FINISHED:
                states[one] = S.SPILLED
        return bytes(states)

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

    def _drop_stale(self, operands: Sequence[int], microseconds: Sequence[int]) -> tuple[list[int], list[int]]:
        """The valid part of a report; chunks of operands that were given up meanwhile are freed."""
        rows = self.operands
        stale, rows.stale = set(rows.stale), []
        given_up = [one for one in stale if rows.state[one] in (S.CANCELLED, S.FATAL)]
        self._port.free_chunks([self.table.chunk[one] for one in given_up])
        kept = [place for place, one in enumerate(operands) if one not in stale]
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
        hopeless = self.operands.hopeless(readers[0]) if readers else None  # None: the lost chunk itself is a result
        self._fatal(hopeless, Failure.of(ChunkLostError(text, keys)))

    # -- ending
    def _act(self, moved: Moved) -> None:
        """Log state changes, submit ready operands, and end where no operand is left to wait for."""
        self._tell(moved)
        self._submit(moved.ready, moved.workers)
        self._end_if_idle()

    def _fatal(self, moved: Moved | None, error: Failure) -> None:
        """Give up an operand: its descendants are FATAL, the rest is stopped."""
        if moved is not None:
            self._tell(moved)
        self.stop(error)

    def stop(self, error: Failure | None = None) -> None:
        """Stop running operands and drop waiting operands; no effect when that was done before, or none is left.

        `error` is an operand's; None where the job is cancelled.
        """
        if self._stopping or self.ended:
            return
        self._stopping = True
        self._tell(self.operands.stop())
        self._graph.stopping(error, self._line)
        self._port.stop_execution(self._job)
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._stopping and not self.operands.running and not self.ended:
            self._end_stage(succeeded=False)

    def _end_stage(self, succeeded: bool) -> None:
        """End the stage: keep the results or free the chunks, and order the workers to close the stage."""
        self.ended, self.succeeded = True, succeeded
        rows, chunk = self.operands, self.table.chunk
        if succeeded:
            prepared, bound = self.ready
            results = {bound.key(name): [chunk[i] for i in ids] for name, ids in prepared.results.items()}
            self._graph.keep(results, {chunk[operand]: shape for operand, shape in rows.sizes.items()})
        else:
            freed, program = rows.free(), self.table.program
            self._moved(S.FREED, freed)
            self._port.free_chunks([chunk[i] for i in freed if program[i] >= 0])
        self._port.free_chunks(self._release_inputs())
        self.known = RegistrationState.CLOSING
        self._port.close_job(self._job)

    def never_opened(self) -> list[int]:
        """End a stage that the workers refused as a whole; returns chunks without a holder now."""
        self._stopping = self.ended = True
        self._moved(S.CANCELLED, self.operands.stop().states.get(S.CANCELLED, []))
        return self._release_inputs()

    def close(self) -> None:
        """Close the shards, once: the workers report nothing more."""
        if not self._closed:
            self._closed = True
            self.operands.close()

    def abandon(self) -> list[int]:
        """Give up the stage after a fault of jmars; returns chunks that it read or made, without a holder now."""
        free = self._release_inputs()
        made = [chunk for row, chunk in zip(self.table.program, self.table.chunk, strict=True) if row >= 0]
        self.close()
        return free + [chunk for chunk in made if not self._meta.is_held(chunk)]

    def _release_inputs(self) -> list[int]:
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
    Started: lambda stage, report: stage.started(report.operands, report.worker),
    Finished: lambda stage, report: stage.finished(report.operands, report.worker, report.shapes, report.microseconds),
    Failed: lambda stage, report: stage.failed(report.operand, report.failure),
    Interrupted: lambda stage, report: stage.interrupted(report.operands),
    WorkerLost: lambda stage, report: stage.lost(report.operands, report.why, report.how, report.deaths),
    Spilled: lambda stage, report: stage.spilled(report.operands, report.on_disk),
    Refused: lambda stage, report: stage.refused(report.operand, report.failure),
    ChunksLost: lambda stage, report: stage.chunks_lost(report.chunks, report.why),
    InputsMissing: lambda stage, report: stage.missing(report.operands),
}


class RegistrationState(Enum):
    """Knowledge that the workers have of a stage."""

    OPEN = "open"
    CLOSING = "closing"  # ordered to forget the stage
    CLOSED = "closed"
