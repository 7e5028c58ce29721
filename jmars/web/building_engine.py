"""The engine of the gateway's own process: it knows how large chunks should be, and computes nothing.

What asks for a value while a document is built is refused by name. Used by server.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.errors import NotReadyError
from jmars.tensor.engine import NoComputeEngine
from jmars.tensor.operand import TensorData

__all__ = ["BuildingEngine"]

_WHY = (
    "this needs the value of a tensor, and a graph is sent before any of its values is known; "
    "send it in two graphs, and give the second what the first computed"
)


class BuildingEngine(NoComputeEngine):
    """Memory limit in bytes and workers of the cluster, for automatic chunk sizes."""

    def execute(self, data: Sequence[TensorData]) -> None:
        """Refuse."""
        raise NotReadyError(_WHY)

    def fetch(self, data: TensorData, copy: bool = True) -> np.ndarray[Any, Any]:
        """Refuse."""
        raise NotReadyError(_WHY)
