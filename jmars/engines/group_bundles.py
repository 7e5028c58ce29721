"""Bundles outputs of a group to single results of the engine, for `groups.plan_groups`.

A result read by a task costs Dask 0.3 ms of CPU, a result made by a task as much as a task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jmars.engines.group_cuts import GroupLimits, Piece
from jmars.engines.group_graph import GroupGraph

__all__ = ["bundled"]

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
