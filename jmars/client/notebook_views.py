"""How clusters and jobs show themselves in a notebook: by `jmars.notebook.controls`, loaded on first use.

Outside a Jupyter kernel the notebook part is not loaded.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from jmars.config import config
from jmars.model import upper_floors

__all__ = ["Shown", "has_bar", "in_kernel", "wait_with_bar"]

FIRST_SECONDS = 0.5


def in_kernel() -> bool:
    """Whether this process is a Jupyter kernel."""
    ipython: Any = sys.modules.get("IPython")
    return getattr(ipython.get_ipython() if ipython else None, "kernel", None) is not None


def has_bar(shown: bool) -> bool:
    """Whether a bar shows the progress of a job that a cell waits for: in a kernel's main thread, without a view."""
    wanted = config.display in ("", "widget") and not shown and bool(upper_floors.notebook)
    return wanted and in_kernel() and threading.current_thread() is threading.main_thread()


def wait_with_bar(done: threading.Event, timeout: float | None, describe: Callable[[], Mapping[str, Any]]) -> bool:
    """Wait for `done`, at most `timeout` seconds, after half a second with a bar; returns whether the job has ended.

    The notebook part is loaded for the bar, not before.
    """
    first = FIRST_SECONDS if timeout is None else min(FIRST_SECONDS, timeout)
    if done.wait(first):
        return True
    rest = None if timeout is None else timeout - first
    return False if rest == 0 else bool(upper_floors.notebook[0]().wait_with_bar(done, rest, describe))


class Shown:
    """Base class of clusters and jobs: objects with a view in notebooks."""

    def _ipython_display_(self) -> None:
        """Show the view; IPython falls back to the text where there is none."""
        if not upper_floors.notebook or not in_kernel() or config.display in ("none", "text"):
            raise NotImplementedError
        upper_floors.notebook[0]().show(self)
