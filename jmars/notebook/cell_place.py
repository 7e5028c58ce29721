"""`%%jmars --on PLACE`: the cluster of a cell by its place: Dask, Ray, another machine, or a cluster by name."""

from __future__ import annotations

import weakref

from IPython.core.error import UsageError

from jmars.client.cluster import Cluster, make_default, open_clusters
from jmars.client.connecting import connect

__all__ = ["cluster_on", "opened_on"]

_opened: weakref.WeakValueDictionary[str, Cluster] = weakref.WeakValueDictionary()  # by place


def opened_on(place: str) -> Cluster | None:
    """The open cluster of a place, None if no cell has run there since it was closed."""
    known = _opened.get(place)
    if known is not None and not known.closed:
        return known
    return next((one for one in reversed(open_clusters()) if place in (one.name, one.id)), None)


def cluster_on(place: str) -> Cluster:
    """The cluster of a place, opened where no cell has run there before; becomes the default cluster.

    Parameters
    ----------
    place
        `dask://HOST:PORT`, `dask:///PATH` of a scheduler file, `dask://` for the newest Dask client of this process;
        `ray://HOST:PORT`, `ray://` for the Ray of this process or a new one; `ssh://USER@HOST/NAME` for a cluster of
        another machine; else the name or id of a cluster.

    Raises
    ------
    UsageError
        If the place is another URL, or `dask://` is asked for and this process has no Dask client.
    ClusterStartError, ClusterLostError
        If no cluster answers there.
    """
    known = opened_on(place)
    if known is not None:
        make_default(known)
        return known
    kind, separator, rest = place.partition("://")
    if not separator or kind == "ssh":
        found = connect(place)
    elif kind == "dask":
        found = Cluster.dask(_dask_client() if not rest else rest if rest.startswith("/") else f"tcp://{rest}")
    elif kind == "ray":
        found = Cluster.ray(place if rest else None)
    else:
        raise UsageError(
            f"--on {place}: no {kind!r} is known; give dask://HOST:PORT, ray://HOST:PORT, ssh://HOST/NAME or a "
            "cluster's name"
        )
    _opened[place] = found
    return found


def _dask_client() -> object:
    """The newest Dask client of this process."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError) as error:
        raise UsageError(
            f"--on dask://: this process has no Dask client ({error}); make one with distributed.Client(), or give "
            "dask://HOST:PORT"
        ) from None
