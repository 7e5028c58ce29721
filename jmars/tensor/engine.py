"""Holds the engine that computes tensors; The import of `jmars.client` sets the engine.

So `Tensor.fetch()` reaches the cluster although jmars.tensor does not import jmars.client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, Protocol

import numpy as np

from jmars.errors import NotReadyError
from jmars.model import upper_floors
from jmars.tensor.operand import TensorData, values_forbidden


class Engine(Protocol):
    """Computes tensors and returns their values; elements, texts and tries start no job unless a subclass says so."""

    def execute(self, data: Sequence[TensorData]) -> None:
        """Compute nodes; afterwards the cluster holds their values."""

    def fetch(self, data: TensorData, copy: bool = True) -> np.ndarray[Any, Any]:
        """Return the value of a node, computed if needed; a copy, or a read-only view with `copy=False`."""

    def begin(self, data: Sequence[TensorData]) -> Begun | None:
        """Begin to compute nodes; None if they are computed by now."""
        self.execute(data)
        return None

    def limits(self) -> tuple[int, int]:
        """Return memory limit in bytes and number of workers, for automatic chunk sizes; starts no computation."""

    def free_memory(self) -> int:
        """Return the bytes of memory that arrays of this process may still take."""

    def held(self, data: TensorData) -> bool:
        """Whether the cluster holds the value; starts no computation."""
        return False

    def look(self, data: Sequence[TensorData]) -> None:
        """Compute nodes that are fetched next."""
        self.execute(data)

    def shows(self, data: TensorData) -> bool:
        """Whether a text of a tensor has the value, which is computed if needed."""
        return self.held(data)

    def small(self, data: TensorData, touched: int) -> np.ndarray[Any, Any] | None:
        """Return the value of a small node, for single elements; None where elements are nodes.

        `touched` counts the reads and writes of elements until now.
        """
        return None

    def tries_on_worker(self) -> bool:
        """Whether a user's function is tried on a worker, by a job that can be cancelled, not in this process."""
        return False

    def plan(self, data: Sequence[TensorData], policy: str | None = None) -> Any:
        """Predict the cost of computing, as `jmars.client.plans.PlannedRun`; starts no computation."""


class Begun(Protocol):
    """A computation that `Engine.begin` has begun: a job of the cluster."""

    def finish(self) -> None:
        """Wait for the end; raises the error of the computation."""

    def cancel(self) -> None:
        """Stop; no effect after the end."""


class NoComputeEngine(Engine):
    """Engine of the schedulers' processes: later stages are built there, but no values are computed."""

    def __init__(self, memory: int, workers: int) -> None:
        self._limits = memory, workers

    def execute(self, data: Sequence[TensorData]) -> NoReturn:
        """Raise NotReadyError."""
        raise NotReadyError(
            "no value is computed within a function on the cluster, or while the scheduler builds the next stage of a "
            "job; give the function the value as an argument"
        )

    def fetch(self, data: TensorData, copy: bool = True) -> NoReturn:
        """Raise the error of `execute`."""
        self.execute([data])

    def limits(self) -> tuple[int, int]:
        """Return memory limit in bytes and number of workers."""
        return self._limits

    def free_memory(self) -> int:
        """Return 0: no array is fetched."""
        return 0

    def plan(self, data: Sequence[TensorData], policy: str | None = None) -> Any:
        """Raise NotReadyError."""
        raise NotReadyError("no tensor is planned while the scheduler builds the next stage of a job")


_engine: Engine | None = None
_placeholders: ContextVar[bool] = ContextVar("placeholders", default=False)


def set_engine(engine: Engine | None) -> None:
    """Set the engine; None removes the engine."""
    global _engine
    _engine = engine


def current_engine() -> Engine | None:
    """Return the engine, that of `jmars.client` if no other is set; None if there is none."""
    if _engine is None and upper_floors.client:
        upper_floors.client[0]()  # a thread waits here while a second thread imports
    return _engine


def can_compute() -> bool:
    """Return whether values can be computed at present: of all tensors, without placeholders."""
    engine = current_engine()
    if engine is None or isinstance(engine, NoComputeEngine):
        return False
    return not values_forbidden.get() and not _placeholders.get()


def has_value(node: TensorData) -> bool:
    """Whether a value of a node was computed, or lies on the cluster: readers of the node need none of its inputs."""
    engine = current_engine()
    return node.computed or engine is not None and engine.held(node)


@contextmanager
def with_placeholders() -> Iterator[None]:
    """Within the block, tensors may depend on placeholders, although these have no value."""
    token = _placeholders.set(True)
    try:
        yield
    finally:
        _placeholders.reset(token)


def get_engine() -> Engine:
    """Return the engine.

    Raises
    ------
    NotReadyError
        If there is no engine, or values are forbidden at present (`values_forbidden`, operand.py).
    """
    if values_forbidden.get():
        raise NotReadyError("this needs the value of a tensor before anything is computed")
    engine = current_engine()
    if engine is None:
        raise NotReadyError(
            "this needs the value of a tensor, and no engine is set that can compute it; `import jmars` sets one"
        )
    return engine
