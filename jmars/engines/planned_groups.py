"""Groups of a job for the workers of an engine: limits by their memory, by predicted costs, by the cost of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from jmars.engines.engine import EngineWorker
from jmars.engines.groups import Group, GroupLimits, group_seconds, plan_groups
from jmars.model.messages import JobTable
from jmars.plan import Profile, program_seconds

__all__ = ["planned_groups"]


def planned_groups(
    table: JobTable,
    workers: Sequence[EngineWorker],
    profile: Profile,
    task_seconds: tuple[float, float],
    there: Mapping[int, int],
) -> Sequence[Group]:
    """Groups of a job.

    Parameters
    ----------
    table
        The job; operands without a planned worker may run on any worker.
    workers
        At least one; a task takes half of a slot's memory on the smallest.
    profile
        Measured costs.
    task_seconds
        CPU of an empty task of the engine: on a worker, and where submission is serial.
    there
        Workers of stored operands, where these are known.
    """
    slots = sum(worker.cores for worker in workers)
    cost = np.array([*(profile.busy * program_seconds(one, profile) for one in table.programs), 0.0])
    seconds = cost[np.asarray(table.program, np.int64)]
    least = min(worker.memory // max(1, worker.cores) for worker in workers) // 2
    limits = GroupLimits(group_seconds(*task_seconds, slots, float(seconds.sum())), least)
    planned = table.planned if len(table.planned) else np.full(len(seconds), -1)
    return plan_groups(table, _near(table, planned, there), seconds, table.results, limits)


def _near(table: JobTable, planned: ArrayLike, there: Mapping[int, int]) -> ArrayLike:
    """Planned workers; operands that read stored chunks, or chunks made of these, move to most of the bytes."""
    if not there:
        return planned
    found = np.asarray(planned).tolist()
    moved = dict(there)
    for operand in np.argsort(table.rank, kind="stable").tolist():
        bytes_at: dict[int, int] = {}
        for i in table.inputs[operand]:
            if i in moved:
                bytes_at[moved[i]] = bytes_at.get(moved[i], 0) + table.nbytes[i]
        if bytes_at and table.program[operand] >= 0:
            most = max(bytes_at.values())
            if 2 * bytes_at.get(found[operand], 0) < most:
                found[operand] = max(bytes_at, key=bytes_at.__getitem__)
            moved[operand] = found[operand]
    return np.array(found, np.int64)
