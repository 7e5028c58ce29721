"""Numbers the rows of a chunk graph by their annotations: rows with different numbers are never fused.

Source: Mars `optimization/physical`, `_can_color_same` (mixed gpu flags, other expected workers, scheduling hints).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from jmars.tensor.annotations import Annotation
from jmars.tensor.chunk import ChunkGraph

__all__ = ["Apart", "keep_apart"]

Apart: TypeAlias = NDArray[np.int64] | None


def keep_apart(graph: ChunkGraph) -> Apart:
    """A number for each row, shape (graph.n,): equal for rows that may be fused; None if no row is annotated."""
    if all(layer.annotation is None for layer in graph.layers):
        return None
    kinds: dict[Annotation | None, int] = {}
    of_layer = np.array([kinds.setdefault(layer.annotation, len(kinds)) for layer in graph.layers], np.int64)
    alone = np.array([layer.annotation is not None and not layer.annotation.fuse for layer in graph.layers])
    return np.where(alone[graph.layer], len(kinds) + np.arange(graph.n), of_layer[graph.layer])
