"""Loads the library of C kernels on first use and decides, once per process, between "c" and "python".

A wheel built without a compiler has no library, and Python does the work. JMARS_NATIVE=0 forces Python; JMARS_NATIVE=1
forces C, and a missing library is an error. A library that exists but cannot be used gives a warning.
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
    """The loaded library of this process, or the choice of `forced`."""

    asked = False
    library: ctypes.CDLL | None = None


def backend() -> str:
    """Language of the inner loops: "c" or "python".

    Raises
    ------
    SettingError
        If JMARS_NATIVE is neither 0 nor 1, or is 1 and no library can be used.
    """
    return "python" if library() is None else "c"


def library() -> ctypes.CDLL | None:
    """The loaded library, or None if Python does the work."""
    if not _State.asked:
        _State.library = _choose(os.environ.get("JMARS_NATIVE", ""), LIBRARY)
        _State.asked = True
    return _State.library


@contextmanager
def forced(name: str) -> Iterator[None]:
    """Forces "c" or "python" inside a `with`, for tests and measurements; affects the whole process.

    Raises
    ------
    SettingError
        If `name` is neither, or "c" is not available.
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
    """Loads the library at `path`, if `wish` allows and its digest matches the sources in the same folder."""
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
