"""How long an operand will run, learnt from those that ran, and how many go in one batch.

A batch saves messages; a batch that runs long makes others wait. So operands join one until it should take
BATCH_SECONDS, and what nobody has seen run goes alone.
Source: the design's dispatch measurements (batches of 100 cost 5 µs an operand, single ones 36).
"""

from __future__ import annotations

__all__ = ["BATCH_OPERANDS", "BATCH_SECONDS", "Estimate"]

BATCH_OPERANDS = 100
BATCH_SECONDS = 0.005
_UNKNOWN = BATCH_SECONDS  # an operand whose program has never run fills a batch


class Estimate:
    """Seconds per operand of each program."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def seconds(self, program: int) -> float:
        """What the next operand of `program` should take."""
        return self._seconds.get(program, _UNKNOWN)

    def learn(self, program: int, seconds: float) -> None:
        """Take a measurement in; the newest of ten counts half as much as all."""
        known = self._seconds.get(program)
        self._seconds[program] = seconds if known is None else known + 0.1 * (seconds - known)
