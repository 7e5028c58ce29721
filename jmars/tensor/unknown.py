"""Lengths that only a run can tell: how long `x[x > 0]` is.

An `Unknown` stands where a length would. It is a NaN, so that arithmetic which forgets about it gives NaN or an error
and never a wrong number; two of them are equal when they have one origin, that is when they are provably the same
length. A client's `Origin` learns its lengths when a job has told them. Used by operand.py, graph.py, tensor/ops and
optimize/stages.py.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from jmars.errors import JmarsError

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
    "strictly",
]

Length = Any  # an int, or an Unknown
strictly: ContextVar[bool] = ContextVar("strictly", default=False)  # who needs a length gets NeedsLengthError


class NeedsLengthError(JmarsError):
    """Inside jmars only: a length is needed that is not known yet; who catches it waits for a stage or computes."""


_origins: weakref.WeakValueDictionary[str, Origin] = weakref.WeakValueDictionary()
_lock = threading.Lock()


class Origin:
    """Where an axis of unknown length comes from; made by `Origin.of`, one for each key.

    Attributes
    ----------
    key
        Says what makes two axes equally long and equally cut.
    lengths
        Lengths of its chunks in elements, once they are known here.
    """

    __slots__ = ("__weakref__", "key", "lengths")
    met = False  # whether any was made in this process: until then nobody looks for them

    def __init__(self, key: str) -> None:
        self.key = key
        self.lengths: tuple[int, ...] | None = None
        Origin.met = True

    @classmethod
    def of(cls, key: str) -> Origin:
        """The origin of that key."""
        with _lock:
            found = _origins.get(key)
            if found is None:
                found = _origins[key] = cls(key)
            return found

    def axis(self, most: Iterable[int | None]) -> tuple[Unknown, ...]:
        """Lengths of the chunks of an axis cut in as many chunks as `most` has entries: elements at most of each."""
        return tuple(Unknown(self, number, at_most) for number, at_most in enumerate(most))

    @property
    def whole(self) -> Unknown:
        """The length of the axis; as its only entry in `chunks` it says that their number is unknown too."""
        return Unknown(self)

    def __reduce__(self) -> Any:
        return _origin, (self.key,)


def _origin(key: str) -> Origin:
    return Origin.of(key)


class Unknown(float):
    """A length in elements that is not known.

    Examples
    --------
    >>> some = Origin.of("example").whole
    >>> some == Origin.of("example").whole, some == Origin.of("another").whole, some + 1
    (True, False, nan)
    """

    __slots__ = ("most", "number", "origin")

    def __new__(cls, origin: Origin, number: int | None = None, most: int | None = None) -> Unknown:
        """NaN with a name."""
        made = super().__new__(cls, math.nan)
        made.origin, made.number, made.most = origin, number, most
        return made

    origin: Origin
    number: int | None  # of the chunk; None for the whole axis
    most: int | None  # elements at most, where that is known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and self.origin.key == other.origin.key and self.number == other.number

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.origin.key, self.number))

    def __reduce__(self) -> Any:
        return Unknown, (self.origin, self.number, self.most)


def is_known(chunks: Iterable[Iterable[Length]]) -> bool:
    """Whether no length of a tensor's chunks is unknown."""
    return not any(n.__class__ is Unknown for axis in chunks for n in axis)


def is_open(chunks: Iterable[Sequence[Length]]) -> bool:
    """Whether even the number of chunks is unknown on some axis."""
    return any(axis[0].__class__ is Unknown and axis[0].number is None for axis in chunks if axis)


def axis_length(axis: Sequence[Length]) -> Length:
    """Elements on an axis cut as `axis`.

    Examples
    --------
    >>> axis_length((3, 3, 1)), axis_length(Origin.of("example").axis([3, 3]))
    (7, nan)
    """
    first = axis[0] if axis else 0
    return first.origin.whole if first.__class__ is Unknown else sum(axis)


def resolved_axis(axis: Sequence[Length], known: Mapping[str, Sequence[Length]]) -> tuple[Length, ...]:
    """The same axis with what `known` says of its origin (lengths of the chunks by the origin's key)."""
    while axis and axis[0].__class__ is Unknown:
        found = known.get(axis[0].origin.key)
        if found is None:
            break
        axis = found
    return tuple(axis)


def resolved(chunks: Iterable[Sequence[Length]], known: Mapping[str, Sequence[Length]]) -> tuple[Any, ...]:
    """`resolved_axis` of each axis."""
    return tuple(resolved_axis(axis, known) for axis in chunks)
