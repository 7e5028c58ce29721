"""Tiles a tensor graph: each operand on tensors adds the operands on chunks that compute its chunks.

`Operand.tile` divides an operand's work; this pass calls it in topological order with the chunks of the inputs. The
operands on chunks of the same tensor operand are a layer.
Source: docs/explanation/seeds.md, "Chunk graph".
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import itemgetter

from jmars.tensor.chunk import ChunkGraph, ChunkGraphBuilder, ChunkGrid, GraphLayer
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["TooManyOperandsError", "tile"]


class TooManyOperandsError(Exception):
    """A graph has more operands on chunks than its limit.

    Attributes
    ----------
    n
        Number of operands, at least.
    layer
        The tensor operand that most of them compute.
    """

    def __init__(self, n: int, layer: GraphLayer) -> None:
        super().__init__(n, layer)
        self.n, self.layer = n, layer


def tile(graph: TensorGraph, check: Callable[[], None] | None = None, most: int | None = None) -> ChunkGraph:
    """Tiles a tensor graph to a chunk graph.

    Parameters
    ----------
    graph
        Operands in topological order.
    check
        Called before each operand; may raise to stop.
    most
        Most operands on chunks; None: no bound.

    Raises
    ------
    TooManyOperandsError
        If tiling makes more than `most` operands.
    """
    builder = ChunkGraphBuilder()
    grids: list[ChunkGrid] = []
    largest = GraphLayer(""), 0
    for operand, inputs, meta in zip(graph.operands, graph.inputs, graph.metas, strict=True):
        if check is not None:
            check()
        layer, before = GraphLayer(operand.label, operand.line, operand.annotation), builder.n
        chunks = prod(map(len, meta.chunks))
        if most is not None and chunks > most:
            raise TooManyOperandsError(chunks, layer)
        builder.begin(layer)
        ids = operand.tile(builder, [grids[k] for k in inputs], meta)
        largest = max(largest, (layer, builder.n - before), key=itemgetter(1))
        if most is not None and builder.n > most:
            raise TooManyOperandsError(builder.n, largest[0])
        grids.append(ChunkGrid(ids, meta.chunks, meta.dtype))
    results = {graph.metas[k].key: grids[k].ids for k in graph.results}
    return builder.finish(results, [grid.ids for grid in grids])
