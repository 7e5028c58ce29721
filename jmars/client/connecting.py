"""`jmars.connect`: connects to a running cluster, which another notebook or program started."""

from __future__ import annotations

from jmars.actors.registry import find_entry
from jmars.client.cluster import Cluster
from jmars.deploy import AttachedHost
from jmars.errors import ClusterLostError

__all__ = ["connect"]


def connect(name: str = "", *, python: str | None = None) -> Cluster:
    """A running cluster of this user, of this process or another; becomes the default cluster.

    Parameters
    ----------
    name
        Its name or id, as `python -m jmars status` lists them; "" for the newest one. "ssh://user@host:port/name" for
        a cluster of another machine, which ssh reaches without a question; user, port and name may be missing.
    python
        Interpreter on that machine, with jmars installed; None for `python3`.

    Raises
    ------
    ClusterLostError
        If there is none of that name, several, it does not answer, or it has other versions of jmars, NumPy or Python.
    ClusterStartError
        If ssh cannot be used: no asyncssh, or a text that is no place.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1, name="shared") as mine, jmars.connect("shared") as same:
    ...     job = mine.submit(mt.arange(10, chunk_size=4).sum())
    ...     int(same.job(job.id).result())
    45
    """
    scheme, separator, _ = name.partition("://")
    if separator and scheme == "ssh":
        from jmars.deploy.far_host import FarHost

        return Cluster.of_host(FarHost(name, python))
    if separator:
        raise ClusterLostError(f'{name!r} is no place of a cluster; give a name, an id, or "ssh://user@host/name"')
    return Cluster.of_host(AttachedHost(find_entry(name)))
