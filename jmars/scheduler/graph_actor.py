"""GraphActor: a job from submission to end.

The actor compiles the tensor graph (in a thread, so that a cancel is heard meanwhile), makes the plan, and runs stage
after stage (StageRun); most jobs have a single stage. A job ends as succeeded, failed or cancelled exactly once, and
then holds only the results.

A stage ends in two steps. When no operand is left to wait for, the stage hands its results to `keep` and orders the
workers to forget the stage. Their last report calls `closed`, which begins the next stage or ends the job.

A fault of jmars ends a single job, not other jobs and not the cluster: the rows of its stage may be half changed, so
they decide no more. The workers stop and forget the stage, then chunks that only this stage needed are freed (`broken`;
docs/explanation/reliability.md, "Faults of jmars itself").
Source: docs/explanation/seeds.md, "Submitting a job", "Cancelling a job" and "Execution control".

Phases: the running phase of a job's preparation, with the age, to explain why no operand runs.

A graph is prepared in a thread that may hang in the user's code (unpickling, the functions of a lazy graph). So the
thread need not report: `Phases` notes the thread, and reads the thread's stack only when a client asks.
Source: docs/explanation/seeds.md, "Preparing the graph".
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

import cloudpickle
import numpy as np

from jmars.errors import ChunkLostError, JobCancelledError, fault_of
from jmars.model import events
from jmars.model.messages import (
    ChunksLost,
    Failure,
    GpuRefused,
    JobBroken,
    JobClosed,
    JobReport,
    Refused,
    Submission,
    Warned,
)
from jmars.model.status import STATE_NAMES, TERMINAL, JobState
from jmars.scheduler.job_summaries import (
    JobWarnings,
    blame_operand,
    counts_by_state,
    internal_failure,
    merge_measurements,
    standing,
    sum_counts,
)
from jmars.scheduler.prepare import Ready
from jmars.scheduler.progress import Progress
from jmars.scheduler.ranking import refuse_unfit
from jmars.scheduler.scheduler_context import SchedulerContext
from jmars.scheduler.stage_run import RegistrationState, StageRun
from jmars.scheduler.stages import Stages, compile_submission, stages_of
from jmars.tensor.operand import SourceLine
from jmars.units import format_seconds

log = logging.getLogger("jmars.scheduler")


class GraphActor:
    """One job.

    Parameters
    ----------
    job, number, name
        Id, running number and the name that people see.
    context
        What it shares with the other jobs.
    """

    def __init__(self, job: str, number: int, name: str, context: SchedulerContext) -> None:
        self.job, self.number, self.name = job, number, name
        self.state = JobState.PREPARING
        self.error: Failure | None = None
        self.line: SourceLine | None = None  # the user's line whose operand failed
        self.submitted = time.monotonic()
        self.elapsed = 0.0
        self.made_at = 0  # line of the cell that made the last operand; 0 where unknown
        self.measured: dict[str, Any] | None = None  # measurements of the stages that have ended; None before
        self.results: list[str] = []  # keys of kept tensors that were not here before the job
        self.settled: dict[str, Any] = {}  # chunk lengths of results that were unknown at the submission
        self.newest: Ready | None = None  # the newest stage, also after its end, as long as the picture is kept
        self.stage: StageRun | None = None  # the running stage; None before the first, between stages, and at the end
        self.phases = Phases()  # the running phase of the preparation
        self.replayed = False  # while an earlier scheduler's stage is opened once more: a failure is not told of
        self.refused: list[str] = []  # operands that GPUs could not run, with reasons, in words
        self.warnings = JobWarnings(job, context.log)
        self.changed = asyncio.Event()  # set when results that a client asked for have come, and at the end
        self._context = context
        self._port, self._meta, self._log = context.port, context.meta, context.log
        self._stop_as: JobState | None = None  # final state of a job that is being stopped
        self._picture: dict[str, Any] | None = None
        self._broken: StageRun | None = None  # stage that failed by a fault of jmars, until the workers forget it
        self._final_states = b""
        self._stages: Stages | None = None  # stages of a graph that unfolds during the run
        self._earlier = [0] * len(STATE_NAMES)  # operands of stages that have ended, by state
        self._progress = Progress()
        self._going_on: asyncio.Task[None] | None = None  # way from one stage to the next
        self._log.append(events.JOB_SUBMITTED, job, {"name": name})
        self._log.append(events.JOB_MOVED, job, self._job_data())

    # -- preparing
    async def submit(self, submission: Submission) -> None:
        """Compile, plan and start; returns when operands run, or the job has ended already."""
        args = (self._context, self.job, submission, self._check)
        found = await asyncio.to_thread(self.phases.run, compile_submission, *args)
        if self.state in TERMINAL:
            return  # cancelled meanwhile
        ready, self._stages = (found, None) if isinstance(found, BaseException) else found
        self.run(ready)

    def run(self, ready: Ready | BaseException | None) -> None:
        """Start a stage, or end the job where there is no stage or its preparation failed."""
        if self.state in TERMINAL:
            return  # cancelled meanwhile
        if ready is None:
            self._end(JobState.SUCCEEDED)
            return
        if isinstance(ready, Ready):
            try:
                self.stage = self._open(ready)
            except Exception as error:  # a tensor was dropped, too many jobs are open, a user's object has no hash
                where, self.line = blame_operand(error, ready)
                self.error = Failure.of(error, where)
            else:
                self._begin(self.stage)
                return
        else:
            self.error = Failure.of(ready, "while the graph was prepared")
        self._end(JobState.FAILED)

    def _check(self) -> None:
        if self._stop_as is not None:
            raise JobCancelledError("cancelled while it was prepared")

    def _open(self, ready: Ready) -> StageRun:
        """Open the job, or its next stage, on the workers; an exception leaves no change.

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
        context, stages, most = self._context, self._stages, prepared.hungriest
        machine = None if context.machine is None else context.machine()
        if most is not None and machine is not None and most.nbytes > machine.largest:
            what = prepared.blame(most.operand, bound)[0]
            refuse_unfit(most, machine, what)
        table = prepared.open(self.job, self.number, context.take_chunks(prepared.plan.dag.n), bound)
        given: dict[int, int] = {}
        if stages is not None:
            stages.hold(self._meta)
        for name, operands in prepared.stored.items():
            key = bound.key(name)
            held = self._meta.chunks(key if stages is None else stages.name(key))
            for operand, index in operands:
                given[operand] = table.chunk[operand] = held[index]
        stage = StageRun(self, context, ready, table, given)
        try:
            self._port.open_job(table)
        except Exception:
            stage.close()
            raise
        self._meta.hold(given.values())
        if stages is not None:
            self._port.free_chunks(stages.begin(self._meta))
        return stage

    def _begin(self, stage: StageRun) -> None:
        """Start a stage that was opened on the workers."""
        prepared, bound = stage.ready
        number = 1 if self._stages is None else self._stages.number
        self._picture, self.newest = prepared.shown(bound, number), stage.ready
        if self._picture["stages"]:
            self.made_at = int(self._picture["stages"][-1][2] or 0)
        self._progress.begin(len(stage.given), last=self._stages is None or self._stages.is_last)
        if prepared.made >= self.submitted:  # prepared for this job, not taken from the cache
            self._log.append(events.JOB_PREPARED, self.job, {"phases": prepared.phases})
        self._log.append(events.GRAPH_BUILT, self.job, self._picture, prepared.weight)
        if self.state is not JobState.RUNNING:
            self._move(JobState.RUNNING)
        stage.start()

    async def arrived(self, seen: int) -> tuple[int, list[Any]]:
        """Results of the last stage beyond the first `seen` chunks, as soon as there are more: how many chunks have
        been told by then, and rows (key, place of the chunk, chunk, shape); no row at the end of the job.
        """
        while self.state not in TERMINAL:
            stage, stages = self.stage, self._stages
            if stage is not None and not stage.ended and (stages is None or stages.is_last):
                rows = stage.arrived(seen)
                if rows:
                    key_of = stage.ready.bound.key
                    keys = {name: [key_of(name)] for name in {name for name, *_ in rows}}
                    if stages is not None:
                        keys = {name: stages.results_of(key) for name, (key,) in keys.items()}
                    return stage.told, [(key, *row) for name, *row in rows for key in keys[name]]
            self.changed.clear()
            await self.changed.wait()
        return seen, []

    # -- reports of the workers
    def report(self, report: JobReport | ChunksLost | JobBroken) -> None:
        """Act on a report of the workers; a late report has no effect."""
        if isinstance(report, JobBroken):
            self.broken(report.why)
        elif isinstance(report, JobClosed) or (isinstance(report, Refused) and report.operand < 0):
            self._forgotten(report)
        elif self.stage is None:
            return
        elif isinstance(report, Warned):
            self.isolate_faults(self.warnings.add, self.stage.ready, report)
        else:
            self.isolate_faults(self.stage.report, report)

    def on_cores(self, report: GpuRefused, worker: str) -> None:
        """Log that cores run operands which were planned for a GPU."""
        if self.newest is None:
            return
        where, _ = self.newest.prepared.blame(report.operands[0], self.newest.bound)
        why = f"{where}: {worker} cannot run it, so cores do: {report.why}"
        self.refused.append(why)
        ids = np.array(report.operands, "<u4").tobytes()
        self._log.append(events.GPU_REFUSED, self.job, {"worker": report.worker, "operands": ids, "why": why})

    def isolate_faults(self, act: Callable[..., None], *args: Any) -> None:
        """Call `act` for this job; an unexpected error ends this job alone."""
        try:
            act(*args)
        except Exception as error:
            if self.state in TERMINAL or self._broken is not None:
                raise  # a fault while the job ends: its state is unknown
            log.exception("%s ends by a fault of ours", self.job)
            self.broken(fault_of(error))

    def broken(self, what: str) -> None:
        """Fail the job for a fault of jmars; the chunks are freed as soon as no operand runs.

        No effect when the job has ended, or is about to. Errors on that way are raised.
        """
        if self.state in TERMINAL or self._broken is not None:
            return
        self.error, self.line, self._stop_as = internal_failure(what), None, JobState.FAILED
        for key in self.results:
            self._port.free_chunks(self._meta.drop(key))
        self.results = []
        stage, self.stage = self.stage, None
        if stage is None:
            self._end(JobState.FAILED)
            return
        self._leave(stage)
        self._move(JobState.CANCELLING)
        self._broken = stage
        if stage.known is RegistrationState.CLOSED:
            self._bury(stage)
        elif stage.known is RegistrationState.OPEN:
            stage.known = RegistrationState.CLOSING  # no planned retry has an effect now
            self._port.stop_execution(self.job)
            self._port.close_job(self.job)

    def _bury(self, stage: StageRun) -> None:
        """End the job after a fault of jmars: the workers have forgotten the stage."""
        self._port.free_chunks(stage.abandon())
        self._broken = None
        self._end(JobState.FAILED)

    # -- the end of a stage
    def stopping(self, error: Failure | None, line: SourceLine | None) -> None:
        """The stage is about to stop its running operands: for an operand's error, or (None) as ordered."""
        if error is not None:
            self.error, self.line, self._stop_as = error, line, JobState.FAILED
        self._move(JobState.CANCELLING)

    def keep(self, chunks: Mapping[str, list[int]], shapes: Mapping[int, tuple[int, ...]]) -> None:
        """Keep the results of a stage whose operands are all done; the workers do not know yet.

        `chunks` has the chunks of each key; `shapes` those of chunks that were unknown before the run.
        """
        if self._stages is None:
            self._keep(chunks)
        else:
            ended = self._stages.end(chunks, shapes, self._meta)
            if self._context.stage_ended is not None:
                self._context.stage_ended(self.job, self._stages.number, ended)
        for one, shape in shapes.items():
            self._meta.note_shape(one, shape)

    def _forgotten(self, report: JobClosed | Refused) -> None:
        """The workers have forgotten the stage, or refused it as a whole: nothing more is reported about it."""
        if self._broken is not None:
            self._bury(self._broken)
        elif self.stage is not None:
            self.stage.known = RegistrationState.CLOSED
            if isinstance(report, Refused):
                self.isolate_faults(self._never_opened, self.stage, report.failure)
            else:
                self.isolate_faults(self.closed, report.measured)

    def closed(self, measured: dict[str, Any] | None) -> None:
        """Go on with the next stage, or end the job; `measured` is None where the workers refused the stage."""
        stage = self.stage
        assert stage is not None
        stage.close()
        if measured is not None:
            if stage.succeeded:
                self._context.ran(stage.ready.prepared, measured)
            self.measured = merge_measurements(self.measured, measured | {"read": stage.read})
        self._leave(stage)
        self.stage = None
        if self._stop_as is not None:
            self._end(self._stop_as)
        elif self._stages is None:
            self._end(JobState.SUCCEEDED)
        else:
            self._going_on = asyncio.ensure_future(self._go_on(self._stages))

    def _never_opened(self, stage: StageRun, failure: Failure) -> None:
        """Fail the job, because the workers refused the stage as a whole."""
        where, self.line = blame_operand(failure.unpickled(), stage.ready)
        self.error, self._stop_as = failure.at(where), JobState.FAILED
        self._port.free_chunks(stage.never_opened())
        self.closed(None)

    def _leave(self, stage: StageRun) -> None:
        """Note how the operands of a stage stand that is over."""
        self._final_states = stage.states
        self._progress.close(self._final_states)
        self._earlier = sum_counts(self._earlier, counts_by_state(self._final_states))

    # -- ending
    def cancel(self) -> None:
        """Stop the job; no effect when the job has ended or is about to."""
        if self.state in TERMINAL or self._stop_as is not None:
            return
        if self.stage is None:
            self._stop_as = JobState.CANCELLED
            self._move(JobState.CANCELLING)
            self._end(JobState.CANCELLED)  # the thread of the preparation checks between two phases
        elif not self.stage.ended:
            self._stop_as = JobState.CANCELLED
            self.stage.stop()
        elif self._stages is not None:
            self._stop_as = JobState.CANCELLED  # takes effect when the stage is closed

    async def _go_on(self, stages: Stages) -> None:
        """From the end of a stage to the beginning of the next."""
        ready: Any
        try:
            assert self._context.read_chunk is not None
            values = await stages.values(self._meta, self._context.read_chunk)
            if self._context.stage_values is not None:
                self._context.stage_values(self.job, stages.number, values)
            ready = await asyncio.to_thread(self.phases.run, stages.prepare, values)
        except Exception as error:  # the chunk was lost on a disk
            ready = error
        asyncio.get_running_loop().call_soon(self.isolate_faults, self.run, ready)

    def _keep(self, results: Mapping[str, list[int]]) -> None:
        """Leave the results here, chunks by key."""
        for key, chunks in results.items():
            if key not in self._meta.tensors:
                self.results.append(key)
            self._port.free_chunks(self._meta.keep(key, chunks))

    def _end(self, state: JobState) -> None:
        if self._stages is not None:
            if state is JobState.SUCCEEDED:
                try:
                    self._keep(self._stages.results(self._meta))
                    self.settled = self._stages.settled
                except ChunkLostError as error:  # its stage had ended when the host was lost
                    self.error, state = Failure.of(error), JobState.FAILED
            self._port.free_chunks(self._stages.close(self._meta))
            self._stages = None
        self.state = state
        if not self.replayed:
            self._move(state)
            self._context.ended(self)

    def forget_plan(self) -> None:
        """Drop the plan of an ended job; the picture stays."""
        self.newest = None

    def forget_picture(self) -> None:
        """Drop all of an ended job but the fields of `describe`."""
        self._picture = self.newest = None
        self._final_states = b""  # a byte for each operand; read together with the picture only

    # -- for a scheduler that comes after this one
    def over(self) -> dict[str, Any]:
        """Measurements of an ended job, beside its report."""
        return {"elapsed": self.elapsed, "measured": self.measured, "counts": self._earlier}

    def stages_of(self, submission: Submission) -> Stages:
        """The stages of this job, none begun."""
        return stages_of(self._context, self.job, cloudpickle.loads(submission.graph), submission.settings, self._check)

    async def resume_stage(self, stages: Stages, values: Mapping[int, Any] | None) -> None:
        """Open the next stage of a job whose earlier stages ended under an earlier scheduler; `values` decide it."""
        self._stages = stages
        self.run(await asyncio.to_thread(self.phases.run, stages.prepare, values))

    def resume_between(self, stages: Stages) -> None:
        """Prepare the next stage; the last one ended under an earlier scheduler, and the workers have forgotten it."""
        self._stages = stages
        self._move(JobState.RUNNING)
        self._going_on = asyncio.ensure_future(self._go_on(stages))

    def leave_stages(self) -> list[int]:
        """Release the chunks of earlier stages, because the job begins anew; returns chunks without a holder now."""
        stages, self._stages = self._stages, None
        return [] if stages is None else stages.close(self._meta)

    def restore(self, report: Mapping[str, Any], over: Mapping[str, Any]) -> None:
        """Restore a job that ended under an earlier scheduler, from its report and `over`; the picture is lost."""
        self.state, self.error = JobState(report["state"]), report["error"]
        self.line = SourceLine(*report["line"]) if report["line"] else None
        self.results, self.settled = list(report["results"]), report["settled"]
        self.warnings.restore(report["warned"])
        self.elapsed, self.measured, self._earlier = over["elapsed"], over["measured"], list(over["counts"])
        self._log.append(events.JOB_MOVED, self.job, self._job_data())

    # -- telling
    @property
    def progress(self) -> float:
        """Share of the work that is done: never less than before, 1 only when the job has succeeded."""
        return self._progress.now(self.stage.operands.state if self.stage else b"", self.state is JobState.SUCCEEDED)

    @property
    def eta(self) -> float | None:
        """Estimated remaining seconds of the running stage; None while unknown."""
        if self.stage is None or self.state is not JobState.RUNNING:
            return None
        return self.stage.eta.left(time.monotonic(), self.stage.operands.state)

    @property
    def _elapsed_now(self) -> float:
        """Seconds since the submission, or from there to the end."""
        return self.elapsed if self.state in TERMINAL else time.monotonic() - self.submitted

    def held(self) -> list[int]:
        """Bytes of the job's chunks by the worker that made them, while the job runs."""
        return self.stage.operands.held if self.stage is not None else []

    def describe(self) -> dict[str, Any]:
        """Fields of the job in lists of jobs."""
        counts = sum_counts(self._earlier, counts_by_state(self.stage.states)) if self.stage else self._earlier
        return {
            "id": self.job,
            "name": self.name,
            "line": self.made_at,
            "state": str(self.state),
            "error": self.error.text if self.error else None,
            "progress": self.progress,
            "eta": self.eta,
            "elapsed": self._elapsed_now,
            "operands": sum(counts),
            "counts": dict(zip(STATE_NAMES, counts, strict=True)),
            "measured": self.measured,
        }

    def standing(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Present state of the job as events, for a reader that missed some."""
        states = self.stage.states if self.stage is not None else self._final_states
        return standing(self.job, self.name, self._picture, states, self._job_data() | {"elapsed": self._elapsed_now})

    def _move(self, state: JobState) -> None:
        self.state = state
        self.changed.set()
        self.elapsed = time.monotonic() - self.submitted
        self._log.append(events.JOB_MOVED, self.job, self._job_data())

    def _job_data(self) -> dict[str, Any]:
        error = str(self.error) if self.error else None
        told: dict[str, Any] = {"state": str(self.state), "error": error, "elapsed": self.elapsed}
        return told if self.measured is None else told | {"measured": self.measured}


_PACKAGE = str(Path(__file__).parents[1])
_PHASES = {  # phase by file, or by file and function; the innermost frame with an entry counts
    "optimize/passes.py:merge_equal": "equal tensors are merged",
    "optimize/passes.py:fuse_tensors": "tensors are fused",
    "optimize/passes.py:tile": "tensors are cut into chunks",
    "optimize/passes.py:prune": "what nobody needs is dropped",
    "optimize/regions.py": "operands are fused",
    "optimize/unfolding.py": "the next part of the graph is unfolded",
    "optimize/passes.py:compile_graph": "the graph is compiled",
    "plan/choice.py": "orders are tried in virtual time",
    "plan/simulation.py": "orders are tried in virtual time",
    "plan/costs.py": "costs are looked up",
    "scheduler/ranking.py": "orders are tried in virtual time",
    "scheduler/prepare.py:graph_built": "its picture is drawn",
    "scheduler/prepare.py:prepare": "it is laid out for the workers",
    "scheduler/stages.py:compile_submission": "the graph is read",
    "scheduler/stages.py:prepare": "the next stage is made",
}


class Phases:
    """One call at a time that runs in a thread.

    Examples
    --------
    >>> phases = Phases()
    >>> phases.run(lambda: phases.text() != "", )
    True
    >>> phases.text()
    ''
    """

    def __init__(self) -> None:
        self._thread: int | None = None
        self._since = 0.0

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run `call(*args)` in the calling thread; returns an exception that it raised.

        The user's code runs within, and may raise SystemExit too.
        """
        self._thread, self._since = threading.get_ident(), monotonic()
        try:
            return call(*args)
        except BaseException as error:
            return error
        finally:
            self._thread = None

    @property
    def now(self) -> str:
        """Name of the running phase; "" while none runs."""
        thread = self._thread
        frame = sys._current_frames().get(thread) if thread is not None else None
        return phase_of(frame) if frame is not None else ""

    def text(self) -> str:
        """The same, and for how long."""
        now = self.now
        return f"{now}, for {format_seconds(monotonic() - self._since)}" if now else ""


def phase_of(frame: FrameType) -> str:
    """Phase that a stack is in, in words; the user's code within is named by its line."""
    phase, users = "it is begun", ""
    for link, line in traceback.walk_stack(frame):  # the innermost first; `extract_stack` reads and keeps source files
        name, filename = link.f_code.co_name, link.f_code.co_filename
        if filename.startswith(_PACKAGE):
            file = filename.removeprefix(_PACKAGE).lstrip("/")
            if found := _PHASES.get(f"{file}:{name}") or _PHASES.get(file):
                phase = found
                break
        elif not users and not _is_library(filename):
            users = f" (in {name}, line {line} of {Path(filename).name})"
    return phase + users


def _is_library(filename: str) -> bool:
    """Whether a file belongs to Python or a package that is installed."""
    return filename.startswith("<frozen") or "site-packages" in filename or filename.startswith(_PYTHONS)


_PYTHONS = str(Path(traceback.__file__).parent)  # the standard library's folder
