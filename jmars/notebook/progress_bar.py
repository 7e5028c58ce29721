"""A bar with the progress of a job, in a plain cell that has waited for the job for half a second.

The bar is an output that is updated four times a second and emptied at the end, so that a saved notebook keeps none.
Cells of `%%jmars` have views of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from IPython.display import DisplayHandle

from jmars.errors import ClusterError
from jmars.units import format_seconds

__all__ = ["bar_html", "wait_with_bar"]

STEP_SECONDS = 0.25
_GONE = {
    "text/html": '<span class="jmars-gone"></span>',
    "text/plain": "",
}  # labextension/style/lab.css gives it no room


def wait_with_bar(done: threading.Event, timeout: float | None, describe: Callable[[], Mapping[str, Any]]) -> bool:
    """Wait for `done`, at most `timeout` seconds, with a bar; returns whether the job has ended."""
    end = None if timeout is None else time.monotonic() + timeout
    handle: DisplayHandle | None = None
    try:
        while not done.is_set():
            job = describe()
            bundle = {"text/html": bar_html(job), "text/plain": "jmars: " + _words(job)}
            if handle is None:
                handle = DisplayHandle()  # type: ignore[no-untyped-call]
                handle.display(bundle, raw=True)  # type: ignore[no-untyped-call]
            else:
                handle.update(bundle, raw=True)  # type: ignore[no-untyped-call]
            left = STEP_SECONDS if end is None else min(STEP_SECONDS, end - time.monotonic())
            if done.wait(max(0.0, left)):
                return True
            if end is not None and time.monotonic() >= end:
                return False
        return True
    except ClusterError:  # the cluster is gone, and the end of the job says so
        return done.wait(None if end is None else max(0.0, end - time.monotonic()))
    finally:
        if handle is not None:
            handle.update(_GONE, raw=True)  # type: ignore[no-untyped-call]


def bar_html(job: Mapping[str, Any]) -> str:
    """The bar of a job.

    Parameters
    ----------
    job
        `Job.describe()`.

    Examples
    --------
    >>> job = {"name": "<sum>", "state": "running", "progress": 0.5, "elapsed": 4.0, "eta": 4.0}
    >>> print(bar_html(job).partition(" aria-")[2])
    label="progress of &lt;sum&gt;"></progress> &lt;sum&gt;: 50 % after 4.00 s, about 4.00 s left
    """
    name, share = escape(str(job["name"])[:60]), float(job["progress"])
    bar = f'<progress max="1" value="{share:.3f}" style="width:16em" aria-label="progress of {name}"></progress>'
    return f"{bar} {escape(_words(job))}"


def _words(job: Mapping[str, Any]) -> str:
    name, took = str(job["name"])[:60], format_seconds(job["elapsed"])
    if job["state"] == "preparing":
        return f"{name} is prepared, for {took}"
    left = f", about {format_seconds(job['eta'])} left" if job.get("eta") else ""
    return f"{name}: {100 * float(job['progress']):.0f} % after {took}{left}"
