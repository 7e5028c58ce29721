"""Numbers the rows of a chunk graph by annotations and devices: rows with different numbers are never fused.

Source: Mars `optimization/physical`, `_can_color_same` (mixed gpu flags, other expected workers, scheduling hints).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Program
from jmars.tensor.annotations import Annotation
from jmars.tensor.chunk import ChunkGraph

__all__ = ["Apart", "keep_apart"]

Apart: TypeAlias = NDArray[np.int64] | None


def keep_apart(graph: ChunkGraph, runs_on_gpu: Callable[[Program], bool] | None = None) -> Apart:
    """A number for each row, shape (graph.n,): equal for rows that may be fused; None without annotations.

    `runs_on_gpu` keeps rows whose program a GPU can run apart from others.
    """
    if runs_on_gpu is None and all(layer.annotation is None for layer in graph.layers):
        return None
    kinds: dict[Annotation | None, int] = {}
    of_layer = np.array([kinds.setdefault(layer.annotation, len(kinds)) for layer in graph.layers], np.int64)
    alone = np.array([layer.annotation is not None and not layer.annotation.fuse for layer in graph.layers])
    numbers = np.where(alone[graph.layer], len(kinds) + np.arange(graph.n), of_layer[graph.layer])
    if runs_on_gpu is None:
        return numbers
    able = np.array([*map(runs_on_gpu, graph.programs), False], np.int64)  # -1, a stored chunk, reads the last
    return 2 * numbers + able[graph.program]
