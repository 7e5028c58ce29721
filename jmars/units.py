"""Reads numbers and sizes that users give; formats bytes and seconds.

Used by every floor that shows or reads a size.
"""

from __future__ import annotations

import operator
import re
from typing import Any

__all__ = ["format_bytes", "format_seconds", "parse_bytes", "whole_number"]

_FACTORS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _FACTORS |= {_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power}


def parse_bytes(text: str | int | float) -> int:
    """Parses a size in bytes.

    Parameters
    ----------
    text
        A number of bytes, or a number with a unit: "2GiB", "1.5 GB", "512M" (M = MiB).

    Returns
    -------
    int
        Bytes, 1 or more.

    Raises
    ------
    ValueError
        If the text is not a size, or the size is below one byte.

    Examples
    --------
    >>> parse_bytes("2GiB")
    2147483648
    """
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a size; give bytes or a text such as '2GiB'")
    if isinstance(text, int | float):
        size = int(text)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([a-z]*)\s*", text.lower())
        if not match or match[2] not in _FACTORS:
            raise ValueError(f"{text!r} is not a size; give bytes or a text such as '512MiB' or '2GiB'")
        size = int(float(match[1]) * _FACTORS[match[2]])
    if size < 1:
        raise ValueError(f"{text!r} is below one byte; give a positive size such as '512MiB'")
    return size


def format_bytes(size: float) -> str:
    """Formats bytes as a short text: 1536 -> '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_seconds(value: float) -> str:
    """Formats seconds as a short text.

    Examples
    --------
    >>> [format_seconds(value) for value in (0.00042, 0.084, 0.84, 12.3, 185)]
    ['420 µs', '84.0 ms', '0.84 s', '12 s', '3 min 5 s']
    """
    if value < 0.001:
        return f"{1e6 * value:.0f} µs"
    if value < 0.1:
        return f"{1000 * value:.1f} ms"
    if value < 10:
        return f"{value:.2f} s"
    return f"{value:.0f} s" if value < 60 else f"{int(value // 60)} min {int(value % 60)} s"


def whole_number(name: str, value: Any) -> int:
    """The value of an integer of any library.

    Raises
    ------
    TypeError
        If the value is no integer; the text begins with `name`.

    Examples
    --------
    >>> whole_number("size", 3)
    3
    """
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; give a whole number") from None
