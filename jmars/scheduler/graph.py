"""GraphActor: one job from submission to its end.

It compiles the tensor graph (in a thread, so that a cancel is heard meanwhile), makes the plan, keeps the operands'
rows and acts on what they decide: orders to the workers, events to the log. It ends as succeeded, failed or cancelled
exactly once, and then holds nothing but the results. Source: seed 003, "作业提交", "取消作业" and "执行控制".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jmars.errors import JobCancelledError
from jmars.model import events
from jmars.model.messages import JobTable
from jmars.model.states import STATE_NAMES, TERMINAL, JobState
from jmars.model.states import OperandState as S
from jmars.scheduler.operand import OperandActor
from jmars.scheduler.prepare import Ready
from jmars.scheduler.preparing import first
from jmars.scheduler.progress import Progress
from jmars.scheduler.replanning import Replanning, watch_over
from jmars.scheduler.stages import Stages
from jmars.scheduler.surroundings import Surroundings
from jmars.scheduler.telling import added, counts_by_state, ended_workers, in_all, packed_error, standing
from jmars.tensor.source_line import SourceLine
from jmars.tensor.structure import Bindings

__all__ = ["GraphActor"]


class GraphActor:
    """One job. Its public attributes are what `describe` tells; everything else is its own.

    Parameters
    ----------
    job, number, name
        Id, running number and the name that people see.
    around
        What it shares with the other jobs.
    """

    def __init__(self, job: str, number: int, name: str, around: Surroundings) -> None:
        self.job, self.number, self.name = job, number, name
        self.state = JobState.PREPARING
        self.error: tuple[str, str, str, bytes, str] | None = None  # class, text, traceback, pickle, where
        self.line: SourceLine | None = None  # the user's line whose operand failed
        self.submitted = time.monotonic()
        self.elapsed = 0.0
        self.measured: dict[str, Any] | None = None  # what it took, once it has ended
        self.results: list[str] = []  # keys of the tensors that it left here and that were not here before
        self.settled: dict[str, Any] = {}  # chunks of results whose lengths were not known when they were submitted
        self._around = around
        self._port, self._meta, self._log = around.port, around.meta, around.log
        self._stop_as: JobState | None = None  # how it will end once nothing runs
        self._picture: dict[str, Any] | None = None
        self._operands: OperandActor | None = None
        self._ready: Ready | None = None  # what is run
        self._table: JobTable | None = None
        self._given: dict[int, int] = {}  # operand: chunk of another tensor, or of an earlier stage, that it stands for
        self._replanning: Replanning | None = None  # where the run is long enough to be watched
        self._running = 0
        self._final_states = b""
        self._stages: Stages | None = None  # of a graph that unfolds while it runs
        self._earlier = [0] * len(STATE_NAMES)  # operands of stages that have ended, by state
        self._progress = Progress()
        self._going_on: asyncio.Task[None] | None = None  # from one stage to the next
        self._log.append(events.JOB_SUBMITTED, job, {"name": name})
        self._log.append(events.JOB_MOVED, job, self._job_data())

    # -- preparing
    async def submit(self, blob: bytes, settings: dict[str, Any], structure: bytes, bound: Bindings | None) -> None:
        """Compile, plan and start; returns when operands run, or the job has ended already.

        `blob` is a canonical graph of that structure with its bindings, or any graph with None.
        """
        args = (self._around, self.job, blob, settings, structure, bound, self._check)
        found = await asyncio.to_thread(_tried, first, *args)
        if self.state in TERMINAL:
            return  # cancelled meanwhile
        ready, self._stages = (found, None) if isinstance(found, BaseException) else found
        self.run(ready)

    def run(self, ready: Ready | BaseException | None) -> None:
        """Start a stage, or end where there is none or it could not be prepared."""
        if self.state in TERMINAL:
            return  # cancelled meanwhile
        if ready is None:
            self._end(JobState.SUCCEEDED)
            return
        error = self._open(ready) if isinstance(ready, Ready) else ready
        if error is None:
            self._start()
            return
        self._fail(error, "while the graph was prepared")
        self._end(JobState.FAILED)

    def _check(self) -> None:
        if self._stop_as is not None:
            raise JobCancelledError("cancelled while it was prepared")

    def _open(self, ready: Ready) -> Exception | None:
        """Open the job on the workers; returns why that cannot be, and then nothing has happened."""
        prepared, bound = ready
        table = prepared.open(self.job, self.number, self._around.take_chunks(prepared.plan.dag.n), bound)
        chunk, given = table.chunk, {}
        try:
            if self._stages is not None:
                self._stages.hold(self._meta)
            for name, operands in prepared.stored.items():
                key = bound.key(name)
                held = self._meta.chunks(key if self._stages is None else self._stages.name(key))
                for operand, index in operands:
                    given[operand] = chunk[operand] = held[index]
            self._port.open_job(table)
        except Exception as error:  # a tensor was dropped, too many jobs are open, a user's object has no hash
            return error
        self._given = given
        self._meta.hold(given.values())
        if self._stages is not None:
            self._port.free_chunks(self._stages.begin(self._meta))
        number = 1 if self._stages is None else self._stages.number
        self._ready, self._table, self._picture = ready, table, prepared.shown(bound, number)
        self._progress.begin(len(given), last=self._stages is None or self._stages.is_last)
        self._operands = OperandActor(prepared.pool.acquire(), table.nbytes, prepared.assign, len(self._around.workers))
        self._replanning = watch_over(prepared.watched, self.job, self._operands, table.rank, self._port, self._log)
        return None

    def _start(self) -> None:
        assert self._operands is not None and self._picture is not None and self._ready is not None
        self._log.append(events.GRAPH_BUILT, self.job, self._picture, self._ready.prepared.weight)
        if self.state is not JobState.RUNNING:
            self._move(JobState.RUNNING)
        if self._operands.is_done:
            self._done()
            return
        ready, workers = self._operands.start()
        self._moved(S.READY, ready)
        self._port.enqueue_graph(self.job, ready, workers)

    # -- reports of the workers
    def started(self, operands: list[int], worker: int) -> None:
        """A worker took operands."""
        assert self._operands is not None
        taken = self._operands.started(operands, worker)
        self._running += len(operands)
        self._moved(S.RUNNING, taken, worker)

    def finished(
        self,
        operands: list[int],
        worker: int,
        sizes: Mapping[int, tuple[int, ...]] | None = None,
        microseconds: Sequence[int] = (),
    ) -> None:
        """Chunks are stored: what waited for them is ready, what only they needed is freed."""
        assert self._operands is not None and self._table is not None
        self._running -= len(operands)
        for operand, shape in (sizes or {}).items():
            self._operands.sized(operand, shape, self._table.bytes_of(operand, shape))
        ready, workers, freed = self._operands.finished(operands, worker)
        self._moved(S.FINISHED, operands, worker)
        if freed:
            self._moved(S.FREED, freed)
            program, chunk = self._table.program, self._table.chunk
            self._port.free_chunks([chunk[one] for one in freed if program[one] >= 0])
            if self._given:
                read = [self._given.pop(one) for one in freed if program[one] < 0]
                self._port.free_chunks(self._meta.release(read))
        if self._stop_as is not None:
            self._moved(S.CANCELLED, self._operands.move(ready, S.CANCELLED))
            self._end_if_still()
        elif self._operands.is_done:
            self._done()
        else:
            if ready:
                self._moved(S.READY, ready)
                self._port.enqueue_graph(self.job, ready, workers)
            if self._replanning is not None:
                self._replanning.ended(operands, worker, microseconds)

    def failed(self, operand: int, worker: int, error: tuple[str, str, str, bytes, int]) -> None:
        """An operand raised: it and what depends on it are FATAL, the rest stops."""
        self._running -= 1
        if self._stop_as is None:
            self.error = (*error[:4], self._blame(operand, error[4]))
            self._fatal(operand)
        self._end_if_still()

    def refused(self, operand: int, error: Exception) -> None:
        """An operand can never run on this host."""
        if self._stop_as is None:
            self._fail(error, self._blame(operand))
            self._fatal(operand)
        self._end_if_still()

    def interrupted(self, operands: list[int], worker: int) -> None:
        """Operands were stopped before they were done, as ordered; those still queued were not counted as running."""
        assert self._operands is not None
        if worker >= 0:
            self._running -= len(operands)
        if self._stop_as is not None:
            self._moved(S.CANCELLED, self._operands.move(operands, S.CANCELLED))
            self._end_if_still()
        elif worker >= 0:  # the executor dropped them behind one that failed; nobody asked for that
            self._again(operands, None, "")

    def lost(self, operands: list[int], worker: int, why: str) -> None:
        """The worker died: what it held runs again elsewhere, unless the first has ended too many workers."""
        self._running -= len(operands)
        if self._stop_as is None:
            self._again(operands, operands[0] if operands else None, why)
        self._end_if_still()

    def spilled(self, operands: list[int], on_disk: bool) -> None:
        """Chunks went to disk or came back: shown like a state, though it is none."""
        self._moved(S.SPILLED if on_disk else S.FINISHED, operands)

    def _again(self, operands: list[int], suspect: int | None, why: str) -> None:
        assert self._operands is not None
        workers, poison = self._operands.again(operands, suspect)
        if poison is None:
            self._moved(S.READY, operands)
            self._port.enqueue_graph(self.job, operands, workers)
            return
        self._moved(S.CANCELLED, self._operands.move([one for one in operands if one != poison], S.CANCELLED))
        where = self._blame(poison)
        self._fail(ended_workers(where, self._operands.attempts[poison], why), where)
        self._fatal(poison)

    # -- ending
    def cancel(self) -> None:
        """Stop the job; no effect when it has ended or is about to."""
        if self.state not in TERMINAL and self._stop_as is None:
            self._stop(JobState.CANCELLED)

    def _fatal(self, operand: int) -> None:
        assert self._operands is not None
        fatal = self._operands.move([operand, *self._operands.descendants(operand)], S.FATAL)
        self._moved(S.FATAL, fatal)
        self._stop(JobState.FAILED)

    def _stop(self, ends_as: JobState) -> None:
        self._stop_as = ends_as
        if self._operands is None:
            self._move(JobState.CANCELLING)
            self._end(ends_as)  # the thread that prepares it finds out between two phases
            return
        waiting = self._operands.those_in(S.UNSCHEDULED, S.READY)
        running = self._operands.those_in(S.RUNNING)
        self._moved(S.CANCELLED, self._operands.move(waiting, S.CANCELLED))
        self._moved(S.CANCELLING, self._operands.move(running, S.CANCELLING))
        self._move(JobState.CANCELLING)
        self._port.stop_execution(self.job)
        self._end_if_still()

    def _end_if_still(self) -> None:
        if self._stop_as is not None and not self._running and self.state not in TERMINAL:
            self._end(self._stop_as)

    def _fail(self, error: BaseException, where: str) -> None:
        self.error = packed_error(error, where)

    def _done(self) -> None:
        """All operands of the stage have finished."""
        if self._stages is None:
            self._end(JobState.SUCCEEDED)
            return
        self._close_stage(succeeded=True)
        self._going_on = asyncio.ensure_future(self._go_on(self._stages))

    async def _go_on(self, stages: Stages) -> None:
        """From the end of a stage to the beginning of the next."""
        ready: Any
        try:
            assert self._around.read_chunk is not None
            values = await stages.values(self._meta, self._around.read_chunk)
            ready = await asyncio.to_thread(_tried, stages.prepare, values)
        except Exception as error:  # the chunk was lost on a disk
            ready = error
        asyncio.get_running_loop().call_soon(self.run, ready)  # what is wrong there ends the cluster, and is told

    def _close_stage(self, succeeded: bool) -> None:
        """Keep what was computed or free it, and let go of the stage."""
        if self._table is not None and self._operands is not None and self._ready is not None:
            chunk = self._table.chunk
            if succeeded:
                prepared, bound = self._ready
                kept = {bound.key(name): [chunk[i] for i in ids] for name, ids in prepared.results.items()}
                shapes = {chunk[operand]: shape for operand, shape in self._operands.sizes.items()}
                if self._stages is None:
                    self._keep(kept)
                else:
                    self._stages.end(kept, shapes, self._meta)
                for one, shape in shapes.items():
                    self._meta.told(one, shape)
            else:
                program = self._table.program
                stored = [i for i in self._operands.those_in(S.FINISHED) if program[i] >= 0]
                self._moved(S.FREED, self._operands.move(stored, S.FREED))
                self._port.free_chunks([chunk[i] for i in stored])
            self._port.free_chunks(self._meta.release(self._given.values()))
            self._given = {}
            if self._replanning is not None:
                self._replanning.close()
            measured = self._port.close_job(self.job)
            if succeeded:
                self._around.ran(self._ready.prepared, measured)
            self.measured = in_all(self.measured, measured)
            self._ready.prepared.pool.release(self._operands.counters)  # nothing runs, so no report is under way
        if self._operands is not None:
            self._final_states = bytes(self._operands.state)
            self._progress.close(self._final_states)
            self._earlier = added(self._earlier, counts_by_state(self._final_states))
        self._operands = self._table = self._ready = self._replanning = None

    def _keep(self, results: Mapping[str, list[int]]) -> None:
        """Leave the results here, chunks by key."""
        for key, chunks in results.items():
            if key not in self._meta.tensors:
                self.results.append(key)
            self._port.free_chunks(self._meta.keep(key, chunks))

    def _end(self, state: JobState) -> None:
        self._close_stage(state is JobState.SUCCEEDED)
        if self._stages is not None:
            if state is JobState.SUCCEEDED:
                self._keep(self._stages.results(self._meta))
                self.settled = self._stages.settled
            self._port.free_chunks(self._stages.close(self._meta))
            self._stages = None
        self._move(state)
        self._around.ended(self)

    def forget_picture(self) -> None:
        """Keep of an ended job only what `describe` tells."""
        self._picture = None

    # -- telling
    @property
    def progress(self) -> float:
        """Share of the work that is done: never less than before, 1 only when the job has succeeded."""
        return self._progress.told(self._operands.state if self._operands else b"", self.state is JobState.SUCCEEDED)

    def held(self) -> list[int]:
        """Bytes of its chunks by the worker that made them, while it runs."""
        return self._operands.held if self._operands is not None else []

    def describe(self) -> dict[str, Any]:
        """What a list of jobs shows."""
        counts = added(self._earlier, counts_by_state(self._operands.state)) if self._operands else self._earlier
        return {
            "id": self.job,
            "name": self.name,
            "state": str(self.state),
            "error": self.error[1] if self.error else None,
            "progress": self.progress,
            "elapsed": self.elapsed if self.state in TERMINAL else time.monotonic() - self.submitted,
            "operands": sum(counts),
            "counts": dict(zip(STATE_NAMES, counts, strict=True)),
        }

    def standing(self) -> list[tuple[str, str, dict[str, Any]]]:
        """How it stands, as events: for a reader who missed some."""
        states = self._operands.state if self._operands is not None else self._final_states
        return standing(self.job, self.name, self._picture, states, self._job_data())

    def _blame(self, operand: int, member: int = -1) -> str:
        """The operand that failed in words; the line that asked for it is noted."""
        assert self._ready is not None
        text, self.line = self._ready.prepared.blame(operand, self._ready.bound, member)
        return text

    def _move(self, state: JobState) -> None:
        self.state = state
        self.elapsed = time.monotonic() - self.submitted
        self._log.append(events.JOB_MOVED, self.job, self._job_data())

    def _job_data(self) -> dict[str, Any]:
        error = f"{self.error[0]}: {self.error[1]}" if self.error else None
        told: dict[str, Any] = {"state": str(self.state), "error": error, "elapsed": self.elapsed}
        return told if self.measured is None else told | {"measured": self.measured}

    def _moved(self, state: S, operands: Sequence[int], worker: int = -1) -> None:
        if operands:
            ids = np.array(operands, "<u4").tobytes()
            self._log.append(events.OPERANDS_MOVED, self.job, {"state": int(state), "ids": ids, "worker": worker})


def _tried(call: Callable[..., Any], *args: Any) -> Any:
    """What `call` gives or raises; unpickling runs code of users, which may raise SystemExit too."""
    try:
        return call(*args)
    except BaseException as error:
        return error
