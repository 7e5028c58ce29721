"""Joins groups too short for a task to other groups of the same worker, for `groups.plan_groups`.

Cutter ends a group where an input comes from behind the group's first operand. The group of that input may begin
before, so that nothing waits in a cycle: here, the groups themselves tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from itertools import chain

from jmars.engines.group_cuts import GROWTH, GroupLimits, Piece
from jmars.engines.group_graph import ALONE, GroupGraph

__all__ = ["join_small"]

SHORT = 1 / 8  # of a group's seconds: groups that are joined


class _Open:
    """A group that other groups may join, and the groups around."""

    def __init__(self, piece: Piece, counts: Sequence[float]) -> None:
        self.piece = piece
        self.operands, self.inputs, self.outputs = [*piece.operands], dict.fromkeys(piece.inputs), [*piece.outputs]
        self.memory, self.seconds, self.count = piece.memory, piece.seconds, sum(counts[i] for i in piece.outputs)
        self.place = -1  # among all groups
        self.read = False  # by a group so far
        self.waits: set[_Open] = set()  # for these groups
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
