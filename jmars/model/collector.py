"""without_collections: keeps the garbage collector of Python off while many objects are made that are no garbage.

`free_in_child` makes locks that are free in a forked child: a thread that held the lock does not exist there.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

is_own_process = False  # whether this process is jmars's own, without objects of a user
_is_paused = False  # whether a block has paused the collector


@contextmanager
def without_collections(then_old: bool = False) -> Iterator[None]:
    """Pause the collector in a block, or as a decorator in a function; a collector that is off already stays off.

    A collection of the oldest generation visits all objects of the process, also those of other libraries: two of them
    take longer than pickling a graph of 20,000 operands. Other threads are not collected either. A block that begins
    during a pause of a second thread pauses nothing, so that overlapping blocks do not keep the collector off. A call
    of `gc.disable()` in a second thread ends with the block.

    With `then_old`, in processes of jmars's own, all objects are old where a collection is due at the end: of a large
    graph it would visit each object, for up to a tenth of a job's time, and find no garbage. That ends `gc.freeze()`.

    Examples
    --------
    >>> with without_collections():
    ...     gc.isenabled()
    False
    """
    global _is_paused
    if not gc.isenabled():
        yield
        return
    try:
        _is_paused = True
        gc.disable()
        yield
    finally:
        if then_old and is_own_process and gc.get_count()[0] > gc.get_threshold()[0]:
            gc.freeze()
            gc.unfreeze()
        gc.enable()
        _is_paused = False


def _forked() -> None:
    """The thread that would end the pause may not be in this process."""
    global _is_paused
    if _is_paused:
        gc.enable()
        _is_paused = False


os.register_at_fork(after_in_child=_forked)


Lock = TypeVar("Lock")


def free_in_child(lock: Lock) -> Lock:
    """Make a lock free in children forked from this process, as `concurrent.futures` does; returns the lock.

    Examples
    --------
    >>> import threading
    >>> free_in_child(threading.Lock()).locked()
    False
    """
    owner: Any = lock
    os.register_at_fork(after_in_child=owner._at_fork_reinit)
    return lock
