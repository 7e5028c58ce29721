"""Shows an error of a `%%jmars` cell at the user's lines, without frames of jmars.

A traceback begins at the cell and leaves out frames below calls of jmars (traceback_filter.py). An error from the
cluster, whose traceback never passed the user's line, is raised again at the line that built the operand. IPython asks
an exception for `_render_traceback_`; IPython's debugger skips frames with `__tracebackhide__`.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Container, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from jmars.notebook.error_notes import note_for_lazy
from jmars.notebook.traceback_filter import (
    ABOUT_ARGUMENTS,
    caught_by_us,
    filter_links,
    is_about_arguments,
    is_ours,
    traceback_links,
)

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["shorten_plain_tracebacks", "shorten_traceback", "show_as_one_line", "show_syntax_error"]

E = TypeVar("E", bound=BaseException)


def show_as_one_line(error: E, text: str | None = None) -> E:
    """Makes IPython show `error` as one line without a traceback."""
    line = text or f"{type(error).__name__}: {error}"
    error._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]
    return error


def shorten_traceback(shell: InteractiveShell, error: BaseException, files: Container[str]) -> None:
    """Makes IPython show the traceback of `error` from the first frame in `files` on, without frames of jmars."""
    if hasattr(error, "_render_traceback_") or isinstance(error, SyntaxError):
        return
    _tidy_notes(shell, error)
    links = traceback_links(error)
    first = next((i for i, link in enumerate(links) if link.tb_frame.f_code.co_filename in files), None)
    if first is None:
        return
    _forget_ours(error)
    _shorten_chained(shell, error)
    shown = _joined(filter_links(error, links[first:]))
    formatter: Any = shell.InteractiveTB  # it carries no types

    def render() -> Any:
        return formatter.structured_traceback(type(error), error, shown, tb_offset=0)

    try:
        error._render_traceback_ = render  # type: ignore[attr-defined]
    except AttributeError:
        pass  # an exception with slots: it is shown with our frames


def _shorten_chained(shell: InteractiveShell, error: BaseException) -> None:
    """Takes frames of jmars out of the tracebacks of exceptions that are shown before `error`."""
    seen = {id(error)}
    one = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        _tidy_notes(shell, one)
        one.__traceback__ = _joined(filter_links(one, traceback_links(one)))
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _joined(links: Sequence[TracebackType]) -> TracebackType | None:
    """A traceback of these links."""
    found: TracebackType | None = None
    for link in reversed(links):
        found = TracebackType(found, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return found


def _tidy_notes(shell: InteractiveShell, error: BaseException) -> None:
    """Names cells in the notes of an error as IPython does, and drops notes that list frames of jmars."""
    if hasattr(error, "__notes__"):
        error.__notes__ = [_with_cells(shell, note) for note in error.__notes__ if not _only_ours(error, note)]


def shorten_plain_tracebacks(shell: InteractiveShell) -> None:
    """Makes IPython show errors of plain cells without frames of jmars, and with notes, too.

    Another handler that is registered stays.
    """
    ipython: Any = shell

    def handler(_: Any, kind: type[BaseException], value: BaseException, trace: Any, tb_offset: Any = None) -> None:
        if hint := note_for_lazy(value):
            value.add_note(hint)
        links = traceback_links(value)
        if any(is_ours(link) for link in links[1:]):  # the first is IPython's
            shorten_traceback(shell, value, {links[1].tb_frame.f_code.co_filename})
        ipython.showtraceback(running_compiled_code=True)

    if not ipython.custom_exceptions:
        ipython.set_custom_exc((*ABOUT_ARGUMENTS, KeyboardInterrupt), handler)


def _forget_ours(error: BaseException) -> None:
    """Hides exceptions that jmars caught before `error`; exceptions that the user's code caught stay shown."""
    before = error.__context__
    if error.__cause__ is not None or before is None or not caught_by_us(before):
        return
    while before is not None and caught_by_us(before):
        before = before.__context__
    error.__context__, error.__suppress_context__ = before, before is None


def show_syntax_error(shell: InteractiveShell, error: SyntaxError) -> None:
    """Makes IPython show a cell's syntax error without frames, as it does for a plain cell.

    IPython adds frames to every SyntaxError that comes out of running code, but a custom handler may show the error;
    so a handler of ours shows this error and then restores the previous handler.
    """
    ipython: Any = shell
    before = ipython.custom_exceptions, ipython.CustomTB

    def handler(_: Any, kind: type[BaseException], value: BaseException, trace: Any, tb_offset: Any = None) -> None:
        ipython.custom_exceptions, ipython.CustomTB = before
        if value is error:
            ipython.showsyntaxerror()
        else:
            ipython.showtraceback(running_compiled_code=True)

    ipython.set_custom_exc((SyntaxError,), handler)


def _only_ours(error: BaseException, note: str) -> bool:
    """Whether a note lists only frames of jmars on a worker, below an error that says enough."""
    files = re.findall(r'^  File "([^"\n]+)", line \d+', note, flags=re.MULTILINE)
    return bool(files) and is_about_arguments(error, files)


def _with_cells(shell: InteractiveShell, note: str) -> str:
    """Rewrites file names of cells in `note` as IPython writes them; a worker knows only the file's name."""

    def named(match: re.Match[str]) -> str:
        filename, lineno = match[1], int(match[2])
        known = shell.compile.format_code_name(filename)
        text = linecache.getline(filename, lineno).strip()
        return f"{known[0]} {known[1]}, line {lineno}, in {match[3]}\n    {text}" if known else match[0]

    return re.sub(r'File "([^"\n]+)", line (\d+), in (\S+)$', named, note, flags=re.MULTILINE)
