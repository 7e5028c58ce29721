"""Fuses chains: lines of operands without branches.

An edge joins two operands if no other edge leaves the first operand and no other edge enters the second. The setting
`fuse: chain` applies this rule alone; regions.py applies it after its own.
Source: docs/explanation/seeds.md, "Graph fusion", "Preparing the graph".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jmars.optimize.fuse_groups import FusedGraph, fuse_groups
from jmars.optimize.rebuild import is_open, readers
from jmars.tensor.chunk import ChunkGraph

__all__ = ["LONGEST", "fuse_chains", "lines"]

LONGEST = 1000  # operands; a longer kernel saves less than a thousandth, and notices a cancel later

Ints = NDArray[np.int64]


def fuse_chains(
    graph: ChunkGraph, longest: int = LONGEST, apart: NDArray[np.integer] | None = None, room: int | None = None
) -> FusedGraph:
    """Fuses lines of operands into single operands.

    An operand of a result may end a line and is never inside, so its chunk stays. A stored chunk joins no line. A
    chunk of unknown size is inside only between two functions, since a function takes the size from the chunk.

    Parameters
    ----------
    graph
        Any chunk graph.
    longest
        Most operands in a line, 2 or more; longer lines are cut.
    apart : shape (graph.n,)
        Rows with different numbers here (devices, requested workers) never join.
    room
        Bytes of an operand's chunks, for chunks of unknown size (`is_open`).
    """
    return fuse_groups(graph, lines(graph.n, graph.input_idx, readers(graph), is_open(graph, room), longest, apart))


def lines(
    n: int,
    src: Ints,
    dst: Ints,
    may_lead: NDArray[np.bool_],
    longest: int = LONGEST,
    apart: NDArray[np.integer] | None = None,
) -> Ints:
    """Last vertices of the vertices' lines, the vertex itself if alone, shape (n,).

    Parameters
    ----------
    n
        Number of vertices; their numbers are a topological order.
    src, dst
        Edges, without repetition.
    may_lead : shape (n,)
        Whether a vertex may have a successor in its line.
    longest
        Most vertices in a line.
    apart : shape (n,)
        Vertices with different numbers here are in different lines.
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
    """Last vertices reached by following `follower`; each pass doubles the distance."""
    end = follower[follower]
    while not np.array_equal(end, further := end[end]):
        end = further
    return end
