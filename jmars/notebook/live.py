"""The jobs of one cell: submitted, shown, waited for, stopped.

`CellEngine` takes the place of the engine while a cell runs, so that whatever needs a value in the middle of the cell
(`if x.sum() > 0`, `print(x)`) becomes a job of this cell, shown as a stage of it and stopped by the same buttons.
Used by `jmars.notebook.cell` and magic.py.
Source: shared design, "The cell" and "Cancel"; ipyparallel's `%%px --signal-on-interrupt`.
"""

from __future__ import annotations

import time
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

from jmars.client.cluster import Cluster
from jmars.client.job import Job
from jmars.client.repeats import repeats
from jmars.model.states import JobState
from jmars.notebook.cell_error import raise_at, shown_as
from jmars.notebook.display import CellDisplay
from jmars.notebook.hints import about_left_try
from jmars.notebook.kernel_access import Pump
from jmars.notebook.looks import Looks
from jmars.tensor.engine import Engine
from jmars.tensor.operand import TensorData
from jmars.tensor.source_line import source_line
from jmars.tensor.tensor import Tensor

__all__ = ["CellCancelled", "CellEngine", "answer_control", "wait_for"]

_POLL = 0.05  # seconds between two looks at what the front end asks
_STOP = 5.0  # seconds that a stopped job may take to end

# By job id, for what the page asks on the control channel.
_jobs: weakref.WeakValueDictionary[str, Job] = weakref.WeakValueDictionary()
_displays: weakref.WeakValueDictionary[str, CellDisplay] = weakref.WeakValueDictionary()
_running: set[Job] = set()  # a job in the background may have no other owner here, and its end must be heard


class CellCancelled(BaseException):  # no Exception: somebody wanted it, and user code must not catch it
    """Cancel was clicked: the cell ends here, and the next one runs."""


def answer_control(content: dict[str, Any]) -> dict[str, Any]:
    """Answer `jmars_request` on the control channel: {"op": "cancel" or "background", "job": id}.

    Runs in the control thread, also while a cell blocks the main one.
    """
    operation, name = content.get("op"), str(content.get("job", ""))
    job, display = _jobs.get(name), _displays.get(name)
    if operation == "cancel" and job is not None:
        job.cancel()
    elif operation == "background" and display is not None:
        display.detached = True
    else:
        raise ValueError(f"no such request or job: {content!r}")
    return {"job": name}


def wait_for(job: Job, display: CellDisplay, may_leave: bool, mine: bool = True) -> bool:
    """Wait for the end of `job` while the front end is served.

    Parameters
    ----------
    job
        What to wait for.
    display
        Where "To background" may be clicked.
    may_leave
        Whether that click ends the wait.
    mine
        Whether the stop button cancels the job, or only ends the wait for another cell's.

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
    pump = Pump.here()
    try:
        while not job.wait(_POLL if pump else 1.0):
            if pump:
                pump.serve()
            if may_leave and display.detached:
                return False
    except KeyboardInterrupt:
        if mine:
            job.cancel()
            ended = job.wait(_STOP)
            state = "its job is cancelled" if ended else f"its job has not ended {_STOP:g} s after it was cancelled"
        else:
            state = f"{job.name} goes on in the background"
        raise shown_as(KeyboardInterrupt(f"the cell was stopped and {state}; names keep their old values")) from None
    return True


class CellEngine:
    """The engine (`jmars.tensor.engine.Engine`) of one cell.

    Parameters
    ----------
    cluster
        Where the cell's jobs run.
    engine
        The engine in whose place this one stands; fetches what is held.
    display
        Where they are shown.
    name
        The jobs' name, "In [5]".
    background
        The last job is not waited for.
    """

    def __init__(self, cluster: Cluster, engine: Engine, display: CellDisplay, name: str, background: bool) -> None:
        self.job: Job | None = None  # the newest one
        self._cluster, self._engine, self._display = cluster, engine, display
        self._name, self._background = name, background
        self._looks = Looks()

    # what tensors ask for in the middle of the cell

    def execute(self, data: Sequence[TensorData]) -> None:
        """Compute `data` as a stage of the cell, where it does not lie on the cluster yet."""
        __tracebackhide__ = True
        self._look(data)

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """The value of `data`, computed as a stage of the cell where it does not lie on the cluster yet."""
        __tracebackhide__ = True
        self._look([data])
        return self._engine.fetch(data, copy)

    def held(self, data: TensorData) -> bool:
        """Whether the value lies on the cluster."""
        return self._engine.held(data)

    def limits(self) -> tuple[int, int]:
        """Memory limit in bytes and number of workers of the cell's cluster."""
        return self._engine.limits()

    def plan(self, data: Sequence[TensorData], policy: str | None = None) -> Any:
        """What computing `data` would cost; starts nothing."""
        return self._engine.plan(data, policy)

    # what the cell asks for at its end

    def finish(self, results: Sequence[Tensor]) -> None:
        """Compute what the cell leaves behind, as one job, and keep it; what is held already costs nothing."""
        __tracebackhide__ = True
        self._compute([tensor.data for tensor in results], may_leave=True)

    def _look(self, data: Sequence[TensorData]) -> None:
        """Compute `data` because the cell's code looks at them; who looks at many small ones is told."""
        __tracebackhide__ = True
        begun, before = time.monotonic(), self.job
        self._compute(data, may_leave=False)
        if self.job is before:
            return  # it was there
        if hint := self._looks.hint(source_line(), time.monotonic() - begun):
            self._warn(hint)

    def _warn(self, hint: str) -> None:
        """Warn of what the line does that runs now."""
        line = source_line()
        file, number = (line.filename, line.lineno) if line else (self._name, 1)
        warnings.warn_explicit(hint, UserWarning, file, number)

    def _follow(self, job: Job) -> None:
        """Show a job from now on, under the id that it has now."""
        _jobs[job.id], _displays[job.id] = job, self._display
        self._display.follow(job)

    def _compute(self, data: Sequence[TensorData], may_leave: bool) -> None:
        """Submit what is not held, show it, wait for it.

        Raises
        ------
        CellCancelled
            If somebody cancelled the job.
        Exception
            What an operand raised.
        """
        __tracebackhide__ = True
        if not (may_leave and self._background):
            for other in self._cluster.computing(data):  # a cell in the background gives some of it
                wait_for(other, self._display, may_leave=False, mine=False)
        missing = [one for one in data if not self._cluster.holds(one)]
        if not missing:
            return
        beside: list[TensorData] = []
        if not may_leave:  # what a cell leaves is what its names mean, and nothing else
            beside, large = repeats(missing, self._cluster.held(), self._cluster.capacity)
            if hint := self._looks.again([one.op.line for one in large]):
                self._warn(hint)
        job = self.job = self._cluster.submit_data([*missing, *beside], self._name, single=len(missing) == 1)
        _running.add(job)
        job.when_done(_running.discard)
        self._follow(job)
        job.when_again(self._follow)
        if (may_leave and self._background) or not wait_for(job, self._display, may_leave):
            self._display.background()
        elif job.state == JobState.CANCELLED:
            raise CellCancelled
        elif (error := job.error) is not None:
            if hint := about_left_try(error, job.line):
                error.add_note(hint)
            if may_leave and job.line is not None:  # the traceback of now ends at the cell's end: show the line instead
                raise_at(error, job.line.filename, job.line.lineno)
            raise error
