"""`jmars.connect`: connects to a running cluster, which another notebook or program started."""

from __future__ import annotations

from jmars.actors.registry import find_entry
from jmars.client.cluster import Cluster
from jmars.deploy import AttachedHost

__all__ = ["connect"]


def connect(name: str = "") -> Cluster:
    """A running cluster of this user, of this process or another; becomes the default cluster.

    Parameters
    ----------
    name
        Its name or id, as `python -m jmars status` lists them; "" for the newest one.

    Raises
    ------
    ClusterLostError
        If there is none of that name, several, or it does not answer.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1, name="shared") as mine, jmars.connect("shared") as same:
    ...     job = mine.submit(mt.arange(10, chunk_size=4).sum())
    ...     int(same.job(job.id).result())
    45
    """
    return Cluster.of_host(AttachedHost(find_entry(name)))
