"""The jobs of a `%%jmars` cell: submits them, shows them, waits for them and cancels them.

`CellEngine` replaces the engine while a cell runs, so that any value that the cell needs (`if x.sum() > 0`, `print(x)`)
becomes a job of this cell, shown in the same view and stopped by the same buttons. Each such value is a round trip to
the cluster: many small computations cause one warning, and so does a line whose large array is computed again and
again. `ImplicitComputes` decides.
Source: `ipyparallel`'s `%%px --signal-on-interrupt`.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from inspect import CO_OPTIMIZED
from typing import Any

from jmars.client.auto_persist import repeats
from jmars.client.cluster import Cluster
from jmars.client.job import Job, fetch_each
from jmars.client.kept_values import Reused
from jmars.errors import ClusterStoppedError, MemoryLimitError
from jmars.model.status import JobState
from jmars.notebook.cell import in_flags, note_for_calls, note_for_late_error, show_as_one_line
from jmars.notebook.cell_source import computed
from jmars.notebook.display import CellDisplay
from jmars.notebook.kernel_access import Pump
from jmars.notebook.running_cell import RunningCell
from jmars.tensor.engine import Engine
from jmars.tensor.operand import SourceLine, TensorData, raise_along, source_line, users_frames
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor

_ALONE = 3  # references to the names of a frame: from the frame, the local name and the call
_POLL = 0.05  # seconds between two checks for requests of the front end
_STOP = 5.0  # seconds that a stopped job may take to end

_running: dict[Job, RunningCell] = {}  # keeps background jobs and their cells alive until the jobs end


class CellCancelled(BaseException):  # not an Exception, so that user code does not catch it
    """Ends a cell after the Cancel button cancelled the job."""


def wait_for_job(job: Job, cell: RunningCell, may_leave: bool, mine: bool = True) -> bool:
    """Waits for the end of `job` while the front end is served.

    Parameters
    ----------
    job
        The job.
    cell
        The cell that waits; "To background" detaches it.
    may_leave
        Whether a click on that button ends the wait.
    mine
        Whether the stop button cancels the job; otherwise it ends only the wait for another cell's job.

    Returns
    -------
    bool
        False when the job goes on in the background.

    Raises
    ------
    KeyboardInterrupt
        The stop button.
    """
    __tracebackhide__ = True
    pump, cell.waits = Pump.here(), True
    try:
        while not job.wait(_POLL if pump else 1.0):
            if pump:
                pump.serve()
            if may_leave and cell.detached:
                return False
    except KeyboardInterrupt:
        if mine:
            job.cancel()
            ended = job.wait(_STOP)
            state = "its job is cancelled" if ended else f"its job has not ended {_STOP:g} s after it was cancelled"
        else:
            state = f"{job.name} goes on in the background"
        raise show_as_one_line(
            KeyboardInterrupt(f"the cell was stopped and {state}; names keep their old values")
        ) from None
    finally:
        cell.waits = False
    return True


def _ended(job: Job) -> None:
    _running.pop(job, None)


def _bound() -> set[TensorData]:
    """Nodes of the tensors under names of the running code of the user: the cell's names, and those in functions."""
    found: set[TensorData] = set()
    for frame in users_frames():
        names = frame.f_locals
        values = [one for one in list(names.values()) if isinstance(one, Tensor)]
        found.update(one.data for one in values if one._place.memory is None)
        if frame.f_code.co_flags & CO_OPTIMIZED and type(names) is dict and sys.getrefcount(names) <= _ALONE:
            names.clear()  # f_locals is a copy; before Python 3.13 it keeps the values until the function ends
    return found


