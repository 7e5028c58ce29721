"""LocalHost: the control process of a cluster on this machine, with the memory that it shares with the kernel.

A host is up in 20 ms, the executors in 100.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from jmars.deploy.control_process import ControlProcess
from jmars.deploy.memory import chosen_limit

__all__ = ["LocalHost"]


class LocalHost(ControlProcess):
    """A cluster's processes on this machine.

    Parameters
    ----------
    lease
        Seconds that a detached cluster lives on when nobody uses it.
    schedulers
        Processes that schedule; 0: the control process does.
    gpus
        Names of the GPUs to use (`devices.find`).
    meanwhile
        Called while the process starts.
    """

    command = ("host",)

    def __init__(
        self,
        workers: int,
        threads: int,
        memory_limit: str | int | None,
        spill_dir: str | None,
        name: str,
        detached: bool = False,
        lease: float = math.inf,
        meanwhile: Callable[[], None] | None = None,
        schedulers: int = 0,
        gpus: Sequence[str] = (),
    ) -> None:
        super().__init__(name, "local", spill_dir, detached)
        try:
            self.limit = limit = chosen_limit(memory_limit)
            self.arena = os.memfd_create(f"jmars-{self.id}", os.MFD_CLOEXEC)
        except BaseException:
            self.folders.remove()
            raise
        orders: dict[str, Any] = {
            "workers": workers,
            "threads": threads,
            "limit": limit,
            "arena": self.arena,
            "lease": lease,
        }
        orders["schedulers"] = schedulers
        if gpus:
            orders["gpus"] = list(gpus)
        self._begin(orders, threads, meanwhile)
