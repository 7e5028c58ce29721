"""Arrays from outside on their way to one cluster: once for each job, or once for all jobs of a cell.

A cell that asks for a value in a loop (`if x[i].mean() > 0`) runs a job each time; sending a large array with each of
them would take far longer than the jobs. Used by `Cluster.submit_data`; the notebook opens `once` around a cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jmars.client.job import Job
from jmars.client.shared import SharedMemory
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import TensorData

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster

__all__ = ["Sending"]


class Sending:
    """What one cluster was sent and keeps for a while."""

    def __init__(self, cluster: Cluster, shared: SharedMemory) -> None:
        self._cluster, self._shared = cluster, shared
        self._sent: list[str] | None = None  # keys; None outside of `once`
        self._jobs: list[Job] = []

    @contextmanager
    def once(self) -> Iterator[None]:
        """Within, arrays are sent once and stay until the block and its jobs have ended."""
        if self._sent is not None:
            yield
            return
        sent: list[str] = []
        jobs: list[Job] = []
        self._sent, self._jobs = sent, jobs
        try:
            yield
        finally:
            self._sent, self._jobs = None, []
            running = [job for job in jobs if not job.wait(0)]
            if not running:
                self._drop(sent)
            ended = itertools.count(1)
            for job in running:
                job.when_done(lambda _: self._drop(sent) if next(ended) == len(running) else None)

    def send(self, data: Sequence[TensorData]) -> None:
        """Within `once`, store the outside arrays that these nodes need under their own names.

        Raises
        ------
        ArrayChangedError
            If one of them is not what it was when it was taken.
        """
        if self._sent is None:
            return
        seen: set[int] = set()
        stack = list(data)
        while stack:
            node = stack.pop()
            if id(node) in seen or self._cluster.holds(node):
                continue
            seen.add(id(node))
            stack += node.op.inputs
            if isinstance(node.op, FromArray):
                node.op.check()
                self._shared.upload(node.key, node.op.array, node.chunks)
                self._cluster.hold([node])
                self._sent.append(node.key)

    def used_by(self, job: Job) -> None:
        """A job may read what was sent."""
        if self._sent is not None:
            self._jobs.append(job)

    def _drop(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._cluster.drop(key)
