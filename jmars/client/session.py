"""Session: runs tensors on a cluster, as Mars's sessions do.

Source: docs/explanation/seeds.md, "Submitting a job"; Mars `deploy/oscar/session.py`, `new_session` and `execute`.

DefaultEngine: runs tensors on the default cluster when Python needs a value.

Put into `tensor.engine`'s slot when `jmars.client` is imported.

The switch `gpu` of a single run, and the warning where it has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.client import plans
from jmars.client.auto_persist import repeats
from jmars.client.cluster import Cluster, default_cluster, default_settings
from jmars.client.job import Job, run_job
from jmars.config import config
from jmars.deploy.memory import available, room_for_chunks
from jmars.devices.find import is_gpu
from jmars.switches import checked
from jmars.tensor.engine import Engine, get_engine
from jmars.tensor.from_array import Composite, FromArray
from jmars.tensor.operand import TensorData, warn_user
from jmars.tensor.spawn import Handle
from jmars.tensor.tensor import Tensor

if TYPE_CHECKING:
    from jmars.client.plans import PlannedRun


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

    def run(self, *tensors: Tensor | Handle | Composite) -> Any:
        """Compute tensors together; returns a single value for a single tensor, else a list. Numbers stay."""
        if any(isinstance(one, Composite) or _is_value(one) for one in tensors):
            return self.fetch(*tensors)
        with using_gpus(self.cluster, self._gpu):
            return self.cluster.submit(*tensors).result()  # type: ignore[arg-type]

    def execute(self, *tensors: Tensor | Handle | Composite) -> Any:
        """Compute tensors together and leave the values on the cluster; returns the tensors. Numbers stay."""
        for one in (parts := _parts(tensors)):
            if not isinstance(getattr(one, "data", None), TensorData):
                how = "give its elements: *values" if isinstance(one, list | tuple) else "make it a tensor: mt.asarray"
                raise TypeError(f"cannot compute a {type(one).__name__}; {how}")
        data = [one.data for one in parts]
        with using_gpus(self.cluster, self._gpu) if self._gpu else nullcontext():
            if self._given is None:
                get_engine().execute(data)  # within a `%%jmars` cell that is the cell's, which shows the job
            elif missing := [one for one in data if not self._given.retains(one)]:
                run(self._given, missing)
        return tensors[0] if len(tensors) == 1 else tensors

    def plan(self, *tensors: Tensor | Handle | Composite, policy: str | None = None) -> PlannedRun:
        """Predicted cost of computing tensors together; starts nothing.

        Raises
        ------
        TypeError
            If something is no tensor.
        """
        for one in tensors:
            if _is_value(one):
                raise TypeError(
                    f"cannot plan a {type(one).__name__}: it is computed, as are results without axes in plain cells; "
                    "plan the expression, `%jmars plan EXPRESSION`"
                )
        for one in (parts := _parts(tensors)):
            if not isinstance(getattr(one, "data", None), TensorData):  # what a spawned task gives has a node too
                raise TypeError(f"cannot plan a {type(one).__name__}; make it a tensor with jmars.tensor.asarray")
        return plan_on(self._given or default_cluster(start=False), [one.data for one in parts], policy)

    def fetch(self, *tensors: Tensor | Handle | Composite) -> Any:
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


def _decoded(one: Tensor | Handle | Composite, values: Iterator[Any]) -> Any:
    """What the user sees of the next values: a value for each part."""
    if isinstance(one, Composite):
        return one.decode([next(values) for _ in one.parts()])
    if _is_value(one):
        return one
    return next(values) if isinstance(one, Tensor) else one.decode(next(values))


def _parts(tensors: Sequence[Tensor | Handle | Composite]) -> list[Tensor | Handle]:
    """All tensors without numbers, with tensors of several parts replaced by the parts."""
    found: list[Tensor | Handle] = []
    for one in tensors:
        found += one.parts() if isinstance(one, Composite) else [] if _is_value(one) else [one]
    return found


def _is_value(one: Any) -> bool:
    """Whether a value is computed: NumPy's scalar, or Python's number, as `y.mean()` in a plain cell."""
    return isinstance(one, np.generic | bool | int | float | complex)


def new_session(*, gpu: str | None = None, **cluster: Any) -> Session:
    """A session on a new cluster, which becomes the default cluster; takes the arguments of `Cluster`, and `gpu`."""
    return Session(Cluster(**cluster), gpu)


def plan_of(*tensors: Tensor | Handle | Composite, policy: str | None = None) -> PlannedRun:
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


def execute(*tensors: Tensor | Handle | Composite, gpu: str | None = None) -> Any:
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


def fetch(*tensors: Tensor | Handle | Composite) -> Any:
    """The values of tensors and spawned functions, on the default cluster: computed together where they are not held.

    Returns
    -------
    A single value, or a list of several.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1):
    ...     jmars.fetch(mt.arange(3), jmars.remote.spawn(len, args=("abc",)))
    [array([0, 1, 2]), 3]
    """
    return Session().fetch(*tensors)


class DefaultEngine(Engine):
    """Runs nodes of the tensor graph on the default cluster, started on first use; elements of tensors are tensors."""

    def execute(self, data: Sequence[TensorData]) -> None:
        """Compute nodes without a value on the cluster; raises the job's error."""
        cluster = self._cluster()
        for job in cluster.computing(data):  # in the background; if it fails, the nodes are computed here
            job.wait()
        missing = [one for one in data if not cluster.retains(one)]
        if missing:
            run(cluster, missing)

    def begin(self, data: Sequence[TensorData]) -> Job | None:
        """Begin a job for the nodes without a value on the cluster; None without such nodes."""
        cluster = self._cluster()
        missing = [one for one in data if not cluster.retains(one)]
        return cluster.submit_data(missing) if missing else None

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """The value of a node, computed where the cluster has none."""
        value = self._cluster().local.fetch(data, copy)
        if value is not None:
            return value
        self.execute([data])
        return self._cluster().fetch(data, copy)

    def limits(self) -> tuple[int, int]:
        """Memory limit in bytes and workers of the default cluster, running or not."""
        return default_settings()

    def free_memory(self) -> int:
        """Bytes of memory that this machine or container still has."""
        return available()

    def held(self, data: TensorData) -> bool:
        """Whether the default cluster or this process holds the value."""
        cluster = default_cluster(start=False)
        return cluster is not None and (cluster.retains(data) or cluster.local.has(data))

    def look(self, data: Sequence[TensorData]) -> None:
        """Compute nodes without a value in this process, together."""
        local = self._cluster().local
        self.execute([one for one in data if local.fetch(one, False) is None])

    def shows(self, data: TensorData) -> bool:
        """Whether all that a node is made of is held, as results of cells are, and no job computes it.

        So `x.mean()` in a plain cell shows the value, and the tensor of a job in the background does not wait.
        """
        cluster = default_cluster(start=False)
        if cluster is None or not self.held(data) and cluster.computing([data]):
            return False
        todo, seen = [data], set()
        for one in todo:  # grows while it is read
            if one.key in seen or self.held(one):
                continue
            seen.add(one.key)
            if not one.op.inputs and not isinstance(one.op, FromArray):
                return False
            todo += one.op.inputs
        return True

    def plan(self, data: Sequence[TensorData], policy: str | None = None) -> PlannedRun:
        """Predicted cost of computing nodes on the default cluster, running or not."""
        return plan_on(default_cluster(start=False), data, policy)

    def _cluster(self) -> Cluster:
        cluster = default_cluster()
        assert cluster is not None
        return cluster


