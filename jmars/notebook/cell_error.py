"""How an error looks under a `%%jmars` cell: the user's lines, none of ours.

A traceback begins at the cell and ends where the user's code called ours; an error that comes from the cluster, whose
traceback never passed the user's line, is raised again at the line that built the operand. IPython asks an exception
for `_render_traceback_`; its debugger skips frames with `__tracebackhide__`. Used by cell.py, live.py and magic.py.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Container
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from jmars.errors import JmarsError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["raise_at", "shorten", "show_alone", "shown_as"]

E = TypeVar("E", bound=BaseException)
_OURS = str(Path(__file__).parents[1])  # the package's folder
_NUMPYS = str(Path(np.__file__).parent)
# What NumPy raises about its arguments, also where we ask it for a shape or dtype. Of others (an AssertionError of
# ours, say) every frame is shown.
_ABOUT_ARGUMENTS = (JmarsError, ValueError, TypeError, IndexError, ArithmeticError, OSError)


def shown_as(error: E, text: str | None = None) -> E:
    """`error`, shown by IPython as one line without a traceback."""
    line = text or f"{type(error).__name__}: {error}"
    error._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]
    return error


def shorten(shell: InteractiveShell, error: BaseException, files: Container[str]) -> None:
    """Let IPython show `error` from its first frame in `files` on, and without our frames at its end."""
    if hasattr(error, "_render_traceback_") or isinstance(error, SyntaxError):
        return
    if hasattr(error, "__notes__"):
        error.__notes__ = [_with_cells(shell, note) for note in error.__notes__]
    links: list[TracebackType] = []
    link = error.__traceback__
    while link is not None:
        links.append(link)
        link = link.tb_next
    first = next((i for i, link in enumerate(links) if link.tb_frame.f_code.co_filename in files), None)
    if first is None:
        return
    links = links[first:]
    if isinstance(error, _ABOUT_ARGUMENTS):
        places = [link.tb_frame.f_code.co_filename for link in links]
        end = max(i for i, place in enumerate(places) if not place.startswith((_OURS, _NUMPYS)))
        if any(place.startswith(_OURS) for place in places[end + 1 :]):
            del links[end + 1 :]
    shown: TracebackType | None = None
    for link in reversed(links):
        shown = TracebackType(shown, link.tb_frame, link.tb_lasti, link.tb_lineno)
    formatter: Any = shell.InteractiveTB  # it carries no types

    def render() -> Any:
        return formatter.structured_traceback(type(error), error, shown, tb_offset=0)

    try:
        error._render_traceback_ = render  # type: ignore[attr-defined]
    except AttributeError:
        pass  # an exception with slots: it is shown with our frames


def show_alone(shell: InteractiveShell, error: SyntaxError) -> None:
    """Let IPython show a syntax error of a cell as it shows one of any other cell: without the frames above it.

    IPython adds the frames to every SyntaxError that comes out of running code, whatever the error says, but lets
    others show it; so a handler of ours takes this one and then gives its place back.
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


def _with_cells(shell: InteractiveShell, note: str) -> str:
    """`note` with lines of cells as IPython writes them; a worker knows the file's name only."""

    def named(match: re.Match[str]) -> str:
        filename, lineno = match[1], int(match[2])
        known = shell.compile.format_code_name(filename)
        text = linecache.getline(filename, lineno).strip()
        return f"{known[0]} {known[1]}, line {lineno}, in {match[3]}\n    {text}" if known else match[0]

    return re.sub(r'File "([^"\n]+)", line (\d+), in (\S+)$', named, note, flags=re.MULTILINE)


def raise_at(error: BaseException, filename: str, lineno: int) -> NoReturn:
    """Raise `error` as if the code on that line had raised it.

    Examples
    --------
    >>> try:
    ...     raise_at(ValueError("no"), "cell.py", 7)
    ... except ValueError as error:
    ...     place = error.__traceback__.tb_next.tb_next
    >>> place.tb_frame.f_code.co_filename, place.tb_lineno
    ('cell.py', 7)
    """
    __tracebackhide__ = True
    exec(compile("\n" * (lineno - 1) + "raise error", filename, "exec"), {"error": error})
    raise AssertionError("the line above raises")