class CellEngine:
    """The engine (`jmars.tensor.engine.Engine`) of a cell.

    Parameters
    ----------
    cluster
        The cluster that runs the cell's jobs.
    engine
        The engine that this engine replaces; fetches stored values.
    display
        Shows the jobs.
    cell
        The running cell.
    name
        The jobs' name, "In [5]".
    background
        Do not wait for the last job.
    """

    def __init__(
        self, cluster: Cluster, engine: Engine, display: CellDisplay, cell: RunningCell, name: str, background: bool
    ) -> None:
        self.job: Job | None = None  # newest job
        self._cluster, self._engine, self._display, self._cell = cluster, engine, display, cell
        self._name, self._background = name, background
        self.limits, self.free_memory, self.plan = engine.limits, engine.free_memory, engine.plan
        self.held, self.small = engine.held, cluster.local.small
        self._implicit = ImplicitComputes()
        self._spent = 0.0  # seconds of the cell's jobs
        cluster.kept.reused = Reused()

    # called by tensors in the middle of the cell

    def execute(self, data: Sequence[TensorData]) -> None:
        """Computes `data` as a job of the cell unless stored already."""
        __tracebackhide__ = True
        self._compute_implicitly(data)

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """Fetches the value of `data`, computed as a job of the cell unless stored already."""
        __tracebackhide__ = True
        value = self._cluster.local.fetch(data, copy)
        if value is not None:
            return value
        self._compute_implicitly([data])
        return self._engine.fetch(data, copy)

    def begin(self, data: Sequence[TensorData]) -> BegunInCell | None:
        """Begins a job of the cell for nodes that the cluster lacks, shown when the cell waits for the job."""
        missing = self._cluster.missing(data)
        if not missing:
            return None
        job = self._cluster.submit_data(missing, self._name)
        job.shown = True
        self._cell.follow(job)
        return BegunInCell(job, self._cell, self._follow)

    def fetch_each(self, data: Sequence[TensorData]) -> list[Any]:
        """Fetches the values of small nodes that are computed."""
        __tracebackhide__ = True
        here = [self._cluster.local.fetch(one, True) if self._cluster.local.has(one) else None for one in data]
        there = iter(fetch_each(self._cluster, [one for one, value in zip(data, here) if value is None]))
        return [next(there) if value is None else value for value in here]

    def look(self, data: Sequence[TensorData]) -> None:
        """Computes nodes without a value in this process, as a single job of the cell."""
        __tracebackhide__ = True
        left = [one for one in data if self._cluster.local.fetch(one, False) is None]
        if left:
            self._compute_implicitly(left)

    def shows(self, data: TensorData) -> bool:
        """True: a text of an array has values, as in NumPy."""
        return True

    def tries_on_worker(self) -> bool:
        """True: the cell's view shows the job."""
        return True

    # called at the end of the cell

    def finish(self, results: Sequence[Tensor]) -> bool:
        """Computes the cell's results as one job and retains them; results that are known here cost nothing.

        Returns False in a cell that does not wait for the job, or whose job goes on in the background.
        """
        __tracebackhide__ = True
        return self._compute(
            [tensor.data for tensor in results if not self._cluster.local.has(tensor.data)], may_leave=True
        )

    @property
    def reused(self) -> str:
        """What the cell took from earlier runs, "2 values reused, 4.2 s saved"; "" below 0.1 s."""
        return self._cluster.kept.reused.text(self._spent)

    def _compute_implicitly(self, data: Sequence[TensorData]) -> None:
        """Computes `data` because the cell's code needs the values; warns of many small computations."""
        __tracebackhide__ = True
        begun, before = time.monotonic(), self.job
        self._compute(data, may_leave=False)
        if self.job is before:
            return  # the values were stored already
        if hint := self._implicit.hint(source_line(), time.monotonic() - begun):
            self._warn(hint)

    def _warn(self, hint: str) -> None:
        """Issues a warning at the user's line that runs now."""
        line = source_line()
        file, number = (line.filename, line.lineno) if line else (self._name, 1)
        warnings.warn_explicit(hint, UserWarning, file, number)

    def _follow(self, job: Job) -> None:
        """Shows a job under the current id."""
        self._cell.follow(job)
        self._display.follow(job)

    def _compute(self, data: Sequence[TensorData], may_leave: bool) -> bool:
        """Submits the tensors that the cluster lacks, shows the job, and waits for it; False: it goes on unwatched.

        Raises
        ------
        CellCancelled
            If the user cancelled the job.
        Exception
            The exception that an operand raised.
        """
        __tracebackhide__ = True
        if not (may_leave and self._background):
            for other in self._cluster.computing(data):  # a background job computes some of the tensors
                wait_for_job(other, self._cell, may_leave=False, mine=False)
        missing = self._cluster.missing(data)
        if not missing:
            return True
        beside: list[TensorData] = []
        if not may_leave:  # auto-persist only in implicit computations, never with the cell's results
            beside, large = repeats(missing, self._cluster.retained(), self._cluster.capacity, _bound())
            if hint := self._implicit.hint_recomputed([one.op.line for one in large]):
                self._warn(hint)
        job = self.job = self._cluster.submit_data([*missing, *beside], self._name, single=len(missing) == 1)
        _running[job] = self._cell
        begun = time.monotonic()
        job.when_done(_ended)
        self._follow(job)
        job.when_again(self._follow)
        if (may_leave and self._background) or not wait_for_job(job, self._cell, may_leave):
            self._display.background()
            return False
        self._spent += time.monotonic() - begun
        if job.state == JobState.CANCELLED:
            raise CellCancelled
        if (error := job.error) is not None:
            computed.note_failure(missing, self._cluster.retained(), job.line)
            if isinstance(error, MemoryLimitError):
                error.args = (in_flags(str(error), self._cluster.memory_limit, chunk_bytes()),)
                self._display.explain(job, str(error))
            if isinstance(error, ClusterStoppedError):
                self._display.explain(job, str(error))
                raise show_as_one_line(error, f"{type(error).__name__}: {error}; names keep their old values")
            if hint := note_for_late_error(error, job.line):
                error.add_note(hint)
            if may_leave and job.line is not None:  # the current traceback is at the cell's end: show the line instead
                raise_along(error, job.line)
            if hint := note_for_calls(job.line):
                error.add_note(hint)
            raise error
        computed.note_whole([*missing, *beside])
        return True


