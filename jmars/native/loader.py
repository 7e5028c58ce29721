"""Chooses the planners' back end, "c" or "python", once in a process, at the first question.

A wheel made without a compiler has no library: plans are made in Python. JMARS_NATIVE=0 asks for Python; JMARS_NATIVE=1
asks for C, and a missing library is an error then. A library that cannot be loaded gives a warning.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jmars.errors import SettingError
from jmars.native.build import LIBRARY, digest

__all__ = ["backend", "forced", "library"]

_REBUILD = "python -m jmars.native"


class _State:
    """The loaded library, and the back end that tests ask for instead."""

    asked = False
    library: ctypes.CDLL | None = None


def backend() -> str:
    """The back end of the inner loops: "c" or "python".

    Raises
    ------
    SettingError
        If JMARS_NATIVE is neither 0 nor 1, or is 1 and there is no library that can be used.
    """
    return "python" if library() is None else "c"


def library() -> ctypes.CDLL | None:
    """The loaded library, or None where Python does the work."""
    if not _State.asked:
        _State.library = _choose(os.environ.get("JMARS_NATIVE", ""), LIBRARY)
        _State.asked = True
    return _State.library


@contextmanager
def forced(name: str) -> Iterator[None]:
    """Use "c" or "python" inside a `with`, for tests and measurements; affects the whole process.

    Raises
    ------
    SettingError
        If it is neither, or "c" cannot be had.
    """
    if name not in ("c", "python"):
        raise SettingError(f"no backend {name!r} for plans; choose c or python")
    before = _State.asked, _State.library
    _State.library = _choose("1" if name == "c" else "0", LIBRARY)
    _State.asked = True
    try:
        yield
    finally:
        _State.asked, _State.library = before


def _choose(wish: str, path: Path) -> ctypes.CDLL | None:
    """Load the library at `path`, if wanted, present, and built from the sources beside it."""
    if wish not in ("", "0", "1"):
        raise SettingError(f"JMARS_NATIVE is {wish!r}; set it to 0 (Python), 1 (C, or an error) or not at all")
    if wish == "0":
        return None
    why = ""
    if not path.exists():
        why = f"{path} is not there; `{_REBUILD}` makes it"
    else:
        try:
            found = ctypes.CDLL(str(path))
            found.jm_sources.restype = ctypes.c_char_p
            if found.jm_sources().decode() == digest(path.parent):
                return found
            why = f"{path} was made from other sources; `{_REBUILD}` makes it anew"
        except (OSError, AttributeError) as error:
            why = f"{path} cannot be loaded ({error}); `{_REBUILD}` makes it anew"
        if not wish:
            warnings.warn(
                f"plans are made in Python, several times slower: {why}",
                RuntimeWarning,
                stacklevel=2,
            )
    if wish:
        raise SettingError(f"JMARS_NATIVE=1 asks for the C kernels, and {why}")
    return None
