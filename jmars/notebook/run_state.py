"""Folds events to the data that the notebook shows of a run.

`RunState.fold` takes events as the log gives them, and `picture` returns what the view draws; neither reads a clock or
a socket. A cell that needs values at once runs several jobs: the events of a job become a `JobRun`, which is added to
`JobSums` when the next job begins, and the newest graphs are kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from jmars.errors import ClusterClosedError, ClusterStoppedError
from jmars.model.events import (
    CHUNKS_MOVED,
    EXPECTED,
    GPU_REFUSED,
    GRAPH_BUILT,
    HOST_MOVED,
    JOB_MOVED,
    JOB_SUBMITTED,
    LINK_MEASURED,
    MEMORY_CHANGED,
    OPERANDS_MOVED,
    OPERANDS_TIMED,
    REPLANNED,
    SCHEDULER_MOVED,
    STALLED,
    WORKER_MOVED,
    Event,
)
from jmars.model.status import STATE_NAMES, TERMINAL, JobState, OperandState
from jmars.model.timing import spans_of
from jmars.notebook.operand_table import DONE, OperandTable
from jmars.notebook.tab_states import CellFacts, HostState, LaneState, LineState, MemoryState, PlanState, WorkerState
from jmars.notebook.view import (
    TRAITS,
    EarlierJob,
    HostHeading,
    JobPart,
    Lanes,
    Picture,
    Snap,
    Totals,
    WorkerRow,
    as_json,
    plain_text,
)

_KNOWN = 0.2  # share of finished operands from which the estimated time left is within a factor of two
_LEFT = (OperandState.UNSCHEDULED, OperandState.READY, OperandState.RUNNING, OperandState.CANCELLING)


@dataclass
class JobRun:
    """A job: state, operands and times (seconds since the epoch)."""

    id: str
    name: str = ""
    number: int = 1  # among the jobs of the cell
    line: int = 0  # line of the cell that made the job's last operand, 0 where unknown
    text: str = ""  # text of the line, or the operand's name
    state: str = JobState.PREPARING
    error: str | None = None
    submitted: float | None = None
    started: float | None = None  # time of the first operand's first move
    ended: float | None = None
    seq: int = 0  # number of the job's newest folded event
    first_seq: int = 0  # number of the job's first event
    n: int = 0  # operands after fusion of all stages so far, 0 before the graph is built
    table: OperandTable | None = None  # graph of the newest stage; None before it is built and after it is dropped
    stage: int = 0  # number of that stage
    earlier: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))  # operands of earlier stages, by state
    earlier_read: int = 0  # bytes of sources that operands of earlier stages have read
    plan: PlanState = field(default_factory=PlanState)
    lanes: LaneState = field(default_factory=LaneState)
    times: list[tuple[float, Mapping[str, Any]]] = field(default_factory=list)  # OperandsTimed, not folded yet
    expected: tuple[float, float] | None = None  # time of the cluster's estimate, and seconds left at that time
    why: str = ""  # reason why no operand has moved for some seconds
    calm: bool = True
    _kept: EarlierJob | None = None
    _kept_size: int = 0  # characters of `_kept` as JSON

    def begin_stage(self, data: Mapping[str, Any]) -> None:
        """Replaces the graph by the graph of the next stage; operands of earlier stages stay counted."""
        table, stage = OperandTable(data), int(data.get("stage_number") or 1)
        if self.table is not None and stage > self.stage:
            self.earlier, self.earlier_read = self.counts, self.read
        self.plan.built(data)
        self.table, self.stage = table, stage
        self.n = sum(self.earlier) + table.n_after
        if data["stages"]:
            name, _, line, text = data["stages"][-1][:4]
            self.line, self.text = int(line or 0), plain_text(text or name)

    def operands_moved(self, time: float, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Notes that operands moved; returns the traits that change."""
        table = self.table
        if table is None:
            return ()  # the graph's event has left the bounded log
        if self.started is None:
            self.started = time
        table.move(data["ids"], data["state"], data.get("worker", -1), time)
        return (*OF_STATES, "operand_marks") if table.aggregated else OF_STATES

    def operands_timed(self, time: float, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Notes the times of operands; returns the traits that change."""
        if self.table is None:
            return ()  # the graph's event has left the bounded log
        self.times.append((time, data))
        return OF_TIMES if data.get("backends") else tuple(name for name in OF_TIMES if name != "backends")

    def fold_times(self, zero: float, lines: LineState) -> None:
        """Folds the times of operands that came since the last read, all together, as arrays.

        `zero` is the start of the view's time axis; `lines` gets its share of the times.
        """
        if not self.times or self.table is None:
            return
        events, self.times = self.times, []
        found, table = spans_of(events), self.table
        ids = found[:, 5].astype(np.int64)
        words, bits = table.words(ids), lines.lines_of(ids)
        by_event = [data["worker"] for _, data in events]
        workers = np.repeat(by_event, [len(data["ids"]) // 4 for _, data in events])
        for worker in sorted(set(by_event)):
            its = workers == worker
            self.lanes.add(worker, found[its], zero, words[its], bits[its])
        lines.timed(found)
        programs = [one for _, data in events for one in data.get("backends", ())]
        table.timed(ids, found[:, 4] - found[:, 2], programs)

    def stalled(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Notes why no operand moves; returns the traits that change."""
        self.why, self.calm = plain_text(data.get("text"), 600), bool(data.get("calm"))
        return ("snap",)

    def scheduler_moved(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Notes which scheduler has ended and what follows; returns the traits that change.

        Examples
        --------
        >>> run = JobRun("job-1", "sum")
        >>> run.scheduler_moved({"state": "restarted", "pid": 7, "name": "scheduler-0"}), run.why
        (('snap',), 'the scheduler had ended; process 7 goes on with the job, and what had finished does not run again')
        """
        if self.state in TERMINAL:
            return ()
        match data["state"]:
            case "restarted" if data.get("name", "scheduler-0") == "scheduler-0":
                what = f"the scheduler had ended; process {int(data['pid'])} goes on with the job"
            case "shards taken over":
                what = f"{plain_text(data['name'])} has ended; scheduler-0 goes on with its part of the job"
            case _:
                return ()
        self.why, self.calm = f"{what}, and what had finished does not run again", True
        return ("snap",)

    def lose(self, state: JobState, error: str, now: float) -> None:
        """Ends a running job without further events, since the cluster is gone."""
        if self.state in TERMINAL:
            return
        self.state, self.error, self.ended = state, error, now
        if self.table is not None:
            left = np.flatnonzero(np.isin(self.table.states, _LEFT)).astype("<u4")
            self.table.move(left.tobytes(), OperandState.CANCELLED, -1, now)

    def drop_graph(self) -> None:
        """Drops the graph of an ended job; its operands stay counted."""
        self.earlier, self.earlier_read = self.counts, self.read
        self.table, self._kept, self.lanes, self.times = None, None, LaneState(), []

    @property
    def large(self) -> bool:
        """Whether the graph has too many operands to be drawn one by one."""
        return self.table is not None and self.table.aggregated

    @property
    def counts(self) -> list[int]:
        """Operands by state, of all stages so far."""
        now = self.table.counts.tolist() if self.table is not None else [0] * len(STATE_NAMES)
        return [a + b for a, b in zip(self.earlier, now, strict=True)]

    @property
    def read(self) -> int:
        """Bytes of files and other sources that ended operands have read."""
        if self.plan.read is not None:
            return self.plan.read
        return self.earlier_read + (self.table.read if self.table is not None else 0)

    def elapsed(self, now: float) -> float:
        """Seconds from submission to the end, or to `now`."""
        return max(0.0, (self.ended or now) - self.submitted) if self.submitted is not None else 0.0

    def eta(self, now: float) -> float | None:
        """Seconds left by the cluster's estimate, or by the pace so far; None before a fifth of it is done."""
        if self.state != JobState.RUNNING or self.table is None or self.started is None:
            return None
        done = sum(self.counts[state] for state in DONE)
        if done < _KNOWN * self.n:
            return None
        if self.expected is not None:
            told, left = self.expected
            return max(0.0, left - max(0.0, now - told))
        return (now - self.started) * (self.n - done) / done if done and now > self.started else None

    def part(self, now: float) -> JobPart:
        """The job's line in the list of jobs."""
        measured = self.plan.took
        return JobPart(
            number=self.number,
            job=self.id,
            name=self.name,
            line=self.line,
            text=self.text,
            state=str(self.state),
            n=self.n,
            elapsed=round(self.elapsed(now), 4),
            spilled=measured["spilled"] if measured else 0,
        )

    def kept(self) -> EarlierJob | None:
        """The picture of an ended job; None where its graph was dropped."""
        if self._kept is None and self.table is not None:
            alone = RunState(jobs=[self], submitted=0.0)
            parts = {name: alone.trait(name, 0.0) for name in EarlierJob.__annotations__ if name != "job"}
            self._kept = cast(EarlierJob, {"job": self.id} | as_json(parts))
            self._kept_size = len(json.dumps(self._kept))
        return self._kept

    @property
    def kept_size(self) -> int:
        """Characters of `kept()` as JSON."""
        return self._kept_size if self.kept() is not None else 0


@dataclass
class JobSums:
    """Sums over jobs of a cell, however many.

    Examples
    --------
    >>> sums = JobSums()
    >>> for number in range(3):
    ...     job = JobRun(f"job-{number}")
    ...     job.plan.moved({"measured": {"makespan": 0.5, "peak": 8, "spilled": 10, "moved": 0}})
    ...     sums = sums.plus(job)
    >>> sums.totals()
    {'jobs': 3, 'spilled': 30, 'read': 0, 'to_read': 0}
    """

    jobs: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))  # operands by state
    spilled: int = 0  # bytes
    read: int = 0  # bytes of sources
    to_read: int = 0

    def plus(self, job: JobRun) -> JobSums:
        """The sums with one more job."""
        measured = job.plan.took
        return JobSums(
            self.jobs + 1,
            [a + b for a, b in zip(self.counts, job.counts, strict=True)],
            self.spilled + (measured["spilled"] if measured else 0),
            self.read + job.read,
            self.to_read + sum(job.plan.to_read.values()),
        )

    def totals(self) -> Totals:
        """The sums for the header."""
        return Totals(jobs=self.jobs, spilled=self.spilled, read=self.read, to_read=self.to_read)


