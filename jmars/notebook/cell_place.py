"""`%%jmars --on PLACE`: the cluster of a cell by its place: Dask, Ray, another machine, or a cluster by name."""

from __future__ import annotations

import weakref

from IPython.core.error import UsageError

from jmars.client.cluster import Cluster, connect, open_clusters
from jmars.client.cluster_link import make_default
from jmars.client.engine_clusters import MODES

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
        another machine; else the name or id of a cluster. A place of Dask or Ray may end with `?mode=inside` or
        `?mode=auto`, as of `Cluster.dask`.

    Raises
    ------
    UsageError
        If the place is another URL or has another mode, or `dask://` is asked for and this process has no Dask client.
    ClusterStartError, ClusterLostError
        If no cluster answers there.
    """
    known = opened_on(place)
    if known is not None:
        make_default(known)
        return known
    where, _, mode = place.partition("?mode=")
    kind, separator, rest = where.partition("://")
    mode = mode or "tasks"
    if kind in ("dask", "ray") and mode not in MODES:
        raise UsageError(f"--on {place}: no mode {mode!r} is known; give {', '.join(MODES)}")
    if not separator or kind == "ssh":
        found = connect(place)
    elif kind == "dask":
        client = _dask_client() if not rest else rest if rest.startswith("/") else f"tcp://{rest}"
        found = Cluster.dask(client, mode)
    elif kind == "ray":
        found = Cluster.ray(where if rest else None, mode)
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
