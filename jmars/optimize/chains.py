"""Operands that stand in a single line become one.

Which ones is a matter of shape alone: an edge joins two operands if it is the only one that leaves the first and the
only one that enters the second. `fuse: chain` is this rule on operands; regions.py uses it on what is left.
Source: seeds 000 and 001, "Graph fusion" / "Graph Compose"; seed 003, "图压缩"; PLANNING 1.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jmars.optimize.fuse_groups import FusedGraph, fuse_groups
from jmars.optimize.rebuild import is_open, readers
from jmars.tensor.chunk import ChunkGraph

__all__ = ["LONGEST", "fuse_chains", "lines"]

LONGEST = 1000  # operands; what a kernel of more saves is less than a thousandth, and it hears of a cancel later

Ints = NDArray[np.int64]


def fuse_chains(graph: ChunkGraph, longest: int = LONGEST, apart: NDArray[np.integer] | None = None) -> FusedGraph:
    """The graph with each line of operands as one operand.

    An operand that is part of a result may end a line and never stands inside one, so its chunk stays. A stored chunk
    has nothing to compute and joins no line; one whose size is not known yet may end a line, since what reads it waits
    for the size.

    Parameters
    ----------
    graph
        Any chunk graph.
    longest
        Operands in one line, 2 or more; longer ones are cut.
    apart : shape (graph.n,)
        Rows of different numbers (devices, workers asked for) never join.
    """
    return fuse_groups(graph, lines(graph.n, graph.input_idx, readers(graph), is_open(graph), longest, apart))


def lines(
    n: int,
    src: Ints,
    dst: Ints,
    may_lead: NDArray[np.bool_],
    longest: int = LONGEST,
    apart: NDArray[np.integer] | None = None,
) -> Ints:
    """The end of the line that each vertex stands in, itself where it stands alone, shape (n,).

    Parameters
    ----------
    n
        Vertices, their numbers a topological order.
    src, dst
        Edges, none twice.
    may_lead : shape (n,)
        Whether something may follow a vertex in its line.
    longest
        Vertices in one line.
    apart : shape (n,)
        Vertices of different numbers stand in different lines.
    """
    alone = (np.bincount(src, minlength=n)[src] == 1) & (np.bincount(dst, minlength=n)[dst] == 1) & may_lead[src]
    if apart is not None:
        alone &= apart[src] == apart[dst]
    first, second = src[alone], dst[alone]
    follower = np.arange(n)
    follower[first] = second
    end = resolved(follower)
    if np.bincount(end, minlength=1).max(initial=0) > longest:
        order = np.argsort(end, kind="stable")  # lines behind one another, each in order
        lengths = np.unique(end, return_counts=True)[1]
        place = np.empty(n, np.int64)
        place[order] = np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        uncut = place[second] % longest != 0
        follower = np.arange(n)
        follower[first[uncut]] = second[uncut]
        end = resolved(follower)
    return end


def resolved(follower: Ints) -> Ints:
    """Where following leads in the end; each pass doubles the distance."""
    end = follower[follower]
    while not np.array_equal(end, further := end[end]):
        end = further
    return end
