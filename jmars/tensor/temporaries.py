"""Detects temporary values by their reference counts: values that only the running statement or a cell's backup holds.

- `TEMPORARY`: `x[1:] = x[:-1]` may write although `x[:-1]` is a view of x, since the program cannot read it again.
- `CHANGED`: `x[0] += 1` may write, but `rows[0] += 1` may not if the list `rows` keeps the view.
- `in_use`: after `a = a.reshape(3, 4)` a cell keeps the old `a`, to restore names if the cell fails; that is not a use.

The counts are measured at import, since they differ between versions of Python.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

__all__ = ["CHANGED", "TEMPORARY", "in_use", "put_aside"]


class _Probe:
    """Counts the references to the right-hand value that `__setitem__` sees."""

    seen = 0

    def __setitem__(self, index: Any, value: Any) -> None:
        self.seen = sys.getrefcount(value)


def _references_to_temporary() -> int:
    """Count references to a temporary value; 0 if this Python counts a named value alike."""
    probe, named = _Probe(), object()
    probe[0] = named
    with_name = probe.seen
    probe[0] = object()
    return probe.seen if probe.seen < with_name else 0


TEMPORARY = _references_to_temporary()


class _Changed:
    """Counts the references to `self` that `__iadd__` sees."""

    seen = 0

    def __iadd__(self, other: Any) -> _Changed:
        self.seen = sys.getrefcount(self)
        return self


class _Fresh:
    """Returns a new object for every index, and keeps the count of the object that is assigned."""

    def __getitem__(self, index: Any) -> _Changed:
        return _Changed()

    def __setitem__(self, index: Any, value: _Changed) -> None:
        self.seen = value.seen


def _references_to_changed() -> int:
    """Count references to a temporary `x[i]` in `x[i] += v`; `sys.maxsize` if this Python counts a held value alike."""
    fresh, held = _Fresh(), [_Changed()]
    fresh[0] += 1
    held[0] += 1
    return fresh.seen if fresh.seen < held[0].seen else sys.maxsize


CHANGED = _references_to_changed()


_aside: Counter[int] = Counter()  # number of times a handle is in the cell's backup, by id


def put_aside(handles: Iterable[Any]) -> None:
    """Register the handles that a cell keeps only as a backup, with repetitions; replaces the previous backup."""
    _aside.clear()
    _aside.update(map(id, handles))


def in_use(handle: Any) -> bool:
    """Whether references to a handle exist beside the caller's variable and the cell's backup."""
    return sys.getrefcount(handle) > _OF_A_CALL + _aside.get(id(handle), 0)


def _references_in_a_call() -> int:
    """Count the references that `in_use` sees to an object that only a variable of the caller holds."""

    def seen(handle: Any) -> int:
        return sys.getrefcount(handle)

    handle = object()
    return seen(handle)


_OF_A_CALL = _references_in_a_call()
