"""Resumes the work of a dead scheduler from the journal and the recovery snapshot of the host.

The journal is replayed without side effects: graphs of jobs that have not ended are compiled again, and their
journaled reports are acted on again, failures and dead workers too. Then the host's work since is added, and missing
orders are sent: ready operands that the host does not have, chunks to free, chunks to compute again. So no finished
operand runs again. Stages that had ended are not compiled again: a job goes on with the next. A job begins anew if the
compiled graph differs from the journaled graph, or if the job never reached the host.
Source: docs/decisions/0027-scheduler-apart.md.

RemoteWorkers: sends orders to workers in another process as messages.

Source: docs/decisions/0027-scheduler-apart.md; docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import cloudpickle
import numpy as np
from msgspec.structs import replace

from jmars.errors import ClusterError
from jmars.model.messages import (
    ChunksKept,
    ChunksLost,
    CloseJob,
    EnqueueGraph,
    Failed,
    Finished,
    FreeChunks,
    JobTable,
    OpenJob,
    Order,
    Replan,
    Report,
    StopExecution,
    Submission,
    Warned,
    WorkerLost,
)
from jmars.model.status import OperandState as S
from jmars.scheduler.graph_actor import GraphActor
from jmars.scheduler.journal import JournaledSession, digest_of_table
from jmars.scheduler.scheduler_context import EndedStage
from jmars.scheduler.session_actor import SessionActor
from jmars.scheduler.stage_run import StageRun
from jmars.scheduler.stages import Stages
from jmars.tensor.structure import Bindings
from jmars.tensor.tensor_graph import Stored

log = logging.getLogger("jmars.scheduler")

WHY = "it was gone when the scheduler was started again"


class Resuming:
    """One resumption.

    Parameters
    ----------
    session
        A fresh one, whose workers are `workers`.
    noted
        The journaled session around it, which learns tickets and structures.
    give_up
        Has the host stop and forget a job, and free its chunks where the second argument says so.
    """

    def __init__(
        self,
        session: SessionActor,
        noted: JournaledSession,
        workers: RemoteWorkers,
        give_up: Callable[[str, bool], Awaitable[None]],
    ) -> None:
        self._session, self._noted, self._workers, self._give_up = session, noted, workers, give_up
        self.reports: list[dict[str, Any]] = []  # reports of jobs that had ended
        self._graphs: dict[bytes, bytes] = {}  # pickled canonical graphs, by structure
        self._submissions: dict[str, tuple[int, Submission]] = {}  # (number, submission) of the last record, by job
        self._ended: set[str] = set()
        self._anew: set[str] = set()
        self._stopped: set[str] = set()  # jobs that were cancelled
        self._withdrawn: list[str] = []  # tickets
        self._base: dict[str, int] = {}
        self._held: dict[str, list[int]] = {}  # input chunks of jobs that may begin anew
        self._unheard: set[str] = set()  # jobs that the host has not opened yet
        self._unfolding: dict[str, FinishedStages] = {}  # ended stages of jobs with several stages

    async def run(self, records: Iterable[tuple[Any, ...]], host: Mapping[str, Any]) -> None:
        """Replay `records`; `host` is the recovery snapshot of the workers' host."""
        story = list(records)
        for record in story:
            if record[0] == "job":
                if record[1] in self._submissions:  # begun anew; a first record may follow its end
                    self._ended.discard(record[1])
                self._submissions[record[1]] = record[2], record[3]
            elif record[0] == "end":
                self._ended.add(record[1]["job"])
        for kind, *told in story:
            if kind in ("stage", "values") and self._submissions.get(told[0], (0,))[0] == told[1]:
                self._unfolding.setdefault(told[0], FinishedStages()).note(kind, told[2], told[3])
        self._workers.muted = True
        try:
            for record in story:
                await self._live(*record)
            self.reports = [one for one in self.reports if one["job"] in self._session.graphs]
            running = self._add_what_the_host_did(host)
        finally:
            self._workers.muted = False
        for job in [job for job in host["jobs"] if job not in running]:
            await self._give_up(job, not self._is_between(job))
        self._workers.holder = {chunk: worker for worker, some in host["chunks"] for chunk in _numbers(some)}
        gone = self._settle_chunks(host, running)
        self._order_the_rest(host, running)
        if gone:  # last, because it orders the operands that make these chunks
            self._noted.report(ChunksLost(gone, WHY))
        self._resume_between()
        self._begin_anew()
        for ticket in self._withdrawn:
            self._session.withdraw(ticket)
        for job in self._stopped:
            self._session.graph(job).cancel()

    # -- living through the journal
    async def _live(self, kind: str, *told: Any) -> None:
        session = self._session
        match kind, told:
            case "structure", (submission,):
                self._graphs[submission.structure] = submission.graph
                self._noted.structures.add(submission.structure)
            case "job", (job, number, _):
                if self._submissions[job][0] == number and job not in self._ended:
                    self._begin(job)
            case "stage" | "values", _:
                pass  # see `run`
            case "open", (job, number, base, count, digest):
                if job in self._submissions and self._submissions[job][0] == number and job not in self._ended:
                    await self._open(job, base, count, digest)
            case "report", (report,):
                self._report(report)
            case "keep", (key, first, count):
                await session.keep(key, first, count)
            case "drop", (keys,):
                session.drop(keys)
            case "cancel", (job,):
                if job in self._submissions and job not in self._ended:
                    self._stopped.add(job)
            case "withdraw", (ticket,):
                self._withdraw(ticket)
            case "end", (report, over, tensors, shapes):
                if report["job"] in self._ended and report["job"] in self._submissions:
                    self._end(report, over)
                    self._keep(tensors, shapes)
            case "tensors", (tensors, shapes):
                self._keep(tensors, shapes)
            case _:
                raise ClusterError(f"the journal has a record {kind!r} that this version does not know")

    def _report(self, report: Report) -> None:
        """Act on a journaled report once more; its operands were started before."""
        if isinstance(report, ChunksLost | Warned):
            self._session.report(report)
            return
        assert isinstance(report, Finished | Failed | WorkerLost)
        stage = self._stage(report.job)
        if stage is None:
            return
        stage.started([report.operand] if isinstance(report, Failed) else report.operands, report.worker)
        if isinstance(report, Failed):
            stage.failed(report.operand, report.failure, again=False)
        else:
            stage.report(report)

    def _begin(self, job: str) -> GraphActor:
        """A job that has not ended; an `open` may stand before its own record."""
        number, submission = self._submissions[job]
        known = self._session.graphs.get(job)
        if known is not None:
            return known
        graph = self._session.register_job(job, number, submission.name, submission.ticket)
        if submission.ticket:
            self._noted.tickets[submission.ticket] = job
        if submission.bindings is None:  # a job of several stages, which may begin anew
            leaves = cloudpickle.loads(submission.graph)
            self._hold(job, [m.key for op, m in zip(leaves.operands, leaves.metas) if isinstance(op, Stored)])
        return graph

    async def _open(self, job: str, base: int, count: int, digest: bytes) -> None:
        graph = self._begin(job)
        if job in self._anew:
            return
        submission = self._whole(job)
        finished = self._unfolding.setdefault(job, FinishedStages()) if submission.bindings is None else None
        if finished is not None and not self._skipped(job, finished):
            return
        context = self._session.context
        take = context.take_chunks
        same: list[bool] = []

        def compare(table: JobTable) -> None:
            same.append(len(table.program) == count and digest_of_table(table) == digest)
            if not same[0]:
                raise ClusterError(f"the graph of {job} was compiled otherwise than before")

        context.take_chunks, self._workers.opening = lambda _: base, compare
        graph.replayed = True  # where that fails the job begins anew, which is not its end
        try:
            if finished is not None and finished.stages is not None:
                await graph.resume_stage(finished.stages, finished.values_before())
            else:
                await graph.submit(submission)
        finally:
            context.take_chunks, self._workers.opening, graph.replayed = take, self._noted.opening, False
        self._base[job] = base
        if not same or not same[0]:
            log.warning("%s begins anew: its graph could not be compiled as before", job)
            self._anew.add(job)
            if submission.bindings is not None:
                bindings = Bindings(*submission.bindings)
                self._hold(job, [bindings.key(name) for name in _names_of_leaves(submission.graph)])

    def _skipped(self, job: str, finished: FinishedStages) -> bool:
        """Whether the opened stage is the last of the journal; skips an ended stage."""
        finished.opened += 1
        ended = finished.ended.get(finished.opened)
        try:
            if finished.opened == 1 and ended is not None:
                finished.stages = self._begin(job).stages_of(self._whole(job))
            if ended is None:
                return True
            assert finished.stages is not None
            finished.stages.skip(finished.values_before(), ended, self._session.meta)
        except Exception as error:
            log.warning("%s begins anew: stage %d cannot be skipped: %s", job, finished.opened, error)
            self._anew.add(job)
        return False

    def _withdraw(self, ticket: str) -> None:
        job = self._noted.tickets.get(ticket, "")
        if job and job not in self._ended:
            self._withdrawn.append(ticket)
        else:
            self._session.withdraw(ticket)

    def _end(self, report: dict[str, Any], over: Any) -> None:
        job = report["job"]
        number, submission = self._submissions[job]
        graph = self._session.register_job(job, number, submission.name, submission.ticket)
        graph.restore(report, over)
        self._session.remember(graph)
        if submission.ticket:
            self._noted.tickets[submission.ticket] = job
        self._noted.known_end(report)
        self.reports.append(report)

    def _keep(self, tensors: Mapping[str, Sequence[int]], shapes: Mapping[int, tuple[int, ...]]) -> None:
        meta = self._session.meta
        for key, chunks in tensors.items():
            meta.keep(key, chunks)
        for chunk, shape in shapes.items():
            meta.note_shape(chunk, shape)

    def _hold(self, job: str, keys: Iterable[str]) -> None:
        """Hold the inputs of a job that begins anew until then."""
        meta = self._session.meta
        held = self._held.setdefault(job, [])
        for key in keys:
            chunks = meta.tensors.get(key, [])
            meta.hold(chunks)
            held += chunks

    def _stage(self, job: str) -> StageRun | None:
        graph = self._session.graphs.get(job)
        return None if graph is None or job in self._anew else graph.stage

    # -- the host's work since
    def _add_what_the_host_did(self, host: Mapping[str, Any]) -> dict[str, StageRun]:
        """Add reports that no scheduler heard; returns the stages that go on, by job."""
        going: dict[str, StageRun] = {}
        for job in [job for job in self._submissions if job not in self._ended]:
            stage, here = self._stage(job), host["jobs"].get(job)
            if stage is None:
                if not self._is_between(job):
                    self._anew.add(job)
            elif here is not None and here["base"] == self._base[job] and self._may_go_on(job, stage, here):
                _catch_up(stage, here)
                going[job] = stage
            elif here is None and self._is_untouched(stage):
                going[job] = stage  # the host has no such job yet
                self._unheard.add(job)
            elif stage.ended and job in host["closed"]:
                self._session.graph(job).closed(host["closed"][job])
            else:
                self._anew.add(job)
                self._held.setdefault(job, []).extend(stage.given.values())  # released at the end of the new run
            if job in self._anew:
                self._leave(job)
        return going

    def _is_untouched(self, stage: StageRun) -> bool:
        """Whether no operand of a stage began to run."""
        state, program = stage.operands.state, stage.table.program
        begun = (S.UNSCHEDULED, S.READY)
        return not stage.ended and all(state[one] in begun for one, row in enumerate(program) if row >= 0)

    def _may_go_on(self, job: str, stage: StageRun, here: Mapping[str, Any]) -> bool:
        """Whether the host still runs a job, or stopped the job for its user or for a journaled error.

        An operand that can never run there is not in the journal: the refusal comes again as the job runs again.
        """
        return not here.get("stopped") or job in self._stopped or stage.ended

    def _settle_chunks(self, host: Mapping[str, Any], going: Mapping[str, StageRun]) -> list[int]:
        """Free chunks without a holder; returns the lost ones, which are to be computed again."""
        here = set(self._workers.holder)
        needed = set(self._session.meta.held())
        for stage in going.values():
            program, chunk = stage.table.program, stage.table.chunk
            needed |= {chunk[one] for one in stage.operands.those_in(S.FINISHED) if program[one] >= 0}
        gone_jobs = [host["jobs"][job] for job in host["jobs"] if job not in going]
        brought = {chunk for first, count in host["besides"] for chunk in range(first, first + count)}
        self._workers.free_chunks(sorted(here - needed - brought))
        log.info("%d jobs go on, %d were given up, %d chunks are here", len(going), len(gone_jobs), len(here))
        return sorted(needed - here)

    def _order_the_rest(self, host: Mapping[str, Any], going: Mapping[str, StageRun]) -> None:
        for job, stage in going.items():
            if stage.ended:
                self._workers.stop_execution(job)  # operands of a failed stage are of no use
                self._workers.close_job(job)
                continue
            rows, here = stage.operands, host["jobs"].get(job, {"queued": b"", "running": []})
            if job in self._unheard:
                self._workers.opening = lambda table: None  # the journal has the opening
                self._workers.open_job(stage.table)
                self._workers.opening = self._noted.opening
            taken = set(_unpacked(here["queued"])).union(one for one, _ in here["running"])
            ready = [one for one in rows.those_in(S.READY) if one not in taken]
            if ready:
                self._workers.enqueue_graph(job, ready, [rows.chosen[one] for one in ready])

    def _is_between(self, job: str) -> bool:
        """Whether the last stage of a job that was opened had ended."""
        finished = self._unfolding.get(job)
        return job not in self._anew and finished is not None and finished.stages is not None

    def _leave(self, job: str) -> None:
        """Release the chunks of the stages of a job, because the job begins anew."""
        finished, graph = self._unfolding.get(job), self._session.graphs.get(job)
        if graph is not None:
            graph.leave_stages()
        if finished is not None and finished.stages is not None:
            finished.stages.close(self._session.meta)

    def _resume_between(self) -> None:
        """Go on with jobs that were between two stages."""
        for job, finished in self._unfolding.items():
            if job not in self._ended and self._stage(job) is None and self._is_between(job):
                assert finished.stages is not None
                self._session.graph(job).resume_between(finished.stages)

    def _begin_anew(self) -> None:
        for job in self._anew:
            self._noted.begin_anew(job, self._whole(job), self._held.pop(job, []))
        for held in self._held.values():
            self._workers.free_chunks(self._session.meta.release(held))

    def _whole(self, job: str) -> Submission:
        """A job's submission with its graph."""
        _, submission = self._submissions[job]
        return submission if submission.graph else replace(submission, graph=self._graphs[submission.structure])


