"""HostsHost: the head of a cluster of several hosts, as the kernel that started it holds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jmars.deploy.control_process import ControlProcess
from jmars.deploy.ssh_words import SshPlace

__all__ = ["LOCAL", "HostsHost", "host_name"]

LOCAL = "local"  # a place: a host on this machine


def host_name(number: int, place: str) -> str:
    """Name of a host in lists, never used twice; raises ClusterStartError for a text that is no place."""
    return f"host-{number}" if place == LOCAL else f"host-{number}-{SshPlace.parse(place).host}"


class HostsHost(ControlProcess):
    """A cluster's head on this machine; the hosts are its to start and to end.

    Parameters
    ----------
    places
        Of each host: name; place ("local", or as `ssh` names it); python (interpreter there, None for python3); limit
        (bytes or text, None for half of what is available); workers (None for one per core); threads; spill (folder or
        None).
    same_bits
        Whether hosts with different CPUs are refused, on which the last bits of values may differ.
    detached
        Whether the cluster outlives this process.
    lease
        Seconds that a detached cluster lives on when nobody uses it.

    Raises
    ------
    ClusterStartError
        If a host does not come up.
    """

    command = ("head",)
    start_seconds = 75.0

    def __init__(
        self,
        places: Sequence[dict[str, Any]],
        name: str = "",
        same_bits: bool = True,
        detached: bool = False,
        lease: float = math.inf,
    ) -> None:
        super().__init__(name, "hosts", None, detached)
        self._begin({"hosts": list(places), "same_bits": same_bits, "lease": lease}, threads=1)
