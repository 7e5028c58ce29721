"""Unknown lengths: lengths of axes that only a run can tell, such as that of `x[x > 0]`.

An `Unknown` stands in `shape` and `chunks` in place of an int. Its value is NaN, as in Dask, so that arithmetic with an
unknown length gives NaN or an error, never a wrong number. Two `Unknown`s are equal if they have the same `Origin`:
then the lengths are the same. After a job the client's `Origin` holds the reported lengths.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from jmars.errors import JmarsError
from jmars.model.collector import free_in_child

__all__ = [
    "Length",
    "NeedsLengthError",
    "Origin",
    "Unknown",
    "axis_length",
    "is_known",
    "is_open",
    "resolved",
    "resolved_axis",
    "values_forbidden",
]

Length = Any  # an int, or an Unknown
values_forbidden: ContextVar[bool] = ContextVar("values_forbidden", default=False)  # so are unknown lengths


class NeedsLengthError(JmarsError):
    """Raised within jmars if a function needs an unknown length; the caller defers the call or computes the length."""


_origins: weakref.WeakValueDictionary[str, Origin] = weakref.WeakValueDictionary()
_lock = free_in_child(threading.Lock())


class Origin:
    """Identity of an axis of unknown length. `Origin.of` returns the same object for the same key.

    Attributes
    ----------
    key
        Axes with the same key have the same length and chunks.
    lengths
        Lengths of the chunks in elements; None while they are unknown.
    """

    __slots__ = ("__weakref__", "key", "lengths")
    met = False  # whether any exists in this process; spares checks before

    def __init__(self, key: str) -> None:
        self.key = key
        self.lengths: tuple[int, ...] | None = None
        Origin.met = True

    @classmethod
    def of(cls, key: str) -> Origin:
        """Return the origin of a key."""
        with _lock:
            found = _origins.get(key)
            if found is None:
                found = _origins[key] = cls(key)
            return found

    def axis(self, most: Iterable[int | None]) -> tuple[Unknown, ...]:
        """Make the lengths of an axis's chunks; `most` has an entry per chunk: an upper bound in elements, or None."""
        return tuple(Unknown(self, number, at_most) for number, at_most in enumerate(most))

    @property
    def whole(self) -> Unknown:
        """Length of the whole axis; as the only entry in `chunks`, the number of chunks is unknown, too."""
        return Unknown(self)

    def __reduce__(self) -> Any:
        return _origin, (self.key,)


def _origin(key: str) -> Origin:
    return Origin.of(key)


class Unknown(float):
    """An unknown length in elements.

    Examples
    --------
    >>> some = Origin.of("example").whole
    >>> some == Origin.of("example").whole, some == Origin.of("another").whole, some + 1
    (True, False, nan)
    """

    __slots__ = ("most", "number", "origin")

    def __new__(cls, origin: Origin, number: int | None = None, most: int | None = None) -> Unknown:
        """Make a NaN that knows its origin."""
        made = super().__new__(cls, math.nan)
        made.origin, made.number, made.most = origin, number, most
        return made

    origin: Origin
    number: int | None  # of the chunk; None for the whole axis
    most: int | None  # upper bound in elements; None if there is none

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and self.origin.key == other.origin.key and self.number == other.number

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.origin.key, self.number))

    def __reduce__(self) -> Any:
        return Unknown, (self.origin, self.number, self.most)


def is_known(chunks: Iterable[Iterable[Length]]) -> bool:
    """Whether all chunk lengths of a tensor are known."""
    return not any(n.__class__ is Unknown for axis in chunks for n in axis)


def is_open(chunks: Iterable[Sequence[Length]]) -> bool:
    """Whether an axis has an unknown number of chunks."""
    return any(axis[0].__class__ is Unknown and axis[0].number is None for axis in chunks if axis)


def axis_length(axis: Sequence[Length]) -> Length:
    """Return the length of an axis with chunks `axis`.

    Examples
    --------
    >>> axis_length((3, 3, 1)), axis_length(Origin.of("example").axis([3, 3]))
    (7, nan)
    """
    first = axis[0] if axis else 0
    return first.origin.whole if first.__class__ is Unknown else sum(axis)


def resolved_axis(axis: Sequence[Length], known: Mapping[str, Sequence[Length]]) -> tuple[Length, ...]:
    """Replace the unknown lengths of an axis by those in `known`, chunk lengths by the origin's key."""
    while axis and axis[0].__class__ is Unknown:
        found = known.get(axis[0].origin.key)
        if found is None:
            break
        axis = found
    return tuple(axis)


def resolved(chunks: Iterable[Sequence[Length]], known: Mapping[str, Sequence[Length]]) -> tuple[Any, ...]:
    """Apply `resolved_axis` to all axes."""
    return tuple(resolved_axis(axis, known) for axis in chunks)
