"""Groups of a job for the workers of an engine: limits by their memory, by predicted costs, by the cost of a task.

Jobs of the same plan share the lists of their operands, and get the same groups (`GroupPlans`).

`makespan` predicts when the groups would end on their planned workers, to choose a division into groups.

Operands are divided in the order in which they would start as single tasks. A group waits for all of its inputs, so
groups are cut from operands in the order of their starts in a simulated run: an operand that waits for another worker
comes behind operands of its worker that do not wait, where the plan's rank alone would put it first and the group in
front of it.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import ArrayLike, NDArray

from jmars.engines.engine import EngineWorker
from jmars.engines.groups import Group, GroupLimits, group_seconds, plan_groups
from jmars.engines.results import BANDWIDTH
from jmars.graph import Dag
from jmars.model.messages import JobTable
from jmars.plan import PlanGraph, Profile, Workers, program_seconds, simulate

if TYPE_CHECKING:
    from jmars.engines.groups import Group

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
        self._kept: dict[int, _Division] = {}  # by identity of `inputs`, least recently used first

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
    expected = structs.replace(table, nbytes=_expected_nbytes(table))

    def cut(assigned: ArrayLike, together: bool = False, by_rounds: bool = False) -> tuple[float, Sequence[Group]]:
        order = run_order(expected, assigned, seconds, cores, there, bandwidth)
        order = in_rounds(table, assigned, order) if by_rounds else order
        ordered = structs.replace(table, rank=order.rank.tolist())
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
    if sum(table.nbytes) <= sum(worker.memory for worker in workers) / 2:  # chunks of a round stay until the next round
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


def makespan(
    groups: Sequence[Group],
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
    made = {operand: (0.0, worker) for operand, worker in (there or {}).items()}  # (time when computed, worker)
    here: set[tuple[int, int]] = set()  # chunk and worker
    free: dict[int, list[float]] = {}  # worker: heap of times from which a slot is free
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


GAP = 1e-4  # seconds: a shorter pause of a core is none


class RunOrder(NamedTuple):
    """How a job's operands would run, each by itself; arrays of shape (n,).

    Attributes
    ----------
    rank
        Place by start.
    waited
        Whether a core of its worker had nothing to do just before it started.
    rounds
        Round of `in_rounds`; None where the order has no rounds. Operands of two rounds share no group.
    """

    rank: NDArray[np.int64]
    waited: NDArray[np.bool_]
    rounds: NDArray[np.int64] | None = None


def run_order(
    table: JobTable, workers: ArrayLike, seconds: ArrayLike, cores: int, there: Mapping[int, int], bandwidth: float
) -> RunOrder:
    """The order of the starts.

    Parameters
    ----------
    table
        The job.
    workers : shape (n,)
        Planned worker of each operand; with an operand without a worker, or with a single worker, the job's rank holds.
    seconds : shape (n,)
        Predicted seconds of each operand.
    cores
        Operands that a worker runs at once.
    there
        Workers of stored chunks, by operand, where they are known.
    bandwidth
        Bytes a second between two workers.
    """
    rank, assigned = np.asarray(table.rank, np.int64), np.asarray(workers, np.int64)
    n, stored = len(rank), np.asarray(table.stored, np.int64)
    runs = np.ones(n, bool)
    runs[stored] = False
    runs[np.asarray(table.program, np.int64) < 0] = False
    if not np.any(runs) or assigned[runs].min() < 0 or assigned[runs].min() == assigned[runs].max():
        return RunOrder(rank, np.zeros(n, bool))
    placed = np.full(n, -1)
    placed[~runs] = 0  # a chunk that any worker may have
    for operand, worker in there.items():
        placed[operand] = worker
    degree = np.fromiter(map(len, table.inputs), np.int64, n)
    source = np.fromiter(chain.from_iterable(table.inputs), np.int64, int(degree.sum()))
    graph = PlanGraph.build(Dag.from_edges(n, source, np.repeat(np.arange(n), degree)), seconds, table.nbytes)
    count = int(max(assigned.max(), placed.max())) + 1
    machine = Workers.build(count, cores=max(1, cores), bandwidth=bandwidth)
    order = np.argsort(rank, kind="stable")
    distinct = np.empty(n, np.int64)
    distinct[order] = np.arange(n)
    trace = simulate(graph, machine, np.where(runs, assigned, -1), distinct, placed=placed, trace="times").trace
    assert trace is not None
    found = np.empty(n, np.int64)
    found[np.lexsort((distinct, trace.start))] = np.arange(n)
    waited = np.zeros(n, bool)
    for worker in range(count):
        own = np.flatnonzero(runs & (assigned == worker))
        before = trace.start[own] - GAP
        begun, ended = (np.searchsorted(np.sort(times[own]), before) for times in (trace.start, trace.end))
        waited[own] = (begun - ended < cores) & (before > 0)
    return RunOrder(found, waited)


def in_rounds(table: JobTable, workers: ArrayLike, order: RunOrder) -> RunOrder:
    """The order by rounds: operands without chunks of other workers, then operands behind one transfer, and so on.

    So an operand that combines chunks of two workers delays no operand of its worker.

    Parameters
    ----------
    table
        The job.
    workers : shape (n,)
        Planned worker of each operand; -1 for operands without a worker.
    order
        The order within a round.
    """
    planned, rounds = np.asarray(workers).tolist(), [0] * len(order.rank)
    for operand in np.argsort(order.rank, kind="stable").tolist():
        own, found = planned[operand], 0
        for i in table.inputs[operand]:
            after = rounds[i] + 1 if planned[i] >= 0 and planned[i] != own else rounds[i]
            if after > found:
                found = after
        rounds[operand] = found
    numbers = np.array(rounds, np.int64)
    rank = np.empty(len(rounds), np.int64)
    rank[np.lexsort((order.rank, numbers))] = np.arange(len(rounds))
    return RunOrder(rank, order.waited, numbers)
