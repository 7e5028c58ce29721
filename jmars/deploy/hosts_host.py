"""HostsHost: the head of a cluster of several hosts, as the kernel that started it holds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jmars.deploy.control_process import ControlProcess

__all__ = ["HostsHost"]


class HostsHost(ControlProcess):
    """A cluster's head on this machine; the hosts are its to start and to end.

    Parameters
    ----------
    places
        Of each host: name, limit (bytes or text, None for half of what is available), workers (None for one per core),
        threads, spill (folder or None).

    Raises
    ------
    ClusterStartError
        If a host does not come up.
    """

    command = ("head",)
    start_seconds = 75.0

    def __init__(self, places: Sequence[dict[str, Any]], name: str = "") -> None:
        super().__init__(name, "hosts", None)
        self._begin({"hosts": list(places), "lease": math.inf}, threads=1)