class FinishedStages:
    """Stages of a job that had ended under an earlier scheduler, as the journal tells.

    Attributes
    ----------
    ended, values
        By number of the stage: chunks and lengths, and the values that decide the next stage.
    opened
        Stages opened so far.
    stages
        The job's, once a stage was skipped; None before.
    """

    def __init__(self) -> None:
        self.ended: dict[int, EndedStage] = {}
        self.values: dict[int, dict[int, Any]] = {}
        self.opened = 0
        self.stages: Stages | None = None

    def note(self, kind: str, stage: int, blob: bytes) -> None:
        """Take a record of the journal."""
        if kind == "stage":
            self.ended[stage] = EndedStage(*pickle.loads(blob))
        else:
            self.values[stage] = pickle.loads(blob)

    def values_before(self) -> dict[int, Any] | None:
        """Values that decide the stage opened last; None for the first."""
        return self.values.get(self.opened - 1, {}) if self.opened > 1 else None


def _catch_up(stage: StageRun, here: Mapping[str, Any]) -> None:
    """Add stored chunks and running operands that no journal has."""
    rows = stage.operands
    left: dict[int, int] = {}
    for worker, operands in here["stored"]:
        left |= {one: worker for one in _unpacked(operands) if rows.state[one] not in (S.FINISHED, S.FREED)}
        rows.kept(_unpacked(operands), worker)  # chunks may have moved since the journaled report
    while not stage.ended:
        ready = [one for one in left if rows.state[one] == S.READY]
        if not ready:
            break
        for one in ready:
            size, worker = here["sizes"].get(one), left.pop(one)
            stage.started([one], worker)
            stage.finished([one], worker, None if size is None else {one: size}, [0])
    for one, worker in here["running"]:  # ascending: readers that went along with their inputs follow them
        if rows.state[one] in (S.READY, S.UNSCHEDULED):
            stage.started([one], worker)


