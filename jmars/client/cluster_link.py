"""ClusterLink: a cluster as the client's own parts use it, without the user's `Cluster`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jmars.client.arrays import Arrays
from jmars.client.float_warnings import FloatWarnings
from jmars.tensor.operand import TensorData

if TYPE_CHECKING:
    from jmars.plan import Workers

__all__ = ["ClusterLink", "SubmittedJob"]


class SubmittedJob(Protocol):
    """A submitted job, as recovery uses it."""

    @property
    def error(self) -> BaseException | None:
        """Exception of a failed job; None while the job runs and after success."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the job has ended; returns whether it has."""

    def cancel(self) -> None:
        """Ask the cluster to stop the job."""


class ClusterLink(Protocol):
    """Calls to the cluster's actors, and this client's retained tensors.

    Attributes
    ----------
    n_workers, capacity
        Workers, and bytes that chunks and scratch may take.
    shared
        The cluster's arrays, in shared memory or over the connection.
    """

    shared: Arrays

    @property
    def float_warnings(self) -> FloatWarnings:
        """The floating point warnings that this client has given."""

    def check_process(self) -> None:
        """Raise ClusterClosedError in a forked child."""

    @property
    def n_workers(self) -> int:
        """Worker processes."""

    @property
    def threads(self) -> int:
        """Threads that BLAS may use inside a worker."""

    @property
    def machines(self) -> Workers | None:
        """Machines that share no memory; None for a cluster on one host."""

    @property
    def capacity(self) -> int:
        """Bytes that chunks and scratch may take."""

    def ask(self, actor: str, method: str, *args: Any, timeout: float | None = None) -> Any:
        """Call an actor and wait for the answer, at most `timeout` seconds."""

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Call an actor without waiting."""

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """The value of a tensor that lies on the cluster."""

    def fetch_each(self, data: Sequence[TensorData]) -> list[Any]:
        """The values of several tensors that lie on the cluster."""

    def retained(self) -> frozenset[str]:
        """Keys of the tensors that this client retains."""

    def retains(self, data: TensorData) -> bool:
        """Whether this client retains a tensor."""

    def retain(self, data: Sequence[TensorData]) -> None:
        """Retain tensors, each until no Python object refers to the node any more."""

    def release(self, key: str) -> None:
        """Release a tensor; no effect where the key is not retained."""

    def forget(self, key: str) -> None:
        """Release a tensor with lost chunks, retained or not."""

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
