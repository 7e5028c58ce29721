"""Clusters of several hosts: `Cluster.hosts`.

Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from jmars.actors.registry import refuse_twin
from jmars.client.engine_clusters import whole_number
from jmars.deploy.hosts_host import HostsHost

__all__ = ["HostClusters"]

LOCAL = "local"


class HostClusters:
    """Methods of `Cluster` about several hosts."""

    @classmethod
    @abstractmethod
    def of_host(cls, host: Any) -> Self:
        """The cluster of a host."""

    @classmethod
    def hosts(
        cls,
        places: Sequence[str],
        *,
        n_workers: int | None = None,
        threads_per_worker: int = 1,
        memory_limit: str | int | None = None,
        spill_dir: str | None = None,
        name: str = "",
    ) -> Self:
        """A cluster of several hosts, each with its workers, memory and disk; becomes the default cluster.

        A host reads chunks of another host when an operand needs them. A host that is lost costs what only it had,
        which is computed again.

        Parameters
        ----------
        places
            Where the hosts are: "local" for a host on this machine, which may be given several times.
        n_workers, threads_per_worker, memory_limit, spill_dir
            Of each host, as of `Cluster`.
        name
            What lists of clusters show.

        Raises
        ------
        ClusterStartError
            If a host does not come up.
        ValueError
            If there is no place, or a place cannot be read.

        Examples
        --------
        >>> import jmars, jmars.tensor as mt
        >>> with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="512MiB"):
        ...     float(mt.arange(10, chunk_size=4).sum())
        45.0
        """
        workers = 0 if n_workers is None else whole_number("n_workers", n_workers)
        threads = whole_number("threads_per_worker", threads_per_worker)
        if isinstance(places, str) or not places:
            raise ValueError(f"places is {places!r}; give a list with a place for each host: ['local', 'local']")
        for place in places:
            if place != LOCAL:
                raise ValueError(f"{place!r} is no place of a host; 'local' is one")
        if name:
            refuse_twin(name)
        rows = [
            {
                "name": f"host-{number}",
                "place": place,
                "limit": memory_limit,
                "workers": workers,
                "threads": threads,
                "spill": spill_dir,
            }
            for number, place in enumerate(places, start=1)
        ]
        return cls.of_host(HostsHost(rows, name))