def _names_of_leaves(blob: bytes) -> Sequence[str]:
    """Names that a canonical graph has for stored tensors."""
    graph = cloudpickle.loads(blob)
    return [m.key for op, m in zip(graph.operands, graph.metas) if isinstance(op, Stored)]


def _unpacked(numbers: bytes) -> list[int]:
    found: list[int] = np.frombuffer(numbers, "<u4").tolist()
    return found


def _numbers(chunks: bytes) -> list[int]:
    found: list[int] = np.frombuffer(chunks, "<i8").tolist()
    return found


class RemoteWorkers:
    """Orders as messages: a `WorkerPort`.

    Parameters
    ----------
    send
        Sends orders in one message.

    Attributes
    ----------
    muted
        Whether orders are dropped: replayed orders are applied here, not sent.
    opening
        Called with each table before it is sent; may raise to refuse it.
    are_several
        Whether the workers are on several hosts.
    holder
        On several hosts: by chunk, a worker of a host that has it; for plans, which may do without.
    """

    def __init__(self, send: Callable[[Sequence[Order]], None]) -> None:
        self._send_now = send
        self._gathered: list[Order] | None = None
        self.muted = False
        self.opening: Callable[[JobTable], None] = lambda table: None
        self.are_several = False
        self.holder: dict[int, int] = {}
        self._base: dict[str, int] = {}  # of open jobs

    def note(self, report: Report) -> None:
        """Note which hosts have chunks by now."""
        if not self.are_several:
            return
        match report:
            case Finished(job, operands, worker) if job in self._base:
                base = self._base[job]
                self.holder.update((base + operand, worker) for operand in operands)
            case ChunksKept(chunks, worker):
                self.holder.update(dict.fromkeys(chunks, worker))
            case ChunksLost(chunks):
                self._forget(chunks)

    def row_of_chunk(self, row_of_worker: Sequence[int], chunk: int) -> int:
        """Row of a machine that stores a chunk; -1 where it is not known. `row_of_worker` is as of `Machine`."""
        worker = self.holder.get(chunk, -1)
        return row_of_worker[worker] if 0 <= worker < len(row_of_worker) else -1

    def _forget(self, chunks: Iterable[int]) -> None:
        for chunk in chunks:
            self.holder.pop(chunk, None)

    def gather(self) -> None:
        """Keep orders from now on until `send_gathered` is called, to be sent as a single message."""
        self._gathered = []

    def send_gathered(self) -> None:
        """Send the gathered orders; later orders are sent at once."""
        gathered, self._gathered = self._gathered, None
        if gathered:
            self._send_now(gathered)

    def _order(self, order: Order) -> None:
        if self.muted:
            return
        if self._gathered is None:
            self._send_now([order])
        else:
            self._gathered.append(order)

    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; refusals come as reports."""
        self.opening(table)
        self._base[table.job] = table.base
        if not self.muted:
            self._order(OpenJob(table.job, cloudpickle.dumps(table)))

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run ready operands."""
        self._order(EnqueueGraph(job, list(operands), list(workers)))

    def stop_execution(self, job: str) -> None:
        """Stop running operands of a job."""
        self._order(StopExecution(job))

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Give operands new ranks and workers."""
        self._order(Replan(job, list(rank), list(workers), list(slow)))

    def close_job(self, job: str) -> None:
        """Forget a job; `closed` is reported."""
        self._base.pop(job, None)
        self._order(CloseJob(job))

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Give the memory or file of chunks back."""
        if chunks:
            self._forget(chunks)
            self._order(FreeChunks(list(chunks)))
