"""Records of a job on an engine: running groups, ends of operands, and questions to the port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from jmars.engines.engine import GroupTask, Result
from jmars.engines.groups import Group
from jmars.kernels.group_run import GroupReport
from jmars.model.failure import Failure
from jmars.model.messages import JobTable
from jmars.model.reports import Report, Warned

__all__ = ["Broke", "EngineLink", "RunningGroup", "Told", "deaths_of", "warned_by"]


class Told(IntEnum):
    """Facts about an operand that the scheduler and this job share."""

    UNKNOWN = 0  # not ordered, or given back
    READY = 1  # ordered
    STARTED = 2  # reported as started
    DONE = 3  # reported as finished


class Broke(NamedTuple):
    """An operand that raised, or (`refused`) can never run."""

    worker: int
    failure: Failure
    refused: bool = False


@dataclass(eq=False)
class RunningGroup:
    """A group that is submitted, or about to be.

    Attributes
    ----------
    task
        Name of the engine's task; "" before the submission.
    worker
        Number of the worker; -1 while unknown.
    ended
        Whether the task returned.
    """

    plan: Group
    task: str = ""
    worker: int = -1
    since: float = 0.0
    ended: bool = False
    broken: bool = False
    readers: list[RunningGroup] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """Whether the engine runs the task."""
        return bool(self.task) and not self.ended and not self.broken


class EngineLink(NamedTuple):
    """Questions of a job to its surroundings."""

    submit: Callable[[Any, GroupTask], None]  # of a job
    release: Callable[[Sequence[Result]], None]
    report: Callable[[Report], None]
    wake: Callable[[Any], None]  # call the job's `settle` soon
    key: Callable[[int], str]  # the engine's name of a worker
    name: Callable[[int], str]  # a fresh name of a task, by number of the job
    spec: Callable[[JobTable, Group], bytes]


def deaths_of(groups: Sequence[RunningGroup], table: JobTable, deaths: int) -> dict[str, int]:
    """By task of groups that were lost together: the workers that died under the group.

    An engine counts a dead worker for all tasks of the worker, also for tasks that waited there. A group that was lost
    alone has all deaths. Where a single program among the groups runs a user's function, its groups have all deaths,
    so that no further workers die for the search; any other group has one.
    """
    programs = {group.task: {table.program[one] for one in group.plan.operands} for group in groups}
    suspects = {row for rows in programs.values() for row in rows if table.programs[row].runs_user_code}
    found = suspects if len(suspects) == 1 else set()
    return {task: deaths if len(groups) == 1 or rows & found else 1 for task, rows in programs.items()}


def warned_by(job: str, plan: Group, report: GroupReport) -> Warned:
    """The floating point errors of a group's operands."""
    operands = [plan.operands[place] for place, *_ in report.warned]
    return Warned(job, operands, [(step, node, bit) for _, step, node, bit in report.warned])
