"""Warns of large tensors that become NumPy arrays unasked: a library that knows no tensors, as SciPy, takes the value.

`x.fetch()` asks for the value and is never refused. `__array__` is called by any function that takes arrays, and brings
the whole tensor into this process: from `config.array_warning` on with a warning before it begins, once for a line;
beyond `config.array_limit` it is refused.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
from types import FrameType
from typing import TYPE_CHECKING

from jmars.config import config
from jmars.errors import MemoryLimitError
from jmars.tensor.engine import get_engine
from jmars.tensor.source_line import warn_at
from jmars.units import format_bytes

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["array_limit", "check_size"]

_OURS = ("jmars", "numpy")


def array_limit() -> int:
    """Bytes of the largest array that comes here unasked: `config.array_limit`, by default half of the free memory."""
    return config.array_limit or get_engine().free_memory() // 2


def check_size(x: Tensor) -> None:
    """Warn of a tensor that is about to become a large array of this process.

    Raises
    ------
    MemoryLimitError
        If the array would be larger than `config.array_limit`, by default half of the free memory.
    """
    size = x.nbytes
    if size < config.array_warning and not 0 < config.array_limit < size:
        return
    library, frame = _caller()
    taking = f"{library or 'this line'} takes a tensor of shape {x.shape} and dtype {x.dtype} as a NumPy array"
    limit = array_limit()
    instead = "work on a part of the tensor, or on its chunks by jmars.tensor.map_blocks"
    if size > limit:
        half = "config.array_limit" if config.array_limit else "half of the free memory"
        raise MemoryLimitError(
            f"{taking}, {format_bytes(size)} in this process; {half} is {format_bytes(limit)}. Instead {instead}; "
            "x.fetch() takes the value in any case, and jmars.config.array_limit sets the limit"
        )
    warn_at(
        frame,
        f"{taking}: {format_bytes(size)} are brought into this process. To spare them, {instead}; x.fetch() takes the "
        "value without this warning, and jmars.config.array_warning sets the size",
        UserWarning,
    )


def _caller() -> tuple[str, FrameType | None]:
    """The library that takes the array, "" for code of the user, and the frame of the user's line."""
    library: str | None = None
    innermost: FrameType | None = None
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__") or "").partition(".")[0]
        if name not in _OURS:
            users = not frame.f_code.co_filename.startswith(_libraries())
            innermost = innermost or frame
            if library is None:
                library = "" if users else name
            if users:
                return library, frame
        frame = frame.f_back
    return library or "", innermost


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Folders of Python's own modules and of installed packages."""
    return tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
