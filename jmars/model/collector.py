"""without_collections: keeps the garbage collector of Python off while many objects are made that are no garbage."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_collections"]

_lock = threading.RLock()  # a collection right before the pause may run code that pauses, too
_depth = 0  # blocks that run, in all threads
_was_on = False  # whether the collector was on before the first of them


@contextmanager
def without_collections() -> Iterator[None]:
    """Pause the collector in a block, or as a decorator in a function; a collector that is off already stays off.

    A collection of the oldest generation visits all objects of the process, also those of other libraries: two of them
    take longer than pickling a graph of 20,000 operands. Other threads are not collected either, and `gc.disable()` of
    another thread during a block ends with the block, so blocks take milliseconds.

    Examples
    --------
    >>> with without_collections():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    global _depth, _was_on
    with _lock:
        if not _depth:
            _was_on = gc.isenabled()
            gc.disable()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth = max(0, _depth - 1)  # 0 already in a process that was forked in the block
            if not _depth and _was_on:
                gc.enable()


def _forked() -> None:
    """Other threads, which would have ended their blocks, are not in this process."""
    global _lock, _depth
    _lock = threading.RLock()
    if _depth and _was_on:
        gc.enable()
    _depth = 0


os.register_at_fork(after_in_child=_forked)