class BegunInCell:
    """A job that was begun ahead: `jmars.tensor.engine.Begun`."""

    def __init__(self, job: Job, cell: RunningCell, follow: Callable[[Job], None]) -> None:
        self._job, self._cell, self._follow = job, cell, follow
        self.cancel = job.cancel

    def finish(self) -> None:
        """Shows the job and waits for the end; raises CellCancelled after a cancel, else the job's error."""
        __tracebackhide__ = True
        self._follow(self._job)
        wait_for_job(self._job, self._cell, may_leave=False)
        if self._job.state == JobState.CANCELLED:
            raise CellCancelled
        if (error := self._job.error) is not None:
            raise error


MANY = 300  # small jobs of a cell before the warning
AGAIN = 5  # times that a cell computes the same large array before the warning
SHORT_JOB_SECONDS = 0.05  # seconds of a job that takes little more than the round trip


@dataclass
class ImplicitComputes:
    """The implicit computations of a cell.

    Examples
    --------
    >>> looks, line = ImplicitComputes(), SourceLine("cell", 4, "if v > 0:")
    >>> said = [looks.hint(line, 0.003) for _ in range(1000)]
    >>> [i for i, one in enumerate(said) if one]
    [299]
    """

    seconds: float = 0.0  # of all of them
    by_line: Counter[SourceLine | None] = field(default_factory=Counter)
    large: Counter[SourceLine | None] = field(default_factory=Counter)  # arrays computed again, by line

    def hint(self, line: SourceLine | None, elapsed: float) -> str | None:
        """The warning after a computation of `elapsed` seconds at `line`; None if none is due."""
        if elapsed > SHORT_JOB_SECONDS:
            return None
        self.seconds += elapsed
        self.by_line[line] += 1
        if self.by_line.total() != MANY:
            return None
        return (
            f"this cell has computed {MANY} single values{self._where()}, each by a job of its own: "
            f"{self.seconds:.1f} s so far. Use whole arrays, such as x.max(), np.where(x > 0, a, b) or x[x > 0]; or "
            "fetch the array before the loop, a = x.fetch(), and loop over a; a loop until a condition holds can run "
            "on the cluster, jmars.tensor.while_loop"
        )

    def hint_recomputed(self, lines: Iterable[SourceLine | None]) -> str | None:
        """The warning before a job that computes the large arrays of these lines again; None if none is due."""
        for line in lines:
            self.large[line] += 1
            if line is not None and self.large[line] == AGAIN:
                return (
                    f"this cell computes the array of line {line.lineno} ({line.text}) again each time that it needs "
                    "a value of it: the array is too large to be kept automatically. Keep it where it is made, "
                    "`x = (...).execute()`; chunks of it are spilled to disk when memory is short"
                )
        return None

    def _where(self) -> str:
        [(line, count)] = self.by_line.most_common(1)
        at = "" if line is None else f" at line {line.lineno} ({line.text})"
        return at if count == MANY or not at else f", {count} of them{at}"
