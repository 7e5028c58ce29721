"""Subgraphs that one worker runs: what cascade's two ways to partition give.

`merge` and `depth_first` make lists of `Part`; `as_assignment` turns them into what the simulator and the scheduler
take, `as_labels` into groups for `graph.contract`.
Source: seed 004, "It should split this graph into optimal subgraphs to be scheduled as single processes".
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
    """One subgraph: its worker, its operands in the order in which they joined, their output bytes, and how many
    seconds one core of the worker runs them.
    """

    worker: int
    operands: tuple[int, ...]
    nbytes: int
    seconds: float


def as_assignment(parts: Sequence[Part], n: int) -> NDArray[np.int16]:
    """Worker of each operand, shape (n,); -1 where no part holds it."""
    assigned = np.full(n, -1, np.int16)
    for part in parts:
        assigned[list(part.operands)] = part.worker
    return assigned


def as_labels(parts: Sequence[Part], n: int) -> NDArray[np.int64]:
    """Part of each operand, shape (n,); -1 where no part holds it."""
    labels = np.full(n, -1, np.int64)
    for label, part in enumerate(parts):
        labels[list(part.operands)] = label
    return labels


def next_worker(workers: Workers, total: Sequence[float], used: Sequence[bool]) -> list[int]:
    """The workers in the order in which they are asked: unused ones, the fastest first; when all are used, those with
    least total assigned time first, of equals the fastest.
    """
    speed = workers.speed.tolist()
    if not all(used):
        return sorted((w for w in range(len(workers)) if not used[w]), key=lambda w: (-speed[w], w))
    return sorted(range(len(workers)), key=lambda w: (total[w], -speed[w], w))
