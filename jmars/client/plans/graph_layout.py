"""Lays out a graph in O(sweeps * (boxes + arrows)): longest-path layers, then barycentre sweeps.

The live view has the same algorithm in labextension/src/model/layout.ts.
Source: Sugiyama, Tagawa and Toda 1981.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["layout_layers"]

_SWEEPS = 6


def layout_layers(n: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Boxes of each layer in order; inputs lie above their readers.

    Parameters
    ----------
    n
        Boxes.
    edges
        (input, reader); an edge that closes a cycle, as between groups of operands, is ignored.

    Examples
    --------
    >>> layout_layers(4, [(0, 2), (1, 2), (2, 3)])
    [[0, 1], [2], [3]]
    """
    users: list[list[int]] = [[] for _ in range(n)]
    inputs: list[list[int]] = [[] for _ in range(n)]
    for a, b in edges:
        if a != b:
            users[a].append(b)
            inputs[b].append(a)
    depth = _depths(users, inputs)
    for box in range(n):
        if not inputs[box] and users[box]:
            depth[box] = max(0, min(depth[user] for user in users[box]) - 1)  # a source stands next to its user
    rows: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for box in range(n):
        rows[depth[box]].append(box)
    place = [0.0] * n
    for row in rows:
        _spread(row, place)
    for sweep in range(_SWEEPS):
        near = users if sweep % 2 else inputs
        for row in reversed(rows) if sweep % 2 else rows:
            centre = {
                box: sum(place[other] for other in near[box]) / len(near[box]) if near[box] else place[box]
                for box in row
            }
            row.sort(key=lambda box: (centre[box], box))
            _spread(row, place)
    return [row for row in rows if row]


def _depths(users: list[list[int]], inputs: list[list[int]]) -> list[int]:
    """Length of the longest path to each box."""
    n = len(users)
    missing = [len(found) for found in inputs]
    depth, placed = [0] * n, [False] * n
    line = [box for box in range(n) if not missing[box]]
    for box in line:
        placed[box] = True
    rest = iter(range(n))
    at = 0
    while at < len(line) or len(line) < n:
        if at == len(line):  # all that is left lies behind a cycle: enter it at its first box
            box = next(box for box in rest if not placed[box])
            placed[box] = True
            line.append(box)
        for user in users[line[at]]:
            if not placed[user]:
                depth[user] = max(depth[user], depth[line[at]] + 1)
                missing[user] -= 1
                if not missing[user]:
                    placed[user] = True
                    line.append(user)
        at += 1
    return depth


def _spread(row: list[int], place: list[float]) -> None:
    for i, box in enumerate(row):
        place[box] = (i + 0.5) / len(row)
