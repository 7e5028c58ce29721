"""How clusters and jobs show themselves in a notebook: by `jmars.notebook.controls`, loaded on first use.

Outside a Jupyter kernel the notebook part is not loaded.

Facts about a cluster for people: workers, hosts, memory and running jobs, in a line of text or in a view.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from msgspec import Struct

from jmars.config import config
from jmars.model import upper_floors
from jmars.model.status import TERMINAL
from jmars.units import format_bytes

VIEW_SECONDS = 0.5


def in_kernel() -> bool:
    """Whether this process is a Jupyter kernel."""
    ipython: Any = sys.modules.get("IPython")
    return getattr(ipython.get_ipython() if ipython else None, "kernel", None) is not None


def cell_header() -> dict[str, Any]:
    """Header of the message that runs the present cell of a Jupyter kernel; {} outside of a kernel."""
    ipython: Any = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython() if ipython else None, "kernel", None)
    if kernel is None or not upper_floors.notebook or not hasattr(kernel, "get_parent"):
        return {}
    return dict(kernel.get_parent("shell").get("header") or {})


def has_bar(shown: bool) -> bool:
    """Whether a bar shows the progress of a job that a cell waits for: in a kernel's main thread, without a view."""
    wanted = config.display in ("", "widget") and not shown and bool(upper_floors.notebook)
    return wanted and in_kernel() and threading.current_thread() is threading.main_thread()


def wait_with_bar(done: threading.Event, timeout: float | None, describe: Callable[[], Mapping[str, Any]]) -> bool:
    """Wait for `done`, at most `timeout` seconds, after half a second with a bar; returns whether the job has ended.

    The notebook part is loaded for the bar, not before.
    """
    first = VIEW_SECONDS if timeout is None else min(VIEW_SECONDS, timeout)
    if done.wait(first):
        return True
    rest = None if timeout is None else timeout - first
    return False if rest == 0 else bool(upper_floors.notebook[0]().wait_with_bar(done, rest, describe))


class Shown:
    """Base class of clusters and jobs: objects with a view in notebooks."""

    def _ipython_display_(self) -> None:
        """Show the view; IPython falls back to the text where there is none."""
        if not upper_floors.notebook or not in_kernel() or config.display in ("none", "text"):
            raise NotImplementedError
        upper_floors.notebook[0]().show(self)


class ClusterFacts(Struct, frozen=True):
    """A cluster at a moment.

    Attributes
    ----------
    name
        What lists of clusters show.
    workers, busy
        Workers, and how many of them run an operand.
    hosts
        Names of the hosts of a cluster of several hosts.
    engine
        "dask" or "ray"; "" without an engine.
    memory, limit, spilled, device
        Bytes of all processes and chunks, their limit (0 where unknown), bytes on disk and bytes on GPUs.
    jobs
        Rows of `Cluster.jobs` for jobs that have not ended.
    scalable
        Whether workers or hosts can come and leave.
    elastic
        Whether their number can follow the work.
    bounds
        Bounds between which their number follows the work; None where the number stays.
    gpus, device_limit
        Workers that are GPUs, and bytes of memory of all of them.

    Examples
    --------
    >>> info = {"name": "local-1", "workers": [{"state": "running", "running": 1}, {"state": "idle", "running": 0}],
    ...         "memory": {"resident": 2**20, "limit": 2**30, "spilled": 0}}
    >>> print(ClusterFacts.of(info, [{"id": "job-1", "state": "running"}]).text())
    local-1: 2 workers (1 busy), memory 1.0 MiB of 1.0 GiB, 1 running job
    """

    name: str
    workers: int
    busy: int
    hosts: tuple[str, ...]
    engine: str
    memory: int
    limit: int
    spilled: int
    device: int
    jobs: tuple[Mapping[str, Any], ...]
    scalable: bool
    elastic: bool = False
    bounds: tuple[int, int] | None = None
    gpus: int = 0
    device_limit: int = 0

    @classmethod
    def of(cls, info: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> Self:
        """Facts from `Cluster.info` and `Cluster.jobs`."""
        memory, engine, adapts = info.get("memory") or {}, info.get("engine") or {}, info.get("adapt")
        workers = [one for one in info.get("workers") or () if one.get("state") != "leaving"]
        elastic = "hosts" in info or bool(engine)
        gpus = [one["device"] for one in workers if one.get("device")]
        hosts = [str(one["name"]) for one in info.get("hosts") or () if one.get("state") not in ("lost", "left")]
        return cls(
            name=str(info.get("name") or ""),
            workers=len(workers),
            busy=sum(bool(one.get("running")) for one in workers),
            hosts=tuple(hosts),
            engine=str(engine.get("kind") or "") if isinstance(engine, Mapping) else str(engine),
            memory=int(memory.get("resident") or 0),
            limit=int(memory.get("limit") or 0),
            spilled=int(memory.get("spilled") or 0),
            device=int((memory.get("levels") or {}).get("device") or 0),
            jobs=tuple(one for one in jobs if one["state"] not in TERMINAL),
            scalable=elastic or not gpus,
            elastic=elastic,
            bounds=(int(adapts["least"]), int(adapts["most"])) if adapts else None,
            gpus=len(gpus),
            device_limit=sum(int(one["memory"]) for one in gpus),
        )

    def counts(self) -> str:
        """ "2 workers (1 busy) on 2 hosts, 1 to 4 as the work needs"."""
        text = f"{_plural(self.workers, 'worker')} ({self.busy} busy{f', {self.gpus} GPU' if self.gpus else ''})"
        text += f" on {_plural(len(self.hosts), 'host')}" if self.hosts else ""
        text += f", on {self.engine.capitalize()}" if self.engine else ""
        return text + (f", {self.bounds[0]} to {self.bounds[1]} as the work needs" if self.bounds else "")

    def memory_text(self) -> str:
        """ "1.0 MiB of 1.0 GiB, 3.0 MiB on disk"."""
        text = format_bytes(self.memory) + (f" of {format_bytes(self.limit)}" if self.limit else "")
        text += f", {format_bytes(self.spilled)} on disk" if self.spilled else ""
        if not (self.gpus or self.device):
            return text
        limit = f" of {format_bytes(self.device_limit)}" if self.device_limit else ""
        return f"{text}, {format_bytes(self.device)}{limit} on GPUs"

    def text(self) -> str:
        """All in a line."""
        jobs = f"{_plural(len(self.jobs), 'running job')}" if self.jobs else "no job runs"
        return f"{self.name}: {self.counts()}, memory {self.memory_text()}, {jobs}"


def _plural(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"
