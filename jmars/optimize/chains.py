"""Operands that stand in a single line become one.

Which ones is a matter of shape alone: an edge joins two operands if it is the only one that leaves the first and the
only one that enters the second. How they compute together is `kernels.fusing.fuse`, called once for each distinct
sequence of programs, so 100,000 equal lines cost one call. Third pass of `pipeline`.
Source: seeds 000 and 001, "Graph fusion" / "Graph Compose"; seed 003, "图压缩"; PLANNING 1.2.
"""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from jmars.graph.dag import group_by
from jmars.kernels.fusing import fuse
from jmars.kernels.program import Program
from jmars.optimize.rebuild import is_result, rebuilt
from jmars.tensor.chunk import ChunkGraph

__all__ = ["LONGEST", "fuse_chains"]

LONGEST = 32  # operands; longer lines are cut: joining and compiling more costs more than one chunk stored in between


def fuse_chains(graph: ChunkGraph, longest: int = LONGEST) -> tuple[ChunkGraph, NDArray[np.int32]]:
    """The graph with each line of operands as one operand.

    An operand that is part of a result may end a line and never stands inside one, so its chunk stays. A stored chunk
    has nothing to compute and joins no line; one whose size is not known yet may end a line: what reads it must wait for
    the size.

    Parameters
    ----------
    graph
        Any chunk graph.
    longest
        Operands in one line, 2 or more; longer ones are cut.

    Returns
    -------
    ChunkGraph
        The fused graph; `graph` itself if there is no line.
    ndarray of int32, shape (graph.n,)
        New row of each row.
    """
    second = np.flatnonzero(np.diff(graph.input_ptr) == 1)
    first = graph.input_idx[graph.input_ptr[second]]
    leaving = np.bincount(graph.input_idx, minlength=graph.n)
    joined = (leaving[first] == 1) & ~is_result(graph)[first] & (graph.program[first] >= 0) & ~graph.unsized[first]
    first, second = first[joined], second[joined]
    if not len(first):
        return graph, np.arange(graph.n, dtype=np.int32)
    heads, tails, group, ptr, members = _lines(graph.n, first, second)
    if np.diff(ptr).max() > longest:
        place = np.zeros(graph.n, np.int64)
        place[members] = np.arange(len(members)) - np.repeat(ptr[:-1], np.diff(ptr))
        uncut = place[second] % longest != 0
        heads, tails, group, ptr, members = _lines(graph.n, first[uncut], second[uncut])
    rows = np.flatnonzero(np.diff(ptr))
    bounds = [*ptr[rows].tolist(), len(members)]
    programs, fused = _fused_programs(graph, bounds, members)
    program = graph.program[tails]
    program[rows] = fused
    args = None if graph.args is None else _joined_args(graph.args, tails, rows.tolist(), bounds, members.tolist())
    return rebuilt(graph, group, heads, tails, programs, program, args), group


Ints = NDArray[np.int64]


def _lines(n: int, first: Ints, second: Ints) -> tuple[Ints, Ints, NDArray[np.int32], Ints, Ints]:
    """Rows for maximal lines of the edges first -> second: (heads, tails, row of each operand, and the members of
    rows of two or more as compressed sparse rows, each in order)."""
    follower = np.arange(n)
    follower[first] = second
    tail = follower[follower]
    while not np.array_equal(tail, further := tail[tail]):  # each pass doubles the distance
        tail = further
    tails = np.flatnonzero(follower == np.arange(n))
    row = np.empty(n, np.int32)
    row[tails] = np.arange(len(tails), dtype=np.int32)
    group = row[tail]
    is_head = np.ones(n, np.bool_)
    is_head[second] = False
    heads = np.empty(len(tails), np.int64)
    heads[group[is_head]] = np.flatnonzero(is_head)
    inside = np.flatnonzero(heads[group] != tails[group])
    ptr, members = group_by(group[inside].astype(np.int64), inside, len(tails))  # an operand's id is above its input's
    return heads, tails, group, ptr, members


def _fused_programs(graph: ChunkGraph, bounds: list[int], members: Ints) -> tuple[list[Program], list[int]]:
    """The graph's programs with the fused ones behind them, and the number of each line's."""
    programs = list(graph.programs)
    known: dict[tuple[int, ...], int] = {}  # programs along a line: its fused program
    along = tuple(graph.program[members].tolist())
    fused = []
    for start, stop in pairwise(bounds):
        line = along[start:stop]
        number = known.get(line)
        if number is None:
            number = known[line] = len(programs)
            programs.append(fuse([graph.programs[k] for k in line], [0] * (len(line) - 1)))  # one input: number 0
        fused.append(number)
    return programs, fused


def _joined_args(
    args: list[tuple[object, ...]], tails: Ints, rows: list[int], bounds: list[int], members: list[int]
) -> list[tuple[object, ...]]:
    """Arguments of each row: its members' behind one another."""
    joined = [args[k] for k in tails.tolist()]
    for row, (start, stop) in zip(rows, pairwise(bounds), strict=True):
        if stop - start == 2:
            joined[row] = args[members[start]] + args[members[start + 1]]
        else:
            joined[row] = tuple(chain.from_iterable(args[k] for k in members[start:stop]))
    return joined
