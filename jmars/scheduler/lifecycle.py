"""The life of an operand as a pure function: (state, event) -> (state, command).

`step` has a handler per state; `LEGAL` is the table of moves that the handlers can make. Rows of operands are
moved in batches (operand_rows.py): `taken_in` tells at once where an event has an effect. A worker's report
that comes twice or too late has none; a wrong decision of the scheduler raises.
Source: docs/explanation/seeds.md, "Operand states".
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import NamedTuple

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


class Command(Enum):
    """Commands that follow when an operand enters a state."""

    SUBMIT = "choose a worker and submit it there"
    TELL = "tell predecessors and successors, and the job"
    FREE = "free its chunk"
    STOP = "have the worker stop it"
    SPREAD = "tell all that depend on it"


class Move(NamedTuple):
    """Next state and command."""

    state: S
    commands: tuple[Command, ...] = ()


class IllegalMoveError(ExecutionError, AssertionError):
    """A decision about an operand that its state does not allow: a fault of jmars."""


def step(state: S, what: Happened, *, inputs_there: bool = True, tries_left: int = 0) -> Move:
    """Next state and command of an operand after an event.

    Parameters
    ----------
    state, what
        Where it stands, and what happened.
    inputs_there
        Whether all its inputs are stored.
    tries_left
        How often it may still be tried again after it raised.

    Returns
    -------
    Move
        Its next state, the same one where this is no news.

    Raises
    ------
    IllegalMoveError
        If a decision, not a report, does not fit its state.

    Examples
    --------
    >>> step(S.RUNNING, Happened.STORED)
    Move(state=<OperandState.FINISHED: 3>, commands=(<Command.TELL: 'tell predecessors and successors, and the job'>,))
    >>> step(S.FINISHED, Happened.STORED)  # told twice
    Move(state=<OperandState.FINISHED: 3>, commands=())
    """
    found = _HANDLERS[state](what, inputs_there, tries_left)
    if found is not None:
        return found
    if what not in REPORTS:
        raise IllegalMoveError(f"an operand that is {state.name} cannot meet {what.name}")
    return Move(state)


Handler = Callable[[Happened, bool, int], Move | None]  # None: nothing that fits the state


def _back(inputs_there: bool) -> Move:
    """From a worker: to another worker, or to wait for inputs that were lost meanwhile."""
    return Move(S.READY, (Command.SUBMIT,)) if inputs_there else Move(S.UNSCHEDULED)


def _unscheduled(what: Happened, inputs_there: bool, tries_left: int) -> Move | None:
    match what:
        case Happened.INPUTS_THERE:
            return Move(S.READY, (Command.SUBMIT,))
        case Happened.STOP:
            return Move(S.CANCELLED)
        case Happened.HOPELESS:
            return Move(S.FATAL, (Command.SPREAD,))
    return None


def _ready(what: Happened, inputs_there: bool, tries_left: int) -> Move | None:
    match what:
        case Happened.TAKEN:
            return Move(S.RUNNING)
        case Happened.MISSING:
            return _back(inputs_there)
        case Happened.INPUTS_THERE:  # again: the worker that has it finds them
            return Move(S.READY)
        case Happened.STOP:
            return Move(S.CANCELLED)
        case Happened.HOPELESS | Happened.REFUSED:
            return Move(S.FATAL, (Command.SPREAD,))
    return None


def _running(what: Happened, inputs_there: bool, tries_left: int) -> Move | None:
    match what:
        case Happened.STORED:
            return Move(S.FINISHED, (Command.TELL,))
        case Happened.DROPPED | Happened.MISSING:
            return _back(inputs_there)
        case Happened.RAISED if tries_left:
            return _back(inputs_there)
        case Happened.RAISED | Happened.REFUSED:
            return Move(S.FATAL, (Command.SPREAD,))
        case Happened.INPUTS_THERE:  # again: it read them before
            return Move(S.RUNNING)
        case Happened.STOP | Happened.HOPELESS:
            return Move(S.CANCELLING, (Command.STOP,))
    return None


def _finished(what: Happened, inputs_there: bool, tries_left: int) -> Move | None:
    match what:
        case Happened.UNNEEDED:
            return Move(S.FREED, (Command.FREE,))
        case Happened.CHUNK_LOST:
            return Move(S.UNSCHEDULED)
        case Happened.STOP | Happened.HOPELESS:  # its chunk is freed, or kept, as its job ends
            return Move(S.FINISHED)
    return None


def _freed(what: Happened, inputs_there: bool, tries_left: int) -> Move | None:
    match what:
        case Happened.NEEDED_AGAIN:
            return Move(S.UNSCHEDULED)
        case Happened.GIVEN_AGAIN:
            return Move(S.FINISHED)
        case Happened.STOP | Happened.HOPELESS:
            return Move(S.FREED)
    return None


def _cancelling(what: Happened, inputs_there: bool, tries_left: int) -> Move | None:
    match what:
        case Happened.STORED:  # it was faster
            return Move(S.FINISHED, (Command.TELL,))
        case Happened.DROPPED | Happened.RAISED | Happened.REFUSED | Happened.MISSING:
            return Move(S.CANCELLED)
        case Happened.STOP | Happened.HOPELESS | Happened.INPUTS_THERE:
            return Move(S.CANCELLING)
    return None


def _over(state: S) -> Handler:
    """CANCELLED and FATAL are final; a chunk that still comes is of no use."""

    def handler(what: Happened, inputs_there: bool, tries_left: int) -> Move | None:
        if what == Happened.STORED:
            return Move(state, (Command.FREE,))
        return Move(state) if what in (Happened.STOP, Happened.HOPELESS, Happened.INPUTS_THERE) else None

    return handler


_HANDLERS: dict[S, Handler] = {
    S.UNSCHEDULED: _unscheduled,
    S.READY: _ready,
    S.RUNNING: _running,
    S.FINISHED: _finished,
    S.FREED: _freed,
    S.CANCELLING: _cancelling,
    S.CANCELLED: _over(S.CANCELLED),
    S.FATAL: _over(S.FATAL),
}


def _moves(state: S) -> frozenset[int]:
    """States that may follow a state."""
    found = {
        move.state
        for what in Happened
        for inputs_there in (True, False)
        for tries_left in (0, 1)
        if (move := _HANDLERS[state](what, inputs_there, tries_left)) is not None
    }
    return frozenset(found - {state})


LEGAL: dict[int, frozenset[int]] = {state: _moves(state) for state in _HANDLERS}


def taken_in(what: Happened) -> bytes:
    """By state, 1 if the event can move an operand, else 0: a table to test whole batches."""
    flags = bytearray(max(S) + 1)
    for state, handler in _HANDLERS.items():
        moves = [handler(what, inputs_there, 0) for inputs_there in (True, False)]
        flags[state] = any(move is not None and move.state != state for move in moves)
    return bytes(flags)


def check(before: int, after: int) -> None:
    """Raise IllegalMoveError for a move that no handler makes."""
    if after not in LEGAL[before]:
        raise IllegalMoveError(f"an operand cannot go from {S(before).name} to {S(after).name}")
