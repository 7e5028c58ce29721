"""Finds the line of the user's code that made an operand, for the view and for errors."""

from __future__ import annotations

import linecache
import sys
from types import FrameType
from typing import NamedTuple

__all__ = ["SourceLine", "source_line"]

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
