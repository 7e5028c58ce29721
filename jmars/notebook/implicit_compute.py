"""Warns of many implicit computations in a cell: each value that Python needs is a job with a round trip to the
cluster.

Many small computations cause one warning, and so does a line whose large array is computed again and again.
`ImplicitComputes` decides; cell_engine.py reports each computation with its duration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from jmars.tensor.source_line import SourceLine

__all__ = ["ImplicitComputes"]

MANY = 300  # small jobs of a cell before the warning
AGAIN = 5  # times that a cell computes the same large array before the warning
SMALL = 0.05  # seconds of a job that takes little more than the round trip


@dataclass
class ImplicitComputes:
    """The implicit computations of a cell.

    Examples
    --------
    >>> looks, line = ImplicitComputes(), SourceLine("cell", 4, "if v > 0:")
    >>> said = [looks.hint(line, 0.003) for _ in range(1000)]
    >>> [i for i, one in enumerate(said) if one]
    [299]
    """

    seconds: float = 0.0  # of all of them
    by_line: Counter[SourceLine | None] = field(default_factory=Counter)
    large: Counter[SourceLine | None] = field(default_factory=Counter)  # lines whose arrays were computed again

    def hint(self, line: SourceLine | None, elapsed: float) -> str | None:
        """The warning after a computation of `elapsed` seconds at `line`; None if none is due."""
        if elapsed > SMALL:
            return None
        self.seconds += elapsed
        self.by_line[line] += 1
        if self.by_line.total() != MANY:
            return None
        return (
            f"this cell has computed {MANY} single values{self._where()}, each by a job of its own: "
            f"{self.seconds:.1f} s so far. Use whole arrays, such as x.max(), np.where(x > 0, a, b) or x[x > 0]; or "
            "fetch the array before the loop, a = x.fetch(), and loop over a; a loop until a condition holds can run "
            "on the cluster, jmars.tensor.while_loop"
        )

    def hint_recomputed(self, lines: Iterable[SourceLine | None]) -> str | None:
        """The warning before a job that computes the large arrays of these lines again; None if none is due."""
        for line in lines:
            self.large[line] += 1
            if line is not None and self.large[line] == AGAIN:
                return (
                    f"this cell computes the array of line {line.lineno} ({line.text}) again each time that it needs "
                    "a value of it: the array is too large to be kept automatically. Keep it where it is made, "
                    "`x = (...).execute()`; chunks of it are spilled to disk when memory is short"
                )
        return None

    def _where(self) -> str:
        [(line, count)] = self.by_line.most_common(1)
        at = "" if line is None else f" at line {line.lineno} ({line.text})"
        return at if count == MANY or not at else f", {count} of them{at}"