def plan_on(cluster: Cluster | None, data: Sequence[TensorData], policy: str | None = None) -> PlannedRun:
    """Plan a run of nodes on a cluster, or with None on the default cluster as it would be; starts nothing."""
    if cluster is not None:
        known = cluster.ask("host", "profile")
        machines = cluster.machines
        return plans.plan_for(data, cluster.n_workers, cluster.capacity, cluster.retained(), policy, known, machines)
    limit, workers = default_settings()
    return plans.plan_for(data, workers, room_for_chunks(limit, workers), frozenset(), policy)


def run(cluster: Cluster, data: Sequence[TensorData]) -> None:
    """Compute nodes, with auto-persisted nodes, and wait; an interrupt cancels the job."""
    run_job(cluster, [*data, *repeats(data, cluster.retained(), cluster.capacity).kept])


def using_gpus(cluster: Cluster, gpu: str | None) -> AbstractContextManager[Any]:
    """Sets the switch `gpu` in a `with` block, None: leaves it; "prefer" warns if the cluster has no GPU.

    Raises
    ------
    SettingError
        If `gpu` is none of the switch's values.
    """
    if gpu is None:
        return nullcontext()
    task = config.task | checked({"gpu": gpu})
    if gpu == "prefer":
        warn_without_gpu(cluster)
    return config.using(task=task)


def warn_without_gpu(cluster: Cluster) -> None:
    """Warns the user at the line of the call if no worker of a cluster is a GPU."""
    if not any(is_gpu(worker["name"]) for worker in cluster.info()["workers"]):
        warn_user("gpu is prefer, and no worker of the cluster is a GPU: everything runs on cores", RuntimeWarning)
