"""Bundles outputs of a group to single results of the engine, for `groups.plan_groups`.

A result read by a task costs Dask 0.3 ms of CPU, a result made by a task as much as a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jmars.engines.group_cuts import GroupLimits, Piece
from jmars.engines.group_graph import GroupGraph

__all__ = ["bundles_of", "readers_of"]


def readers_of(groups: Sequence[Piece]) -> dict[int, list[int]]:
    """Numbers of the groups that read each operand from outside."""
    found: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        for operand in group.inputs:
            found.setdefault(operand, []).append(number)
    return found


def bundles_of(
    group: Piece, readers: Mapping[int, Sequence[int]], workers: Sequence[int], graph: GroupGraph, limits: GroupLimits
) -> tuple[tuple[int, ...], ...]:
    """Outputs of a group, by place: small chunks together, other chunks by reading groups, then by reading workers.

    A worker reads the rest of a bundle later, so bundles for the same workers move no byte more. A bundle stays until
    its last reader, so a bundle is limited to `GroupLimits.bundle` bytes.
    """
    if len(group.outputs) < 2:
        return ()
    found: dict[tuple[int, ...], list[int]] = {}
    for place, operand in enumerate(group.outputs):
        key = (-1,) if graph.nbytes[operand] <= limits.small else tuple(readers.get(operand, ()))
        if graph.kept[operand]:
            key = (-2 - operand,)
        found.setdefault(key, []).append(place)
    joined: list[list[int]] = []
    open_bundles: dict[frozenset[int], tuple[list[int], int]] = {}  # by workers: the last bundle and its bytes
    for key, places in found.items():
        nbytes = sum(graph.nbytes[group.outputs[place]] for place in places)
        users = frozenset(workers[reader] for reader in key) if key and key[0] >= 0 else frozenset()
        last, held = open_bundles.get(users, (None, 0))
        if last is None or held + nbytes > limits.bundle:
            joined.append(last := list(places))
            held = 0
        else:
            last += places
        if users and -1 not in users:
            open_bundles[users] = last, held + nbytes
    return tuple(map(tuple, joined))
