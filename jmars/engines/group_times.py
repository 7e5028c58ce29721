"""When the groups of a job would end on their planned workers, to choose a division into groups.

Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapreplace
from typing import Protocol

__all__ = ["TimedGroup", "makespan"]


class TimedGroup(Protocol):
    """Fields of a group (`groups.Group`)."""

    @property
    def operands(self) -> Sequence[int]:
        """Operands of the group."""

    @property
    def inputs(self) -> Sequence[int]:
        """Operands of other groups, and stored chunks, as inputs of the group."""

    @property
    def worker(self) -> int:
        """Planned worker."""

    @property
    def seconds(self) -> float:
        """Predicted seconds of the operands."""


def makespan(
    groups: Sequence[TimedGroup],
    nbytes: Sequence[int],
    bandwidth: float,
    slots: int,
    task: float,
    there: Mapping[int, int] | None = None,
) -> float:
    """Seconds until all groups have ended.

    Parameters
    ----------
    groups
        A worker starts its groups in this order; a group waits for its inputs.
    nbytes
        Bytes of each operand's chunk.
    bandwidth
        Bytes a second between two workers; the inputs of a group travel in sequence, a chunk once to a worker.
    slots
        Groups that a worker runs at once.
    task
        Seconds that a group takes beside its operands.
    there
        Workers of stored chunks, by operand; chunks that are not named are where their readers are.

    Examples
    --------
    >>> from jmars.engines.groups import Group
    >>> chain = [Group((0,), (), (0,), 0, 0, 1.0), Group((1,), (0,), (1,), 1, 0, 1.0), Group((2,), (), (), 0, 0, 2.0)]
    >>> makespan(chain, [10, 10, 10], 20.0, 1, 0.0)
    3.0
    """
    made = {operand: (0.0, worker) for operand, worker in (there or {}).items()}  # when, and by which worker
    here: set[tuple[int, int]] = set()  # chunk and worker
    free: dict[int, list[float]] = {}  # heap of times from which a slot of a worker is free
    for group in groups:
        worker, ready, moved = group.worker, 0.0, 0
        for operand in group.inputs:
            when, source = made.get(operand, (0.0, worker))
            ready = max(ready, when)
            if source != worker and (operand, worker) not in here:
                here.add((operand, worker))
                moved += nbytes[operand]
        own = free.setdefault(worker, [0.0] * slots)
        end = max(own[0], ready + moved / bandwidth) + group.seconds + task
        heapreplace(own, end)
        made.update(dict.fromkeys(group.operands, (end, worker)))
    return max(map(max, free.values()), default=0.0)
