"""A line with the progress of a job, in terminals, while a program waits for the job.

The line stands on standard error from the second second on, is drawn twice a second and cleared at the end. Views of
cells show more; a job with a view has no line.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from jmars.config import config
from jmars.errors import ClusterError
from jmars.units import format_seconds

__all__ = ["has_line", "progress_text", "wait_with_line"]

FIRST_SECONDS = 1.0
STEP_SECONDS = 0.5
_BAR = 24  # characters


def has_line(shown: bool) -> bool:
    """Whether a line is drawn: in a terminal, by the main thread, for a job without a view."""
    if shown or config.display == "none" or threading.current_thread() is not threading.main_thread():
        return False
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def wait_with_line(done: threading.Event, timeout: float | None, describe: Callable[[], Mapping[str, Any]]) -> bool:
    """Wait for `done`, at most `timeout` seconds, and draw the line meanwhile; returns whether the job has ended."""
    end = None if timeout is None else time.monotonic() + timeout
    step, drawn = FIRST_SECONDS, False
    try:
        while True:
            left = step if end is None else min(step, end - time.monotonic())
            if done.wait(max(0.0, left)):
                return True
            if end is not None and time.monotonic() >= end:
                return False
            text = progress_text(describe(), shutil.get_terminal_size().columns - 1)
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            step, drawn = STEP_SECONDS, True
    except ClusterError:  # the cluster is gone, and the end of the job says so
        return done.wait(None if end is None else max(0.0, end - time.monotonic()))
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def progress_text(job: Mapping[str, Any], width: int = 79) -> str:
    """The line of a job.

    Parameters
    ----------
    job
        `Job.describe()`.
    width
        Characters, at most.

    Examples
    --------
    >>> progress_text({"name": "sum", "state": "running", "progress": 0.5, "elapsed": 4.0})
    'sum ████████████░░░░░░░░░░░░  50 % after 4.00 s'
    >>> progress_text({"name": "sum", "state": "preparing", "progress": 0.0, "elapsed": 2.0})
    'sum is prepared, for 2.00 s'
    """
    name, took = "".join(c for c in str(job["name"]) if c.isprintable())[:30], format_seconds(job["elapsed"])
    if job["state"] == "preparing":
        return f"{name} is prepared, for {took}"[:width]
    full = round(_BAR * job["progress"])
    bar = "█" * full + "░" * (_BAR - full)
    return f"{name} {bar} {100 * job['progress']:3.0f} % after {took}"[:width]
