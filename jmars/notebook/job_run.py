"""A job of a cell as its events tell it, and sums over all jobs of a cell.

`RunState` folds the events into a `JobRun` for each job and adds a `JobRun` to `JobSums` when the next job begins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jmars.model.states import STATE_NAMES, TERMINAL, JobState, OperandState
from jmars.model.timing import spans_of
from jmars.notebook.lane_state import LaneState
from jmars.notebook.line_state import LineState
from jmars.notebook.operand_table import OperandTable
from jmars.notebook.plan_state import PlanState
from jmars.notebook.view import EarlierJob, JobPart, Totals, as_text, plain_text

__all__ = ["OPERANDS", "TIMES", "JobRun", "JobSums"]

# what follows from operands' states
OPERANDS = ("snap", "operand_states", "operand_workers", "stages", "line_costs", "workers", "lanes")
_MARKED = (*OPERANDS, "operand_marks")
TIMES = ("lanes", "line_costs", "operand_seconds", "backends")  # what follows from operands' times

_DONE = (OperandState.FINISHED, OperandState.FREED, OperandState.SPILLED)
_KNOWN = 0.2  # share of the operands after which the time left is within twice the truth
_LEFT = (OperandState.UNSCHEDULED, OperandState.READY, OperandState.RUNNING, OperandState.CANCELLING)


@dataclass
class JobRun:
    """A job: state, operands and times (seconds since the epoch)."""

    id: str
    name: str = ""
    number: int = 1  # among the jobs of the cell
    line: int = 0  # line of the cell that made the job's last operand, 0 where unknown
    text: str = ""  # that line, or the operand's name
    state: str = JobState.PREPARING
    error: str | None = None
    submitted: float | None = None
    started: float | None = None  # time of the first operand's first move
    ended: float | None = None
    seq: int = 0  # number of the job's newest folded event
    first_seq: int = 0  # number of the job's first event
    n: int = 0  # operands after fusion of all stages so far, 0 before the graph is built
    table: OperandTable | None = None  # the graph of its newest stage; None before it is built, and when it is dropped
    stage: int = 0  # number of that stage
    earlier: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))  # operands of earlier stages, by state
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
            self.earlier = self.counts
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
        return _MARKED if table.aggregated else OPERANDS

    def operands_timed(self, time: float, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Notes the times of operands; returns the traits that change."""
        if self.table is None:
            return ()  # the graph's event has left the bounded log
        self.times.append((time, data))
        return TIMES if data.get("backends") else TIMES[:-1]

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
        self.earlier, self.table, self._kept, self.lanes, self.times = self.counts, None, None, LaneState(), []

    @property
    def large(self) -> bool:
        """Whether the graph has too many operands to be drawn one by one."""
        return self.table is not None and self.table.aggregated

    @property
    def counts(self) -> list[int]:
        """Operands by state, of all stages so far."""
        now = self.table.counts.tolist() if self.table is not None else [0] * len(STATE_NAMES)
        return [a + b for a, b in zip(self.earlier, now, strict=True)]

    def elapsed(self, now: float) -> float:
        """Seconds from submission to the end, or to `now`."""
        return max(0.0, (self.ended or now) - self.submitted) if self.submitted is not None else 0.0

    def eta(self, now: float) -> float | None:
        """Seconds left by the cluster's estimate, or by the pace so far; None before a fifth of it is done."""
        if self.state != JobState.RUNNING or self.table is None or self.started is None:
            return None
        done = sum(self.counts[state] for state in _DONE)
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
            self._kept = EarlierJob(
                job=self.id,
                graph=self.table.graph(self.id),
                operand_states=as_text(self.table.boxes()),
                operand_workers=as_text(self.table.box_workers()),
                operand_marks=as_text(self.table.box_marks()),
                operand_seconds=as_text(self.table.box_seconds()),
                backends=list(self.table.backends),
                stages=self.table.stage_counts.tolist(),
                lanes=self.lanes.part({}),
                plan=self.plan.part(),
            )
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
    {'jobs': 3, 'spilled': 30}
    """

    jobs: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))  # operands by state
    spilled: int = 0  # bytes

    def plus(self, job: JobRun) -> JobSums:
        """The sums with one more job."""
        measured = job.plan.took
        return JobSums(
            self.jobs + 1,
            [a + b for a, b in zip(self.counts, job.counts, strict=True)],
            self.spilled + (measured["spilled"] if measured else 0),
        )

    def totals(self) -> Totals:
        """The sums for the header."""
        return Totals(jobs=self.jobs, spilled=self.spilled)
