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
with users' functions 7), and 17 for a random graph whose chunks are read 100 operands later.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.engines.group_graph import ALONE, GroupGraph
from jmars.model.messages import JobTable

__all__ = ["Group", "GroupLimits", "group_seconds", "plan_groups", "single_group"]

LEAST_SECONDS = 0.05
MOST_OUTPUTS = 8  # a task with k bundles of outputs costs Dask about as much as k tasks
SMALL = 2**16  # bytes of an output that travels with all small outputs of the group, whatever groups read it
AHEAD = 64  # operands that a group may grow beyond its last possible end, in search of the next one
GROWTH = 3 / 2  # of a group's seconds: how far a group may grow for a better end
AWAITED = 1 / 2  # of a group's seconds: operands of other workers for which an operand is the last input
PATIENCE = 1 / 8  # of a group's seconds: for how long such an operand's group goes on after it


@dataclass(frozen=True)
class GroupLimits:
    """Limits of a group; an operand that exceeds a limit alone is a group of its own.

    Attributes
    ----------
    seconds
        Predicted seconds, of `group_seconds`; a group takes up to 3/2 of them where that cuts off fewer bytes from
        readers soon after, or is nearer than a shorter group.
    nbytes
        Memory that a task may take: half a slot's memory.
    outputs
        Chunks that may leave, without small chunks.
    small
        Bytes of a small chunk.
    """

    seconds: float
    nbytes: int
    outputs: int = MOST_OUTPUTS
    small: int = SMALL


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
        Bytes at once, at most: external inputs, outputs, intermediate chunks until their last reader, scratch.
    seconds
        Predicted.
    rank
        Lowest rank of the operands; groups with lower ranks run first.
    bundles
        Places in `outputs`, all of them: chunks of a bundle are read by the same groups or are small, so they may be a
        single result of the engine. A chunk that outlives the job is alone. Empty: each chunk is alone.
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

    A group takes 20 to 50 times the cost of a task, and so long that the engine's scheduler can feed all slots twice
    over. A slot should get 8 groups; a job too small for 8 groups a slot is planned for fewer slots.

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
    0.275
    >>> group_seconds(0.0035, 0.002, 100, total=1000.0)
    0.4
    >>> round(group_seconds(0.0035, 0.002, 100, total=8.8), 3)  # 80 groups, enough for 10 slots
    0.11
    """
    cost = per_task_worker + per_task_scheduler
    least = max(20 * cost, LEAST_SECONDS)
    fewer = math.sqrt(total / (16 * per_task_scheduler)) if per_task_scheduler > 0 else math.inf
    fewer = min(fewer, total / (8 * least))  # slots for which 8 groups each are still long enough
    fed = max(1, math.floor(min(slots, fewer)))
    return max(least, 2 * fed * per_task_scheduler, min(50 * cost, total / (8 * fed)))


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

    Returns
    -------
    list of Group
        In topological order. Operands of a group are planned for the same worker, unless they go `together`.
    """
    graph = GroupGraph.of(table, seconds, kept)
    planned = graph.followed(np.asarray(workers, np.int64))
    idle = np.zeros(len(planned), bool) if waited is None or together else np.asarray(waited, bool)
    found = _Cutter(graph, np.zeros_like(planned) if together else planned, limits, idle).groups()
    places, labels, cost, ranks = graph.place, planned.tolist(), graph.seconds, table.rank
    found.sort(key=lambda group: places[group.operands[0]])
    readers = _readers(found)
    return [
        Group(
            group.operands,
            group.inputs,
            group.outputs,
            _worker(group.operands, labels, cost),
            group.memory,
            group.seconds,
            min([ranks[i] for i in group.operands]),
            _bundles(group, readers, graph, limits.small),
        )
        for group in found
    ]


def _readers(groups: Sequence[_Piece]) -> dict[int, list[int]]:
    """Numbers of the groups that read each operand from outside."""
    found: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        for operand in group.inputs:
            found.setdefault(operand, []).append(number)
    return found


def _bundles(
    group: _Piece, readers: Mapping[int, Sequence[int]], graph: GroupGraph, small: int
) -> tuple[tuple[int, ...], ...]:
    """Outputs of a group, by place: small ones together, others divided by the groups that read them."""
    if len(group.outputs) < 2:
        return ()
    found: dict[tuple[int, ...], list[int]] = {}
    for place, operand in enumerate(group.outputs):
        key = (-1,) if graph.nbytes[operand] <= small else tuple(readers.get(operand, ()))
        if graph.kept[operand]:
            key = (-2 - operand,)
        found.setdefault(key, []).append(place)
    return tuple(map(tuple, found.values()))


def _worker(operands: Sequence[int], workers: list[int], seconds: list[float]) -> int:
    """The worker with most of a group's planned seconds."""
    first = workers[operands[0]]
    if all(workers[i] == first for i in operands):
        return first
    sums: dict[int, float] = {}
    for i in operands:
        sums[workers[i]] = sums.get(workers[i], 0.0) + seconds[i]
    return max(sums, key=sums.__getitem__)


class _Piece(NamedTuple):
    """A group without worker and rank."""

    operands: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    memory: int
    seconds: float