_MAX_PARTS = 50  # jobs of a cell that are listed, the newest
_GRAPHS = 20  # earlier jobs of a cell whose graphs are kept
_GRAPH_OPERANDS = 20_000  # most operands of the kept graphs together, before and after fusion
_LATE_SECONDS = 0.1  # seconds after the end of a job in which its last transfers are reported
_GRAPH_TEXT = 150_000  # characters of their graphs as JSON that are sent and saved at most
_BOUNDS = (JOB_SUBMITTED, JOB_MOVED, GRAPH_BUILT)  # events before which the noted times are folded


@dataclass
class RunState:
    """The state of a cell's jobs, workers and memory, folded from events.

    Attributes
    ----------
    open
        Whether the cell goes on: another job may follow a succeeded job, so the run still counts as running.
    attached
        Whether a cell waits for the job, so that "To background" makes sense.
    view
        "full", "line", or "": open while jobs run longer than two seconds, else a line.
    revision
        Number per trait of `Picture`; grows when the trait changes.

    Examples
    --------
    >>> run = RunState()
    >>> run.follow("job-1", "first cell")
    >>> run.fold([[1, 10.0, "JobSubmitted", "job-1", {"name": "first cell"}]])
    >>> run.picture(now=12.5)["snap"]["elapsed"]
    2.5
    """

    open: bool = False
    attached: bool = False
    view: str = ""
    cell: CellFacts = field(default_factory=CellFacts)  # empty in the side bar
    jobs: list[JobRun] = field(default_factory=list)  # the newest _MAX_PARTS
    lines: LineState = field(init=False)
    past: JobSums = field(default_factory=JobSums)  # sums over all jobs before the newest job
    submitted: float | None = None  # time of the first submission
    workers: WorkerState = field(default_factory=WorkerState)
    hosts: HostState = field(default_factory=HostState)
    memory: MemoryState = field(default_factory=MemoryState)
    explained: dict[str, str] = field(default_factory=dict)  # errors of jobs as the client tells them
    seq: int = 0  # number of the newest folded event that belongs to no job
    failure: str | None = None  # reason why no event will follow: the cluster is gone
    revision: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TRAITS, 1))

    def __post_init__(self) -> None:
        self.lines = LineState(self.cell)

    @property
    def job(self) -> JobRun | None:
        """The newest job."""
        return self.jobs[-1] if self.jobs else None

    @property
    def live(self) -> bool:
        """Whether a job runs or another job may follow."""
        return self.failure is None and (self.open or (self.job is not None and self.job.state not in TERMINAL))

    @property
    def since(self) -> int:
        """The event number to read on from, for the newest job."""
        if not self.jobs:
            return 0
        return self.jobs[-1].seq or (self.jobs[-2].first_seq if len(self.jobs) > 1 else 0)

    @property
    def first(self) -> float | None:
        """Time from which the view counts: the cell's first moment, or the first submission."""
        return self.submitted if self.cell.begun is None else self.cell.begun

    def at(self, line: int, seconds: float = 0.0) -> None:
        """Notes the line of the cell that runs now, and seconds of its Python in the kernel since the last note."""
        if line != self.cell.line:
            self.cell.line = line
            self._changed("snap")
        if line and seconds:
            self.cell.ran(line, seconds)
            self._changed("kernel")

    def follow(self, job: str, name: str = "") -> None:
        """Shows `job` from now on; the job before becomes a line."""
        self._fold_times()
        if self.job is not None:
            self.past = self.past.plus(self.job)
        self.jobs = [*self.jobs[1 - _MAX_PARTS :], JobRun(job, name, self.past.jobs + 1)]
        self._bound_graphs()
        self._changed(*TRAITS)

    def _bound_graphs(self) -> None:
        """Drops the graphs of the oldest jobs."""
        operands = 0
        for number, job in enumerate(reversed(self.jobs[:-1])):
            if job.table is not None:
                operands += job.table.n_before + job.table.n_after
                if number >= _GRAPHS or operands > _GRAPH_OPERANDS:
                    job.drop_graph()

    def close(self, outcome: JobState = JobState.SUCCEEDED, now: float = 0.0) -> None:
        """Notes that the cell has ended: no further job follows."""
        self.open = self.attached = False
        self.cell.end(outcome, now)
        self._changed("snap")

    def detach(self) -> None:
        """Notes that the cell no longer waits."""
        self.attached = False
        self._changed("snap")

    def lose(self, error: BaseException, now: float = 0.0) -> None:
        """Notes that the cluster is gone, or was stopped, and no event will follow."""
        self.failure, self.open = plain_text(error, 4000, keep="\n"), False
        if self.job is not None:
            is_stopped = isinstance(error, ClusterStoppedError | ClusterClosedError)
            self.job.lose(JobState.CANCELLED if is_stopped else JobState.FAILED, self.failure, now)
        self._changed("snap", *OF_STATES, "operand_marks")

    def explain(self, job: str, error: str) -> None:
        """Notes the error of a job as the client tells it, with advice that the cluster cannot give."""
        self.explained[job] = plain_text(error, 4000, keep="\n")
        self._changed("snap")

    def advise(self, job: str, advice: Sequence[tuple[str, float]]) -> None:
        """Stores the advice for a job: texts, each with the share of the time that it saves."""
        for run in self.jobs:
            if run.id == job:
                run.plan.advice = list(advice)
        self._changed("plan")

    def fold(self, events: Iterable[Event]) -> None:
        """Takes events in the order of the log; events of other jobs, and events already folded, have no effect."""
        run = self.job
        changed: Counter[tuple[str, ...]] = Counter()  # revisions by traits: operands' events are frequent
        for seq, time, kind, job, data in events:
            owner = self if not job else run if run is not None and job == run.id else None
            if owner is None or seq <= owner.seq:
                continue
            owner.seq = seq
            if run is not None and owner is run:
                run.first_seq = run.first_seq or seq
            if kind == OPERANDS_MOVED and run is not None:
                changed[run.operands_moved(time, data)] += 1
            elif kind == OPERANDS_TIMED and run is not None:
                changed[run.operands_timed(time, data)] += 1
            elif kind in _FOLDS:
                if kind in _BOUNDS:
                    self._fold_times()
                _FOLDS[kind](self, float(time), data)
        for traits, times in changed.items():
            self._changed(*traits, times=times)

    def picture(self, now: float) -> Picture:
        """All data of the view at `now` (seconds since the epoch)."""
        return cast(Picture, {name: self.trait(name, now) for name in TRAITS})

    def trait(self, name: str, now: float) -> Any:
        """A field of `picture(now)`, without computing the other fields."""
        part = PARTS[name]
        if part.of_times:
            self._fold_times()
        return part.read(self, now)

    def snap(self, now: float) -> Snap:
        """The header's data at `now`."""
        run = self.job
        if run is None:
            run = JobRun("", state=self.cell.state)
        state, error = str(run.state), self.explained.get(run.id, run.error)
        if self.open and run.state in (JobState.SUCCEEDED, JobState.FAILED):
            state, error = str(JobState.RUNNING), None  # the cell's Python goes on and may submit more
        elif self.open and run.state == JobState.PREPARING and len(self.jobs) > 1:
            state = str(JobState.RUNNING)  # a further job of the cell
        elif run.state == JobState.FAILED and self.cell.caught(run.ended):
            state, error = str(JobState.SUCCEEDED), None
        elif run.state == self.cell.outcome == JobState.FAILED:
            error = None  # shown by the traceback below the view
        sums = self.past.plus(run) if self.jobs else self.past
        last = now if self.live else max(run.ended or 0.0, self.cell.ended or 0.0) or now
        eta = run.eta(now)
        return {
            "state": state,
            "name": run.name,
            "job": run.id,
            "n": sum(sums.counts),
            "counts": sums.counts,
            "totals": sums.totals(),
            "elapsed": round(max(0.0, last - self.first), 2) if self.first is not None else 0.0,
            "started": round(self.cell.started[1], 2),
            "n_started": self.cell.started[0],
            "reused": self.cell.reused,
            "peak": max((int(row[1]) for row in self.memory.series.values), default=0),
            "eta": round(eta, 1) if eta is not None else None,
            "error": error,
            "why": run.why if run.state not in TERMINAL else "",
            "calm": run.calm,
            "live": self.live,
            "attached": self.attached,
            "view": self.view,
            "line": self.cell.line,
            "lines": self.cell.n_lines,
            "parts": [job.part(now) for job in self.jobs],
            "seq": max(self.seq, run.seq),
        }

    def worker_rows(self) -> list[WorkerRow]:
        """A row per executor process, in the order of worker numbers."""
        return self.workers.rows(self.job.table if self.job else None, self.hosts.of_worker)

    def host_headings(self) -> list[HostHeading]:
        """A row per host of a cluster of several hosts."""
        return self.hosts.headings(self.first)

    def lanes(self) -> Lanes | None:
        """The time line of each worker for the newest job."""
        run, first = self.job, self.first
        if run is None or first is None:
            return None
        running = run.table.running() if run.table is not None and run.state not in TERMINAL else {}
        return run.lanes.part({worker: (since - first, n, label) for worker, (since, n, label) in running.items()})

    def earlier_jobs(self) -> list[EarlierJob]:
        """Pictures of earlier jobs of the cell, the newest first, as many as are small together."""
        found: list[EarlierJob] = []
        size = 0
        for job in reversed(self.jobs[:-1]):
            kept = job.kept()
            if kept is not None:
                size += job.kept_size
                if size > _GRAPH_TEXT:
                    break
                found.append(kept)
        return found

    def _changed(self, *traits: str, times: int = 1) -> None:
        for trait in traits:
            self.revision[trait] += times

    # a method for each kind of event

    def _job_submitted(self, time: float, data: dict[str, Any]) -> None:
        assert self.job is not None
        self.job.submitted = time
        self.submitted = time if self.submitted is None else self.submitted
        self.job.name = plain_text(data.get("name") or self.job.name)
        self._changed("snap")

    def _job_moved(self, time: float, data: dict[str, Any]) -> None:
        assert self.job is not None
        self.job.state = str(data["state"])
        self.job.error = plain_text(data["error"], 4000, keep="\n") if data.get("error") else None
        if data.get("elapsed"):  # its submission may have left the bounded log
            begun = time - float(data["elapsed"])
            self.job.submitted = begun if self.job.submitted is None else min(self.job.submitted, begun)
            self.submitted = self.job.submitted if self.submitted is None else min(self.submitted, self.job.submitted)
        self.job.plan.moved(data)
        if self.job.state in TERMINAL:
            self.job.ended = time
        self._changed("snap", "workers", "lanes", "plan")

    def _graph_built(self, time: float, data: dict[str, Any]) -> None:
        assert self.job is not None
        before, stage = self.job.table, self.job.stage
        self.job.begin_stage(data)
        if before is None or self.job.stage > stage:
            self.workers.begin_stage(before)
        if self.job.table is not None:
            self.lines.begin_stage(self.job.table, self.job.id, self.job.stage)
        self.workers.named(data["workers"])
        self._changed("graph", "code", "operand_marks", "operand_seconds", "backends", "plan", *OF_STATES)

    def _planned(self, note: Callable[[PlanState, dict[str, Any]], None], data: dict[str, Any]) -> None:
        assert self.job is not None
        note(self.job.plan, data)
        self._changed("plan")

    def _fold_times(self) -> None:
        if self.job is not None and self.first is not None:
            self.job.fold_times(self.first, self.lines)

    def _expected(self, time: float, data: dict[str, Any]) -> None:
        assert self.job is not None
        self.job.expected = time, max(0.0, float(data["left"]))
        self._changed("snap")

    def _at(self, time: float) -> float | None:
        """Seconds on the view's time axis; None before and after the run."""
        first = self.first
        return time - first if first is not None and time >= first and self.live else None

    def _worker_moved(self, time: float, data: dict[str, Any]) -> None:
        self.workers.moved(data, counted=self._at(time) is not None)
        self._changed("workers")

    def _host_moved(self, time: float, data: dict[str, Any]) -> None:
        self.hosts.moved(data, time)
        self._changed("workers", "hosts")

    def _link_measured(self, time: float, data: dict[str, Any]) -> None:
        self.hosts.linked(data)
        self._changed("hosts")

    def _chunks_moved(self, time: float, data: dict[str, Any]) -> None:
        first, ended = self.first, self.job.ended if self.job is not None else None
        if first is not None and time >= first and (self.live or (ended is not None and time - ended < _LATE_SECONDS)):
            self.hosts.arrived(data, time - first)
            self._changed("hosts")

    def _memory_changed(self, time: float, data: dict[str, Any]) -> None:
        self.workers.measured(data, ended=self.job is not None and self.job.state == JobState.SUCCEEDED)
        self.memory.measured(data, self._at(time))
        self.hosts.measured(data)
        self._changed("workers", "series", *(["hosts"] if "hosts" in data else []))


