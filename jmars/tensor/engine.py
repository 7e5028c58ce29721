"""The empty slot for what computes tensors; `jmars.client` fills it when it is imported.

So `Tensor.fetch()` reaches the cluster and this floor imports nothing above it. Used by tensor.py and splits.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from jmars.errors import NotReadyError
from jmars.tensor.operand import TensorData
from jmars.tensor.unknown import strictly

__all__ = ["Engine", "NoComputeEngine", "current_engine", "get_engine", "set_engine"]


class Engine(Protocol):
    """What a tensor asks of whoever computes it."""

    def execute(self, data: Sequence[TensorData]) -> None:
        """Compute; after it the data are held."""

    def fetch(self, data: TensorData, copy: bool = True) -> np.ndarray[Any, Any]:
        """The value, computed where it is not held; an owned copy, or with `copy=False` a read-only view."""

    def limits(self) -> tuple[int, int]:
        """Memory limit in bytes and number of workers, for automatic chunk sizes; starts nothing."""

    def held(self, data: TensorData) -> bool:
        """Whether the value is held already; starts nothing."""

    def plan(self, data: Sequence[TensorData], policy: str | None = None) -> Any:
        """What computing would cost, as `jmars.client.plans.PlannedRun`; starts nothing."""


class NoComputeEngine:
    """An engine that computes nothing and knows what there is: where graphs unfold, which is in the cluster itself."""

    def __init__(self, memory: int, workers: int) -> None:
        self._limits = memory, workers

    def execute(self, data: Sequence[TensorData]) -> None:
        """Refuse."""
        raise NotReadyError("nothing is computed for a value while a graph unfolds")

    def fetch(self, data: TensorData, copy: bool = True) -> np.ndarray[Any, Any]:
        """Refuse."""
        raise NotReadyError("nothing is computed for a value while a graph unfolds")

    def limits(self) -> tuple[int, int]:
        """Memory limit in bytes and number of workers."""
        return self._limits

    def held(self, data: TensorData) -> bool:
        """Nothing is."""
        return False

    def plan(self, data: Sequence[TensorData], policy: str | None = None) -> Any:
        """Refuse."""
        raise NotReadyError("nothing is planned for a tensor while a graph unfolds")


_engine: Engine | None = None


def set_engine(engine: Engine | None) -> None:
    """Put `engine` into the slot; None empties it."""
    global _engine
    _engine = engine


def current_engine() -> Engine | None:
    """What is in the slot."""
    return _engine


def get_engine() -> Engine:
    """What is in the slot, or a clear error.

    Raises
    ------
    NotReadyError
        If nothing is there, or who asks is to find out whether it goes without values.
    """
    if strictly.get():
        raise NotReadyError("this needs the value of a tensor before anything is computed")
    if _engine is None:
        raise NotReadyError(
            "this needs the value of a tensor and nothing here can compute it; `import jmars` brings what does"
        )
    return _engine
