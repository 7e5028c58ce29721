"""Uploads: sends NumPy arrays to a cluster, once for each job, or once for all jobs of a cell.

A cell that asks for a value in a loop (`if x[i].mean() > 0`) runs a job each time; sending a large array with each job
would take far longer than the jobs. The notebook opens `once` around a cell.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jmars.client import cluster_registry
from jmars.client.cluster_link import ClusterLink
from jmars.client.job import Job
from jmars.errors import ChunkLostError
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import TensorData
from jmars.tensor.tensor_graph import LinkedGraph

__all__ = ["Uploads", "move_here"]


class Uploads:
    """NumPy arrays that were sent to a cluster."""

    def __init__(self, cluster: ClusterLink) -> None:
        self._cluster, self._shared = cluster, cluster.shared
        self._sent: list[str] | None = None  # keys; None outside of `once`
        self._jobs: set[Job] = set()  # that run

    @contextmanager
    def once(self) -> Iterator[None]:
        """Within the block, arrays are sent once and stay until the block and its jobs have ended."""
        if self._sent is not None:
            yield
            return
        sent: list[str] = []
        jobs: set[Job] = set()
        self._sent, self._jobs = sent, jobs
        try:
            yield
        finally:
            self._sent, self._jobs = None, set()
            running = [job for job in list(jobs) if not job.wait(0)]
            if not running:
                self._drop(sent)
            ended = itertools.count(1)
            for job in running:
                job.when_done(lambda _: self._drop(sent) if next(ended) == len(running) else None)

    def send(self, data: Sequence[TensorData]) -> None:
        """Within `once`, store the NumPy arrays of nodes under their own keys.

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
            if id(node) in seen or self._cluster.retains(node):
                continue
            seen.add(id(node))
            stack += node.op.inputs
            if isinstance(node.op, FromArray):
                node.op.check()
                self._shared.upload(node.key, node.op.array, node.chunks)
                self._cluster.retain([node])
                self._sent.append(node.key)

    def upload(self, linked: LinkedGraph, keys: list[str], uploaded: list[str], results: list[str]) -> None:
        """Store the NumPy arrays of linked nodes: a result under its key, inputs under new keys.

        `keys` has the new keys then; `uploaded` and `results` grow with each begun upload, so that the caller can
        release them.
        """
        asked = set(linked.results)
        for number, operand in enumerate(linked.operands):
            if isinstance(operand, FromArray):
                operand.check()
                key = keys[number]
                if number in asked:
                    results.append(key)
                else:
                    uploaded.append(key := f"{key}-{os.urandom(4).hex()}")
                    keys[number] = key
                self._shared.upload(key, operand.array, linked.nodes[number].chunks)

    def used_by(self, job: Job) -> None:
        """Note a job that may read uploaded arrays."""
        if self._sent is not None:
            self._jobs.add(job)
            job.when_done(self._jobs.discard)  # its results are not to stay for that

    def _drop(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._cluster.release(key)


def move_here(cluster: ClusterLink, data: Sequence[TensorData]) -> None:
    """Move values of nodes that another open cluster has to `cluster`."""
    others = [one for one in cluster_registry.everywhere() if one is not cluster and one.retained()]
    if not others:
        return
    seen: set[int] = set()
    stack = list(data)
    while stack:
        node = stack.pop()
        if id(node) in seen or cluster.retains(node):
            continue
        seen.add(id(node))
        owner = next((one for one in others if one.retains(node)), None)
        if owner is None:
            stack += node.op.inputs
        else:
            try:
                cluster.shared.move(node.key, owner.shared, node.dtype, node.chunks)
            except ChunkLostError:  # it is computed here then
                owner.forget(node.key)
                stack += node.op.inputs
            else:
                cluster.retain([node])
