"""A `%%jmars` cell while it runs: the line of its Python that runs now, its jobs, and what the view's buttons do to it.

The view reads the line from another thread, through the frames of the interpreter, so that the cell's Python pays
nothing for it.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import uuid
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from jmars.client.job import Job

_cells: WeakValueDictionary[str, RunningCell] = WeakValueDictionary()  # by their id, and by the ids of their jobs


class RunningCell:
    """A cell, from its first moment until its last job has ended; made by the thread that runs the cell.

    Parameters
    ----------
    code
        The compiled cell.
    n_lines
        Number of its lines.

    Examples
    --------
    >>> cell = RunningCell(compile("seen = cell.line()", "cell", "exec"), n_lines=1)
    >>> names = {"cell": cell}
    >>> exec(cell.code, names)
    >>> names["seen"], cell.line()  # the cell's Python has ended
    (1, 0)
    """

    def __init__(self, code: CodeType, n_lines: int) -> None:
        self.id = uuid.uuid4().hex
        self.code, self.n_lines = code, n_lines
        self.detached = False  # "To background" was clicked: the cell need not wait for its last job
        self.cancelled = False  # Cancel has interrupted the Python of the cell
        self.waits = False  # for a job, so that its Python does not run
        self._jobs: WeakValueDictionary[str, Job] = WeakValueDictionary()  # a view must not retain results
        self._thread = threading.get_ident()
        self._lock = threading.Lock()  # over `_runs`: no interrupt reaches the next cell
        self._runs = True
        _cells[self.id] = self

    @staticmethod
    def find(name: str) -> RunningCell | None:
        """The cell with this id, or with a job of this id."""
        return _cells.get(name)

    def follow(self, job: Job) -> None:
        """Notes a job of the cell under the job's current id."""
        self._jobs[job.id] = job
        _cells[job.id] = self

    def job(self, name: str) -> Job | None:
        """The job of the cell with this id."""
        return self._jobs.get(name)

    def line(self) -> int:
        """The line of the cell that runs, from 1; 0 before and after. May be called from any thread."""
        frame: FrameType | None = sys._current_frames().get(self._thread) if self._runs else None
        while frame is not None and frame.f_code is not self.code:
            frame = frame.f_back
        return frame.f_lineno or 0 if frame is not None else 0

    def cancel(self, name: str) -> None:
        """Cancels the job `name`; if it does not run, interrupts the cell's Python. May be called on any thread."""
        job = self.job(name)
        if job is not None and not job.wait(0):
            job.cancel()
            return
        with self._lock:
            if self._runs:
                self.cancelled = True
                if self._thread == threading.main_thread().ident:
                    signal.pthread_kill(self._thread, signal.SIGINT)  # as the kernel's interrupt does
                else:  # a subshell; signals reach the main thread only
                    thread, error = ctypes.c_ulong(self._thread), ctypes.py_object(KeyboardInterrupt)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)

    def end(self) -> None:
        """Notes that the cell has ended; jobs may go on in the background."""
        with self._lock:
            self._runs = False


def handle_control_request(content: dict[str, Any]) -> dict[str, Any]:
    """Answers `jmars_request` on the control channel: {"op": "cancel" or "background", "job": id of a job or cell}.

    Runs in the control thread, also while a cell blocks the main one.
    """
    operation, name = content.get("op"), str(content.get("job", ""))
    cell = RunningCell.find(name)
    if operation == "cancel" and cell is not None:
        cell.cancel(name)
    elif operation == "background" and cell is not None:
        cell.detached = True
    else:
        raise ValueError(f"no such request or job: {content!r}")
    return {"job": name}
