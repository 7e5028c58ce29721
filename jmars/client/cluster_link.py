"""ClusterLink: a cluster as the client's own parts use it, so that they need not know the user's `Cluster`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from jmars.client.shared import SharedMemory
from jmars.tensor.operand import TensorData

__all__ = ["ClusterLink", "SubmittedJob"]


class SubmittedJob(Protocol):
    """A job that was submitted, as far as recovery needs it."""

    @property
    def error(self) -> BaseException | None:
        """Why it failed; None while it runs and when it succeeded."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the job has ended; returns whether it has."""

    def cancel(self) -> None:
        """Ask the cluster to stop the job."""


class ClusterLink(Protocol):
    """Calls to the cluster's actors, and which tensors this client retains there.

    Attributes
    ----------
    n_workers, capacity
        Workers, and bytes that chunks and scratch may take.
    shared
        The cluster's shared memory.
    """

    n_workers: int
    shared: SharedMemory

    @property
    def capacity(self) -> int:
        """Bytes that chunks and scratch may take."""

    def ask(self, actor: str, method: str, *args: Any, timeout: float | None = None) -> Any:
        """Call an actor and wait for its answer, at most `timeout` seconds."""

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Call an actor without waiting."""

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """The value of a tensor that lies on the cluster."""

    def retained(self) -> frozenset[str]:
        """Keys of the tensors that this client retains."""

    def retains(self, data: TensorData) -> bool:
        """Whether this client retains a tensor."""

    def retain(self, data: Sequence[TensorData]) -> None:
        """Retain tensors until nothing in this process refers to them."""

    def release(self, key: str) -> None:
        """Release a tensor, if it is retained."""

    def forget(self, key: str) -> None:
        """Release a tensor some of whose chunks are lost, retained or not."""

    def why(self, job: str = "") -> str:
        """Why a job stands as it does."""

    def submit_data(
        self,
        data: Sequence[TensorData],
        name: str = "",
        single: bool = False,
        packed: Sequence[Any] = (),
        again: Any = None,
    ) -> SubmittedJob:
        """Submit tensors; `again` is the job that is submitted once more."""
