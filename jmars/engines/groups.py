"""Plans groups: consecutive operands of a job that run together as a task of an engine.

A task of Dask or Ray costs milliseconds and an operand may take microseconds, so operands are grouped to tasks of
`group_seconds`. A group reads all external inputs before the first operand runs, and outputs leave after the last
operand, so groups must not wait in a cycle, and are cut where memory or outputs grow.

**No cycle.** Operands are visited in a topological order. An operand joins a group only if the order places all inputs
from other groups before the group's *first* operand. If group G reads a chunk of group H, then H's first operand is at
or before that chunk, and the chunk is before G's first operand: along an edge between groups the place of the first
operand grows, so no path of groups comes back.

The order (group_graph.py) decides which operands share a group; a group's rank decides when the group runs.
Source: docs/explanation/seeds.md, "Basic design", "Graphs"; Dask's graph fusion (dask/optimization.py).

Planning 20,000 operands takes 2 to 7 µs an operand on a server's core (a tree sum 3, layers of neighbours 5, chains
with users' functions 7), 13 where short groups are joined, and 17 for a random graph whose chunks are read 100 operands
later.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jmars.engines.group_bundles import bundled
from jmars.engines.group_cuts import Cutter, GroupLimits
from jmars.engines.group_graph import GroupGraph
from jmars.engines.small_groups import join_small
from jmars.model.messages import JobTable

__all__ = ["GROUPS", "Group", "group_seconds", "plan_groups", "single_group"]

LEAST_SECONDS = 0.05
GROUPS = 6  # of a slot


@dataclass(frozen=True, slots=True)
class Group:
    """Operands that run in sequence in a process of an engine.

    Attributes
    ----------
    operands
        In topological order.
    inputs
        Operands whose chunks are read from outside, stored ones too, in the order of first use.
    outputs
        Operands whose chunks are read outside of the group or kept, in the order of `operands`.
    worker
        Planned worker, a row of the assignment; -1 for any.
    memory
        Bytes at once, at most: external inputs with the rest of their bundles, outputs, intermediate chunks until their
        last reader, scratch.
    seconds
        Predicted.
    rank
        Lowest rank of the operands; groups with lower ranks run first.
    bundles
        Places in `outputs`, all of them. Chunks of a bundle are read by the same groups, or on the same workers and are
        at most `GroupLimits.bundle` bytes together, or are small: so they may be a single result of the engine. A chunk
        that outlives the job is alone. Empty: each chunk is alone.
    """

    operands: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    worker: int
    memory: int
    seconds: float = 0.0
    rank: int = 0
    bundles: tuple[tuple[int, ...], ...] = ()


def group_seconds(per_task_worker: float, per_task_scheduler: float, slots: int, total: float) -> float:
    """Seconds that a group should take, so that the engine's share of CPU is at most 5 %.

    A task with inputs from other tasks costs up to twice as much as an empty task, so a group takes 60 times the cost
    of an empty task where a slot then gets `GROUPS` groups. In a smaller job a slot still gets `GROUPS` groups, as long
    as a group takes 20 times the cost: with fewer groups, the last groups would keep a part of the slots waiting. A
    group also lasts long enough for the engine's scheduler to feed all slots twice over.

    Parameters
    ----------
    per_task_worker
        CPU seconds of an empty task on a worker.
    per_task_scheduler
        CPU seconds of a task where submission is serial.
    slots
        Tasks that the engine runs at once.
    total
        Predicted seconds of all operands.

    Examples
    --------
    >>> round(group_seconds(0.0035, 0.002, 4, total=100.0), 3)
    0.33
    >>> group_seconds(0.0035, 0.002, 100, total=1000.0)
    0.4
    >>> round(group_seconds(0.0035, 0.002, 100, total=8.8), 3)  # 80 groups, enough for 13 slots
    0.11
    """
    cost = per_task_worker + per_task_scheduler
    least = max(20 * cost, LEAST_SECONDS)
    fewer = math.sqrt(total / (2 * GROUPS * per_task_scheduler)) if per_task_scheduler > 0 else math.inf
    fewer = min(fewer, total / (GROUPS * least))  # slots for which so many groups each are still long enough
    fed = max(1, math.floor(min(slots, fewer)))
    return max(least, 2 * fed * per_task_scheduler, min(60 * cost, total / (GROUPS * slots)))


def single_group(table: JobTable, operand: int, worker: int = -1, seconds: float = 0.0) -> Group:
    """The group of a single operand, whose chunk leaves."""
    inputs = tuple(table.inputs[operand])
    memory = sum(table.nbytes[i] for i in inputs) + table.nbytes[operand] + table.work[operand]
    return Group((operand,), inputs, (operand,), worker, memory, seconds, table.rank[operand])


def plan_groups(
    table: JobTable,
    workers: ArrayLike,
    seconds: ArrayLike,
    kept: Collection[int],
    limits: GroupLimits,
    waited: ArrayLike | None = None,
    together: bool = False,
    rounds: ArrayLike | None = None,
) -> list[Group]:
    """Divides the operands of a job into groups; stored operands are in no group.

    Parameters
    ----------
    table
        The operands.
    workers : shape (n,)
        Planned worker of each operand; -1 for operands that follow their inputs.
    seconds : shape (n,)
        Predicted seconds of each operand.
    kept
        Operands whose chunks outlive the job.
    limits
        Limits of a group.
    waited : shape (n,), optional
        Whether the worker of an operand would have nothing else to do before it, were each operand a task
        (`run_order.RunOrder`): the group of its last input ends soon after that input.
    together
        Groups follow the rank alone; the worker with most of a group's seconds runs it.
    rounds : shape (n,), optional
        Operands of two rounds share no group, but for short groups (`small_groups.join_small`).

    Returns
    -------
    list of Group
        In topological order. Operands of a group are planned for the same worker, unless they go `together`.
    """
    graph = GroupGraph.of(table, seconds, kept)
    planned = graph.followed(np.asarray(workers, np.int64))
    idle = np.zeros(len(planned), bool) if waited is None or together else np.asarray(waited, bool)
    cut = np.zeros_like(planned) if together else planned
    counts = limits.counts(graph, planned)
    found = Cutter(graph, cut, limits, idle, counts, None if rounds is None else np.asarray(rounds, np.int64)).groups()
    places, labels, cost, ranks = graph.place, planned.tolist(), graph.seconds, table.rank
    found.sort(key=lambda group: places[group.operands[0]])
    found = join_small(found, cut.tolist(), graph, limits, counts)
    assigned = [_worker(group.operands, labels, cost) for group in found]
    bundles, beside = bundled(found, assigned, graph, limits)
    return [
        Group(
            group.operands,
            group.inputs,
            group.outputs,
            worker,
            group.memory + beside[number],
            group.seconds,
            min([ranks[i] for i in group.operands]),
            bundles[number],
        )
        for number, (group, worker) in enumerate(zip(found, assigned))
    ]


def _worker(operands: Sequence[int], workers: list[int], seconds: list[float]) -> int:
    """The worker with most of a group's planned seconds."""
    first = workers[operands[0]]
    if all(workers[i] == first for i in operands):
        return first
    sums: dict[int, float] = {}
    for i in operands:
        sums[workers[i]] = sums.get(workers[i], 0.0) + seconds[i]
    return max(sums, key=sums.__getitem__)
