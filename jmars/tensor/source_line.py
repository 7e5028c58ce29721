"""Finds the line of the user's code that made an operand, for the view, errors and warnings."""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType, TracebackType
from typing import Any, NamedTuple, NoReturn

__all__ = [
    "SourceLine",
    "following_calls",
    "raise_along",
    "raise_at",
    "source_line",
    "users_frames",
    "warn_at",
    "warn_user",
]

_OURS = ("jmars.", "numpy.", "cloudpickle.", "dask.", "xarray.")  # Dask and xarray call jmars on behalf of the user
_OUTERMOST = ("<module>", "<cell line")  # IPython's names of the code of a cell
_MOST_CALLS = 40  # names and numbers: of 13 callers
_follow = False  # whether source lines have calls
_PYTHONS = ("threading", "concurrent.futures.thread", "asyncio.")  # the ends of threads that have no frame of the user
_SHELL = "IPython.core."  # runs cells, and shows their values
_NOT_THE_USERS = (*_OURS, *_PYTHONS)


class SourceLine(NamedTuple):
    """File name, line number from 1, and the text of the line without its indent.

    `calls` says how a cell came to a line in a function: the function's name, then a row for each caller with line
    number, function and file, separated by tabs, up to the cell's own line.
    """

    filename: str
    lineno: int
    text: str
    calls: str = ""


def source_line() -> SourceLine | None:
    """Return the line of the innermost frame outside jmars, NumPy, Dask, xarray and the pickler.

    None if no line of the user runs, as at the end of a cell: IPython called the magic.
    """
    frame = _users_frame()
    if frame is None or str(frame.f_globals.get("__name__")).startswith(_SHELL):
        return None
    filename = frame.f_code.co_filename
    calls = _calls(frame) if _follow and not frame.f_code.co_name.startswith(_OUTERMOST) else ()
    return _known_line(filename, frame.f_lineno, linecache.getline(filename, frame.f_lineno), calls)


@contextmanager
def following_calls() -> Iterator[None]:
    """Within the block, source lines have `calls`."""
    global _follow
    before, _follow = _follow, True
    try:
        yield
    finally:
        _follow = before


def _calls(frame: FrameType) -> tuple[Any, ...]:
    """Name of a function, and line, function and file of its callers up to the outermost; () where those are many."""
    found: list[Any] = [frame.f_code.co_name]
    caller = frame.f_back
    while caller is not None and len(found) < _MOST_CALLS:
        code = caller.f_code
        if not _is_passed_over(caller.f_globals.get("__name__")):
            found += (caller.f_lineno, code.co_name, code.co_filename)
            if code.co_name.startswith(_OUTERMOST):
                return tuple(found)
        caller = caller.f_back
    return ()


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the line that `source_line` returns, as if that line had called `warnings.warn`.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_user("divide by zero", RuntimeWarning)
    >>> str(seen[0].message), seen[0].category.__name__
    ('divide by zero', 'RuntimeWarning')
    """
    warn_at(_users_frame(), text, category)


def warn_at(frame: FrameType | None, text: str, category: type[Warning]) -> None:
    """Warn at the line that a frame runs."""
    if frame is None:
        warnings.warn(text, category, stacklevel=3)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def raise_along(error: BaseException, line: SourceLine) -> NoReturn:
    """Raises `error` as if the code on a line had raised it, which the code of the cell had called by `line.calls`.

    Examples
    --------
    >>> try:
    ...     raise_along(ValueError("no"), SourceLine("cell.py", 2, "", "solve\\n7\\t<module>\\tcell.py"))
    ... except ValueError as error:
    ...     link = error.__traceback__.tb_next.tb_next
    >>> link.tb_lineno, link.tb_next.tb_lineno, link.tb_next.tb_frame.f_code.co_name
    (7, 2, 'solve')
    """
    __tracebackhide__ = True
    name, *callers = line.calls.split("\n") if line.calls else ["<module>"]
    places = [(line.lineno, name, line.filename)]
    for one in callers:
        number, function, file = one.split("\t")
        places.append((int(number), function, file))
    chain: TracebackType | None = None
    for lineno, function, file in places:
        frame = _frame_at(lineno, function, file)
        chain = TracebackType(chain, frame, frame.f_lasti, lineno)
    raise error.with_traceback(chain)


def _frame_at(lineno: int, function: str, filename: str) -> FrameType:
    """A frame that has run a line of a file, as that of a function."""
    code = compile("\n" * (lineno - 1) + "1 / 0", filename, "exec").replace(co_name=function, co_qualname=function)
    try:
        exec(code, {})
    except ZeroDivisionError as error:
        link = error.__traceback__
        assert link is not None and link.tb_next is not None
        return link.tb_next.tb_frame
    raise AssertionError("the line above raises")


def raise_at(error: BaseException, filename: str, lineno: int) -> NoReturn:
    """Raises `error` as if the code on that line had raised it.

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


def _users_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_passed_over(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return frame


def users_frames() -> Iterator[FrameType]:
    """Yield the frames of the user's code that runs, innermost first, up to the frame of the cell or module."""
    frame = _users_frame()
    while frame is not None:
        if not _is_passed_over(frame.f_globals.get("__name__")):
            yield frame
            if frame.f_code.co_name.startswith(_OUTERMOST):
                return
        frame = frame.f_back


@lru_cache(maxsize=10_000)
def _is_passed_over(module: str | None) -> bool:
    """Whether frames of a module are none of the user's."""
    return module is not None and (module.startswith(_NOT_THE_USERS) or module in ("jmars", "numpy", "warnings"))


@lru_cache(maxsize=128)  # the lines of a few cells
def _known_line(filename: str, lineno: int, text: str, calls: tuple[Any, ...]) -> SourceLine:
    """The same object for the same line and calls: a pickled graph holds it once."""
    callers = ["\t".join(map(str, calls[k : k + 3])) for k in range(1, len(calls), 3)]
    return SourceLine(filename, lineno, text.strip(), "\n".join([*calls[:1], *callers]))
