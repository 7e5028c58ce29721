"""Shows a cell's jobs: by a live widget, a line of text, or not at all.

`choose_display` reads `jmars.config.display` ($JMARS_DISPLAY): "widget", "text", "none", or "" for a widget in a
Jupyter kernel and text in a terminal. Each display follows the cell's jobs in order and ends with a picture that needs
no kernel. The text is the same on every run, so that nbval can compare it.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary, ref

from IPython.display import DisplayHandle, display

from jmars.config import VIEWS, config
from jmars.notebook import kernel_access
from jmars.notebook.run_state import RunState
from jmars.notebook.sampler import Sampler, catch_up
from jmars.notebook.static_view import final_bundle, text_line
from jmars.notebook.view import Picture
from jmars.notebook.widget import JobView

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster
    from jmars.client.job import Job

__all__ = ["CellDisplay", "NoDisplay", "TextDisplay", "WidgetDisplay", "choose_display"]

_LAST_FRAME = 3.0  # seconds that a cell waits for its last picture
_ADVICE = 0.3  # seconds for simulations while a long job runs
_KEPT = 8  # views of ended cells whose widgets stay open
_ended: deque[JobView] = deque()


class CellDisplay(Protocol):
    """Shows the jobs of a cell."""

    detached: bool  # "To background" was clicked: the cell need not wait for its last job

    def follow(self, job: Job) -> None:
        """Shows `job` from now on."""

    def background(self) -> None:
        """Notes that the cell ends before its job."""

    def close(self) -> None:
        """Notes that the cell submits no more jobs; the last job has ended or runs in the background."""


class NoDisplay:
    """Shows no jobs."""

    detached = False

    def follow(self, job: Job) -> None:
        """Shows no job."""

    def background(self) -> None:
        """Shows no job."""

    def close(self) -> None:
        """Shows no job."""


class TextDisplay:
    """Prints a line at the end, the same on every run: no times, no bytes."""

    detached = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._jobs: list[tuple[ref[Job], str, str]] = []  # ids and names; the jobs themselves would keep their results
        self._background = False

    def follow(self, job: Job) -> None:
        """Adds `job` to the line."""
        before = [one for one in self._jobs if one[0]() is not job]  # a resubmitted job has another id
        self._jobs = [*before, (ref(job), job.id, job.name)]

    def background(self) -> None:
        """Makes the line say only that the job runs in the background."""
        self._background = True

    def close(self) -> None:
        """Prints the line, if there was a job."""
        if not self._jobs:
            return
        if self._background:
            print("jmars: running in the background")  # noqa: T201  (this is what the cell shows)
            return
        run = RunState()
        for _, job, name in self._jobs:
            run.follow(job, name)
            catch_up(self._cluster.events, run)
        print(text_line(run.picture(time.time())))  # noqa: T201


class WidgetDisplay:
    """Shows the live view, replaced by the static picture at the end."""

    def __init__(self, cluster: Cluster) -> None:
        self.detached = False
        self._background = False
        self._jobs: WeakValueDictionary[str, Job] = WeakValueDictionary()  # a view must not retain results
        self._view = JobView(on_cancel=self._cancel, on_background=self._detach, on_answer=self._answered)
        kernel_access.unpin(self._view.comm)
        run = RunState(open=True, attached=True, view=config.view)
        self._sampler = Sampler(cluster.events, self._view.show, run, self._replace, self._advice)
        self._handle: DisplayHandle | None = None

    def follow(self, job: Job) -> None:
        """Shows `job` from now on."""
        self._jobs[job.id] = job
        job.shown = True
        if self._handle is None:
            lacks = kernel_access.missing()
            if lacks:
                print(f"jmars: no {' and no '.join(lacks)} here; to cancel, use the Stop button")  # noqa: T201
            self._handle = display(self._view, display_id=True)  # type: ignore[no-untyped-call]
        self._sampler.follow(job.id, job.name)

    def background(self) -> None:
        """Notes that the cell no longer waits."""
        self._background = True
        self._sampler.detach()

    def close(self) -> None:
        """Lets the sampler show the last picture, now or when the background job ends."""
        self._sampler.close()
        if self._handle is None:
            self._view.close()
        elif not self._background:
            self._sampler.join(_LAST_FRAME)

    def _cancel(self, job: str) -> None:
        if (known := self._jobs.get(job)) is not None:
            known.cancel()

    def _advice(self, job: str) -> list[str]:
        """Advice for the next run of a running job."""
        known = self._jobs.get(job)
        plan = None if known is None else known.plan()
        return [f"{one.text}: {one.how}" for one in plan.advice(_ADVICE)] if plan is not None and plan.complete else []

    def _detach(self) -> None:
        self.detached = True

    def _answered(self, number: int, hidden: bool) -> None:
        self._sampler.answered(number, hidden)

    def _replace(self, picture: Picture) -> None:
        """Replaces the live view by the static picture.

        A page that was reloaded meanwhile no longer knows the output and goes on showing the widget.
        """
        assert self._handle is not None
        self._handle.update(final_bundle(picture), raw=True)  # type: ignore[no-untyped-call]
        _ended.append(self._view)
        if len(_ended) > _KEPT:
            _ended.popleft().close()


def choose_display(cluster: Cluster) -> CellDisplay:
    """Chooses the display of a cell that begins now.

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
        return NoDisplay()
    kernel: Any = kernel_access.current_kernel()
    if wanted == "text" or (not wanted and getattr(kernel, "comm_manager", None) is None):
        return TextDisplay(cluster)
    try:
        return WidgetDisplay(cluster)
    except FileNotFoundError as error:
        if wanted:
            raise
        warnings.warn(f"{error}; this cell shows text instead", stacklevel=2)
        return TextDisplay(cluster)
