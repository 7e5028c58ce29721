"""The switch `gpu` of a single run, and the warning where it has no effect."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from jmars.config import config
from jmars.devices.find import is_gpu
from jmars.switches import checked
from jmars.tensor.source_line import warn_user

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster

__all__ = ["using_gpus", "warn_without_gpu"]


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
