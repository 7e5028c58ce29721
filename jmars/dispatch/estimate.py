"""Predicts the run time of operands from measurements, and bounds the operands of a batch.

A batch saves messages; a long batch makes other operands wait. So operands join a batch until the predicted time
reaches BATCH_SECONDS, and an operand of an unknown program goes alone. Batches of 100 cost 5 µs per operand, single
operands 36 µs. The `ledger` takes the measurements when a job ends and keeps them for later sessions.
"""

from __future__ import annotations

from jmars.model.limits import BATCH_SECONDS

__all__ = ["Estimate", "Seen"]

_UNKNOWN = BATCH_SECONDS  # an operand of a program that never ran fills a batch


class Seen:
    """Measurements of a program: the prediction for the next operand, and sums since the last `take`."""

    __slots__ = ("cold", "cold_seconds", "fresh", "next", "seconds", "warm")

    def __init__(self, following: float) -> None:
        self.next = following
        self.warm = self.cold = 0  # operands; cold ones were the first to touch their memory
        self.seconds = self.cold_seconds = self.fresh = 0.0  # of warm ones, of cold ones, bytes that cold ones touched


class Estimate:
    """Seconds per operand, by program."""

    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}

    def seconds(self, program: int) -> float:
        """Predicted seconds of the next operand of `program`."""
        seen = self._seen.get(program)
        return _UNKNOWN if seen is None else seen.next

    def known(self, program: int) -> float:
        """The same, but 0.0 if none of `program` has run."""
        seen = self._seen.get(program)
        return 0.0 if seen is None else seen.next

    def learn(self, program: int, seconds: float, fresh: float = 0.0) -> None:
        """Learn a measurement with weight 0.1; `fresh` are bytes that the operand was the first to touch."""
        seen = self._seen.get(program)
        if seen is None:
            seen = self._seen[program] = Seen(seconds)
        else:
            seen.next += 0.1 * (seconds - seen.next)
        if fresh:
            seen.cold += 1
            seen.cold_seconds += seconds
            seen.fresh += fresh
        else:
            seen.warm += 1
            seen.seconds += seconds

    def forget(self) -> None:
        """Forget all programs, since they get new numbers."""
        self._seen.clear()

    def take(self) -> dict[int, Seen]:
        """Measurements by program since the last call; the sums start again."""
        taken = {}
        for program, seen in self._seen.items():
            if seen.warm or seen.cold:
                taken[program] = seen
                self._seen[program] = Seen(seen.next)
        return taken
