"""Runs the text of a `%%jmars` cell: all of it builds one graph, its end computes what the cell leaves behind.

Used by magic.py. The namespace is namespace.py's business, jobs and waiting are live.py's.
Source: shared design, "The cell".
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jmars.errors import ViewWriteError
from jmars.notebook.cell_error import shorten
from jmars.notebook.cell_source import LAST_VALUE, CellSource
from jmars.notebook.displayed import values_displayed
from jmars.notebook.hints import about_keys
from jmars.notebook.kernel_access import run_coroutine
from jmars.notebook.namespace import Namespace, tensors_in
from jmars.notebook.numpy_names import lazy_names
from jmars.tensor.engine import Engine, current_engine, set_engine

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jmars.notebook.live import CellEngine
    from jmars.notebook.planning import PlanEngine

__all__ = ["run_cell"]


def run_cell(shell: InteractiveShell, source: CellSource, engine: CellEngine | PlanEngine, lazy: bool = False) -> Any:
    """Run a cell; afterwards the names that it assigned are computed and kept.

    Parameters
    ----------
    shell
        Its namespace is the cell's.
    source
        The cell.
    engine
        Computes what the cell needs while it runs, and its results.
    lazy
        Compute only the value that the cell shows.

    Returns
    -------
    object
        What the cell shows: the value of its last expression, or None.

    Raises
    ------
    BaseException
        Whatever the cell raises; its names and tensors are then as they were before.
    """
    __tracebackhide__ = True
    names: dict[str, Any] = shell.user_ns
    inside = Namespace.enter(names, source.line_of)
    try:
        with lazy_names(), _engine_is(engine), values_displayed(shell):
            result: Any = eval(source.code, names)
            if inspect.iscoroutine(result):
                run_coroutine(result)
            value = names.pop(LAST_VALUE, None) if source.shows else None
            assigned = inside.leave()
        engine.finish(tensors_in([value] if lazy else [*assigned.values(), value]))
    except BaseException as error:
        inside.roll_back()
        if isinstance(error, ViewWriteError):  # IPython keeps the traceback, and with it the view in its frames
            traceback.clear_frames(error.__traceback__)
        if hint := about_keys(error):
            error.add_note(hint)
        failed = engine.job.line if engine.job is not None else None
        shorten(shell, error, {source.filename, failed.filename if failed else source.filename})
        raise
    finally:
        names.pop(LAST_VALUE, None)
    return value


@contextmanager
def _engine_is(engine: Engine) -> Iterator[None]:
    """Within, tensors ask `engine` for values."""
    before = current_engine()
    set_engine(engine)
    try:
        yield
    finally:
        set_engine(before)
