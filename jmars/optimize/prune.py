"""Drops operands that no result needs (Dask: cull).

Tiling makes all chunks of every tensor; `x[:10].execute()` needs the first few.
Source: Dask `cull`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jmars.graph import Dag, ancestors, gather_rows
from jmars.optimize.rebuild import is_result, rebuilt
from jmars.tensor.chunk import ChunkGraph

__all__ = ["prune"]


def prune(graph: ChunkGraph) -> tuple[ChunkGraph, NDArray[np.int32]]:
    """Drops rows that lead to no result.

    Returns
    -------
    ChunkGraph
        The remaining rows, in the same order; `graph` itself if no row is dropped.
    ndarray of int32, shape (graph.n,)
        New row of each row, -1 for dropped rows.
    """
    kept = is_result(graph)
    last = np.ones(graph.n, np.bool_)
    last[graph.input_idx] = False
    if np.all(kept[last]):  # every row leads to a result
        return graph, np.arange(graph.n, dtype=np.int32)
    needed = ancestors(Dag.from_inputs(graph.input_ptr, graph.input_idx), np.flatnonzero(kept))
    rows = np.flatnonzero(needed)
    group = np.full(graph.n, -1, np.int32)
    group[rows] = np.arange(len(rows), dtype=np.int32)
    args = None if graph.args is None else [graph.args[k] for k in rows.tolist()]
    ptr = np.concatenate([[0], np.cumsum(np.diff(graph.input_ptr)[rows])])
    idx = group[gather_rows(graph.input_ptr, graph.input_idx, rows)].astype(np.int64)
    return rebuilt(graph, group, rows, ptr, idx, graph.programs, graph.program[rows], args), group
