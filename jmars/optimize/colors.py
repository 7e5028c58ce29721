"""Fusion by colours, Mars's newer rule: operands of the same colour become a single operand.

`colors` is Mars's algorithm: sources get colours in pairs, a colour passes on to readers whose inputs all have it, and
is taken back where the colours would form a cycle. A subtask of Mars may have several outputs; an operand here has a
single output, so `fuse_colors` joins an operand to its readers if all readers are in the same group and colour. Chunks
passed on block by block need no memory; other chunks inside a group are held until they are read.
Source: mars-project/mars issue 2435 and pull request 2719, `Coloring` of Mars and Xorbits
(`services/task/analyzer/fusion.py`), whose pull request 609 halves the pairs where workers would be idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray

from jmars.graph import Dag
from jmars.optimize.fuse_groups import FusedGraph, fuse_groups
from jmars.optimize.rebuild import is_open, readers
from jmars.optimize.regions import FusionLimits, flows, grown, operations
from jmars.tensor.chunk import ChunkGraph

__all__ = ["BROADCASTER", "SAME", "colors", "fuse_colors"]

SAME = 2  # sources of the same colour: half of Mars's combine_size
BROADCASTER = 8  # readers beyond which every reader gets a new colour: twice Mars's combine_size

Ints = NDArray[np.int64]


def fuse_colors(
    graph: ChunkGraph, limits: FusionLimits | None = None, workers: int = 1, apart: NDArray[np.integer] | None = None
) -> FusedGraph:
    """Fuses operands of the same colour that have a single output.

    Parameters
    ----------
    graph
        Any chunk graph. Results and stored chunks are never inside a group; chunks of unknown size only between
        functions.
    limits
        Limits of a group.
    workers
        Least number of colours of sources.
    apart : shape (graph.n,)
        Rows with different numbers here (devices, requested workers) never join.
    """
    dag = Dag.from_inputs(graph.input_ptr, graph.input_idx)
    color = colors(dag, workers=workers, apart=apart)
    src, dst = graph.input_idx, readers(graph)
    through = np.bincount(src[flows(graph)], minlength=graph.n) == np.bincount(src, minlength=graph.n)
    held = np.where(through, 0, graph.nbytes)
    joins = color[src] == color[dst]
    if apart is not None:
        joins &= apart[src] == apart[dst]
    limits = limits or FusionLimits()
    limits = replace(limits, whole=limits.ops)  # held until read, as in a subtask of Mars
    return fuse_groups(graph, grown(graph, joins, is_open(graph, limits.room), operations(graph), held, limits))


def colors(
    dag: Dag,
    bands: Sequence[int] | None = None,
    same: int = SAME,
    broadcaster: int = BROADCASTER,
    workers: int = 1,
    apart: NDArray[np.integer] | None = None,
) -> Ints:
    """Colours vertices, shape (n,); the graph of colours has no cycle.

    Parameters
    ----------
    dag
        Vertices whose numbers are a topological order.
    bands
        Worker of each source, in the order of `dag.sources()`; sources on different workers have different colours.
        None: all on the same worker.
    same
        Most sources of a colour; reduced until sources have `workers` colours, if possible.
    broadcaster
        A vertex with more readers passes its colour to no reader.
    apart : shape (n,)
        A vertex takes its inputs' colour only if all of them have the vertex's number here.

    Examples
    --------
    Two trees of two sources, a colour for each tree:

    >>> colors(Dag.from_edges(6, [0, 1, 2, 3], [4, 4, 5, 5])).tolist()
    [0, 0, 1, 1, 0, 1]
    """
    preds = [dag.pred_idx[a:b].tolist() for a, b in pairwise(dag.pred_ptr.tolist())]
    succs = [dag.succ_idx[a:b].tolist() for a, b in pairwise(dag.succ_ptr.tolist())]
    label = None if apart is None else apart.tolist()
    color, fresh = _first(dag, succs, bands, same, workers)

    for v in range(dag.n):  # readers take the common colour of all their inputs
        if color[v] >= 0:
            continue
        above = {color[p] for p in preds[v]}
        alike = label is None or all(label[p] == label[v] for p in preds[v])
        lone = len(preds[v]) == 1 and len(succs[preds[v][0]]) > broadcaster
        color[v] = above.pop() if len(above) == 1 and alike and not lone else next(fresh)

    for v in range(dag.n - 1, -1, -1):  # a path that leaves a colour must not enter the colour again
        below = {color[s] for s in succs[v]}
        if color[v] not in below or len(below) == 1:
            continue
        mine = color[v]
        stack: list[int] = []
        for s in succs[v]:
            if color[s] == mine:
                color[s] = next(fresh)
                stack += succs[s]
        while stack:
            x = stack.pop()
            if color[x] == mine:
                above = {color[p] for p in preds[x]}
                color[x] = above.pop() if len(above) == 1 else next(fresh)
                stack += succs[x]
    return np.array(color, np.int64)


def _first(
    dag: Dag, succs: list[list[int]], bands: Sequence[int] | None, same: int, workers: int
) -> tuple[list[int], count[int]]:
    """Colours of the sources, -1 for other vertices, and a counter of unused colours.

    Sources with the nearest common reader share a colour, as in Mars's depth-first order.
    """
    sources = dag.sources().tolist()
    band = dict(zip(sources, bands if bands is not None else [0] * len(sources), strict=True))
    sources.sort(key=lambda v: (min(succs[v], default=dag.n), v))
    color: list[int] = []
    while True:
        fresh = count()
        color = [-1] * dag.n
        last: dict[int, tuple[int, int]] = {}  # by band: the colour in use and its number of sources
        for v in sources:
            used, size = last.get(band[v], (-1, same))
            used, size = (next(fresh), 0) if size >= same else (used, size)
            color[v] = used
            last[band[v]] = used, size + 1
        if same == 1 or max(color, default=0) + 1 >= workers:
            return color, fresh
        same -= 1
