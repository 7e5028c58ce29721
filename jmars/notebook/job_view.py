"""The view of a job that a notebook shows by itself: `job` as the last line of a cell, whoever submitted the job.

The same view as under a `%%jmars` cell. The view stays live after the cell has ended; when the job ends, a last picture
that needs no kernel replaces the view.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from IPython.display import DisplayHandle

from jmars.client.local_runs import kept_bytes
from jmars.model.events import Event
from jmars.notebook import kernel_access
from jmars.notebook.memory_state import MemoryState
from jmars.notebook.run_state import RunState
from jmars.notebook.sampler import Frame, Sampler, catch_up
from jmars.notebook.static_view import final_bundle
from jmars.notebook.view import MIME_TYPE, Picture, as_json
from jmars.notebook.widget import JobView

if TYPE_CHECKING:
    from jmars.client.job import Job

__all__ = ["show_job"]

_FIRST = 3.0  # seconds that the cell waits for the first frame


def show_job(job: Job) -> None:
    """Shows a job; returns when the first frame is there, or the last frame of a job that has ended.

    Raises
    ------
    FileNotFoundError
        If the front end was not built.
    """
    run = RunState(view="full", memory=MemoryState(kept_bytes))
    if job.wait(0):
        run.follow(job.id, job.name)
        catch_up(_reader(job), run)
        if run.job is not None and run.job.table is not None:
            handle: Any = DisplayHandle()  # type: ignore[no-untyped-call]
            handle.display(final_bundle(run.picture(time.time())), raw=True)
            return
        raise NotImplementedError  # its events have left the log: IPython shows the text
    JobView.check()
    _LiveView(job, run)


def _reader(job: Job) -> Any:
    """Reads events of the job: see `Sampler`."""

    def read(since: int, of: str) -> tuple[list[Event], int]:
        found, last = job.cluster.ask("events", "read", since, of)
        return list(found), last

    return read


class _LiveView:
    """The widget of a running job, and the sampler that feeds the widget."""

    def __init__(self, job: Job, run: RunState) -> None:
        self._job = job
        self._view: JobView | None = None
        self._handle: Any = DisplayHandle()  # type: ignore[no-untyped-call]
        self._handle.display({"text/plain": repr(job)}, raw=True)  # type: ignore[no-untyped-call]
        self._sampler = Sampler(_reader(job), self._draw, run, self._replace)
        job.shown = True
        job.when_again(lambda again: self._sampler.follow(again.id, again.name))
        self._sampler.follow(job.id, job.name)

    def _draw(self, frame: Frame) -> None:
        """Draws a frame; the first frame makes the widget."""
        if self._view is not None:
            self._view.show(frame)
            return
        self._view = JobView(lambda _: self._job.cancel(), None, self._sampler.answered, frame)
        kernel_access.unpin(self._view.comm)
        data, _ = self._view._repr_mimebundle_()
        now = {MIME_TYPE: as_json(self._sampler.picture())}  # for a page without the kernel
        self._handle.update(data | now, raw=True)

    def _replace(self, picture: Picture) -> None:
        self._handle.update(final_bundle(picture), raw=True)
