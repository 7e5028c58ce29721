"""Tensors to chunks: each tensor operand adds the chunk operands that compute it.

How an operand cuts its work is its own business (`Operand.tile`); here they are called in order, each as one stage, and
given the chunks of their inputs. First step of `pipeline` that makes chunks.
Source: seed 000, "Graph Preparation".
"""

from __future__ import annotations

from collections.abc import Callable

from jmars.tensor.chunk import ChunkGraph, ChunkGraphBuilder, ChunkGrid, Stage
from jmars.tensor.graph import TensorGraph

__all__ = ["tile"]


def tile(graph: TensorGraph, check: Callable[[], None] | None = None) -> ChunkGraph:
    """The chunk graph of a tensor graph.

    Parameters
    ----------
    graph
        Operands in topological order.
    check
        Called before each operand; may raise to stop.
    """
    builder = ChunkGraphBuilder()
    grids: list[ChunkGrid] = []
    for operand, inputs, meta in zip(graph.operands, graph.inputs, graph.metas, strict=True):
        if check is not None:
            check()
        builder.begin(Stage(operand.label, operand.line))
        ids = operand.tile(builder, [grids[k] for k in inputs], meta)
        grids.append(ChunkGrid(ids, meta.chunks, meta.dtype))
    return builder.finish({graph.metas[k].key: grids[k].ids for k in graph.results})
