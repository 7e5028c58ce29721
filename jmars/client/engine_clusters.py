"""Clusters on engines: `Cluster.dask` and `Cluster.ray`.

Dask, Ray, planners and the head of such a cluster are imported on first use only.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from jmars.actors.registry import refuse_twin
from jmars.config import checked_schedulers, config
from jmars.deploy.control_process import ClusterProcess
from jmars.errors import ClusterStartError

if TYPE_CHECKING:
    pass

LEASE = 3600.0  # seconds

MODES = ("tasks", "inside", "auto")
ASKED = "mode={!r} was given"


class EngineClusters:
    """Methods of `Cluster` about engines."""

    @classmethod
    @abstractmethod
    def of_host(cls, host: Any) -> Self:
        """The cluster of a host."""

    @classmethod
    def dask(cls, client: Any, mode: str = "tasks", name: str = "") -> Self:
        """A cluster on the workers of a Dask cluster; becomes the default cluster.

        Groups of operands run there as Dask's tasks, beside the tasks of others, or hosts of jmars run inside the
        workers and take all threads. `close()` frees both, and leaves the Dask cluster as it was.

        Parameters
        ----------
        client
            A `distributed.Client`, the address of a scheduler, or the path of a scheduler file.
        mode
            "tasks"; "inside" for hosts inside the workers, with all promises of jmars's own workers; "auto" for
            "inside" where two hosts come up and reach each other within ten seconds, else "tasks". `info()` tells
            "mode", and "why".
        name
            What lists of clusters show.

        Raises
        ------
        ClusterStartError
            If Dask is not installed, no scheduler answers, its workers have other versions, or, inside, no host comes
            up.
        ValueError
            If there is no such mode.
        """
        _check(mode, name)
        try:
            from jmars.engines.dask import DaskEngine
            from jmars.engines.dask_connection import way_to
        except ImportError as error:
            raise _not_installed("Dask", "dask", error) from error

        def inside(probe: bool, why: str) -> ClusterProcess:
            from jmars.deploy.hosts_host import inside_head

            return inside_head("dask", way_to(client), name, probe, why)

        return cls.of_host(_chosen(mode, inside, lambda why: _tasks(DaskEngine(client), name, why)))

    @classmethod
    def ray(cls, address: str | None = None, mode: str = "tasks", name: str = "") -> Self:
        """A cluster on the workers of a Ray cluster; becomes the default cluster.

        Parameters
        ----------
        address
            As `ray.init` takes it; None for the Ray that this process has joined, or a new one on this machine.
        mode, name
            As of `dask`.

        Raises
        ------
        ClusterStartError
            If Ray is not installed, does not answer, has other versions, or, inside, no host comes up.
        ValueError
            If there is no such mode.
        """
        _check(mode, name)
        try:
            from jmars.engines.ray import RayEngine
            from jmars.engines.ray_cluster import RayConnection
        except ImportError as error:
            raise _not_installed("Ray", "ray", error) from error

        def inside(probe: bool, why: str) -> ClusterProcess:
            from jmars.deploy.hosts_host import inside_head

            found, hang_up = RayConnection.way(address)
            return inside_head("ray", {"address": found}, name, probe, why, hang_up)

        return cls.of_host(_chosen(mode, inside, lambda why: _tasks(RayEngine(address), name, why)))


def _chosen(
    mode: str, inside: Callable[[bool, str], ClusterProcess], tasks: Callable[[str], ClusterProcess]
) -> ClusterProcess:
    """The host of a mode; for "auto" of the mode that works."""
    if mode == "tasks":
        return tasks(ASKED.format(mode))
    if mode == "inside":
        return inside(False, ASKED.format(mode))
    try:
        return inside(True, "")
    except ClusterStartError as error:
        return tasks(f"hosts did not work inside: {error}")


def _tasks(engine: Any, name: str, why: str) -> ClusterProcess:
    from jmars.deploy.engine_head import EngineHost

    return EngineHost(engine, name, "tasks", why)


def _check(mode: str, name: str) -> None:
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; choose one of {', '.join(map(repr, MODES))}")
    if name:
        refuse_twin(name)


def _not_installed(what: str, extra: str, error: ImportError) -> ClusterStartError:
    return ClusterStartError(f"{what} cannot be imported ({error}); install it with: pip install 'jmars[{extra}]'")


def whole_number(what: str, value: Any, least: int = 1) -> int:
    """`value` as an int; raises ValueError for other values and below `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{what} must be a whole number of {least} or more, not {value!r}")
    return int(value)


def checked_lease(lease: float) -> float:
    """`lease` as a number of seconds; raises ValueError below 0."""
    if not lease > 0:
        raise ValueError(f"lease is {lease!r}; give the seconds that an unused cluster lives on, more than 0")
    return float(lease)


def scheduler_processes(asked: int | None, detach: bool) -> int:
    """Number of scheduler processes: at least 1 of a detached cluster; raises ValueError for other numbers."""
    return max(int(detach), checked_schedulers(config.schedulers if asked is None else asked))
