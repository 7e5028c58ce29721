"""The open clusters of this process, the default cluster last.

`Cluster` enters and leaves the registry.
"""

from __future__ import annotations

import threading

from jmars.client.cluster_link import ClusterLink

__all__ = ["add", "everywhere", "lock", "lose", "make_default", "remove", "take_lost"]

lock = threading.RLock()  # held for moments only: the thread that talks to clusters takes it too

_open: list[ClusterLink] = []
_lost: list[str] = []


def add(cluster: ClusterLink) -> None:
    """Enter an open cluster as the default cluster."""
    with lock:
        _open.append(cluster)


def remove(cluster: ClusterLink) -> None:
    """Take out a closed cluster."""
    with lock:
        if cluster in _open:
            _open.remove(cluster)


def lose(cluster: ClusterLink, name: str) -> None:
    """Take out a cluster that went away, and note its name for `take_lost`."""
    with lock:
        remove(cluster)
        if name not in _lost:  # a process may have several connections to a cluster
            _lost.append(name)


def take_lost() -> list[str]:
    """Names of clusters that went away since the last call: whoever starts another cluster says so."""
    with lock:
        found = list(_lost)
        _lost.clear()
        return found


def everywhere() -> list[ClusterLink]:
    """All open clusters, also of the process that this process was forked from."""
    with lock:
        return list(_open)


def make_default(cluster: ClusterLink) -> None:
    """Make an open cluster the default cluster."""
    with lock:
        if cluster in _open:
            remove(cluster)
            add(cluster)
