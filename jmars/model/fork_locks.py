"""Locks of modules that are free in a forked child: a thread that held the lock does not exist there."""

from __future__ import annotations

import os
from typing import Any, TypeVar

__all__ = ["free_in_child"]

Lock = TypeVar("Lock")


def free_in_child(lock: Lock) -> Lock:
    """Make a lock free in children forked from this process, as `concurrent.futures` does; returns the lock.

    Examples
    --------
    >>> import threading
    >>> lock = free_in_child(threading.Lock())
    >>> lock.locked()
    False
    """
    owner: Any = lock
    os.register_at_fork(after_in_child=owner._at_fork_reinit)
    return lock
