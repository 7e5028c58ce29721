"""The hosts of a cluster and their jobs, as the port that joins hosts and the handler of their reports share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jmars.model.orders import Order
from jmars.scheduler.host_jobs import HostJob
from jmars.scheduler.places import Places

__all__ = ["HostLink", "HostRow", "HostRows"]


class HostLink(Protocol):
    """Sends orders to a host."""

    def order(self, orders: Sequence[Order]) -> None:
        """Send orders, in this order behind all earlier ones."""


@dataclass(eq=False)
class HostRow:
    """A host with its number, which no other host ever gets.

    Attributes
    ----------
    first, workers
        Number of the first worker in the cluster, and how many there are; GPUs are the last workers.
    gpus
        Bytes for chunks by GPU: -1 for a cold GPU, 0 for a GPU that cannot be used.
    memory
        Bytes for chunks and scratch.
    room
        Bytes for results: memory and disk.
    here
        Whether the cluster has it still.
    """

    number: int
    name: str
    link: HostLink
    first: int
    workers: int
    memory: int
    room: int
    here: bool = True
    suspect: bool = False  # silent of late: it gets no new operands while another host is heard
    leaving: bool = False  # about to leave: it gets no new operands that another host can run
    names: list[str] = field(default_factory=list)
    turn: int = 0  # worker to send the next operand to
    done: int = 0  # operands that ended there on cores
    gpus: list[int] = field(default_factory=list)
    gpu_turn: int = 0  # GPU to send the next operand to whose planned GPU is elsewhere

    @property
    def cores(self) -> int:
        """Number of workers that compute on cores."""
        return self.workers - len(self.gpus)

    def fits_gpu(self, nbytes: int) -> bool:
        """Whether a warm GPU here has so many bytes for chunks."""
        return max(self.gpus, default=0) >= max(1, nbytes)

    def may_fit_gpu(self, nbytes: int) -> bool:
        """Whether a GPU here has so many bytes for chunks, or is cold and may turn out to have them."""
        return -1 in self.gpus or self.fits_gpu(nbytes)

    def warm_gpus(self) -> list[tuple[int, int]]:
        """Numbers in the cluster of workers with a warm GPU, and the bytes of the GPU."""
        first = self.first + self.cores
        return [(worker, size) for worker, size in enumerate(self.gpus, first) if size > 0]

    @property
    def may_have_gpu(self) -> bool:
        """Whether a GPU here is warm, or may become so."""
        return any(self.gpus)

    @property
    def takes(self) -> bool:
        """Whether the host gets new operands."""
        return self.here and not self.suspect and not self.leaving


class HostRows:
    """All hosts that ever were, what they have, and the jobs that they have opened.

    Attributes
    ----------
    hosts
        By number.
    host_of
        Number of the host of each worker.
    places
        Which hosts have each chunk.
    jobs
        By name.
    """

    def __init__(self) -> None:
        self.hosts: dict[int, HostRow] = {}
        self.host_of: list[int] = []
        self.places = Places()
        self.jobs: dict[str, HostJob] = {}

    @property
    def here(self) -> list[HostRow]:
        """Hosts that the cluster has."""
        return [row for row in self.hosts.values() if row.here]

    @property
    def staying(self) -> list[HostRow]:
        """Hosts that the cluster has and keeps; leaving hosts only where there are no further hosts."""
        here = self.here
        return [row for row in here if not row.leaving] or here

    def leaving(self, job: HostJob) -> list[HostRow]:
        """Hosts that are about to leave and have a job open until then."""
        return [row for row in self.here if row.leaving and row.number in job.opened - job.leaving]
