"""Shows a cell's jobs: by a live widget, a line of text, or not at all.

`choose_display` reads `jmars.config.display` ($JMARS_DISPLAY): "widget", "text", "none", or "" for a widget in a
Jupyter kernel and text in a terminal. Each display follows the cell's jobs in order and ends with a picture that needs
no kernel. The text is the same on every run, so that nbval can compare it.

`job` as the last line of a cell shows the same view, whoever submitted the job. The view stays live after the cell has
ended, until the job ends.
"""

from __future__ import annotations

import linecache
import time
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import ref

from IPython.display import DisplayHandle

from jmars.client.local_runs import kept_bytes
from jmars.config import VIEWS, config
from jmars.errors import ClusterError
from jmars.model.events import Event
from jmars.model.status import JobState
from jmars.notebook import kernel_access
from jmars.notebook.run_state import RunState
from jmars.notebook.running_cell import RunningCell
from jmars.notebook.sampler import Frame, Sampler, catch_up
from jmars.notebook.static_view import final_bundle, text_line
from jmars.notebook.tab_states import CellFacts, MemoryState
from jmars.notebook.view import MIME_TYPE, Picture, as_json
from jmars.notebook.widget import JobView

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster
    from jmars.client.job import Job

_LAST_FRAME = 3.0  # seconds that a cell waits for its last picture
_ADVICE_SECONDS = 0.2  # seconds for simulations while a long job runs
_KEPT = 8  # views of ended cells whose widgets stay open
_ended: deque[JobView] = deque()


class CellDisplay:
    """Shows the jobs of a cell, from the cell's first moment; this base class shows none."""

    cluster: Cluster | None = None  # set before the first job

    def started(self, workers: int, seconds: float) -> None:
        """Notes that the cell started a cluster of so many workers, and the seconds of that."""

    def follow(self, job: Job) -> None:
        """Shows `job` from now on."""

    def explain(self, job: Job, error: str) -> None:
        """Shows `error` as the error of `job`, in place of the cluster's text."""

    def reused(self, text: str) -> None:
        """Notes that the cell used values of earlier runs: "2 values reused, 4.2 s saved"."""

    def background(self) -> None:
        """Notes that the cell ends before its job."""

    def close(self, outcome: JobState) -> None:
        """Notes that the cell submits no more jobs; the last job has ended or runs in the background."""


class TextDisplay(CellDisplay):
    """Prints a line at the end, the same on every run: no times, no bytes."""

    def __init__(self) -> None:
        self._jobs: list[tuple[ref[Job], str, str]] = []  # ids and names; the jobs themselves would keep their results
        self._background = False

    def follow(self, job: Job) -> None:
        """Adds `job` to the line."""
        before = [one for one in self._jobs if one[0]() is not job]  # a resubmitted job has a new id
        self._jobs = [*before, (ref(job), job.id, job.name)]

    def reused(self, text: str) -> None:
        """Prints the line without the seconds."""
        print(f"jmars: {text.partition(',')[0]}")  # noqa: T201

    def background(self) -> None:
        """Makes the line say only that the job runs in the background."""
        self._background = True

    def close(self, outcome: JobState) -> None:
        """Prints the line, if there was a job."""
        if not self._jobs:
            return
        if self._background:
            print("jmars: running in the background")  # noqa: T201  (this is what the cell shows)
            return
        assert self.cluster is not None
        run = RunState()
        for _, job, name in self._jobs:
            run.follow(job, name)
            try:
                catch_up(self.cluster.events, run)
            except ClusterError as error:
                run.lose(error, time.time())
        print(text_line(run.picture(time.time())))  # noqa: T201


class _View:
    """An output of the cell: at first a text, then a widget that a sampler draws, at the end the static picture."""

    def __init__(self) -> None:
        self._view: JobView | None = None
        self._handle: Any = DisplayHandle()  # type: ignore[no-untyped-call]
        self._sampler: Sampler

    def _widget(self, frame: Frame) -> JobView:
        """The widget with its first frame."""
        raise NotImplementedError

    def _draw(self, frame: Frame) -> None:
        """Draws a frame; the first frame makes the widget and puts it into the output, on the sampler's thread."""
        if self._view is not None:
            self._view.show(frame)
            return
        self._view = self._widget(frame)
        kernel_access.unpin(self._view.comm)
        data, _ = self._view._repr_mimebundle_()
        now = {MIME_TYPE: as_json(self._sampler.picture())}  # for a page that opens the saved notebook without a kernel
        self._handle.update(data | now, raw=True)

    def _replace(self, picture: Picture) -> None:
        """Replaces the live view by the static picture.

        A page that was reloaded meanwhile no longer knows the output and goes on showing the widget.
        """
        assert self._view is not None  # the last frame is drawn
        self._handle.update(final_bundle(picture), raw=True)
        _ended.append(self._view)
        if len(_ended) > _KEPT:
            _ended.popleft().close()


