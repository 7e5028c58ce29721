"""Counts losses of operands' chunks; a chunk lost again and again means a broken disk.

A disk that cannot be read for a moment may lose the same chunk many times meanwhile, since computing the chunk again is
fast; losses in quick succession count once.
"""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["MOST_LOSSES", "Losses"]

MOST_LOSSES = 5  # how often the chunk of an operand may be lost
ONE_TROUBLE = 1.0  # seconds in which losses of it count once


class Losses:
    """Counts by operand.

    Examples
    --------
    >>> losses = Losses()
    >>> [losses.worst([3], now) for now in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 4.9, 5.0)]
    [-1, -1, -1, -1, -1, -1, -1, 3]
    >>> losses.of(3)
    6
    """

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, float]] = {}  # operand: (how often, when that was counted last)

    def worst(self, operands: Collection[int], now: float) -> int:
        """Count losses of operands' chunks at a time in seconds; returns an operand with too many losses, or -1."""
        for operand in operands:
            count, last = self._counts.get(operand, (0, now - ONE_TROUBLE))
            if now - last >= ONE_TROUBLE:
                self._counts[operand] = count + 1, now
        found = max(operands, key=self.of)
        return found if self.of(found) > MOST_LOSSES else -1

    def of(self, operand: int) -> int:
        """Number of losses of an operand's chunk."""
        return self._counts.get(operand, (0, 0.0))[0]
