"""InsideHost: the head of a cluster in the workers of an engine, as the kernel holds it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jmars.deploy.control_process import ControlProcess

__all__ = ["InsideHost"]


class InsideHost(ControlProcess):
    """A cluster's head on this machine, with hosts in the workers of an engine.

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
    closed
        Called once when the cluster has ended, or did not come up.

    Raises
    ------
    ClusterStartError
        If the engine does not answer, or no host comes up.
    """

    start_seconds = 150.0

    def __init__(
        self,
        kind: str,
        engine: dict[str, Any],
        name: str = "",
        probe: bool = False,
        why: str = "",
        closed: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(name, kind, None)
        self.command = ("head", kind)
        self._closed = closed
        orders = {"engine": engine, "probe": probe, "why": why, "hosts": [], "same_bits": True, "lease": math.inf}
        try:
            self._begin(orders, threads=1)
        except BaseException:
            self._tell_closed()
            raise

    def close(self) -> None:
        """End the cluster; see `ControlProcess.close`."""
        try:
            super().close()
        finally:
            self._tell_closed()

    def _tell_closed(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()
