"""How long an operand will run, learnt from those that ran, and how many go in one batch.

A batch saves messages; a batch that runs long makes others wait. So operands join one until it should take
BATCH_SECONDS, and what nobody has seen run goes alone. What was seen since a job ended is taken by the `ledger`, which
keeps it for later sessions.
Source: the design's dispatch measurements (batches of 100 cost 5 µs an operand, single ones 36).
"""

from __future__ import annotations

from jmars.model.limits import BATCH_SECONDS

__all__ = ["Estimate", "Seen"]

_UNKNOWN = BATCH_SECONDS  # an operand whose program has never run fills a batch


class Seen:
    """What was measured of one program: what its next operand should take, and the sums since they were taken."""

    __slots__ = ("cold", "cold_seconds", "fresh", "next", "seconds", "warm")

    def __init__(self, following: float) -> None:
        self.next = following
        self.warm = self.cold = 0  # operands; cold are those that were the first to touch memory
        self.seconds = self.cold_seconds = self.fresh = 0.0  # of warm ones, of cold ones, bytes that these touched


class Estimate:
    """Seconds per operand of each program."""

    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}

    def seconds(self, program: int) -> float:
        """What the next operand of `program` should take."""
        seen = self._seen.get(program)
        return _UNKNOWN if seen is None else seen.next

    def known(self, program: int) -> float:
        """The same where one of it has run; else 0."""
        seen = self._seen.get(program)
        return 0.0 if seen is None else seen.next

    def learn(self, program: int, seconds: float, fresh: float = 0.0) -> None:
        """Take a measurement in, a tenth of which counts at once; `fresh` are bytes that it was the first to touch."""
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

    def take(self) -> dict[int, Seen]:
        """What was seen by program since this was last asked; counting begins anew."""
        taken = {}
        for program, seen in self._seen.items():
            if seen.warm or seen.cold:
                taken[program] = seen
                self._seen[program] = Seen(seen.next)
        return taken
