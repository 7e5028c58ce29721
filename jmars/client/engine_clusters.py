"""Clusters on engines: `Cluster.dask` and `Cluster.ray`, and the number of workers.

Dask, Ray, planners and the head of such a cluster are imported on first use only.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from jmars.actors.registry import refuse_twin
from jmars.client.notebook_views import ClusterFacts, Shown
from jmars.config import checked_schedulers, config
from jmars.deploy.control_process import ClusterProcess
from jmars.errors import ClusterStartError

if TYPE_CHECKING:
    from jmars.plan import Workers

LEASE = 3600.0  # seconds

MODES = ("tasks", "inside", "auto")
ASKED = "mode={!r} was given"


class EngineClusters(Shown):
    """Methods of `Cluster` about engines and sizes."""

    _facts: dict[str, Any]  # about workers and memory, as the host gave them last

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the cluster was closed."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """Status of the cluster's processes and memory."""

    @abstractmethod
    def jobs(self) -> list[dict[str, Any]]:
        """Jobs that the cluster remembers."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in lists of clusters."""

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.n_workers} workers"
        return f"<Cluster {self.name}: {state}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """In IPython: workers, memory and running jobs, as the cluster tells them now."""
        told = repr(self) if self.closed or cycle else f"<Cluster {ClusterFacts.of(self.info(), self.jobs()).text()}>"
        printer.text(told)

    @classmethod
    @abstractmethod
    def of_host(cls, host: Any) -> Self:
        """The cluster of a host."""

    @abstractmethod
    def ask(self, actor: str, method: str, *args: Any, timeout: float | None = None) -> Any:
        """Call an actor of the cluster and wait for the answer."""

    @property
    def n_workers(self) -> int:
        """Number of worker processes; on an engine, of the workers that it has now."""
        return int(self._ready()["workers"])

    @property
    def memory_limit(self) -> int:
        """Bytes for all processes of the cluster together; on an engine, for our tasks on its present workers."""
        return int(self._ready()["limit"])

    @property
    def capacity(self) -> int:
        """Bytes of them that chunks and scratch may take; the processes themselves take the rest."""
        return int(self._ready()["capacity"])

    @property
    def threads(self) -> int:
        """Threads that BLAS may use inside a worker."""
        return int(self._ready()["threads"])

    @property
    def machines(self) -> Workers | None:
        """Workers of an engine as planners see them; None for a cluster on one host."""
        from jmars.plan import Workers

        rows = self._ready()["machines"]
        return None if rows is None else Workers.build(**rows)

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

    def scale(self, n: int | Sequence[str]) -> None:
        """Have so many workers on this machine, or hosts, or further hosts at new places; or ask an engine for workers.

        Workers of a local cluster come in some milliseconds; leaving workers finish the running operands.
        An engine's workers come when the engine has them. On several hosts the call returns when the hosts have come
        or left: a host runs at each place at most, hosts come at the places that have none, in the order in which the
        places were named, and the hosts that hold least leave, as by `evacuate`. It ends `adapt`.

        Parameters
        ----------
        n
            A number, or new places as of `Cluster.hosts`: ["node-9"].

        Raises
        ------
        ClusterError
            If the number of workers is fixed, as on a local cluster with GPUs; or there are not so many places, or a
            host cannot leave.
        ClusterStartError
            If hosts or processes do not come up; the cluster goes on with the others.
        MemoryLimitError
            If the memory limit leaves no room for so many processes.

        Examples
        --------
        >>> with jmars.Cluster(n_workers=1) as cluster:
        ...     cluster.scale(3)
        ...     cluster.n_workers
        3
        """
        if isinstance(n, Sequence) and not isinstance(n, str) and n and all(isinstance(one, str) for one in n):
            self.ask("host", "scale", list(n))
        else:
            if isinstance(n, str):
                raise ValueError(f"n is {n!r}; give a number, or a list of new places: [{n!r}]")
            self.ask("host", "scale", whole_number("n", n, 0))

    def adapt(self, least: int, most: int) -> None:
        """Have between `least` and `most` workers of an engine, or hosts, as there is work; raises as `scale`, and on
        a local cluster.

        A host comes when there are 5 s of work for each of its executors, and leaves when fewer hosts were enough for
        30 s.
        """
        bounds = whole_number("least", least, 0), whole_number("most", most)
        if bounds[0] > bounds[1]:
            raise ValueError(f"least is {least} and most is {most}; give a most that is not below it")
        self.ask("host", "adapt", *bounds)

    def _ready(self) -> dict[str, Any]:
        """Facts about workers and memory; an engine is asked, as its workers come and go."""
        if self._facts["machines"] is not None and not self.closed:
            self._facts.update(self.ask("host", "ready"))
        return self._facts


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
