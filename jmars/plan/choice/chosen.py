"""A choice among several plans: the simulated candidates, and the best of them.

Apart from `choose`, so that a single host imports no planner of several hosts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars.plan.plan import Plan
from jmars.plan.simulation.sim_result import SimResult

__all__ = ["PREFERENCES", "Candidate", "Choice"]

PREFERENCES = ("fast", "lean", "memory")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A simulated plan: the names of its assignment and order, and its result."""

    assigned_by: str
    ranked_by: str
    assign: NDArray[np.int16]
    rank: NDArray[np.int64]
    result: SimResult
    score: float  # lower is better; for "memory" bytes, else multiples of the lower bound

    @property
    def name(self) -> str:
        """Assignment and order; on one host the order."""
        return f"{self.assigned_by}, {self.ranked_by}" if self.assigned_by else self.ranked_by


@dataclass(frozen=True, eq=False)
class Choice:
    """The best plan, its simulated result, all candidates, and a lower bound of the makespan."""

    plan: Plan
    predicted: SimResult
    tried: tuple[Candidate, ...]
    lower_bound: float

    @property
    def best(self) -> Candidate:
        """The candidate that `plan` was made from."""
        return next(one for one in self.tried if one.result is self.predicted)
