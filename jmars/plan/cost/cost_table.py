"""Measured seconds of operands by key and size class; keys of a cost file are parsed on first use.

A cost file has thousands of keys and a session needs some dozens, so a cluster starts without parsing the rest. The
sizes of a key are a text, `"size seconds when first, …"`; older files have lists of these four numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

__all__ = ["CostTable", "KnownCost", "is_positive", "newest", "size_class"]

STEPS = 4  # size classes to a doubling


@dataclass
class KnownCost:
    """Measured cost of a program at a size class."""

    size: float  # bytes
    seconds: float
    when: int  # seconds since 1970, of the last job that measured this cost
    first: bool = True  # seen in one job only, or only on memory that was touched for the first time


class CostTable:
    """Measured costs by key and size class.

    Attributes
    ----------
    known
        The keys that were looked up or measured in this session.
    stored
        The other keys, unparsed.

    Examples
    --------
    >>> costs = CostTable()
    >>> costs.take({"add": "8000.0 0.5 7 0", "sin": "8.0 0.25 7 0"})
    >>> costs.of("add"), costs.of("cos")
    ({52: KnownCost(size=8000.0, seconds=0.5, when=7, first=False)}, {})
    >>> costs.stored, costs.as_data(["add"])
    ({'sin': '8.0 0.25 7 0'}, {'add': '8000.0 0.5 7 0'})
    """

    def __init__(self) -> None:
        self.known: dict[str, dict[int, KnownCost]] = {}
        self.stored: dict[str, Any] = {}

    def of(self, key: str) -> dict[int, KnownCost]:
        """Measured costs of a key by size class; empty for an unknown key."""
        found, rows = self.known.get(key), self.stored.get(key)
        if found is None and rows is not None:
            found = self.known.setdefault(key, _read(rows))  # another thread may ask as well
            self.stored.pop(key, None)
        return {} if found is None else found

    def made(self, key: str) -> dict[int, KnownCost]:
        """Measured costs of a key as a mutable mapping, made if missing."""
        return self.known.setdefault(key, self.of(key))

    def take(self, data: Any) -> None:
        """Adds the costs of a file, replacing costs in memory; skips damaged rows."""
        for key, rows in data.items() if isinstance(data, dict) else ():
            if key in self.known:
                self.known[key] |= _read(rows)
            else:
                self.stored[key] = rows

    def as_data(self, keys: Iterable[str] | None = None) -> dict[str, Any]:
        """Given keys, or all keys, in the file's form; safe while another thread observes costs."""
        found = {}
        for key in list(self) if keys is None else keys:
            if key in self.known:
                found[key] = _text(self.known[key])
            elif key in self.stored:
                found[key] = self.stored[key]
        return found

    def forget_oldest(self, most: int) -> list[str]:
        """Drops the keys that were measured longest ago, beyond `most` keys; returns the dropped keys."""
        if len(self) <= most:
            return []
        stored = [(key, list(_read(rows).values())) for key, rows in list(self.stored.items())]
        rows = stored + [(key, list(classes.values())) for key, classes in list(self.known.items())]
        rows.sort(key=lambda row: max((one.when for one in row[1]), default=math.inf))  # a key that is begun is new
        forgotten = [key for key, _ in rows[: len(rows) - most]]
        for key in forgotten:
            self.stored.pop(key, None)
            self.known.pop(key, None)
        return forgotten

    def __contains__(self, key: str) -> bool:
        return key in self.known or key in self.stored

    def __iter__(self) -> Iterator[str]:
        yield from list(self.stored)
        yield from list(self.known)

    def __len__(self) -> int:
        return len(self.known) + len(self.stored)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CostTable) and _all(self) == _all(other)

    __hash__ = None  # type: ignore[assignment]  # it changes


def newest(data: dict[str, Any], most: int) -> dict[str, Any]:
    """The `most` keys of a file that were measured last."""
    if len(data) <= most:
        return data

    def when(key: str) -> int:
        return max((one.when for one in _read(data[key]).values()), default=0)

    return {key: data[key] for key in sorted(data, key=when)[-most:]}


def size_class(nbytes: float) -> int:
    """The class of a size in bytes."""
    return round(STEPS * math.log2(max(nbytes, 1.0)))


def is_positive(value: Any) -> TypeGuard[float]:
    """Whether `value` is a finite number above 0."""
    return isinstance(value, int | float) and 0 < value < math.inf


def _all(costs: CostTable) -> dict[str, dict[int, KnownCost]]:
    return {key: costs.of(key) for key in costs if costs.of(key)}


def _text(classes: dict[int, KnownCost]) -> str:
    known = list(classes.values())
    return ", ".join(f"{float(one.size)!r} {float(one.seconds)!r} {one.when} {int(one.first)}" for one in known)


def _read(rows: Any) -> dict[int, KnownCost]:
    """Parses the costs of a key of a file."""
    found: dict[int, KnownCost] = {}
    for row in _rows(rows):
        if len(row) == 4 and all(map(is_positive, row[:2])):
            when = int(row[2]) if is_positive(row[2]) else 0
            known = KnownCost(float(row[0]), float(row[1]), when, bool(row[3]))
            found[size_class(known.size)] = known
    return found


def _rows(rows: Any) -> list[list[Any]]:
    if isinstance(rows, str):
        try:
            return [[float(x) for x in row.split()] for row in rows.split(",")]
        except ValueError:
            return []
    return [list(row) for row in rows if isinstance(row, list | tuple)] if isinstance(rows, list | tuple) else []
