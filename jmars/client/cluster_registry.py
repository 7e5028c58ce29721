"""The open clusters of this process, the default cluster last.

`Cluster` enters and leaves the registry.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from jmars.model.collector import free_in_child

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster

lock = free_in_child(threading.RLock())  # held for moments only: the thread that talks to clusters takes it too

_open: list[Cluster] = []
_lost: list[str] = []


def _forked() -> None:
    """A child has no connection to the clusters of the process that it was forked from."""
    _open.clear()
    _lost.clear()


os.register_at_fork(after_in_child=_forked)


def add(cluster: Cluster) -> None:
    """Enter an open cluster as the default cluster."""
    with lock:
        _open.append(cluster)


def remove(cluster: Cluster) -> None:
    """Take out a closed cluster."""
    with lock:
        if cluster in _open:
            _open.remove(cluster)


def lose(cluster: Cluster, name: str) -> None:
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


def open_clusters() -> list[Cluster]:
    """All open clusters."""
    with lock:
        return list(_open)


def make_default(cluster: Cluster) -> None:
    """Make an open cluster the default cluster."""
    with lock:
        if cluster in _open:
            remove(cluster)
            add(cluster)
