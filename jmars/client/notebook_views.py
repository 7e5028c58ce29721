"""How clusters and jobs show themselves in a notebook: by `jmars.notebook.controls`, loaded on first use.

The notebook part stands above this floor, so `jmars/__init__.py` puts a function that loads that part into `loader`.
Outside a Jupyter kernel the function is not called.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from jmars.config import config

__all__ = ["Shown", "bars", "in_kernel", "loader"]

loader: list[Any] = []  # a function that returns jmars.notebook.controls


def in_kernel() -> bool:
    """Whether this process is a Jupyter kernel."""
    ipython: Any = sys.modules.get("IPython")
    return getattr(ipython.get_ipython() if ipython else None, "kernel", None) is not None


def bars(shown: bool) -> Any:
    """`jmars.notebook.controls`, to show the progress of a waiting cell; None where no bar is wanted."""
    wanted = config.display in ("", "widget") and not shown and bool(loader)
    if not wanted or not in_kernel() or threading.current_thread() is not threading.main_thread():
        return None
    return loader[0]()


class Shown:
    """Base class of clusters and jobs: objects with a view in notebooks."""

    def _ipython_display_(self) -> None:
        """Show the view; IPython falls back to the text where there is none."""
        if not loader or not in_kernel() or config.display in ("none", "text"):
            raise NotImplementedError
        loader[0]().show(self)