class _Cutter:
    """Cuts runs into groups; a run holds the operands of a level that are planned for a worker."""

    def __init__(
        self, graph: GroupGraph, workers: NDArray[np.int64], limits: GroupLimits, waited: NDArray[np.bool_]
    ) -> None:
        self._graph, self._limits = graph, limits
        label = graph.block * (int(workers.max(initial=0)) + 2) + workers + 1
        run = graph.order[np.argsort(label[graph.order], kind="stable")]
        ends = np.flatnonzero(np.diff(label[run])) + 1
        self._runs = [part.tolist() for part in np.split(run, ends) if len(part)]
        self._alone = [int(graph.block[part[0]]) % 3 == ALONE for part in self._runs]
        # a chunk stays open where a reader is in another run, or too far behind for the same group
        after = np.zeros(len(workers))
        after[run] = np.cumsum(np.asarray(graph.seconds)[run])
        source, target = graph.source, graph.target
        far = (label[source] != label[target]) | (after[target] - after[source] > limits.seconds)
        stays = np.frombuffer(graph.kept, np.uint8).copy()
        stays[source[far]] = 1
        self._stays = stays.tolist()
        self._awaited = _awaited(graph, workers, waited, AWAITED * limits.seconds)
        is_large = (np.asarray(graph.nbytes) > limits.small) | (np.frombuffer(graph.kept, np.uint8) > 0)
        self._counts = is_large.astype(np.int64).tolist()  # towards the limit of outputs

    def groups(self) -> list[_Piece]:
        """All groups."""
        found: list[_Piece] = []
        for run, alone in zip(self._runs, self._alone):
            start = 0
            while start < len(run):
                piece = self._next(run, start, start + 1 if alone else len(run))
                start += len(piece.operands)
                found.append(piece)
        return found

    def _next(self, run: list[int], start: int, end: int) -> _Piece:
        """The group that begins at a place of a run.

        The group grows until a limit is reached, or soon after an operand that others wait for, and then ends where at
        most `outputs` chunks leave: between half and three halves of its seconds, where the fewest bytes are cut off
        from readers soon after, as behind a subtree of a reduction; of equal ends at the one nearest to its seconds.
        """
        inputs, nbytes, work, seconds, kept, readers, _, place, *_ = self._graph
        limits, stays, counts = self._limits, self._stays, self._counts
        first, longest = place[run[start]], limits.seconds * (1 + 1e-9)  # sums of seconds are rounded
        most = GROWTH * limits.seconds
        left: dict[int, int] = {}  # of each operand of the group: readers that are not in the group
        outside: dict[int, None] = {}
        read = live = peak = staying = soon = soon_bytes = ahead = 0
        spent = 0.0
        best = start  # end of the group; from here on: what holds at that end
        best_soon, best_memory, best_spent, best_inputs = math.inf, 0, 0.0, 0
        at, late = start, False
        while at < end:
            operand = run[at]
            more = spent + seconds[operand]
            if at > start and more > longest:
                nearer = more - longest <= longest - best_spent  # than the end so far
                if more > most or not (nearer or best_soon):
                    break
            fresh = 0
            before = len(outside)
            for i in inputs[operand]:
                if i not in left and i not in outside:
                    if place[i] > first:
                        late = True
                        break
                    outside[i] = None
                    fresh += nbytes[i]
            need = max(peak, live + nbytes[operand] + work[operand])
            if late or (at > start and read + fresh + need > limits.nbytes):
                while len(outside) > before:
                    outside.popitem()
                break
            at, spent, read, peak = at + 1, more, read + fresh, need
            if self._awaited[operand]:
                longest = most = min(longest, spent + PATIENCE * limits.seconds)
            count = readers[operand]
            if count or kept[operand]:
                left[operand] = count
                live += nbytes[operand]
                if stays[operand]:
                    staying += counts[operand]
                else:
                    soon, soon_bytes = soon + counts[operand], soon_bytes + nbytes[operand]
            for i in inputs[operand]:
                if i in left:
                    left[i] -= 1
                    if not left[i] and not kept[i]:
                        live -= nbytes[i]
                        if stays[i]:
                            staying -= counts[i]
                        else:
                            soon, soon_bytes = soon - counts[i], soon_bytes - nbytes[i]
            if staying + soon <= limits.outputs or at == start + 1:
                ahead = 0
                is_ripe = 2 * spent >= limits.seconds or 2 * (read + peak) >= limits.nbytes
                is_nearer = spent <= longest or spent - longest <= longest - best_spent
                if not is_ripe or soon_bytes < best_soon or (is_nearer and soon_bytes == best_soon):
                    best, best_soon = at, soon_bytes if is_ripe else math.inf
                    best_memory, best_spent, best_inputs = read + peak, spent, len(outside)
            else:
                ahead += 1
                if staying > limits.outputs or ahead > AHEAD:
                    break
        for operand in run[best:at]:
            for i in inputs[operand]:
                if i in left:
                    left[i] += 1
        operands = tuple(run[start:best])
        outputs = tuple([i for i in operands if kept[i] or left.get(i)])
        return _Piece(operands, tuple(outside)[:best_inputs], outputs, best_memory, best_spent)


def _awaited(graph: GroupGraph, workers: NDArray[np.int64], waited: NDArray[np.bool_], least: float) -> list[bool]:
    """Operands that other workers have nothing to do without: the last input of `least` seconds of their operands."""
    source, target, n = graph.source, graph.target, len(workers)
    place, seconds = np.asarray(graph.place, np.int64), np.asarray(graph.seconds)
    last = np.full(n, -1)
    np.maximum.at(last, target, place[source])
    held_up = (place[source] == last[target]) & (workers[source] != workers[target])
    source, target = source[held_up], target[held_up]
    found = np.bincount(source, weights=seconds[target], minlength=n) >= least
    found &= np.bincount(source, weights=waited[target], minlength=n) > 0
    return list(found.tolist())
