"""`Workers`: the machines that a plan is made for, as numbers: cores, speed, memory, links and disks.

The scheduler describes its cluster by a `Workers`; a user describes other machines for a what-if plan.
Source: docs/explanation/seeds.md, "Graph thoughts".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.plan.plan_graph import ANY, CPU, PlanGraph, filled

__all__ = ["UNLIMITED", "Workers", "allowed"]

UNLIMITED = int(np.iinfo(np.int64).max)  # bytes; no plan fills so much memory


@dataclass(frozen=True, eq=False)
class Workers:
    """P workers; the arrays have shape (P,) unless stated otherwise and are read-only.

    Attributes
    ----------
    cores
        Operands that run at once, 1 or more.
    speed
        Relative to the core that `PlanGraph.cost` was measured on; 0.5 takes twice as long.
    memory
        Bytes for chunks and scratch; with `UNLIMITED` no chunk is spilled.
    device
        `CPU` or `GPU`.
    bandwidth
        Bytes a second from worker i to worker j, shape (P, P); the diagonal is not used.
    latency
        Seconds until the first byte of a transfer.
    disk
        Bytes a second, written or read.
    """

    cores: NDArray[np.int32]
    speed: NDArray[np.float64]
    memory: NDArray[np.int64]
    device: NDArray[np.uint8]
    bandwidth: NDArray[np.float64]
    latency: float
    disk: NDArray[np.float64]

    def __post_init__(self) -> None:
        p = len(self.bandwidth)
        if not p:
            raise GraphError("no worker to plan for; start a worker first")
        for name in ("cores", "speed", "memory", "device", "bandwidth", "disk"):
            array = getattr(self, name)
            if array.shape != ((p, p) if name == "bandwidth" else (p,)):
                raise GraphError(f"{name} has shape {array.shape} and there are {p} workers; give one entry for each")
            if name != "device" and not array.min() > 0:
                raise GraphError(f"{name} must be above 0 for each worker; the smallest given is {array.min()}")
            array.flags.writeable = False

    @classmethod
    def build(
        cls,
        n: int,
        *,
        cores: ArrayLike = 1,
        speed: ArrayLike = 1.0,
        memory: ArrayLike = UNLIMITED,
        device: ArrayLike = CPU,
        bandwidth: ArrayLike = 1.25e9,
        latency: float = 5e-4,
        disk: ArrayLike = 1e9,
    ) -> Workers:
        """Makes `n` workers from numbers or arrays; a number holds for every worker, or every pair of workers.

        Default links are 10 Gbit Ethernet and default disks write 1 GB/s.

        Raises
        ------
        GraphError
            If there is no worker, an array has the wrong shape, or an entry is 0 or less.

        Examples
        --------
        >>> pair = Workers.build(2, cores=[4, 8])
        >>> len(pair), pair.cores.tolist(), pair.rate
        (2, [4, 8], 12.0)
        """
        return cls(
            filled(cores, np.int32, n),
            filled(speed, np.float64, n),
            filled(memory, np.int64, n),
            filled(device, np.uint8, n),
            filled(bandwidth, np.float64, n, n),
            float(latency),
            filled(disk, np.float64, n),
        )

    def __len__(self) -> int:
        return len(self.cores)

    def first(self, n: int) -> Workers:
        """The first `n` workers, and the links between them.

        Examples
        --------
        >>> Workers.build(3, cores=[4, 8, 1]).first(2).cores.tolist()
        [4, 8]
        """
        rows = {name: getattr(self, name)[:n] for name in ("cores", "speed", "memory", "device", "disk")}
        return replace(self, bandwidth=self.bandwidth[:n, :n], **rows)

    @property
    def rate(self) -> float:
        """Seconds of `PlanGraph.cost` computed per second by all cores together."""
        return float((self.cores * self.speed).sum())

    @property
    def seconds_per_byte(self) -> float:
        """Mean over the links between different workers; 0 with one worker."""
        apart = ~np.eye(len(self), dtype=bool)
        return float((1 / self.bandwidth[apart]).mean()) if len(self) > 1 else 0.0

    def able(self, graph: PlanGraph) -> list[tuple[int, ...]]:
        """Workers that may run each operand, by pin and device; operands with equal constraints share a tuple.

        Raises
        ------
        GraphError
            If an operand is pinned to a worker that is not here, or no worker has its device.
        """
        team_of, teams = self.teams(graph)
        return [teams[k] for k in team_of.tolist()]

    def teams(self, graph: PlanGraph) -> tuple[NDArray[np.int64], list[tuple[int, ...]]]:
        """`able` as a table: each operand's row, shape (n,), and per row the workers, ascending.

        Raises
        ------
        GraphError
            As `able`.
        """
        wish = (graph.pin.astype(np.int64) + 1) * 256 + graph.device
        rows = np.flatnonzero(np.bincount(wish)) if graph.n and wish.min() >= 0 else np.unique(wish)
        teams = []
        for pin, device in zip((rows // 256 - 1).tolist(), (rows % 256).tolist(), strict=True):
            fit = tuple(w for w in range(len(self)) if pin in (-1, w) and device in (ANY, int(self.device[w])))
            if not fit:
                raise GraphError(
                    f"an operand wants worker {pin} and device {device} (-1 and {ANY}: any) and none of "
                    f"{len(self)} workers is that; add such a worker or remove the pin or device"
                )
            teams.append(fit)
        return np.searchsorted(rows, wish), teams


def allowed(
    graph: PlanGraph, workers: Workers, assigned: NDArray[np.int16], operands: NDArray[np.int64]
) -> NDArray[np.int16]:
    """Replaces, for `operands`, workers that may not run them by the first worker that may; returns `assigned`."""
    if np.any(graph.pin >= 0) or np.any(graph.device):
        team_of, teams = workers.teams(graph)
        for row, team in enumerate(teams):
            mine = operands[team_of[operands] == row]
            assigned[mine[~np.isin(assigned[mine], team)]] = team[0]
    return assigned