class WidgetDisplay(CellDisplay, _View):
    """Shows the live view, replaced by the static picture at the end.

    The view stands above all that the cell prints: its place, an empty output, is the cell's first message. The
    messages are held until the first frame is due; if the cell ends before, the place is dropped.
    """

    def __init__(self, cell: RunningCell) -> None:
        super().__init__()
        self._cell, self._background, self._said = cell, False, False
        self._output = {"parent": kernel_access.request_id(), "display": self._handle.display_id}
        self._facts = _facts(cell)
        run = RunState(True, True, config.view, self._facts, memory=MemoryState(kept_bytes))
        self._held = kernel_access.HeldOutputs()
        shown = self._held.release
        self._sampler = Sampler(self._events, self._draw, run, self._replace, self._advice, cell, shown)
        try:
            self._handle.display({"text/plain": ""}, raw=True)
            self._sampler.begin()
        except BaseException:
            self._held.release()
            raise

    def started(self, workers: int, seconds: float) -> None:
        """Notes a cluster that the cell started, for the header."""
        self._facts.started = workers, seconds

    def follow(self, job: Job) -> None:
        """Shows `job` from now on."""
        job.shown = True
        lacks = [] if self._said else kernel_access.missing()
        self._said = True
        if lacks:
            print(f"jmars: no {' and no '.join(lacks)} here; to cancel, use the Stop button")  # noqa: T201
        self._sampler.follow(job.id, job.name)

    def explain(self, job: Job, error: str) -> None:
        """Shows `error` as the error of `job`."""
        self._sampler.explain(job.id, error)

    def reused(self, text: str) -> None:
        """Adds the text to the header; a cell without a job has a line of its own."""
        self._facts.reused = text
        if not self._said:
            print(f"jmars: {text}")  # noqa: T201

    def background(self) -> None:
        """Notes that the cell no longer waits."""
        self._background = True
        self._sampler.detach()

    def close(self, outcome: JobState) -> None:
        """Lets the sampler show the last picture, now or when the background job ends."""
        self._sampler.close(outcome)
        if not self._background:
            self._sampler.done.wait(_LAST_FRAME)
        viewless = self._view is None and self._sampler.done.wait(0)
        self._held.release(without=self._handle.display_id if viewless else "")

    def _events(self, since: int, job: str) -> tuple[list[Event], int]:
        """Events of a job; the cluster is set before the first job."""
        assert self.cluster is not None
        return self.cluster.events(since, job)

    def _widget(self, frame: Frame) -> JobView:
        return JobView(self._cell.cancel, self._detach, self._sampler.answered, frame, self._output)

    def _advice(self, job: str) -> list[tuple[str, float]]:
        """Advice for the next run of a running job."""
        known = self._cell.job(job)
        plan = None if known is None else known.plan()
        if plan is None or not plan.complete:
            return []
        return [(f"{one.text}: {one.how}", one.share) for one in plan.advice(_ADVICE_SECONDS)]

    def _detach(self) -> None:
        self._cell.detached = True


def _facts(cell: RunningCell) -> CellFacts:
    """Facts about a cell that begins now, with its lines."""
    file = cell.code.co_filename
    text = [line.rstrip("\n") for line in linecache.getlines(file)[: cell.n_lines]]
    return CellFacts(cell.id, cell.n_lines, time.time(), file=file, text=text)


def choose_display(cell: RunningCell) -> CellDisplay:
    """Chooses the display of a cell that begins now, and begins it.

    Raises
    ------
    ValueError
        If `jmars.config.display` or `jmars.config.view` has another value.
    """
    if config.view not in ("", *VIEWS):
        raise ValueError(f"JMARS_VIEW={config.view!r} is not a view; use {', '.join(VIEWS)}")
    wanted = config.display
    if wanted not in ("", "none", "text", "widget"):
        raise ValueError(f"JMARS_DISPLAY={wanted!r} is not a display; use none, text or widget")
    if "none" in (wanted, config.view):
        return CellDisplay()
    kernel: Any = kernel_access.current_kernel()
    if wanted == "text" or (not wanted and getattr(kernel, "comm_manager", None) is None):
        return TextDisplay()
    try:
        JobView.check()
    except FileNotFoundError as error:
        if wanted:
            raise
        warnings.warn(f"{error}; this cell shows text instead", stacklevel=2)
        return TextDisplay()
    return WidgetDisplay(cell)


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
        catch_up(job.cluster.events, run)
        if run.job is not None and run.job.table is not None:
            handle: Any = DisplayHandle()  # type: ignore[no-untyped-call]
            handle.display(final_bundle(run.picture(time.time())), raw=True)
            return
        raise NotImplementedError  # its events have left the log: IPython shows the text
    JobView.check()
    _LiveView(job, run)


class _LiveView(_View):
    """The widget of a running job, and the sampler that feeds the widget."""

    def __init__(self, job: Job, run: RunState) -> None:
        super().__init__()
        self._job = job
        self._handle.display({"text/plain": repr(job)}, raw=True)
        self._sampler = Sampler(job.cluster.events, self._draw, run, self._replace)
        job.shown = True
        job.when_again(lambda again: self._sampler.follow(again.id, again.name))
        self._sampler.follow(job.id, job.name)

    def _widget(self, frame: Frame) -> JobView:
        return JobView(lambda _: self._job.cancel(), None, self._sampler.answered, frame)
