"""without_collections: keeps the garbage collector of Python off while many objects are made that are no garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_collections"]


@contextmanager
def without_collections() -> Iterator[None]:
    """Pause the collector in a block, or as a decorator in a function; a collector that is off already stays off.

    A collection of the oldest generation visits all objects of the process, also those of other libraries: two of them
    take longer than pickling a graph of 20,000 operands. Other threads are not collected either, so blocks are short.

    Examples
    --------
    >>> with without_collections():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
