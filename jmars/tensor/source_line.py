"""Finds the line of the user's code that made an operand, for the view, errors and warnings."""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType
from typing import NamedTuple, NoReturn

__all__ = ["SourceLine", "raise_at", "source_line", "users_frames", "warn_at", "warn_user"]

_OURS = ("jmars.", "numpy.", "cloudpickle.", "dask.", "xarray.")  # Dask and xarray call jmars on behalf of the user
_OUTERMOST = ("<module>", "<cell line")  # IPython's names of the code of a cell
_PYTHONS = ("threading", "concurrent.futures.thread", "asyncio.")  # the ends of threads that have no frame of the user
_NOT_THE_USERS = (*_OURS, *_PYTHONS)


class SourceLine(NamedTuple):
    """File name, line number from 1, and the text of the line without its indent."""

    filename: str
    lineno: int
    text: str


def source_line() -> SourceLine | None:
    """Return the line of the innermost frame outside jmars, NumPy, Dask, xarray and the pickler."""
    frame = _users_frame()
    if frame is None:
        return None
    filename = frame.f_code.co_filename
    return _known_line(filename, frame.f_lineno, linecache.getline(filename, frame.f_lineno))


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
def _known_line(filename: str, lineno: int, text: str) -> SourceLine:
    """The same object for the same line: a pickled graph holds it once."""
    return SourceLine(filename, lineno, text.strip())
