"""DefaultEngine: runs tensors on the default cluster when Python needs a value.

Put into `tensor.engine`'s slot when `jmars.client` is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jmars.client import plans
from jmars.client.auto_persist import repeats
from jmars.client.cluster import Cluster, default_cluster, usable_cores
from jmars.deploy.memory import available, default_limit, room_for_chunks
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import TensorData

if TYPE_CHECKING:
    from jmars.client.plans import PlannedRun

__all__ = ["DefaultEngine", "plan_on", "run"]


class DefaultEngine:
    """Runs nodes of the tensor graph on the default cluster, started on first use."""

    def execute(self, data: Sequence[TensorData]) -> None:
        """Compute nodes without a value on the cluster; raises the job's error."""
        cluster = self._cluster()
        for job in cluster.computing(data):  # in the background; if it fails, the nodes are computed here
            job.wait()
        missing = [one for one in data if not cluster.retains(one)]
        if missing:
            run(cluster, missing)

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """The value of a node, computed where the cluster has none."""
        value = self._cluster().local.fetch(data, copy)
        if value is not None:
            return value
        self.execute([data])
        return self._cluster().fetch(data, copy)

    def limits(self) -> tuple[int, int]:
        """Memory limit in bytes and workers of the default cluster, running or not."""
        cluster = default_cluster(start=False)
        return (cluster.memory_limit, cluster.n_workers) if cluster else (default_limit(), usable_cores())

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

    def small(self, data: TensorData, touched: int) -> None:
        """None: `x[0]` is a tensor outside of `%%jmars` cells."""

    def tries_on_worker(self) -> bool:
        """False: outside of `%%jmars` cells a tensor that is only built starts no job."""
        return False

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
    workers = usable_cores()
    return plans.plan_for(data, workers, room_for_chunks(default_limit(), workers), frozenset(), policy)


def run(cluster: Cluster, data: Sequence[TensorData]) -> None:
    """Compute nodes, with auto-persisted nodes, and wait; an interrupt cancels the job."""
    job = cluster.submit_data([*data, *repeats(data, cluster.retained(), cluster.capacity).kept])
    try:
        job.wait()
    except BaseException:
        job.cancel()
        job.wait(5)
        raise
    error = job.error
    if error is not None:
        raise error
