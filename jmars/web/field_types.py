"""Checks a value against the type that a dataclass gives to a field. Pure.

Without this check a malformed operand is noticed only where the cluster works with it.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from jmars.tensor.unknown import Unknown

__all__ = ["are_lengths", "field_types", "has_type"]


@cache
def field_types(kind: Any) -> dict[str, Any]:
    """The types of a class's fields."""
    return typing.get_type_hints(kind)


def has_type(value: Any, hint: Any) -> bool:
    """Whether `value` has the type `hint`; a type that the check does not know fits.

    Examples
    --------
    >>> has_type((1, 2), tuple[int, ...]), has_type((1, "a"), tuple[int, ...]), has_type(None, int | None)
    (True, False, True)
    """
    origin, within = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        if type(value) is not tuple:
            return False
        if len(within) == 2 and within[1] is Ellipsis:
            return all(has_type(one, within[0]) for one in value)
        return len(value) == len(within) and all(map(has_type, value, within))
    if origin in (typing.Union, types.UnionType):
        return any(has_type(value, one) for one in within)
    if origin is Callable:
        return callable(value)
    kind = origin or hint
    if kind is Any:
        return True
    if kind is int:
        return type(value) in (int, bool) and -(2**63) <= value < 2**64  # as messages hold them
    if kind is float:
        return type(value) in (int, float)
    if kind in (str, bytes, bool, types.NoneType):
        return type(value) is kind
    return not isinstance(kind, type) or getattr(kind, "_is_protocol", False) or isinstance(value, kind)


def are_lengths(splits: Any) -> bool:
    """Whether `splits` holds chunk lengths for each axis."""
    return type(splits) is tuple and all(
        type(axis) is tuple and all(isinstance(n, Unknown) or (type(n) is int and n >= 0) for n in axis)
        for axis in splits
    )
