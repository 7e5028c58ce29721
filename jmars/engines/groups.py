"""Plans groups: consecutive operands of a job that run together as a task of an engine.

A task of Dask or Ray costs milliseconds and an operand may take microseconds, so operands are grouped to tasks of
`group_seconds`. A group reads all external inputs before the first operand runs, and outputs leave after the last
operand, so groups must not wait in a cycle, and are cut where memory or outputs grow.

**No cycle.** Operands are visited in a topological order. An operand joins a group only if the order places all inputs
from other groups before the group's *first* operand. If group G reads a chunk of group H, then H's first operand is at
or before that chunk, and the chunk is before G's first operand: along an edge between groups the place of the first
operand grows, so no path of groups comes back.

The order (`GroupGraph`) decides which operands share a group; a group's rank decides when the group runs.

Planning 20,000 operands takes 2 to 7 µs an operand on a server's core (a tree sum 3, layers of neighbours 5, chains
with users' functions 7), 13 where short groups are joined, and 17 for a random graph whose chunks are read 100 operands
later.

The order in which groups are cut is the job's rank, by levels. Operands with a group of their own (functions of users,
gathering programs, chunks of unknown size without a bound) would cut the runs of small operands around them to pieces.
So the level of an operand is the number of such operands on the longest path there, and levels are visited in sequence,
ordinary operands first. The order by levels is topological too: an edge leads to a higher level or joins two ordinary
operands of a level, and within a level ordinary operands stay in the order of their ranks.

Groups too short for a task are joined to other groups of the same worker. The cutter ends a group where an input comes
from behind the group's first operand. The group of that input may begin before, so that nothing waits in a cycle: here,
the groups themselves tell.

Outputs of a group are bundled to single results of the engine. A result read by a task costs Dask 0.3 ms of CPU, a
result made by a task as much as a task.

Source: docs/explanation/seeds.md, "Basic design", "Graphs", "Graph optimization"; Dask's graph fusion
(dask/optimization.py).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.model.messages import JobTable

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
        (`planned_groups.RunOrder`): the group of its last input ends soon after that input.
    together
        Groups follow the rank alone; the worker with most of a group's seconds runs it.
    rounds : shape (n,), optional
        Operands of two rounds share no group, but for short groups (`join_small`).

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


ORDINARY, GATHERS, ALONE = 0, 1, 2  # kinds of operands, in the order of a level


class GroupGraph(NamedTuple):
    """The operands of a job: lists for loops over operands, arrays of edges for NumPy.

    Gathering operands are grouped with gathering operands only: their inputs are mostly the same chunks. An operand of
    the kind `ALONE` has a group without other operands.
    """

    inputs: Sequence[Sequence[int]]
    nbytes: list[int]
    work: list[int]
    seconds: list[float]
    kept: bytearray  # 1 for operands whose chunks outlive the job
    readers: list[int]  # number of operands that read each chunk
    order: NDArray[np.int64]  # operands that are not stored, in a topological order
    place: list[int]  # of each operand in `order`; -1 for stored operands
    block: NDArray[np.int64]  # 3 * level + kind
    source: NDArray[np.int64]  # of each edge between operands that are not stored
    target: NDArray[np.int64]

    @classmethod
    def of(cls, table: JobTable, seconds: ArrayLike, kept: Collection[int]) -> GroupGraph:
        """The graph of a job, whose rank need not be topological."""
        n = len(table.program)
        rows = np.asarray(table.program, np.int64)
        stored = rows < 0
        stored[np.asarray(table.stored, np.int64)] = True
        degree = np.fromiter(map(len, table.inputs), np.int64, n)
        source = np.fromiter(chain.from_iterable(table.inputs), np.int64, int(degree.sum()))
        target = np.repeat(np.arange(n), degree)
        readers = np.bincount(source, minlength=n)
        inner = ~stored[source]
        source, target = source[inner], target[inner]
        rank = np.asarray(table.rank, np.int64)
        order = np.argsort(rank, kind="stable")
        order = order[~stored[order]]
        if np.any(rank[source] >= rank[target]):
            order = _topological(table, order.tolist(), np.bincount(target, minlength=n).tolist())
        kind = _kinds(table.programs)[rows]
        unbounded = _unbounded(table.programs)[rows]
        kind[target[unbounded[source]]] = ALONE
        block = np.zeros(n, np.int64)
        if np.any(kind[order]):
            block = 3 * _levels(table.inputs, order.tolist(), stored, kind) + kind
            order = order[np.argsort(block[order], kind="stable")]
        place = np.full(n, -1, np.int64)
        place[order] = np.arange(len(order))
        held = bytearray(n)
        for i in kept:
            held[i] = 1
        cost = np.asarray(seconds, np.float64).tolist()
        return cls(
            table.inputs,
            table.nbytes,
            table.work,
            cost,
            held,
            readers.tolist(),
            order,
            place.tolist(),
            block,
            source,
            target,
        )

    def followed(self, workers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The workers, where operands without a worker (-1) take that of their largest input."""
        if workers.min(initial=0) >= 0 or workers.max(initial=-1) < 0:
            return workers
        found, nbytes = workers.tolist(), self.nbytes
        for operand in self.order.tolist():
            if found[operand] < 0:
                near = [i for i in self.inputs[operand] if found[i] >= 0]
                if near:
                    found[operand] = found[max(near, key=nbytes.__getitem__)]
        return np.array(found, np.int64)


