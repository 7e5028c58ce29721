"""Mars's colours: operands that one worker should run in one go, and those of one colour made one operand.

`colors` is the newer fusion of Mars as it stands: first operands in pairs, colours passed on to readers all of whose
inputs have it, and taken back where a colour would lead out of itself and in again. A class may give several chunks; an
operand here gives one, so `fuse_colors` joins an operand to its readers if all of them are in one group of its colour.
What runs in one pass over blocks needs no memory, the rest is held until it has been read.
Source: mars-project/mars issue 2435 and pull request 2719, `Coloring` of Mars and Xorbits
(`services/task/analyzer/fusion.py`), whose pull request 609 halves the pairs where workers would have nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray

from jmars.graph.dag import Dag
from jmars.optimize.fuse_groups import FusedGraph, fuse_groups
from jmars.optimize.rebuild import is_open, readers
from jmars.optimize.regions import FusionLimits, flows, grown, operations
from jmars.tensor.chunk import ChunkGraph

__all__ = ["BROADCASTER", "SAME", "colors", "fuse_colors"]

SAME = 2  # first operands of one colour: half of Mars's combine_size
BROADCASTER = 8  # more readers than this, and each gets a colour of its own: twice Mars's combine_size

Ints = NDArray[np.int64]


def fuse_colors(
    graph: ChunkGraph, limits: FusionLimits | None = None, workers: int = 1, apart: NDArray[np.integer] | None = None
) -> FusedGraph:
    """The graph with operands of one colour as one operand, as far as one chunk comes of it.

    Parameters
    ----------
    graph
        Any chunk graph. Results, stored chunks and chunks of unknown size are never inside a group.
    limits
        Of each group.
    workers
        There are to be at least as many colours of first operands.
    apart : shape (graph.n,)
        Rows of different numbers (devices, workers asked for) never join.
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
    limits = replace(limits, whole=limits.ops)  # held until it was read, as in a subtask of Mars
    return fuse_groups(graph, grown(graph, joins, is_open(graph), operations(graph), held, limits))


def colors(
    dag: Dag,
    bands: Sequence[int] | None = None,
    same: int = SAME,
    broadcaster: int = BROADCASTER,
    workers: int = 1,
    apart: NDArray[np.integer] | None = None,
) -> Ints:
    """The colour of each vertex, shape (n,); the graph of colours has no cycle.

    Parameters
    ----------
    dag
        Vertices whose numbers are a topological order.
    bands
        Where each source starts, in the order of `dag.sources()`: in two places, it has two colours. None: all in one.
    same
        Sources of one colour, at most; halved until there are `workers` colours of them, if there can be.
    broadcaster
        What has more readers than this gives none of them its colour.
    apart : shape (n,)
        A vertex has its inputs' colour only if all of them have its number here.

    Examples
    --------
    Two trees of two sources, each one colour:

    >>> colors(Dag.from_edges(6, [0, 1, 2, 3], [4, 4, 5, 5])).tolist()
    [0, 0, 1, 1, 0, 1]
    """
    preds = [dag.pred_idx[a:b].tolist() for a, b in pairwise(dag.pred_ptr.tolist())]
    succs = [dag.succ_idx[a:b].tolist() for a, b in pairwise(dag.succ_ptr.tolist())]
    label = None if apart is None else apart.tolist()
    color, fresh = _first(dag, succs, bands, same, workers)

    for v in range(dag.n):  # readers take the colour that all their inputs have
        if color[v] >= 0:
            continue
        above = {color[p] for p in preds[v]}
        alike = label is None or all(label[p] == label[v] for p in preds[v])
        lone = len(preds[v]) == 1 and len(succs[preds[v][0]]) > broadcaster
        color[v] = above.pop() if len(above) == 1 and alike and not lone else next(fresh)

    for v in range(dag.n - 1, -1, -1):  # a colour that is left is not entered again
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
    """Colours of the sources, -1 for all else, and the colours that are left.

    Sources that meet soonest stand together, as in the depth-first order in which Mars has them.
    """
    sources = dag.sources().tolist()
    band = dict(zip(sources, bands if bands is not None else [0] * len(sources), strict=True))
    sources.sort(key=lambda v: (min(succs[v], default=dag.n), v))
    color: list[int] = []
    while True:
        fresh = count()
        color = [-1] * dag.n
        last: dict[int, tuple[int, int]] = {}  # by band: the colour in use and how many have it
        for v in sources:
            used, size = last.get(band[v], (-1, same))
            used, size = (next(fresh), 0) if size >= same else (used, size)
            color[v] = used
            last[band[v]] = used, size + 1
        if same == 1 or max(color, default=0) + 1 >= workers:
            return color, fresh
        same -= 1
