"""Runs a `%%jmars` cell: its code builds one tensor graph, and the end of the cell computes the results.

Jobs and waiting are in cell_engine.py, the user's names in namespace.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jmars.errors import ArrayChangedError
from jmars.notebook.cell_error import shorten_traceback
from jmars.notebook.cell_source import LAST_VALUE, CellSource
from jmars.notebook.display_hook import compute_displayed_values
from jmars.notebook.error_notes import note_for_lazy
from jmars.notebook.guarded_code import COMPUTED, computed, errors_at_once
from jmars.notebook.imports import bound_imports
from jmars.notebook.kernel_access import run_coroutine
from jmars.notebook.looks import LOOKED, looked
from jmars.notebook.namespace import Namespace, tensors_in
from jmars.notebook.numpy_names import lazy_names
from jmars.tensor.engine import Engine, current_engine, set_engine
from jmars.tensor.small_values import small_values
from jmars.tensor.source_line import following_calls, raise_along

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jmars.notebook.cell_engine import CellEngine
    from jmars.notebook.planning import PlanEngine

__all__ = ["run_cell"]


def run_cell(shell: InteractiveShell, source: CellSource, engine: CellEngine | PlanEngine, lazy: bool = False) -> Any:
    """Runs a cell, then computes and keeps the tensors that it assigned or shows.

    Parameters
    ----------
    shell
        The IPython shell, in whose namespace the cell runs.
    source
        The cell.
    engine
        Computes values that the cell needs while it runs, and its results.
    lazy
        Compute only the value that the cell shows.

    Returns
    -------
    object
        The value of the cell's last expression, or None.

    Raises
    ------
    BaseException
        Any exception of the cell; names and tensors are then as they were before the cell, but for names that its
        imports have bound.
    """
    __tracebackhide__ = True
    names: dict[str, Any] = shell.user_ns
    names[COMPUTED], names[LOOKED] = computed, looked
    computed.begin()
    inside = Namespace.enter(names, source.line_of)
    try:
        with (
            lazy_names(),
            _engine_is(engine),
            small_values(),
            errors_at_once(),
            following_calls(),
            compute_displayed_values(shell),
        ):
            result: Any = eval(source.code, names)
            if inspect.iscoroutine(result):
                run_coroutine(result)
            value = names.pop(LAST_VALUE, None) if source.shows else None
            assigned = inside.leave()
        results = [*assigned.values(), *inside.added, *inside.arrays.written(), value]
        wanted = tensors_in([value] if lazy else results)
        wanted = [tensor for tensor in wanted if tensor.data not in computed.failed]
        try:
            done = engine.finish(wanted)
            if done and not lazy:
                value = inside.write_back(engine, wanted, value)
        except ArrayChangedError as error:  # the current traceback is at the cell's end: show the line instead
            if error.line is None:
                raise
            raise_along(error, error.line)
    except BaseException as error:
        if hint := note_for_lazy(error):
            error.add_note(hint)
        inside.roll_back(bound_imports(source.imports, names))
        failed = engine.job.line if engine.job is not None else None
        shorten_traceback(shell, error, {source.filename, failed.filename if failed else source.filename})
        raise
    finally:
        names.pop(LAST_VALUE, None)
    return value


@contextmanager
def _engine_is(engine: Engine) -> Iterator[None]:
    """Within the block, tensors compute by `engine`."""
    before = current_engine()
    set_engine(engine)
    try:
        yield
    finally:
        set_engine(before)
