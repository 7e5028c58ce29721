"""Notes on exceptions: which of the operands that are fused in a program raised."""

from __future__ import annotations

from contextlib import suppress

__all__ = ["note_member", "take_member"]

_MEMBER, _IN_CHAIN = "_jmars_member", "_jmars_in_chain"


def note_member(error: BaseException, member: int, in_chain: bool = False) -> None:
    """Note on an exception the number of the fused operand that raised it; the last note holds, except of a chain.

    `in_chain`: in a chain (`row_chains`), so the region's own note, which comes next, has no effect.
    """
    with suppress(Exception):  # an exception of the user's may forbid it
        if in_chain or not error.__dict__.pop(_IN_CHAIN, False):
            error.__dict__[_MEMBER] = member
        if in_chain:
            error.__dict__[_IN_CHAIN] = True


def take_member(error: BaseException) -> int:
    """Number of the fused operand that raised an exception, -1 if unknown; removes the note."""
    try:
        error.__dict__.pop(_IN_CHAIN, False)
        member = error.__dict__.pop(_MEMBER, -1)
    except Exception:
        return -1
    return member if type(member) is int else -1
