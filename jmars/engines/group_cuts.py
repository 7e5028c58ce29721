"""Cuts the operands of a job, in the order of group_graph.py, to groups within limits, for `groups.plan_groups`.

Source: docs/explanation/seeds.md, "Graph optimization"; Dask's graph fusion (dask/optimization.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.engines.group_graph import ALONE, GroupGraph

__all__ = ["GROWTH", "Cutter", "GroupLimits", "Piece"]

MOST_OUTPUTS = 8  # a task with k bundles of outputs costs Dask about as much as k tasks
SMALL = 2**16  # bytes
LEAST_OUTPUT, FEW = 1 / 8, 3  # of a bundle; workers
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
        Bundles of chunks that may leave, without small chunks.
    small
        Bytes of a small chunk, bundled with all small outputs of the group, for any readers.
    bundle
        Bytes of chunks bundled for other groups of the same workers, at most; 0 for an engine without such bundles.
    """

    seconds: float
    nbytes: int
    outputs: int = MOST_OUTPUTS
    small: int = SMALL
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
        # a chunk stays open where a reader is in another run, or too far behind for the same group
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
