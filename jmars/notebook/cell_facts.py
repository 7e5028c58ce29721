"""Facts about the cell that a view shows beside facts about jobs: lines, first moment and end of the cell."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import dataclass, field

from IPython.core.getipython import get_ipython

from jmars.model.states import JobState

__all__ = ["MOST", "CellFacts"]

MOST = 400  # lines of a cell whose costs are told


@dataclass
class CellFacts:
    """A cell as the view shows the cell; times are in seconds since the epoch.

    Examples
    --------
    >>> cell = CellFacts("cell-1", n_lines=7, begun=10.0)
    >>> cell.line = 3
    >>> cell.state
    <JobState.RUNNING: 'running'>
    >>> cell.end(JobState.SUCCEEDED, 12.0)
    >>> cell.state, cell.line
    (<JobState.SUCCEEDED: 'succeeded'>, 0)
    >>> cell.ran(3, 0.5)
    >>> cell.seconds()
    [0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0]
    """

    id: str = ""  # for Cancel before the first job
    n_lines: int = 0
    begun: float | None = None
    line: int = 0  # that runs now, from 1; 0 before and after the cell's Python
    ended: float | None = None
    outcome: JobState = JobState.PREPARING
    file: str = ""  # as tracebacks name it
    text: Sequence[str] = ()  # its lines
    started: tuple[int, float] = (0, 0.0)  # workers of the cluster that the cell started, and seconds of that
    kernel: dict[int, float] = field(default_factory=dict)  # seconds of Python in the kernel, by line

    @property
    def state(self) -> JobState:
        """The state of a cell without a job."""
        return JobState.RUNNING if self.line else self.outcome

    def end(self, outcome: JobState, now: float) -> None:
        """Notes the end of the cell."""
        self.outcome, self.line = outcome, 0
        self.ended = now if self.begun is not None else None

    def caught(self, failed: float | None) -> bool:
        """Whether the cell succeeded after a job that failed at this time: its code caught the error."""
        return self.outcome == JobState.SUCCEEDED and failed is not None and failed <= (self.ended or 0.0)

    def ran(self, line: int, seconds: float) -> None:
        """Adds seconds in which the Python of a line ran in the kernel."""
        self.kernel[line] = self.kernel.get(line, 0.0) + seconds

    def seconds(self) -> list[float]:
        """Seconds of Python in the kernel by line; empty where no line has any."""
        lines = range(1, min(self.n_lines, MOST) + 1) if self.kernel else ()
        return [round(self.kernel.get(line, 0.0), 3) for line in lines]

    def name_of(self, file: str) -> str:
        """ "Cell In[3]" for a cell of this kernel, "a cell" of a further kernel; else the name of the file."""
        shell = get_ipython()
        if known := shell.compile.format_code_name(file) if shell is not None else None:
            return " ".join(known)
        return "a cell" if "ipykernel_" in file else os.path.basename(file)
