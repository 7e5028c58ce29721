"""Starts the head of a cluster of several hosts, with processes of its own or in the workers of an engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jmars.deploy.control_process import ControlProcess
from jmars.deploy.launch_ssh import SshPlace

HOSTS_SECONDS = 160.0  # a login, an answer, and a second start with the CPU features that all hosts have
INSIDE_SECONDS = 150.0
QUEUE_SECONDS = 7 * 24 * 3600.0  # jobs wait in queues for days
LOCAL = "local"  # a place: a host on this machine


def host_name(number: int, place: str) -> str:
    """Name of a host in lists, never used twice; raises ClusterStartError for a text that is no place."""
    return f"host-{number}" if place == LOCAL else f"host-{number}-{SshPlace.parse(place).host}"


def hosts_head(
    places: Sequence[dict[str, Any]],
    name: str = "",
    same_bits: bool = True,
    detached: bool = False,
    lease: float = math.inf,
    batch: dict[str, Any] | None = None,
    ucx: str = "no",
    schedulers: int = 0,
) -> ControlProcess:
    """Start a cluster's head on this machine; the hosts are the head's to start and to end.

    Parameters
    ----------
    places
        Of each host: name; place ("local", or as `ssh` names it); python (interpreter there, None for python3); limit
        (bytes or text, None for half of what is available); workers (None for one per core); threads; spill (folder or
        None); gpus ("auto", a number or names).
    same_bits
        Whether hosts with different CPUs are refused, on which the last bits of values may differ.
    detached
        Whether the cluster outlives this process.
    lease
        Seconds that a detached cluster lives on when nobody uses it.
    ucx
        Whether hosts read chunks by UCX: "no", "auto" or "always".
    batch
        Hosts that a batch system starts, in place of `places`; see BatchLaunch.
    schedulers
        Processes that schedule; 0: the head does.

    Raises
    ------
    ClusterStartError
        If a host does not come up.
    """
    orders = {"hosts": list(places), "same_bits": same_bits, "lease": lease, "batch": batch, "ucx": ucx}
    orders["schedulers"] = schedulers
    seconds = HOSTS_SECONDS if batch is None else QUEUE_SECONDS
    return ControlProcess(("head",), "hosts", orders, name, detached=detached, seconds=seconds)


def inside_head(
    kind: str,
    engine: dict[str, Any],
    name: str = "",
    probe: bool = False,
    why: str = "",
    ended: Callable[[], None] | None = None,
) -> ControlProcess:
    """Start a cluster's head on this machine, with hosts in the workers of an engine.

    Parameters
    ----------
    kind
        "dask" or "ray".
    engine
        How the head reaches the engine: an address, and more that `inside_dask` or `inside_ray` reads.
    name
        What lists of clusters show; "" for one of its id.
    probe
        Whether two hosts must come up and reach each other within seconds.
    why
        Why the hosts are inside, for `Cluster.info`.
    ended
        Called once when the cluster has ended, or did not come up.

    Raises
    ------
    ClusterStartError
        If the engine does not answer, or no host comes up.
    """
    orders = {"engine": engine, "probe": probe, "why": why, "hosts": [], "same_bits": True, "lease": math.inf}
    orders["schedulers"] = 0
    return ControlProcess(("head", kind), kind, orders, name, seconds=INSIDE_SECONDS, ended=ended)
