"""Groups of a job for the workers of an engine: limits by their memory, by predicted costs, by the cost of a task.

Jobs of the same plan share the lists of their operands, and get the same groups (`GroupPlans`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.engines.engine import EngineWorker
from jmars.engines.group_cuts import GroupLimits
from jmars.engines.group_times import makespan
from jmars.engines.groups import Group, group_seconds, plan_groups
from jmars.engines.links import BANDWIDTH
from jmars.engines.run_order import in_rounds, run_order
from jmars.model.messages import JobTable
from jmars.plan import Profile, program_seconds

__all__ = ["GroupPlans", "planned_groups"]

SLOW = 1.15  # times the least seconds of a job: groups that take longer are cut in another way too
MANY = 2  # times the groups that a job needs: the same
CROSSED = 8  # inputs from other workers for each group that a job needs: beyond, the plan's workers are tried last
DRIFT = 1 / 4  # of a job's predicted seconds: with a larger change, the job is divided anew
SPEED_DRIFT = 3 / 2  # of the network's bandwidth, either way: beyond, the job is divided anew
PARTS = 64  # bundles in the memory of a task, at least
KEPT = 200_000  # operands of all kept groups; groups and lists take some 200 bytes an operand


@dataclass(frozen=True, eq=False)
class _Division:
    """Groups of a plan, with the plan, the costs and the workers."""

    inputs: Sequence[Sequence[int]]  # of the operands: the same object in all jobs of a structure
    nbytes: Sequence[int]
    rank: Sequence[int]
    planned: Sequence[int]
    costs: NDArray[np.float64]  # predicted seconds of all operands of each program
    workers: Sequence[EngineWorker]
    there: Mapping[int, int]
    bandwidth: float
    groups: Sequence[Group]

    def suits(
        self,
        table: JobTable,
        costs: NDArray[np.float64],
        workers: Sequence[EngineWorker],
        there: Mapping[int, int],
        bandwidth: float,
    ) -> bool:
        """Whether a job may have the groups too."""
        same = self.inputs is table.inputs and self.nbytes == table.nbytes
        same = same and self.rank == table.rank and self.planned == table.planned
        same = same and self.workers == workers and self.there == there
        same = same and 1 / SPEED_DRIFT <= bandwidth / self.bandwidth <= SPEED_DRIFT
        return same and float(np.abs(costs - self.costs).sum()) <= DRIFT * float(self.costs.sum())


class GroupPlans:
    """Divides jobs into groups, and keeps the groups of the last used plans for their next jobs.

    Attributes
    ----------
    found, missed
        How often a job's groups were kept, and were not.
    """

    def __init__(self) -> None:
        self.found = self.missed = 0
        self._kept: dict[int, _Division] = {}  # by identity of `inputs`, the last used one last

    def groups(
        self,
        table: JobTable,
        workers: Sequence[EngineWorker],
        profile: Profile,
        task_seconds: tuple[float, float],
        there: Mapping[int, int],
        bandwidth: float = BANDWIDTH,
        bundle: int = 0,
    ) -> Sequence[Group]:
        """Groups of a job; parameters as of `planned_groups`."""
        count = np.bincount(np.asarray(table.program, np.int64) + 1, minlength=len(table.programs) + 1)
        costs = _costs(table, profile) * count[[*range(1, len(count)), 0]]
        division = self._kept.pop(id(table.inputs), None)
        if division is not None and division.suits(table, costs, workers, there, bandwidth):
            self.found += 1
        else:
            self.missed += 1
            groups = planned_groups(table, workers, profile, task_seconds, there, bandwidth, bundle)
            plan = table.inputs, list(table.nbytes), list(table.rank), table.planned
            division = _Division(*plan, costs, list(workers), dict(there), bandwidth, groups)
        self._kept[id(table.inputs)] = division
        while sum(len(one.nbytes) for one in self._kept.values()) > KEPT:
            del self._kept[next(iter(self._kept))]
        return division.groups


def _costs(table: JobTable, profile: Profile) -> NDArray[np.float64]:
    """Predicted seconds of an operand of each program; the last entry is for stored chunks."""
    return np.array([*(profile.busy * program_seconds(one, profile) for one in table.programs), 0.0])


def _expected_nbytes(table: JobTable) -> list[int]:
    """Bytes of each chunk that a transfer would move: the expected bytes of chunks of unknown size, not the most."""
    fewer = np.array([*(one.output.nbytes - one.output.expected_nbytes for one in table.programs), 0])
    found: list[int] = (np.asarray(table.nbytes, np.int64) - fewer[np.asarray(table.program, np.int64)]).tolist()
    return found


def planned_groups(
    table: JobTable,
    workers: Sequence[EngineWorker],
    profile: Profile,
    task_seconds: tuple[float, float],
    there: Mapping[int, int],
    bandwidth: float = BANDWIDTH,
    bundle: int = 0,
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
        Workers of stored chunks, by operand, where they are known.
    bandwidth
        Bytes a second between two workers.
    bundle
        `TaskEngine.bundle`.
    """
    slots = sum(worker.cores for worker in workers)
    seconds = _costs(table, profile)[np.asarray(table.program, np.int64)]
    room = min(worker.memory // max(1, worker.cores) for worker in workers) // 2
    total = float(seconds.sum())
    limits = GroupLimits(group_seconds(*task_seconds, slots, total), room, bundle=min(bundle, room // PARTS))
    planned = table.planned if len(table.planned) else np.full(len(seconds), -1)
    near = _near(table, planned, there)
    cores, task = slots // len(workers), sum(task_seconds)
    expected = replace(table, nbytes=_expected_nbytes(table))

    def cut(assigned: ArrayLike, together: bool = False, by_rounds: bool = False) -> tuple[float, Sequence[Group]]:
        order = run_order(expected, assigned, seconds, cores, there, bandwidth)
        order = in_rounds(table, assigned, order) if by_rounds else order
        ordered = replace(table, rank=order.rank.tolist())
        groups = plan_groups(ordered, assigned, seconds, table.results, limits, order.waited, together, order.rounds)
        return makespan(groups, expected.nbytes, bandwidth, cores, task, there), groups

    if len(np.unique(np.asarray(near)[np.asarray(table.program) >= 0])) < 2:
        return cut(near)[1]
    needed = max(total / limits.seconds, slots)
    least = (total + needed * task) / slots
    ways: list[Callable[[], tuple[float, Sequence[Group]]]] = [
        lambda: cut(near),
        lambda: cut(_shares(table, near, seconds)),
        lambda: cut(near, together=True),
    ]
    if not there and _crossings(table, near) > CROSSED * needed:
        ways[:2] = ways[1::-1]
    if sum(table.nbytes) <= sum(worker.memory for worker in workers) / 2:  # chunks of a round stay until the next one
        ways.append(lambda: cut(near, by_rounds=True))
    found: list[tuple[float, Sequence[Group]]] = []
    for way in ways:
        found.append(way())
        ends, groups = found[-1]
        if ends <= SLOW * least and len(groups) <= MANY * needed:
            return groups
    return min(found, key=itemgetter(0))[1]


def _crossings(table: JobTable, workers: ArrayLike) -> int:
    """Inputs that are planned for another worker than their reader."""
    planned = np.asarray(workers, np.int64)
    degree = np.fromiter(map(len, table.inputs), np.int64, len(planned))
    source = np.fromiter(chain.from_iterable(table.inputs), np.int64, int(degree.sum()))
    return int(np.count_nonzero((planned[source] >= 0) & (planned[source] != np.repeat(planned, degree))))


def _shares(table: JobTable, workers: ArrayLike, seconds: NDArray[np.float64]) -> ArrayLike:
    """Workers again, so that a worker gets consecutive operands with as many seconds as before."""
    found = np.array(workers, np.int64)
    order = np.argsort(table.rank, kind="stable")
    order = order[found[order] >= 0]
    numbers, place = np.unique(found[order], return_inverse=True)
    until, ends = np.cumsum(np.bincount(place, seconds[order])), np.cumsum(seconds[order])
    share = np.searchsorted(until, ends - seconds[order] / 2)
    found[order] = numbers[np.minimum(share, len(numbers) - 1)]
    return found


def _near(table: JobTable, planned: ArrayLike, there: Mapping[int, int]) -> ArrayLike:
    """Planned workers, except of operands that read stored chunks, or chunks made of stored chunks: where their
    planned worker has less than half as many input bytes as the worker with the most, that worker takes its place.
    """
    if not there:
        return planned
    workers, place = np.asarray(planned).tolist(), dict(there)
    for operand in np.argsort(table.rank, kind="stable").tolist():
        bytes_at: dict[int, int] = {}
        for i in table.inputs[operand]:
            if i in place:
                bytes_at[place[i]] = bytes_at.get(place[i], 0) + table.nbytes[i]
        if bytes_at and table.program[operand] >= 0:
            nearest = max(bytes_at, key=bytes_at.__getitem__)
            if 2 * bytes_at.get(workers[operand], 0) < bytes_at[nearest]:
                workers[operand] = nearest
            place[operand] = workers[operand]
    return np.array(workers, np.int64)
