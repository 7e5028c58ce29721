"""The engine of the gateway's process: chooses chunk sizes and computes nothing.

A document whose building needs the value of a tensor is refused by name.
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
    """Memory limit in bytes and number of workers of the cluster, for automatic chunk sizes."""

    def execute(self, data: Sequence[TensorData]) -> None:
        """Refuses to compute."""
        raise NotReadyError(_WHY)

    def fetch(self, data: TensorData, copy: bool = True) -> np.ndarray[Any, Any]:
        """Refuses to compute."""
        raise NotReadyError(_WHY)
