"""A job of a run as the view shows it: state, operands by state, times.

`RunState` (run_state.py) folds events into it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jmars.model.states import STATE_NAMES, JobState, OperandState
from jmars.notebook.lane_state import LaneState
from jmars.notebook.operand_table import OperandTable
from jmars.notebook.plan_state import PlanState
from jmars.notebook.view import JobPart

__all__ = ["JobRun"]

_DONE = (OperandState.FINISHED, OperandState.FREED, OperandState.SPILLED)


@dataclass
class JobRun:
    """A job: state, operands and times (seconds since the epoch)."""

    id: str
    name: str = ""
    state: str = JobState.PREPARING
    error: str | None = None
    submitted: float | None = None
    started: float | None = None  # time of the first operand's first move
    ended: float | None = None
    seq: int = 0  # number of the job's newest folded event
    first_seq: int = 0  # number of the job's first event
    n: int = 0  # operands after fusion of all stages so far, 0 before the graph is built
    table: OperandTable | None = None  # of the newest job only; the graph of its newest stage
    stage: int = 0  # number of that stage
    earlier: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))  # operands of earlier stages, by state
    plan: PlanState = field(default_factory=PlanState)
    lanes: LaneState = field(default_factory=LaneState)
    expected: tuple[float, float] | None = None  # time of the cluster's estimate, and seconds left at that time
    why: str = ""  # reason why no operand has moved for some seconds
    calm: bool = True

    def begin_stage(self, table: OperandTable, stage: int) -> None:
        """Replaces the graph by the graph of the next stage; operands of earlier stages stay counted."""
        if self.table is not None and stage > self.stage:
            self.earlier = self.counts
        self.table, self.stage = table, stage
        self.n = sum(self.earlier) + table.n_after

    @property
    def counts(self) -> list[int]:
        """Operands by state, of all stages so far."""
        now = self.table.counts.tolist() if self.table is not None else [0] * len(STATE_NAMES)
        return [a + b for a, b in zip(self.earlier, now, strict=True)]

    def elapsed(self, now: float) -> float:
        """Seconds from submission to the end, or to `now`."""
        return max(0.0, (self.ended or now) - self.submitted) if self.submitted is not None else 0.0

    def eta(self, now: float) -> float | None:
        """Seconds left as the cluster estimates, or by the pace so far; None if unknown."""
        if self.state != JobState.RUNNING or self.table is None or self.started is None:
            return None
        if self.expected is not None:
            told, left = self.expected
            return max(0.0, left - max(0.0, now - told))
        done = sum(self.counts[state] for state in _DONE)
        return (now - self.started) * (self.n - done) / done if done and now > self.started else None

    def part(self, now: float) -> JobPart:
        """The job's line in the list of jobs."""
        return JobPart(
            job=self.id, name=self.name, state=str(self.state), n=self.n, elapsed=round(self.elapsed(now), 2)
        )
