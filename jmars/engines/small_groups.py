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


def join_small(pieces: Sequence[Piece], workers: Sequence[int], graph: GroupGraph, limits: GroupLimits) -> list[Piece]:
    """Groups in topological order, where short groups are joined to the group before on the same worker.

    Of two groups, the later group comes to the place of the earlier group if all inputs are there, or the earlier group
    to the place of the later group if no group between both reads the earlier group. A short group is joined to a
    longer group only if neither waits for more groups then.

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
    """
    counts, block = limits.counts(graph), graph.block
    found: list[Piece | None] = []
    maker: dict[int, int] = {}  # place in `found` of the group of each output
    read = list[int]()  # place of the last reader of each group so far
    waited = list[set[int]]()  # places of the groups that each group waits for
    joined: set[int] = set()  # places in `found`
    last: dict[tuple[int, int], int] = {}  # place of the last group of each worker and kind
    for piece in pieces:
        kind, here = int(block[piece.operands[0]]) % 3, len(found)
        key = workers[piece.operands[0]], kind
        made = {maker[operand] for operand in piece.inputs if operand in maker}
        before = last.get(key)
        earlier = None if before is None else found[before]
        if before is not None and earlier is not None and kind != ALONE and _fit(earlier, piece, limits, counts):
            short = SHORT * limits.seconds
            both = earlier.seconds < short and piece.seconds < short
            waits = made - waited[before] - {before}  # of the later one alone
            if (both or piece.seconds < short and not waits) and max(made, default=-1) <= before:
                piece, here = _joined(earlier, piece), before
                found[before] = piece
                joined.add(here)
                made |= waited[before]
            elif (both or earlier.seconds < short and before in made) and read[before] < 0:
                piece, found[before] = _joined(earlier, piece), None
                joined.add(here)
                made |= waited[before]
        if here == len(found):
            found.append(piece)
            read.append(-1)
            waited.append(set())
        waited[here] = made - {before, here} if here in joined else made
        last[key] = here
        maker.update(dict.fromkeys(piece.outputs, here))
        for operand in piece.inputs:
            place = maker.get(operand)
            if place is not None:
                read[place] = max(read[place], here)
    if not joined:
        return list(pieces)
    needed = set(chain.from_iterable(piece.inputs for piece in found if piece is not None))
    return [
        _settled(piece, needed, graph) if place in joined else piece
        for place, piece in enumerate(found)
        if piece is not None
    ]


def _fit(earlier: Piece, later: Piece, limits: GroupLimits, counts: Sequence[float]) -> bool:
    """Whether both groups together are within the limits."""
    return (
        earlier.seconds + later.seconds <= GROWTH * limits.seconds
        and earlier.memory + later.memory <= limits.nbytes
        and sum(counts[i] for i in chain(earlier.outputs, later.outputs)) <= limits.outputs
    )


def _joined(earlier: Piece, later: Piece) -> Piece:
    """Two groups as one, with the outputs and the memory of both."""
    own = set(earlier.operands)
    inputs = dict.fromkeys([*earlier.inputs, *(i for i in later.inputs if i not in own)])
    return Piece(
        earlier.operands + later.operands,
        tuple(inputs),
        earlier.outputs + later.outputs,
        earlier.memory + later.memory,
        earlier.seconds + later.seconds,
    )


def _settled(piece: Piece, needed: Set[int], graph: GroupGraph) -> Piece:
    """A group with outputs for other groups or kept, and with the bytes at once."""
    inputs, nbytes = graph.inputs, graph.nbytes
    outputs = [i for i in piece.outputs if graph.kept[i] or i in needed]
    readers = Counter(chain.from_iterable(inputs[i] for i in piece.operands))
    readers.update(outputs)  # an output stays
    readers.update(piece.inputs)  # and so does an input
    live = peak = 0
    for operand in piece.operands:
        peak = max(peak, live + nbytes[operand] + graph.work[operand])
        live += nbytes[operand] if readers[operand] else 0
        for i in inputs[operand]:
            readers[i] -= 1
            live -= 0 if readers[i] else nbytes[i]
    return piece._replace(outputs=tuple(outputs), memory=peak + sum(nbytes[i] for i in piece.inputs))
