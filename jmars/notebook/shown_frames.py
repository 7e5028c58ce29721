"""Which frames of an error the user of a `%%jmars` cell is shown: the user's own, none of what they called through us.

Frames below a call of ours are left out up to where a function of the user's runs again; all of them stay where the
error is a fault of ours, so that it can be reported. Used by cell_error.py.
"""

from __future__ import annotations

import dis
import os
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, TracebackType

from jmars.errors import JmarsError

__all__ = ["is_about_arguments", "links_of", "raised_below_us", "shown_links"]

_OURS = str(Path(__file__).parents[1]) + os.sep  # the package's folder
_LIBRARIES = (sysconfig.get_path("stdlib") + os.sep, "<frozen ", "<__array_function__ ")
_RAISE = dis.opmap["RAISE_VARARGS"]
# What NumPy's C code raises about its arguments, also where we ask it for a shape or dtype.
_ABOUT_ARGUMENTS = (JmarsError, ValueError, TypeError, IndexError, ArithmeticError, OSError)


def links_of(error: BaseException) -> list[TracebackType]:
    """The links of its traceback, outermost first."""
    found: list[TracebackType] = []
    link = error.__traceback__
    while link is not None:
        found.append(link)
        link = link.tb_next
    return found


def shown_links(error: BaseException, links: list[TracebackType]) -> list[TracebackType]:
    """Those of `links`, which begin at a frame of the user's, that are shown."""
    shown, below_us = [], False
    for link in links:
        below_us = is_ours(link) or (below_us and _is_library(link))
        if not below_us:
            shown.append(link)
    return links if below_us and not _is_meant(error, links[-1]) else shown


def raised_below_us(error: BaseException) -> bool:
    """Whether `error` was caught by us: its traceback begins where it was caught."""
    return error.__traceback__ is not None and is_ours(error.__traceback__)


def is_about_arguments(error: BaseException, files: Iterable[str]) -> bool:
    """Whether an error that passed code of these files, none of them the user's, still says what the user did wrong."""
    return isinstance(error, _ABOUT_ARGUMENTS) and all(one.startswith(_OURS) or _is_installed(one) for one in files)


def is_ours(link: TracebackType) -> bool:
    """Whether that frame is code of jmars."""
    return link.tb_frame.f_code.co_filename.startswith(_OURS)


def _is_library(link: TracebackType) -> bool:
    """Whether that frame is code that somebody installed; of compiled modules, Cython names the source."""
    written = link.tb_frame.f_code.co_filename
    compiled = written.endswith((".pyx", ".pxd", ".pxi"))
    file = str(link.tb_frame.f_globals.get("__file__", written)) if compiled else written
    return _is_installed(file)


def _is_installed(file: str) -> bool:
    return file.startswith(_LIBRARIES) or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _is_meant(error: BaseException, last: TracebackType) -> bool:
    """Whether it says something about what the user wrote: it is of such a kind, or a `raise` raised it.

    What Python raises by itself (an AttributeError of None, a KeyError of a dict) and what fails an `assert` is a fault
    of who wrote the code.
    """
    if isinstance(error, _ABOUT_ARGUMENTS):
        return True
    return not isinstance(error, AssertionError) and _opcode(last.tb_frame.f_code, last.tb_lasti) == _RAISE


def _opcode(code: CodeType, at: int) -> int | None:
    """The operation at that place of its byte code."""
    return next((one.opcode for one in dis.get_instructions(code) if one.offset == at), None)
