"""The legal moves of an operand from state to state.

Used by OperandActor, which checks every move against it; docs and the live view name the same states.
Source: seed 003, "Operand 状态".
"""

from __future__ import annotations

from jmars.model.states import OperandState as S

__all__ = ["LEGAL", "check"]

# state: states that may follow it
LEGAL: dict[int, frozenset[int]] = {
    S.UNSCHEDULED: frozenset({S.READY, S.CANCELLED, S.FATAL}),
    S.READY: frozenset({S.RUNNING, S.UNSCHEDULED, S.CANCELLED, S.FATAL}),
    S.RUNNING: frozenset({S.FINISHED, S.READY, S.UNSCHEDULED, S.CANCELLING, S.CANCELLED, S.FATAL}),
    S.FINISHED: frozenset({S.FREED, S.UNSCHEDULED, S.CANCELLED}),
    S.FREED: frozenset({S.UNSCHEDULED, S.FINISHED}),
    S.CANCELLING: frozenset({S.CANCELLED, S.FINISHED}),
    S.CANCELLED: frozenset(),
    S.FATAL: frozenset(),
}


def check(before: int, after: int) -> None:
    """Raise AssertionError for a move that seed 003 does not know."""
    assert after in LEGAL[before], f"an operand cannot go from {S(before).name} to {S(after).name}"
