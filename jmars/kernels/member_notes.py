"""Notes on exceptions: which of the operands that are fused in a program raised."""

from __future__ import annotations

from contextlib import suppress

__all__ = ["note_member", "take_member"]

_MEMBER = "_jmars_member"


def note_member(error: BaseException, member: int) -> None:
    """Note on an exception the number of the fused operand that raised it; the first note holds."""
    with suppress(Exception):  # an exception of the user's may forbid it
        error.__dict__.setdefault(_MEMBER, member)


def take_member(error: BaseException) -> int:
    """Number of the fused operand that raised an exception, -1 if unknown; removes the note."""
    try:
        member = error.__dict__.pop(_MEMBER, -1)
    except Exception:
        return -1
    return member if type(member) is int else -1
