"""The open clusters of this process, the default cluster last.

`Cluster` enters and leaves the registry.
"""

from __future__ import annotations

import threading

from jmars.client.cluster_link import ClusterLink

__all__ = ["add", "everywhere", "lock", "make_default", "remove"]

lock = threading.RLock()  # held for moments only: the thread that talks to clusters takes it too

_open: list[ClusterLink] = []


def add(cluster: ClusterLink) -> None:
    """Enter an open cluster as the default cluster."""
    with lock:
        _open.append(cluster)


def remove(cluster: ClusterLink) -> None:
    """Take out a closed cluster."""
    with lock:
        if cluster in _open:
            _open.remove(cluster)


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