def _kinds(programs: Sequence[Any]) -> NDArray[np.int64]:
    """Kind of the operands by program; the last entry is for stored chunks."""
    kinds = [
        GATHERS if program.gathers else ALONE if program.runs_user_code or _is_unbounded(program) else ORDINARY
        for program in programs
    ]
    return np.array([*kinds, ORDINARY], np.int64)


def _unbounded(programs: Sequence[Any]) -> NDArray[np.bool_]:
    """Whether the size of a program's chunk has no bound, by program; the last entry is for stored chunks."""
    return np.array([*map(_is_unbounded, programs), False], np.bool_)


def _is_unbounded(program: Any) -> bool:
    return not program.output.is_sized and program.output.most is None


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


def _levels(
    inputs: Sequence[Sequence[int]], order: list[int], stored: NDArray[np.bool_], kind: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Levels of operands: higher than an input's level where operand or input is not ordinary."""
    found, kinds, is_stored = [0] * len(stored), kind.tolist(), stored.tolist()
    for operand in order:
        level, special = 0, kinds[operand]
        for i in inputs[operand]:
            if not is_stored[i]:
                below = found[i] + 1 if special or kinds[i] else found[i]
                if below > level:
                    level = below
        found[operand] = level
    return np.array(found, np.int64)


MOST_OUTPUTS = 8  # a task with k bundles of outputs costs Dask about as much as k tasks
SMALL_BYTES = 2**16  # bytes
LEAST_OUTPUT, FEW = 1 / 8, 3  # of a bundle; workers
MAX_LOOKAHEAD = 64  # operands by which a group may grow beyond its last possible end, in search of the next end
GROWTH = 3 / 2  # of a group's seconds: how far a group may grow for a better end
AWAITED = 1 / 2  # of a group's seconds: least work of other workers' operands whose last input is an operand
PATIENCE = 1 / 8  # of a group's seconds: how far the group goes on after such an operand


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
        Bundles of chunks that may leave, without small chunks.
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

    def counts(self, graph: GroupGraph, workers: NDArray[np.int64]) -> list[float]:
        """Count of each chunk towards `outputs`: 0 for small chunks, 1 for kept chunks.

        A chunk with readers on few workers counts as a part of a bundle, since few sets of workers make few bundles.
        """
        nbytes, known = np.asarray(graph.nbytes), np.unique(workers)
        share: ArrayLike = 1
        if self.bundle and 0 < len(known) <= FEW and known[0] >= 0:
            share = np.clip(nbytes / self.bundle, LEAST_OUTPUT, 1)
        found = np.where(nbytes > self.small, share, 0).astype(float)
        found[np.frombuffer(graph.kept, np.uint8) > 0] = 1
        return list(found.tolist())


class Piece(NamedTuple):
    """A group without worker and rank."""

    operands: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    memory: int
    seconds: float


class Cutter:
    """Cuts runs into groups; a run holds the operands of a level (and round) that are planned for a worker."""

    def __init__(
        self,
        graph: GroupGraph,
        workers: NDArray[np.int64],
        limits: GroupLimits,
        waited: NDArray[np.bool_],
        counts: Sequence[float],
        rounds: NDArray[np.int64] | None = None,
    ) -> None:
        self._graph, self._limits = graph, limits
        label = graph.block * (int(workers.max(initial=0)) + 2) + workers + 1
        if rounds is not None:
            label += rounds * (int(label.max(initial=0)) + 1)
        run = graph.order[np.argsort(label[graph.order], kind="stable")]
        ends = np.flatnonzero(np.diff(label[run])) + 1
        self._runs = [part.tolist() for part in np.split(run, ends) if len(part)]
        self._alone = [int(graph.block[part[0]]) % 3 == ALONE for part in self._runs]
        # a chunk stays open if a reader is in another run, or too far behind for the same group
        after = np.zeros(len(workers))
        after[run] = np.cumsum(np.asarray(graph.seconds)[run])
        source, target = graph.source, graph.target
        far = (label[source] != label[target]) | (after[target] - after[source] > limits.seconds)
        stays = np.frombuffer(graph.kept, np.uint8).copy()
        stays[source[far]] = 1
        self._stays = stays.tolist()
        self._awaited = _awaited(graph, workers, waited, AWAITED * limits.seconds)
        self._counts = counts

    def groups(self) -> list[Piece]:
        """All groups."""
        found: list[Piece] = []
        for run, alone in zip(self._runs, self._alone):
            start = 0
            while start < len(run):
                piece = self._next(run, start, start + 1 if alone else len(run))
                start += len(piece.operands)
                found.append(piece)
        return found

    def _next(self, run: list[int], start: int, end: int) -> Piece:
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
        read = live = peak = soon_bytes = ahead = 0
        spent = staying = soon = 0.0
        best = start  # end of the group; the next variables hold at that end
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
                if staying > limits.outputs or ahead > MAX_LOOKAHEAD:
                    break
        for operand in run[best:at]:
            for i in inputs[operand]:
                if i in left:
                    left[i] += 1
        operands = tuple(run[start:best])
        outputs = tuple([i for i in operands if kept[i] or left.get(i)])
        return Piece(operands, tuple(outside)[:best_inputs], outputs, best_memory, best_spent)


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


SHORT = 1 / 8  # of a group's seconds: groups that are joined


class _Open:
    """A group that other groups may join, and the groups around."""

    def __init__(self, piece: Piece, counts: Sequence[float]) -> None:
        self.piece = piece
        self.operands, self.inputs, self.outputs = [*piece.operands], dict.fromkeys(piece.inputs), [*piece.outputs]
        self.memory, self.seconds, self.count = piece.memory, piece.seconds, sum(counts[i] for i in piece.outputs)
        self.place = -1  # among all groups
        self.read = False  # by a group so far
        self.waits: set[_Open] = set()  # groups that must end first
        self.is_joined = False

    def take(self, later: _Open, maker: dict[int, _Open]) -> None:
        """Join a later group to this one."""
        self.inputs.update(dict.fromkeys([i for i in later.inputs if maker.get(i) is not self]))
        self.operands += later.operands
        self.outputs += later.outputs
        self.memory, self.seconds, self.count = (
            self.memory + later.memory,
            self.seconds + later.seconds,
            self.count + later.count,
        )
        self.waits |= later.waits
        self.waits.discard(self)
        self.is_joined = True

    def fits(self, later: _Open, limits: GroupLimits) -> bool:
        """Whether both groups together are within the limits."""
        return (
            self.seconds + later.seconds <= GROWTH * limits.seconds
            and self.memory + later.memory <= limits.nbytes
            and self.count + later.count <= limits.outputs
        )


def join_small(
    pieces: Sequence[Piece], workers: Sequence[int], graph: GroupGraph, limits: GroupLimits, counts: Sequence[float]
) -> list[Piece]:
    """Groups in topological order, where short groups are joined to the group before on the same worker.

    Of two groups, the later group comes to the place of the earlier group if all inputs are there, or the earlier group
    to the place of the later group if no group reads the earlier group before. A short group is joined to a longer
    group only if the longer group waits for no more groups then.

    Parameters
    ----------
    pieces
        In topological order.
    workers
        By operand.
    graph
        The operands.
    limits
        Limits of a joined group.
    counts
        What each chunk counts towards the limit of outputs.
    """
    block, short = graph.block, SHORT * limits.seconds
    found: list[_Open | None] = []
    maker: dict[int, _Open] = {}  # of each operand so far
    last: dict[tuple[int, int], _Open] = {}  # group of each worker and kind
    for piece in pieces:
        group = _Open(piece, counts)
        group.waits = {maker[i] for i in piece.inputs if i in maker}
        kind = int(block[piece.operands[0]]) % 3
        key = workers[piece.operands[0]], kind
        before, home = last.get(key), group
        if before is not None and kind != ALONE and before.fits(group, limits):
            both = before.seconds < short and group.seconds < short
            more = group.waits - before.waits - {before}
            is_made = all(one.place <= before.place for one in group.waits)
            if is_made and (both or (group.seconds < short and not more)):
                before.take(group, maker)
                home = before
            elif not before.read and (both or (before.seconds < short and before in group.waits)):
                found[before.place] = None
                before.take(group, maker)
                before.place = len(found)
                found.append(before)
                home = before
        if home is group:
            group.place = len(found)
            found.append(group)
        last[key] = home
        maker.update(dict.fromkeys(piece.operands, home))
        for one in group.waits:
            one.read = one.read or one is not home
    joined = [one for one in found if one is not None]
    if len(joined) == len(pieces):
        return list(pieces)
    needed = set(chain.from_iterable(one.inputs for one in joined))
    return [_settled(one, needed, graph) if one.is_joined else one.piece for one in joined]


def _settled(group: _Open, needed: Set[int], graph: GroupGraph) -> Piece:
    """A joined group with outputs for other groups or kept, and with the bytes at once."""
    inputs, nbytes = graph.inputs, graph.nbytes
    outputs = [i for i in group.outputs if graph.kept[i] or i in needed]
    readers = Counter(chain.from_iterable(inputs[i] for i in group.operands))
    readers.update(outputs)  # an output stays
    readers.update([*group.inputs])  # and so does an input
    live = peak = 0
    for operand in group.operands:
        peak = max(peak, live + nbytes[operand] + graph.work[operand])
        live += nbytes[operand] if readers[operand] else 0
        for i in inputs[operand]:
            readers[i] -= 1
            live -= 0 if readers[i] else nbytes[i]
    memory = peak + sum(nbytes[i] for i in group.inputs)
    return Piece(tuple(group.operands), tuple(group.inputs), tuple(outputs), memory, group.seconds)


Bundles = tuple[tuple[int, ...], ...]


def bundled(
    groups: Sequence[Piece], workers: Sequence[int], graph: GroupGraph, limits: GroupLimits
) -> tuple[list[Bundles], Counter[int]]:
    """Bundles of each group's outputs, by place, and the bytes of bundles that groups read beside their inputs.

    Small chunks are one bundle; other chunks are bundled by reading groups, then by reading workers: a worker reads the
    rest of a bundle later, so bundles for the same workers move no byte more. Where a group would exceed its memory
    with such bundles, no group of the job has them.

    Parameters
    ----------
    groups
        All groups of a job.
    workers
        Planned worker of each group; -1 for any.
    graph
        The operands.
    limits
        Limits of a group.
    """
    readers = _readers(groups)
    found = [_bundles(group, readers, workers, graph, limits) for group in groups]
    beside = _beside(groups, found, readers, graph, limits.small)
    if any(groups[number].memory + nbytes > limits.nbytes for number, nbytes in beside.items()):
        return [_bundles(group, readers, workers, graph, replace(limits, bundle=0)) for group in groups], Counter()
    return found, beside


def _readers(groups: Sequence[Piece]) -> dict[int, list[int]]:
    """Numbers of the groups that read each operand from outside."""
    found: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        for operand in group.inputs:
            found.setdefault(operand, []).append(number)
    return found


def _bundles(
    group: Piece, readers: Mapping[int, Sequence[int]], workers: Sequence[int], graph: GroupGraph, limits: GroupLimits
) -> Bundles:
    if len(group.outputs) < 2:
        return ()
    found: dict[tuple[int, ...], list[int]] = {}
    for place, operand in enumerate(group.outputs):
        key = (-1,) if graph.nbytes[operand] <= limits.small else tuple(readers.get(operand, ()))
        if graph.kept[operand]:
            key = (-2 - operand,)
        found.setdefault(key, []).append(place)
    joined: list[list[int]] = []
    last: dict[frozenset[int], tuple[list[int], int]] = {}  # by workers: the last bundle and its bytes
    for key, places in found.items():
        nbytes = sum(graph.nbytes[group.outputs[place]] for place in places)
        users = frozenset(workers[reader] for reader in key) if key and key[0] >= 0 else frozenset()
        bundle, held = last.get(users, (None, 0))
        if bundle is None or held + nbytes > limits.bundle:
            joined.append(bundle := list(places))
            held = 0
        else:
            bundle += places
        if users and -1 not in users:
            last[users] = bundle, held + nbytes
    return tuple(map(tuple, joined))


def _beside(
    groups: Sequence[Piece],
    bundles: Sequence[Bundles],
    readers: Mapping[int, Sequence[int]],
    graph: GroupGraph,
    small: int,
) -> Counter[int]:
    """By number of a group: bytes in bundles that it reads beside its inputs; bundles of small chunks do not count."""
    found: Counter[int] = Counter()
    for group, some in zip(groups, bundles):
        for bundle in some:
            chunks = [group.outputs[place] for place in bundle]
            if len(chunks) > 1 and max(graph.nbytes[i] for i in chunks) > small:
                read: Counter[int] = Counter()
                for operand in chunks:
                    read.update(dict.fromkeys(readers.get(operand, ()), graph.nbytes[operand]))
                total = sum(graph.nbytes[i] for i in chunks)
                found.update({reader: total - nbytes for reader, nbytes in read.items() if nbytes < total})
    return found
