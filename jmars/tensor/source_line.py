"""Finds the line of the user's code that made an operand, for the view and for errors."""

from __future__ import annotations

import dis
import linecache
import sys
from types import FrameType
from typing import NamedTuple

__all__ = ["SourceLine", "source_line", "stores_subscript"]

_OURS = ("jmars.", "numpy.", "cloudpickle.", "dask.", "xarray.")  # Dask and xarray call jmars on behalf of the user


class SourceLine(NamedTuple):
    """File name, line number from 1, and the text of the line without its indent."""

    filename: str
    lineno: int
    text: str


def source_line() -> SourceLine | None:
    """Return the line of the innermost frame outside jmars, NumPy, Dask, xarray and the pickler."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if not name.startswith(_OURS) and name not in ("jmars", "numpy"):
            filename = frame.f_code.co_filename
            return SourceLine(filename, frame.f_lineno, linecache.getline(filename, frame.f_lineno).strip())
        frame = frame.f_back
    return None


def stores_subscript() -> bool:
    """Whether the user's `x[i] += v` is under way: what follows the in-place operation stores to a subscript.

    Asked only where an in-place operation meets a view; reads the caller's byte code, because Python tells the two
    operands nothing else.
    """
    frame = sys._getframe(2)
    after = False
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            after = instruction.opname == "BINARY_OP"
        elif after and instruction.opname.startswith(("STORE_", "DELETE_", "CALL", "RETURN")):
            return instruction.opname in ("STORE_SUBSCR", "STORE_SLICE")
    return False