_FOLDS: dict[str, Callable[[RunState, float, dict[str, Any]], None]] = {  # of events that do not come by thousands
    JOB_SUBMITTED: RunState._job_submitted,
    JOB_MOVED: RunState._job_moved,
    GRAPH_BUILT: RunState._graph_built,
    EXPECTED: RunState._expected,
    STALLED: lambda run, _, data: run._changed(*(run.job.stalled(data) if run.job else ())),
    REPLANNED: lambda run, _, data: run._planned(PlanState.replanned, data),
    GPU_REFUSED: lambda run, _, data: run._planned(PlanState.gpu_refused, data),
    SCHEDULER_MOVED: lambda run, _, data: run._changed(*(run.job.scheduler_moved(data) if run.job else ())),
    WORKER_MOVED: RunState._worker_moved,
    HOST_MOVED: RunState._host_moved,
    LINK_MEASURED: RunState._link_measured,
    CHUNKS_MOVED: RunState._chunks_moved,
    MEMORY_CHANGED: RunState._memory_changed,
}


@dataclass(frozen=True)
class PicturePart:
    """A field of `Picture`: who computes it and how often it is sent."""

    read: Callable[[RunState, float], Any]
    rest: float = 0.0  # seconds between two updates of a page
    of_states: bool = False  # whether it changes with the states of operands
    of_times: bool = False  # whether it changes with the times of operands
    page_folds: bool = False  # whether the page of a replay computes it from the moves of operands


