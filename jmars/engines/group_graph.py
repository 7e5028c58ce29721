"""The operands of a job in the order in which groups are cut from them, for `groups.plan_groups`.

The order is the job's rank, by levels. Operands with a group of their own (functions of users, gathering programs,
chunks of unknown size without a bound) would cut the runs of small operands around them to pieces. So the level of an
operand is the number of such operands on the longest path there, and levels are visited in sequence, ordinary operands
first. The order by levels is topological too: an edge leads to a higher level or joins two ordinary operands of a
level, and within a level ordinary operands stay in the order of their ranks.
Source: docs/explanation/seeds.md, "Graphs".
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.model.messages import JobTable

__all__ = ["ALONE", "GroupGraph"]

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
    readers: list[int]  # how many operands read each chunk
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
