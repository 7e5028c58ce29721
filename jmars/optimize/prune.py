"""Chunks that no result needs are not computed.

Tiling makes all chunks of every tensor; `x[:10].execute()` needs the first few. Second pass of `pipeline`.
Source: PLANNING 7, "cull"; seed 002's activation, which runs only what is asked for, does the same at run time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jmars.graph.dag import Dag, gather_rows
from jmars.graph.order import ancestors
from jmars.optimize.rebuild import is_result, rebuilt
from jmars.tensor.chunk import ChunkGraph

__all__ = ["prune"]


def prune(graph: ChunkGraph) -> tuple[ChunkGraph, NDArray[np.int32]]:
    """The graph without the rows that lead to no result.

    Returns
    -------
    ChunkGraph
        What is left, in the same order; `graph` itself if nothing goes.
    ndarray of int32, shape (graph.n,)
        New row of each row, -1 where it went.
    """
    kept = is_result(graph)
    last = np.ones(graph.n, np.bool_)
    last[graph.input_idx] = False
    if np.all(kept[last]):  # every row leads to a last one
        return graph, np.arange(graph.n, dtype=np.int32)
    needed = ancestors(Dag.from_inputs(graph.input_ptr, graph.input_idx), np.flatnonzero(kept))
    rows = np.flatnonzero(needed)
    group = np.full(graph.n, -1, np.int32)
    group[rows] = np.arange(len(rows), dtype=np.int32)
    args = None if graph.args is None else [graph.args[k] for k in rows.tolist()]
    ptr = np.concatenate([[0], np.cumsum(np.diff(graph.input_ptr)[rows])])
    idx = group[gather_rows(graph.input_ptr, graph.input_idx, rows)].astype(np.int64)
    return rebuilt(graph, group, rows, ptr, idx, graph.programs, graph.program[rows], args), group