def _of_graph(read: Callable[[OperandTable], Any], none: Any = b"") -> Callable[[RunState, float], Any]:
    """`read` of the newest job's graph; `none` before the graph is built."""
    return lambda run, _: none if run.job is None or run.job.table is None else read(run.job.table)


PARTS = {
    "job_id": PicturePart(lambda run, _: run.job.id if run.job else run.cell.id),
    "graph": PicturePart(lambda run, _: run.job.table.graph(run.job.id) if run.job and run.job.table else None),
    "snap": PicturePart(RunState.snap, of_states=True),
    "operand_states": PicturePart(_of_graph(OperandTable.boxes), of_states=True, page_folds=True),
    "operand_workers": PicturePart(_of_graph(OperandTable.box_workers), of_states=True, page_folds=True),
    "operand_marks": PicturePart(_of_graph(OperandTable.box_marks), rest=0.45, page_folds=True),
    "operand_seconds": PicturePart(_of_graph(OperandTable.box_seconds), rest=0.5, of_times=True),
    "backends": PicturePart(_of_graph(lambda table: table.backends.copy(), none=[]), of_times=True),
    "stages": PicturePart(
        _of_graph(lambda table: table.stage_counts.tolist(), none=[]), rest=0.3, of_states=True, page_folds=True
    ),
    "code": PicturePart(lambda run, _: run.lines.code.copy()),
    "line_costs": PicturePart(lambda run, _: run.lines.costs().tobytes(), rest=0.5, of_states=True, of_times=True),
    "kernel": PicturePart(lambda run, _: run.cell.seconds(), rest=0.5),
    "workers": PicturePart(lambda run, _: run.worker_rows(), rest=0.3, of_states=True),
    "hosts": PicturePart(lambda run, _: run.host_headings(), rest=0.3),
    "series": PicturePart(lambda run, _: run.memory.part(), rest=0.5),
    "lanes": PicturePart(lambda run, _: run.lanes(), rest=0.5, of_states=True, of_times=True),
    "plan": PicturePart(lambda run, _: run.job.plan.part() if run.job else None),
    "earlier": PicturePart(lambda run, _: run.earlier_jobs(), rest=5.0),
}
OF_STATES = tuple(name for name, part in PARTS.items() if part.of_states)
OF_TIMES = tuple(name for name, part in PARTS.items() if part.of_times)
