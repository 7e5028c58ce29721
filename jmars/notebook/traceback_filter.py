"""Selects the frames of a traceback that the user of a `%%jmars` cell sees: the user's own, without frames below calls
of jmars.

Frames below a call of jmars are left out up to the next frame of the user's code. If the error is a fault of jmars, all
frames stay, so that the fault can be reported.
"""

from __future__ import annotations

import linecache
import os
import re
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from jmars.errors import JmarsError

__all__ = ["ABOUT_ARGUMENTS", "caught_by_us", "filter_links", "is_about_arguments", "is_ours", "traceback_links"]

_OURS = str(Path(__file__).parents[1]) + os.sep  # the package's folder
_LIBRARIES = (sysconfig.get_path("stdlib") + os.sep, "<frozen ", "<__array_function__ ")
_KERNEL = "<jmars "  # file name of machine-made code
_RAISE = re.compile(r"\braise\b")
# Errors of NumPy's C code about its arguments, also where jmars asks NumPy for a shape or dtype.
ABOUT_ARGUMENTS = (JmarsError, ValueError, TypeError, IndexError, ArithmeticError, OSError)


def traceback_links(error: BaseException) -> list[TracebackType]:
    """The links of an error's traceback, outermost first."""
    found: list[TracebackType] = []
    link = error.__traceback__
    while link is not None:
        found.append(link)
        link = link.tb_next
    return found


def filter_links(error: BaseException, links: list[TracebackType]) -> list[TracebackType]:
    """The links to show, of `links` that begin at a user's frame."""
    shown, below_us = [], False
    for link in links:
        below_us = is_ours(link) or (below_us and _is_library(link))
        if not below_us:
            shown.append(link)
    return links if below_us and not _is_meant(error, links[-1]) else shown


def caught_by_us(error: BaseException) -> bool:
    """Whether jmars caught `error`: its traceback begins at the frame that caught it."""
    return error.__traceback__ is not None and is_ours(error.__traceback__)


def is_about_arguments(error: BaseException, files: Iterable[str]) -> bool:
    """Whether an error raised in these files, none of them the user's, still tells the user about wrong arguments."""
    return isinstance(error, ABOUT_ARGUMENTS) and all(
        one.startswith((_OURS, _KERNEL)) or _is_installed(one) for one in files
    )


def is_ours(link: TracebackType) -> bool:
    """Whether the frame is code of jmars."""
    return link.tb_frame.f_code.co_filename.startswith(_OURS)


def _is_library(link: TracebackType) -> bool:
    """Whether the frame is code of an installed library; for compiled modules, Cython names the source file."""
    written = link.tb_frame.f_code.co_filename
    compiled = written.endswith((".pyx", ".pxd", ".pxi"))
    file = str(link.tb_frame.f_globals.get("__file__", written)) if compiled else written
    return _is_installed(file)


def _is_installed(file: str) -> bool:
    return file.startswith(_LIBRARIES) or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _is_meant(error: BaseException, last: TracebackType) -> bool:
    """Whether an error tells about the user's code: by its class, or because a `raise` statement raised it.

    Errors that Python raises by itself (an AttributeError of None, a KeyError of a dict) and failed asserts are faults
    of the library.
    """
    if isinstance(error, (*ABOUT_ARGUMENTS, KeyboardInterrupt)):
        return True
    line = linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno, last.tb_frame.f_globals)
    return not isinstance(error, AssertionError) and _RAISE.search(line) is not None
