"""`Part`: a subgraph that a single worker runs, the result of `merge` and `depth_first`.

`as_assignment` turns a list of parts into an assignment, `as_labels` into groups for `contract`.
Source: docs/explanation/seeds.md, "Graphs".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars.plan.workers import Workers

__all__ = ["Part", "as_assignment", "as_labels", "next_worker"]


@dataclass(frozen=True)
class Part:
    """A subgraph: its worker, operands in the order in which they joined, output bytes, and seconds on a core of the
    worker.
    """

    worker: int
    operands: tuple[int, ...]
    nbytes: int
    seconds: float


def as_assignment(parts: Sequence[Part], n: int) -> NDArray[np.int16]:
    """Workers of operands, shape (n,); -1 for operands outside all parts."""
    assigned = np.full(n, -1, np.int16)
    for part in parts:
        assigned[list(part.operands)] = part.worker
    return assigned


def as_labels(parts: Sequence[Part], n: int) -> NDArray[np.int64]:
    """Part numbers of operands, shape (n,); -1 for operands outside all parts."""
    labels = np.full(n, -1, np.int64)
    for label, part in enumerate(parts):
        labels[list(part.operands)] = label
    return labels


def next_worker(workers: Workers, total: Sequence[float], used: Sequence[bool]) -> list[int]:
    """Workers in order of preference: unused workers, the fastest first; when all are used, all workers by least
    assigned time, then by speed.
    """
    speed = workers.speed.tolist()
    if not all(used):
        return sorted((w for w in range(len(workers)) if not used[w]), key=lambda w: (-speed[w], w))
    return sorted(range(len(workers)), key=lambda w: (total[w], -speed[w], w))
