"""Values that a cell looks at one by one: each is a job, with a way to the cluster and back. Many of them get one hint,
and so do those that compute the same large array again and again.

`Looks` decides; live.py tells it of each, with the time that it took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from jmars.tensor.source_line import SourceLine

__all__ = ["Looks"]

MANY = 300  # small jobs in one cell, before its user is told
AGAIN = 5  # looks in one cell that compute a large array anew, before its user is told
SMALL = 0.05  # seconds of a job that is little more than the way there and back


@dataclass
class Looks:
    """The small jobs that one cell has waited for.

    Examples
    --------
    >>> looks, line = Looks(), SourceLine("cell", 4, "if v > 0:")
    >>> said = [looks.hint(line, 0.003) for _ in range(1000)]
    >>> [i for i, one in enumerate(said) if one]
    [299]
    """

    seconds: float = 0.0  # of all of them
    by_line: Counter[SourceLine | None] = field(default_factory=Counter)
    large: Counter[SourceLine | None] = field(default_factory=Counter)  # lines whose arrays were computed again

    def hint(self, line: SourceLine | None, elapsed: float) -> str | None:
        """What is to be said after a job that `line` waited for, `elapsed` seconds; None for nothing."""
        if elapsed > SMALL:
            return None
        self.seconds += elapsed
        self.by_line[line] += 1
        if self.by_line.total() != MANY:
            return None
        return (
            f"this cell has looked at {MANY} values one by one{self._where()}, each a job of its own: "
            f"{self.seconds:.1f} s so far. Look at many at once, as x.max(), np.where(x > 0, a, b) or x[x > 0]; or "
            "fetch the array before the loop, a = x.fetch(), and loop over a; a loop until something holds can run on "
            "the cluster, jmars.tensor.while_loop"
        )

    def again(self, lines: Iterable[SourceLine | None]) -> str | None:
        """What is to be said before a job that computes again what these lines make, too large to be kept unasked."""
        for line in lines:
            self.large[line] += 1
            if line is not None and self.large[line] == AGAIN:
                return (
                    f"this cell computes the array of line {line.lineno} ({line.text}) again each time that it looks "
                    "at a value: it is too large to be kept unasked. Keep it where it is made, `x = (...).execute()`; "
                    "parts of it go to the disk when memory is short"
                )
        return None

    def _where(self) -> str:
        [(line, count)] = self.by_line.most_common(1)
        at = "" if line is None else f" at line {line.lineno} ({line.text})"
        return at if count == MANY or not at else f", {count} of them{at}"
