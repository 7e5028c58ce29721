"""Handles that would share memory in NumPy: a tensor and its slices, transposes and reshapes.

A write to one of these handles is refused, since the others would not see it. `x[i] += v` is allowed. Python runs it as
three calls: `part = x[i]`, `result = part.__iadd__(v)` and `x[i] = result`. So `__iadd__` leaves its result with the
family, and `__setitem__` that receives the very same object accepts it. If anything else reads a handle of the family
first, or the result, the write was meant for `part` alone and ViewWriteError is raised there: a write is never lost
without an error. Where reference counts tell that `part` has a name (temporaries.py), the error comes at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jmars.errors import ViewWriteError
from jmars.tensor.temporaries import in_use

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["ViewFamily", "discard_results"]

_SHARED = (
    "this array and another one still in use are views of each other (a slice, transpose or reshape), so NumPy would "
    "write to both; jmars arrays are values. "
)
_OF_THE_WHOLE = "Let go of the part before writing to the whole (`del part`), or make it a copy, part = x[i].copy()"
_OF_A_PART = (
    "Write to the array that it is a part of, in one step (x[i, j] = v for x[i][j] = v, x[i] += v for part += v), or "
    "make it a copy, part = x[i].copy()"
)
_LOST = (
    "a part of an array was changed in place, and NumPy would change the array and all its views; jmars arrays are "
    "values, and the result was not assigned to the array. "
)


class ViewFamily:
    """Weak references to the handles, the whole first, and the result of an in-place operation on a view."""

    __slots__ = ("_handles", "_result", "waits")

    def __init__(self, whole: Tensor) -> None:
        self._handles = [weakref.ref(whole)]
        self._result: weakref.ref[Tensor] | None = None
        self.waits = False  # whether the result of an in-place operation waits for `accept`

    def add(self, view: Tensor) -> None:
        """Add a view."""
        self._handles.append(weakref.ref(view))

    def remove(self, handle: Tensor) -> None:
        """Remove a handle."""
        self._handles[:] = [r for r in self._handles if r() is not handle]

    def sharers(self, handle: Tensor) -> list[Tensor]:
        """List the other handles in use."""
        self._handles[:] = [r for r in self._handles if r() is not None]
        return [other for r in self._handles if (other := r()) is not None and other is not handle and in_use(other)]

    def check_write(self, handle: Tensor) -> None:
        """Raise ViewWriteError for a write to `handle` that NumPy would show in other handles."""
        if self.sharers(handle):
            raise ViewWriteError(_SHARED + (_OF_THE_WHOLE if self._handles[0]() is handle else _OF_A_PART))

    def leave(self, result: Tensor) -> Tensor:
        """Leave the result of an in-place operation on a view, for the `x[i] = result` that follows in `x[i] += v`."""
        result._family = self
        self._result, self.waits = weakref.ref(result), True
        return result

    def accept(self, value: object) -> bool:
        """Whether `value` is the result that was left; it waits no more then."""
        if not self.waits or self._result is None or self._result() is not value:
            return False
        self._result, self.waits = None, False
        return True

    def discard(self) -> None:
        """Forget the waiting result."""
        self._result, self.waits = None, False

    def refuse(self) -> None:
        """Raise ViewWriteError, once, for a result that no `x[i] = result` has accepted."""
        self._result, self.waits = None, False
        raise ViewWriteError(_LOST + _OF_A_PART)


def discard_results(handles: Iterable[Tensor]) -> None:
    """Forget results of in-place operations on views of these handles, whose values are restored."""
    for handle in handles:
        if handle._family is not None:
            handle._family.discard()
