"""Facts about the cell that a view shows beside those of its jobs: its lines, its first moment, its end."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jmars.model.states import JobState

__all__ = ["CellFacts"]


@dataclass
class CellFacts:
    """A cell as its view shows it; times are in seconds since the epoch.

    Examples
    --------
    >>> cell = CellFacts("cell-1", n_lines=7, begun=10.0)
    >>> cell.line = 3
    >>> cell.state
    <JobState.RUNNING: 'running'>
    >>> cell.end(JobState.SUCCEEDED, 12.0)
    >>> cell.state, cell.line
    (<JobState.SUCCEEDED: 'succeeded'>, 0)
    """

    id: str = ""  # for Cancel before the first job
    n_lines: int = 0
    begun: float | None = None
    line: int = 0  # that runs now, from 1; 0 before and after the cell's Python
    ended: float | None = None
    outcome: JobState = JobState.PREPARING
    file: str = ""  # as tracebacks name it
    text: Sequence[str] = ()  # its lines
    name_of: Callable[[str], str] = os.path.basename  # of another file with lines that made operands

    @property
    def state(self) -> JobState:
        """The state of a cell without a job."""
        return JobState.RUNNING if self.line else self.outcome

    def end(self, outcome: JobState, now: float) -> None:
        """Notes the end of the cell."""
        self.outcome, self.line = outcome, 0
        self.ended = now if self.begun is not None else None
