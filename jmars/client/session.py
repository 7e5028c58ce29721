"""Session: runs tensors on a cluster, as Mars's sessions do.

Source: docs/explanation/seeds.md, "Submitting a job"; Mars `deploy/oscar/session.py`, `new_session` and `execute`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jmars.client.cluster import Cluster, default_cluster
from jmars.client.default_engine import plan_on, run
from jmars.client.gpus import using_gpus
from jmars.tensor.composite import Composite
from jmars.tensor.engine import get_engine
from jmars.tensor.operand import TensorData
from jmars.tensor.spawn import Output, Spawned
from jmars.tensor.tensor import Tensor

if TYPE_CHECKING:
    from jmars.client.plans import PlannedRun

__all__ = ["Session", "execute", "new_session", "plan_of"]


class Session:
    """Runs tensors on a cluster.

    Parameters
    ----------
    cluster
        Where to run; None for the default cluster at each call.
    gpu
        The switch `gpu` for the session's runs: "auto", "prefer", "only" or "off"; None: as the settings say.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.new_session(n_workers=1) as session:
    ...     session.run(mt.ones((2, 2)) + 1)
    array([[2., 2.],
           [2., 2.]])
    """

    def __init__(self, cluster: Cluster | None = None, gpu: str | None = None) -> None:
        self._given, self._gpu = cluster, gpu

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        cluster = self._given or default_cluster()
        assert cluster is not None
        return cluster

    def run(self, *tensors: Tensor | Spawned | Output | Composite) -> Any:
        """Compute tensors together; returns a single value for a single tensor, else a list."""
        if any(isinstance(one, Composite) for one in tensors):
            return self.fetch(*tensors)
        with using_gpus(self.cluster, self._gpu):
            return self.cluster.submit(*tensors).result()  # type: ignore[arg-type]

    def execute(self, *tensors: Tensor | Spawned | Output | Composite) -> Any:
        """Compute tensors together and leave the values on the cluster; returns the tensors."""
        data = [one.data for one in _parts(tensors)]
        with using_gpus(self.cluster, self._gpu) if self._gpu else nullcontext():
            if self._given is None:
                get_engine().execute(data)  # within a `%%jmars` cell that is the cell's, which shows the job
            elif missing := [one for one in data if not self._given.retains(one)]:
                run(self._given, missing)
        return tensors[0] if len(tensors) == 1 else tensors

    def plan(self, *tensors: Tensor | Spawned | Output | Composite, policy: str | None = None) -> PlannedRun:
        """Predicted cost of computing tensors together; starts nothing.

        Raises
        ------
        TypeError
            If something is no tensor.
        """
        for one in (parts := _parts(tensors)):
            if not isinstance(getattr(one, "data", None), TensorData):  # what a spawned task gives has a node too
                raise TypeError(f"cannot plan a {type(one).__name__}; make it a tensor with jmars.tensor.asarray")
        return plan_on(self._given or default_cluster(start=False), [one.data for one in parts], policy)

    def fetch(self, *tensors: Tensor | Spawned | Output | Composite) -> Any:
        """The values of tensors, computed where they are not held."""
        self.execute(*tensors)
        parts = iter(self.cluster.fetch_each([one.data for one in _parts(tensors)]))
        values = [_decoded(one, parts) for one in tensors]
        return values[0] if len(values) == 1 else values

    def close(self) -> None:
        """Close the cluster that was made for this session."""
        if self._given is not None:
            self._given.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _decoded(one: Tensor | Spawned | Output | Composite, values: Iterator[Any]) -> Any:
    """What the user sees of the next values: a value for each part."""
    if isinstance(one, Composite):
        return one.decode([next(values) for _ in one.parts()])
    return next(values) if isinstance(one, Tensor) else one.decode(next(values))


def _parts(tensors: Sequence[Tensor | Spawned | Output | Composite]) -> list[Tensor | Spawned | Output]:
    """All tensors, with tensors of several parts replaced by the parts."""
    found: list[Tensor | Spawned | Output] = []
    for one in tensors:
        found += one.parts() if isinstance(one, Composite) else [one]
    return found


def new_session(*, gpu: str | None = None, **cluster: Any) -> Session:
    """A session on a new cluster, which becomes the default cluster; takes the arguments of `Cluster`, and `gpu`."""
    return Session(Cluster(**cluster), gpu)


def plan_of(*tensors: Tensor | Spawned | Output | Composite, policy: str | None = None) -> PlannedRun:
    """Predicted cost of computing tensors together on the default cluster, running or not.

    Parameters
    ----------
    policy
        How to plan, as for `PlannedRun.what_if`; None: as the settings say.

    Raises
    ------
    GraphError
        If there is no such policy.
    MemoryLimitError
        If an operand alone would not fit.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> x = mt.ones(1000, chunk_size=100)
    >>> jmars.plan_of(x.sum(), x.max()).spilled
    0
    """
    return Session().plan(*tensors, policy=policy)


def execute(*tensors: Tensor | Spawned | Output | Composite, gpu: str | None = None) -> Any:
    """Compute tensors together on the default cluster; returns a single tensor, or a tuple of several.

    Parameters
    ----------
    gpu
        The switch `gpu` for this run: "auto", "prefer", "only" or "off"; None: as the settings say.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1):
    ...     total, biggest = jmars.execute((x := mt.arange(6)).sum(), x.max())
    ...     int(total), int(biggest)
    (15, 5)
    """
    return Session(gpu=gpu).execute(*tensors)
