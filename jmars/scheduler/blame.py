"""Which operand ends workers: only one that did so while it ran alone is to blame.

When a worker dies, any operand of its batch may be the cause, or none (somebody else killed it). All of them run again,
each alone on its worker; one whose worker dies under it once more, and again, is held to be the cause.
Used by OperandActor. Source: RELIABILITY 4.4 (6): Dask's three strikes blame bystanders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ALONE", "MOST_STOPPED", "TOTAL", "Blame", "Deaths"]

TOTAL = 3  # workers that an operand may end, with others or alone, before it is held to be the cause
ALONE = 2  # of them, at least, while it ran alone
MOST_STOPPED = 5  # workers that may stop answering under an operand while it runs alone


@dataclass
class Deaths:
    """Workers that died while they held an operand."""

    total: int = 0
    alone: int = 0  # while they held nothing else
    by_memory: int = 0  # of the total: ended for the memory that they took
    stopped: int = 0  # that did not answer any more: counted apart, for that is seldom an operand's doing


class Blame:
    """The deaths of one job.

    Examples
    --------
    >>> blame = Blame()
    >>> blame.died([7, 8], "signal"), blame.died([7], "signal"), blame.died([8], "signal"), blame.died([7], "signal")
    ([], [], [], [7])
    """

    def __init__(self) -> None:
        self.deaths: dict[int, Deaths] = {}  # by operand

    def died(self, operands: Sequence[int], how: str) -> list[int]:
        """A worker died holding these; returns those that are the cause, where that is plain by now."""
        alone, causes = len(operands) == 1, []
        for operand in operands:
            known = self.deaths.setdefault(operand, Deaths())
            if how == "stopped":
                known.stopped += alone
            else:
                known.total += 1
                known.alone += alone
                known.by_memory += how == "memory"
            if known.stopped >= MOST_STOPPED or (known.total >= TOTAL and known.alone >= ALONE):
                causes.append(operand)
        return causes
