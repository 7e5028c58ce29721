"""NumPy arrays from outside, taken by reference with their value at submission. Used wherever a tensor is expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta

__all__ = ["FromArray"]


@dataclass(frozen=True, eq=False, kw_only=True)
class FromArray(Operand):
    """An array of the user's; the client uploads its chunks and puts a stored leaf in its place."""

    name: ClassVar[str] = "array"
    array: np.ndarray[Any, Any]

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Refuse: bytes do not travel in a graph."""
        raise GraphError("an array from outside was not uploaded before tiling; call graph.replace_by_stored first")
