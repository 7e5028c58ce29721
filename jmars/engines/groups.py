"""Plans groups: operands of a job that run together as a task of an engine, for workers with these costs and bytes.

A task of Dask or Ray costs milliseconds and an operand may take microseconds, so operands are grouped to tasks of
`group_seconds`. A group reads all external inputs before the first operand runs, and outputs leave after the last
operand, so groups must not wait in a cycle, and are cut where memory or outputs grow.

**Levels.** Some steps of a graph lead out of a group: from a worker to another worker, and to or from an operand that
is not ordinary (functions of users and chunks of unknown size without a bound, which have groups of their own, and
programs that gather). The level of an operand is the number of such steps on the longest path there. A *run* is the
operands of a level, a kind and a worker, by rank, and a group is a part of a run. Edges between two runs lead to a
higher level, edges in a run to a later operand: no groups wait in a cycle, and operands that wait for other workers
come behind operands that do not.

Planning 20,000 operands takes 2 to 3 µs an operand on a server's core.

Outputs of a group are bundled to single results of the engine: a result that a task reads costs Dask 0.3 ms of CPU, a
result that it makes as much as a task.
Source: docs/explanation/seeds.md, "Basic design", "Graphs", "Graph optimization"; Dask's graph fusion
(dask/optimization.py).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.engines.engine import EngineWorker
from jmars.model.messages import JobTable
from jmars.plan import Profile, program_seconds

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
    fewer = min(fewer, total / (GROUPS * least))  # so many slots have GROUPS long enough groups each
    fed = max(1, math.floor(min(slots, fewer)))
    return max(least, 2 * fed * per_task_scheduler, min(60 * cost, total / (GROUPS * slots)))


def single_group(table: JobTable, operand: int, worker: int = -1) -> Group:
    """The group of a single operand, whose chunk leaves."""
    inputs = tuple(table.inputs[operand])
    memory = sum(table.nbytes[i] for i in inputs) + table.nbytes[operand] + table.work[operand]
    return Group((operand,), inputs, (operand,), worker, memory, 0.0, table.rank[operand])


PARTS = 64  # bundles in the memory of a task, at least


def planned_groups(
    table: JobTable,
    workers: Sequence[EngineWorker],
    profile: Profile,
    task_seconds: tuple[float, float],
    there: Mapping[int, int],
    bundle: int = 0,
) -> list[Group]:
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
    bundle
        `TaskEngine.bundle`.
    """
    slots = sum(worker.cores for worker in workers)
    seconds = _costs(table, profile)[np.asarray(table.program, np.int64)]
    room = min(worker.memory // max(1, worker.cores) for worker in workers) // 2
    longest = group_seconds(*task_seconds, slots, float(seconds.sum()))
    limits = GroupLimits(longest, room, bundle=min(bundle, room // PARTS))
    return plan_groups(table, _assigned(table, seconds, there), seconds, table.results, limits)


def _costs(table: JobTable, profile: Profile) -> NDArray[np.float64]:
    """Predicted seconds of an operand of each program; the last entry is for stored chunks."""
    return np.array([*(profile.busy * program_seconds(one, profile) for one in table.programs), 0.0])


def _assigned(table: JobTable, seconds: NDArray[np.float64], there: Mapping[int, int]) -> NDArray[np.int64]:
    """Workers of the operands: the planned ones near the stored chunks, or consecutive operands of the order.

    A plan may give neighbours to workers in turn, and each sum of theirs would wait for several workers.
    """
    planned = np.asarray(table.planned if len(table.planned) else np.full(len(seconds), -1), np.int64)
    near = _near(table, planned, there)
    runs = np.asarray(table.program, np.int64) >= 0
    if len(np.unique(near[runs])) < 2:
        return near
    shares = _shares(table, near, seconds)
    return shares if 2 * _moved(table, shares, there) < _moved(table, near, there) else near


def _near(table: JobTable, planned: NDArray[np.int64], there: Mapping[int, int]) -> NDArray[np.int64]:
    """Planned workers, except of operands that read stored chunks, or chunks made of stored chunks: where their
    planned worker has less than half as many input bytes as the worker with the most, that worker takes its place.
    """
    if not there:
        return planned
    workers, place = planned.tolist(), dict(there)
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


def _shares(table: JobTable, workers: NDArray[np.int64], seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Workers again, so that a worker gets consecutive operands with as many seconds as before."""
    found = workers.copy()
    order = np.argsort(table.rank, kind="stable")
    order = order[found[order] >= 0]
    numbers, place = np.unique(found[order], return_inverse=True)
    until, ends = np.cumsum(np.bincount(place, seconds[order])), np.cumsum(seconds[order])
    share = np.searchsorted(until, ends - seconds[order] / 2)
    found[order] = numbers[np.minimum(share, len(numbers) - 1)]
    return found


def _moved(table: JobTable, workers: NDArray[np.int64], there: Mapping[int, int]) -> int:
    """Expected bytes that leave their worker; an input from another worker counts as SMALL_BYTES more."""
    place = workers.copy()
    place[np.asarray(table.stored, np.int64)] = -1
    for operand, worker in there.items():
        place[operand] = worker
    source, target = _edges(table)
    moves = (place[source] >= 0) & (workers[target] >= 0) & (place[source] != workers[target])
    count = int(workers.max()) + 1
    chunk = np.unique(source[moves] * count + workers[target[moves]]) // count  # once to each worker
    fewer = np.array([*(one.output.nbytes - one.output.expected_nbytes for one in table.programs), 0])
    nbytes = np.asarray(table.nbytes, np.int64) - fewer[np.asarray(table.program, np.int64)]
    return int(nbytes[chunk].sum()) + SMALL_BYTES * int(np.count_nonzero(moves))


def _edges(table: JobTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Operands that are read, and their readers."""
    degree = np.fromiter(map(len, table.inputs), np.int64, len(table.inputs))
    source = np.fromiter(chain.from_iterable(table.inputs), np.int64, int(degree.sum()))
    return source, np.repeat(np.arange(len(degree)), degree)


def plan_groups(
    table: JobTable, workers: ArrayLike, seconds: ArrayLike, kept: Collection[int], limits: GroupLimits
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

    Returns
    -------
    list of Group
        In topological order. Operands of a group are planned for the same worker.
    """
    graph = GroupGraph.of(table, workers, seconds, kept, limits)
    found = [group for run in graph.runs for group in _groups(run, graph, limits)]
    found.sort(key=lambda group: (graph.level[group.operands[0]], graph.place[group.operands[0]]))  # workers in turn
    return _bundled(found, graph, limits)


ORDINARY, GATHERS, ALONE = 0, 1, 2  # kinds of operands


class GroupGraph(NamedTuple):
    """The operands of a job, as lists for loops.

    Gathering operands are grouped with gathering operands only: their inputs are mostly the same chunks. An operand of
    the kind `ALONE` has a group without other operands.
    """

    inputs: Sequence[Sequence[int]]
    nbytes: list[int]
    work: list[int]
    rank: Sequence[int]
    seconds: list[float]
    kept: bytearray  # 1 for operands whose chunks outlive the job
    readers: list[int]  # number of operands that read each chunk
    kind: list[int]
    worker: list[int]
    level: list[int]
    place: list[int]  # in a topological order
    runs: list[list[int]]
    stays: list[int]  # whether a chunk has readers outside of its run, or too far behind for the same group
    counts: list[int]  # towards `GroupLimits.outputs`: 0 for small chunks

    @classmethod
    def of(
        cls, table: JobTable, workers: ArrayLike, seconds: ArrayLike, kept: Collection[int], limits: GroupLimits
    ) -> GroupGraph:
        """The graph of a job, whose rank need not be topological."""
        n = len(table.program)
        rows = np.asarray(table.program, np.int64)
        stored = rows < 0
        stored[np.asarray(table.stored, np.int64)] = True
        source, target = _edges(table)
        readers = np.bincount(source, minlength=n)
        inner = ~stored[source]
        source, target = source[inner], target[inner]
        rank = np.asarray(table.rank, np.int64)
        order = np.argsort(rank, kind="stable")
        order = order[~stored[order]]
        if np.any(rank[source] >= rank[target]):
            order = _topological(table, order.tolist(), np.bincount(target, minlength=n).tolist())
        kind = np.array([*map(_kind, table.programs), ORDINARY])[rows]  # the last entry is for stored chunks
        unbounded = np.array([*map(_is_unbounded, table.programs), False])[rows]
        kind[target[unbounded[source]]] = ALONE
        worker = _followed(table, order, np.asarray(workers, np.int64))
        steps = (kind[source] > 0) | (kind[target] > 0) | (worker[source] != worker[target])
        place = np.zeros(n, np.int64)
        place[order] = np.arange(len(order))
        level = _levels(place, source, target, steps)
        label = (3 * level + kind) * (int(worker.max(initial=0)) + 2) + worker + 1
        order = order[np.argsort(label[order], kind="stable")]
        runs = [part.tolist() for part in np.split(order, np.flatnonzero(np.diff(label[order])) + 1) if len(part)]
        cost = np.asarray(seconds, np.float64)
        after = np.zeros(n)
        after[order] = np.cumsum(cost[order])
        stays = np.zeros(n, np.int64)
        stays[source[(label[source] != label[target]) | (after[target] - after[source] > limits.seconds)]] = 1
        held = bytearray(n)
        for i in kept:
            held[i] = stays[i] = 1
        counts = (np.asarray(table.nbytes) > limits.small) | (np.frombuffer(held, np.uint8) > 0)
        return cls(
            table.inputs,
            table.nbytes,
            table.work,
            table.rank,
            cost.tolist(),
            held,
            readers.tolist(),
            kind.tolist(),
            worker.tolist(),
            level.tolist(),
            place.tolist(),
            runs,
            stays.tolist(),
            counts.astype(int).tolist(),
        )


def _is_unbounded(program: Any) -> bool:
    """Whether the size of a program's chunk has no bound."""
    return not program.output.is_sized and program.output.most is None


def _kind(program: Any) -> int:
    if program.gathers:
        return GATHERS
    return ALONE if program.runs_user_code or _is_unbounded(program) else ORDINARY


def _topological(table: JobTable, order: list[int], missing: list[int]) -> NDArray[np.int64]:
    """The order in which a single worker would run the operands: the ready operand with the lowest rank first."""
    rank, readers = table.rank, table.readers
    ready = [(rank[i], i) for i in order if not missing[i]]  # sorted, so a heap
    found = []
    while ready:
        _, operand = heapq.heappop(ready)
        found.append(operand)
        for reader in readers[operand]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (rank[reader], reader))
    assert len(found) == len(order), "the operands wait for each other"
    return np.array(found, np.int64)


def _followed(table: JobTable, order: NDArray[np.int64], workers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The workers, where operands without a worker (-1) take that of their largest input."""
    if workers.min(initial=0) >= 0 or workers.max(initial=-1) < 0:
        return workers
    found, nbytes = workers.tolist(), table.nbytes
    for operand in order.tolist():
        if found[operand] < 0:
            near = [i for i in table.inputs[operand] if found[i] >= 0]
            if near:
                found[operand] = found[max(near, key=nbytes.__getitem__)]
    return np.array(found, np.int64)


def _levels(
    place: NDArray[np.int64], source: NDArray[np.int64], target: NDArray[np.int64], steps: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Levels of operands; `steps` says which edges lead to a higher level."""
    found = [0] * len(place)
    if np.any(steps):
        order = np.argsort(place[target], kind="stable")
        for i, operand, step in zip(source[order].tolist(), target[order].tolist(), steps[order].tolist()):
            if found[i] + step > found[operand]:
                found[operand] = found[i] + step
    return np.array(found, np.int64)


MOST_OUTPUTS = 8  # a task with k bundles of outputs costs Dask about as much as k tasks
SMALL_BYTES = 2**16  # bytes
MAX_LOOKAHEAD = 64  # operands by which a group may grow beyond its last possible end, in search of the next end
GROWTH = 3 / 2  # of a group's seconds: how far a group may grow for a better end


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
        Bytes of a small chunk, bundled with all small outputs of the group, for any readers.
    bundle
        Bytes of chunks bundled for other groups of the same workers, at most; 0 for an engine without such bundles.
    """

    seconds: float
    nbytes: int
    outputs: int = MOST_OUTPUTS
    small: int = SMALL_BYTES
    bundle: int = 0


def _groups(run: list[int], graph: GroupGraph, limits: GroupLimits) -> list[Group]:
    """The groups of a run."""
    found: list[Group] = []
    start, alone = 0, graph.kind[run[0]] == ALONE
    while start < len(run):
        found.append(_next_group(run, start, start + 1 if alone else len(run), graph, limits))
        start += len(found[-1].operands)
    return found


def _next_group(run: list[int], start: int, end: int, graph: GroupGraph, limits: GroupLimits) -> Group:
    """The group that begins at a place of a run.

    The group grows until a limit is reached, and then ends where at most `outputs` chunks leave: between half and three
    halves of its seconds, where the fewest bytes are cut off from readers soon after, as behind a subtree of a
    reduction; of equal ends at the one nearest to its seconds.
    """
    inputs, nbytes, work, _, seconds, kept, readers, *_, stays, counts = graph
    longest, most = limits.seconds * (1 + 1e-9), GROWTH * limits.seconds  # sums of seconds are rounded
    left: dict[int, int] = {}  # of each operand of the group: readers that are not in the group
    outside: dict[int, None] = {}
    read = live = peak = staying = soon = soon_bytes = ahead = 0
    spent = 0.0
    best = start  # end of the group; the next variables hold at that end
    best_soon, best_memory, best_spent, best_inputs = math.inf, 0, 0.0, 0
    at = start
    while at < end:
        operand = run[at]
        more = spent + seconds[operand]
        if at > start and more > longest:
            nearer = more - longest <= longest - best_spent  # than the end so far
            if more > most or not (nearer or best_soon):
                break
        fresh = [i for i in inputs[operand] if i not in left and i not in outside]
        need = max(peak, live + nbytes[operand] + work[operand])
        reads = read + sum([nbytes[i] for i in dict.fromkeys(fresh)])
        if at > start and reads + need > limits.nbytes:
            break
        outside.update(dict.fromkeys(fresh))
        at, spent, read, peak = at + 1, more, reads, need
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
            if staying > limits.outputs or ahead > MAX_LOOKAHEAD:
                break
    for operand in run[best:at]:
        for i in inputs[operand]:
            if i in left:
                left[i] += 1
    operands = tuple(run[start:best])
    outputs = tuple([i for i in operands if kept[i] or left.get(i)])
    rank = min([graph.rank[i] for i in operands])
    read_before = tuple(outside)[:best_inputs]
    return Group(operands, read_before, outputs, graph.worker[run[start]], best_memory, best_spent, rank)


Bundles = tuple[tuple[int, ...], ...]


def _bundled(groups: list[Group], graph: GroupGraph, limits: GroupLimits) -> list[Group]:
    """The groups with bundles of their outputs, and with the bytes of bundles that they read beside their inputs.

    Small chunks are one bundle; other chunks are bundled by the groups that read them, and by the workers: a worker
    reads the rest of a bundle later, so no byte more is moved. Where a group would exceed its memory with such bundles,
    no group of the job has them.
    """
    readers: dict[int, list[int]] = {}  # numbers of the groups that read each chunk from outside of its group
    for number, group in enumerate(groups):
        for operand in group.inputs:
            readers.setdefault(operand, []).append(number)
    workers = [group.worker for group in groups]
    nbytes, found = graph.nbytes, [_bundles(group.outputs, readers, workers, graph, limits) for group in groups]
    whole: dict[int, tuple[int, int]] = {}  # by chunk: first chunk and bytes of its bundle, small ones apart
    for group, bundles in zip(groups, found):
        for bundle in bundles:
            chunks = [group.outputs[place] for place in bundle]
            if max(nbytes[i] for i in chunks) > limits.small:
                whole.update(dict.fromkeys(chunks, (chunks[0], sum(nbytes[i] for i in chunks))))
    result = []
    for group, bundles in zip(groups, found):
        read = [i for i in group.inputs if i in whole]
        beside = sum(size for _, size in {whole[i] for i in read}) - sum(nbytes[i] for i in read)
        if beside and group.memory + beside > limits.nbytes:
            return _bundled(groups, graph, replace(limits, bundle=0))
        result.append(replace(group, memory=group.memory + beside, bundles=bundles))
    return result


def _bundles(
    outputs: Sequence[int],
    readers: Mapping[int, Sequence[int]],
    workers: Sequence[int],
    graph: GroupGraph,
    limits: GroupLimits,
) -> Bundles:
    """Places of a group's outputs by bundle; empty for a single output."""
    if len(outputs) < 2:
        return ()
    found: list[list[int]] = []
    held: list[int] = []  # bytes of each bundle
    last: dict[Any, int] = {}  # number of the last bundle for these groups or workers
    mixed: set[int] = set()  # numbers of bundles that not all of their groups read as a whole
    for place, operand in enumerate(outputs):
        nbytes, read = graph.nbytes[operand], tuple(readers.get(operand, ()))
        users = frozenset([workers[reader] for reader in read])
        keys: Sequence[Any] = ("small",) if nbytes <= limits.small else (read, users)
        number = last.get(keys[0])
        if number in mixed and held[number] + nbytes > limits.bundle:
            number = None
        if number is None and users in last and -1 not in users and held[last[users]] + nbytes <= limits.bundle:
            number = last[users]
            mixed.add(number)
        if number is None or graph.kept[operand]:
            number = len(found)
            found.append([])
            held.append(0)
        found[number].append(place)
        held[number] += nbytes
        if not graph.kept[operand]:
            last.update(dict.fromkeys(keys, number))
    return tuple(map(tuple, found))
