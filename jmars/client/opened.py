"""The open clusters of this process, the default one last.

`Cluster` puts itself here and takes itself out; the rest of the client asks.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster

__all__ = ["add", "everywhere", "lock", "make_default", "open_clusters", "remove"]

lock = threading.RLock()  # held for moments only: the thread that talks to clusters takes it too

_open: list[Cluster] = []


def add(cluster: Cluster) -> None:
    """A cluster is open: it is the default one."""
    with lock:
        _open.append(cluster)


def remove(cluster: Cluster) -> None:
    """A cluster is closed."""
    with lock:
        if cluster in _open:
            _open.remove(cluster)


def everywhere() -> list[Cluster]:
    """All of them, those too that belong to the process that this one was forked from."""
    with lock:
        return list(_open)


def open_clusters() -> list[Cluster]:
    """The open clusters of this process, the default one last."""
    return [cluster for cluster in everywhere() if cluster._pid == os.getpid()]


def make_default(cluster: Cluster) -> None:
    """Make an open cluster the default one."""
    with lock:
        if cluster in _open:
            remove(cluster)
            add(cluster)
