"""AttachedJob: a handle of a job that another client submitted, and the result descriptors that make it possible.

A descriptor is (key, dtype, chunks, packed): the dtype as text, or pickled; chunks None until the run tells them;
`packed` None for an array, else the outputs of a spawned function.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from jmars.client.cluster_link import ClusterLink
from jmars.client.job import Job
from jmars.errors import ClusterError
from jmars.tensor.operand import TensorData
from jmars.tensor.spawn import Output, Spawned
from jmars.tensor.spawn.packing import all_unpacked, unpacked
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import Stored

__all__ = ["AttachedJob", "attach", "descriptors_of", "outputs_of"]


def outputs_of(handle: Spawned | Output) -> Any:
    """Outputs of a spawned function that a handle stands for: a number, or the names of all."""
    return handle.outputs if isinstance(handle, Spawned) and handle.outputs is not None else handle.number


def descriptors_of(data: Sequence[TensorData], single: bool, packed: Sequence[Any] = ()) -> tuple[bool, list[Any]]:
    """Descriptors of a job's results, as plain data for other clients."""
    told = [
        (one.key, _dtype_told(one.dtype), None if one.has_unknown_lengths else one.chunks, how)
        for one, how in zip_longest(data, packed)
    ]
    return single, told


class AttachedJob(Job):
    """A job that another client submitted.

    Attributes
    ----------
    tensors
        Its results as tensors to go on with, once it has succeeded.
    """

    def __init__(self, cluster: ClusterLink, job: str, name: str, single: bool, told: Sequence[Any] | None) -> None:
        super().__init__(cluster, job, name, [], single)
        self._told = told
        self.opened = [None if one[3] is None else _opener(one[3]) for one in told or ()]

    @property
    def tensors(self) -> list[Tensor]:
        """Results as tensors; raises the job's error."""
        self.wait()
        if self.error is not None:
            raise self.error
        return [Tensor(one) for one in self._data]

    def forget(self) -> None:
        """Tell the cluster not to keep the results for later clients; present holders keep them."""
        self.cluster.tell("session", "forget", self.id)

    def result(self, timeout: float | None = None) -> Any:
        """As `Job.result`."""
        if self._told is None:
            raise ClusterError(f"who submitted {self.name} did not say what its results are; they are its own")
        return super().result(timeout)

    def ended(self, report: dict[str, Any]) -> None:
        """Take the report of the job's end (called by the cluster)."""
        if self.wait(0):
            return  # told twice
        settled = report.get("settled") or {}
        self._data = [_node(one, settled) for one in self._told or ()]
        super().ended(report)


def attach(cluster: ClusterLink, job: str) -> AttachedJob:
    """A handle of a job that the cluster remembers."""
    found = cluster.ask("session", "attach", job)
    handle = AttachedJob(cluster, job, found["name"], found["single"], found["results"])
    if found["report"] is not None:
        handle.ended(found["report"])
    return handle


def _node(told: Any, settled: dict[str, Any]) -> TensorData:
    key, dtype, chunks, _ = told
    splits = tuple(tuple(axis) for axis in (settled.get(key, chunks) or ()))
    kind = np.dtype(dtype) if isinstance(dtype, str) else pickle.loads(dtype)
    data = TensorData(Stored(), tuple(map(sum, splits)), kind, splits)
    data.key = key
    return data


def _dtype_told(dtype: np.dtype[Any]) -> str | bytes:
    return dtype.str if dtype.names is None and dtype.subdtype is None else pickle.dumps(dtype)


def _opener(packed: Any) -> Any:
    if isinstance(packed, int):
        return lambda chunk: unpacked(chunk, packed)
    return lambda chunk: all_unpacked(chunk, tuple(packed))
