"""Telling a value that only the running statement holds, or only a cell to give it back, from one that has a name.

`x[1:] = x[:-1]` may write through the view on its right, which nobody will see again (`TEMPORARY`); so may `x[0] += 1`,
but not `rows[0] += 1`, where a list holds the view (`CHANGED`). After `a = a.reshape(3, 4)` a cell holds the old `a`,
to give it back should the cell fail, and nobody else does (`in_use`). Used by `Tensor`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

__all__ = ["CHANGED", "TEMPORARY", "in_use", "put_aside"]


class _Probe:
    """How many references `__setitem__` sees to the value on the right."""

    seen = 0

    def __setitem__(self, index: Any, value: Any) -> None:
        self.seen = sys.getrefcount(value)


def _references_to_temporary() -> int:
    """References to a value that only this statement holds; 0 where Python does not tell it from a named one."""
    probe, named = _Probe(), object()
    probe[0] = named
    with_name = probe.seen
    probe[0] = object()
    return probe.seen if probe.seen < with_name else 0


TEMPORARY = _references_to_temporary()


class _Changed:
    """How many references `__iadd__` sees to what it changes."""

    seen = 0

    def __iadd__(self, other: Any) -> _Changed:
        self.seen = sys.getrefcount(self)
        return self


class _Fresh:
    """Gives for each index what nobody else holds, and takes it back."""

    def __getitem__(self, index: Any) -> _Changed:
        return _Changed()

    def __setitem__(self, index: Any, value: _Changed) -> None:
        self.seen = value.seen


def _references_to_changed() -> int:
    """References to what `x[i] += v` changes if only this statement holds it; very many where Python does not tell."""
    fresh, held = _Fresh(), [_Changed()]
    fresh[0] += 1
    held[0] += 1
    return fresh.seen if fresh.seen < held[0].seen else sys.maxsize


CHANGED = _references_to_changed()


_aside: Counter[int] = Counter()  # how often a handle is put aside, by its id


def put_aside(handles: Iterable[Any]) -> None:
    """A cell holds these, each as often as it comes here, only to give them back; in place of those before."""
    _aside.clear()
    _aside.update(map(id, handles))


def in_use(handle: Any) -> bool:
    """Whether somebody refers to a handle beside the caller's one name for it and who has put it aside."""
    return sys.getrefcount(handle) > _OF_A_CALL + _aside.get(id(handle), 0)


def _references_in_a_call() -> int:
    """References that `in_use` sees to what only one name of its caller's holds."""

    def seen(handle: Any) -> int:
        return sys.getrefcount(handle)

    handle = object()
    return seen(handle)


_OF_A_CALL = _references_in_a_call()
