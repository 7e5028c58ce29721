"""Finds the operands that end workers: an operand is to blame only if a worker died while the operand ran alone.

When a worker dies, any operand of the batch may be the cause, or none (the system killed the worker). All of them run
again, each alone on a worker; if workers die under an operand again and again, that operand is the cause. Dask counts
three deaths whatever ran beside an operand, and so blames bystanders too.
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
    """Counts of worker deaths by operand of one job.

    Examples
    --------
    >>> blame = Blame()
    >>> blame.died([7, 8], "signal"), blame.died([7], "signal"), blame.died([8], "signal"), blame.died([7], "signal")
    ([], [], [], [7])
    """

    def __init__(self) -> None:
        self.deaths: dict[int, Deaths] = {}  # by operand

    def died(self, operands: Sequence[int], how: str, deaths: int = 1) -> list[int]:
        """Note that workers died with operands; returns the operands that are known to be the cause."""
        alone, causes = len(operands) == 1, []
        for operand in operands:
            known = self.deaths.setdefault(operand, Deaths())
            if how == "stopped":
                known.stopped += alone
            else:
                known.total += deaths
                known.alone += deaths * alone
                known.by_memory += deaths * (how == "memory")
            if known.stopped >= MOST_STOPPED or (known.total >= TOTAL and known.alone >= ALONE):
                causes.append(operand)
        return causes
