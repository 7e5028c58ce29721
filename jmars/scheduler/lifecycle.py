"""The life of an operand as a pure function: (state, event) -> state.

`_NEXT` has a row of moves per state, `step` the two rules beside it; `LEGAL` is the table of moves that follow. Rows of
operands are moved in batches (operand_rows.py): `taken_in` tells at once where an event has an effect. A worker's
report that comes twice or too late has none; a wrong decision of the scheduler raises.
Source: docs/explanation/seeds.md, "Operand states".
"""

from __future__ import annotations

from enum import IntEnum

from jmars.errors import ExecutionError
from jmars.model.status import OperandState as S


class Happened(IntEnum):
    """Events of an operand."""

    INPUTS_THERE = 0  # the last of its inputs is stored
    UNNEEDED = 1  # nobody needs its chunk any more
    NEEDED_AGAIN = 2  # a reader that had read it must run again, and the chunk was freed
    GIVEN_AGAIN = 3  # the same, and the chunk is held by somebody outside still
    STOP = 4  # its job is cancelled, or cannot succeed
    HOPELESS = 5  # it cannot be computed, or one that it reads
    # what workers tell
    TAKEN = 6  # a worker took it
    STORED = 7  # its chunk is stored
    RAISED = 8  # it raised
    REFUSED = 9  # it can never run there
    DROPPED = 10  # the worker stopped it, dropped it or died
    MISSING = 11  # the worker has not all of its inputs
    CHUNK_LOST = 12  # its chunk is gone


REPORTS = frozenset(what for what in Happened if what >= Happened.TAKEN)


class IllegalMoveError(ExecutionError, AssertionError):
    """A decision about an operand that its state does not allow: a fault of jmars."""


_H = Happened
_OVER = (_H.STOP, _H.HOPELESS, _H.INPUTS_THERE)  # decisions without effect on an operand that is over
_NEXT: dict[S, dict[Happened, S]] = {
    S.UNSCHEDULED: {_H.INPUTS_THERE: S.READY, _H.STOP: S.CANCELLED, _H.HOPELESS: S.FATAL},
    S.READY: {
        _H.TAKEN: S.RUNNING,
        _H.MISSING: S.READY,
        _H.INPUTS_THERE: S.READY,  # again: the worker that has it finds them
        _H.STOP: S.CANCELLED,
        _H.HOPELESS: S.FATAL,
        _H.REFUSED: S.FATAL,
    },
    S.RUNNING: {
        _H.STORED: S.FINISHED,
        _H.DROPPED: S.READY,
        _H.MISSING: S.READY,
        _H.RAISED: S.FATAL,
        _H.REFUSED: S.FATAL,
        _H.INPUTS_THERE: S.RUNNING,  # again: it read them before
        _H.STOP: S.CANCELLING,
        _H.HOPELESS: S.CANCELLING,
    },
    S.FINISHED: {
        _H.UNNEEDED: S.FREED,
        _H.CHUNK_LOST: S.UNSCHEDULED,
        _H.STOP: S.FINISHED,  # its chunk is freed, or kept, as its job ends
        _H.HOPELESS: S.FINISHED,
    },
    S.FREED: {_H.NEEDED_AGAIN: S.UNSCHEDULED, _H.GIVEN_AGAIN: S.FINISHED, _H.STOP: S.FREED, _H.HOPELESS: S.FREED},
    S.CANCELLING: {
        _H.STORED: S.FINISHED,  # it was faster
        **dict.fromkeys((_H.DROPPED, _H.RAISED, _H.REFUSED, _H.MISSING), S.CANCELLED),
        **dict.fromkeys(_OVER, S.CANCELLING),
    },
    S.CANCELLED: dict.fromkeys(_OVER, S.CANCELLED),
    S.FATAL: dict.fromkeys(_OVER, S.FATAL),
}


def step(state: S, what: Happened, *, inputs_there: bool = True, tries_left: int = 0) -> S:
    """Next state of an operand after an event; the same state where this is no news.

    Parameters
    ----------
    inputs_there
        Whether all its inputs are stored; else it waits for them when it comes back from a worker.
    tries_left
        How often it may still be tried again after it raised.

    Raises
    ------
    IllegalMoveError
        If a decision, not a report, does not fit its state.

    Examples
    --------
    >>> step(S.RUNNING, Happened.STORED)
    <OperandState.FINISHED: 3>
    >>> step(S.FINISHED, Happened.STORED)  # told twice
    <OperandState.FINISHED: 3>
    """
    if what == Happened.RAISED and tries_left and state == S.RUNNING:
        what = Happened.DROPPED
    after = _NEXT[state].get(what)
    if after is None and what not in REPORTS:
        raise IllegalMoveError(f"an operand that is {state.name} cannot meet {what.name}")
    if after == S.READY and what in REPORTS and not inputs_there:
        return S.UNSCHEDULED
    return state if after is None else after


LEGAL: dict[int, frozenset[int]] = {
    state: frozenset(
        step(state, what, inputs_there=there, tries_left=tries)
        for what in row
        for there in (True, False)
        for tries in (0, 1)
    )
    - {state}
    for state, row in _NEXT.items()
}


def taken_in(what: Happened) -> bytes:
    """By state, 1 if the event can move an operand, else 0: a table to test whole batches."""
    flags = bytearray(max(S) + 1)
    for state, row in _NEXT.items():
        flags[state] = what in row and any(step(state, what, inputs_there=one) != state for one in (True, False))
    return bytes(flags)


def check(before: int, after: int) -> None:
    """Raise IllegalMoveError for a move that is not in the table."""
    if after not in LEGAL[before]:
        raise IllegalMoveError(f"an operand cannot go from {S(before).name} to {S(after).name}")
