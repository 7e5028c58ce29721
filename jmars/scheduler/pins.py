"""Workers that users annotated operands with, checked against the cluster: `jmars.annotate(worker=...)`.

Source: `expect_worker` of Mars's operands; docs/explanation/seeds.md, "Initial worker assignment".
"""

from __future__ import annotations

from collections.abc import Sequence

from jmars.errors import GraphError, UnsupportedError
from jmars.tensor.chunk import ChunkGraph, GraphLayer

__all__ = ["pinned_workers"]


def pinned_workers(graph: ChunkGraph, workers: Sequence[str]) -> dict[int, int]:
    """Number of the only worker that may run an operand, by operand.

    Raises
    ------
    GraphError
        If there is no such worker.
    UnsupportedError
        If an operand needs a GPU.
    """
    if all(layer.annotation is None for layer in graph.layers):
        return {}
    worker_of = [_worker(layer, workers) for layer in graph.layers]
    rows = zip(graph.layer.tolist(), graph.program.tolist(), strict=True)
    return {i: worker_of[layer] for i, (layer, program) in enumerate(rows) if worker_of[layer] >= 0 and program >= 0}


def _worker(layer: GraphLayer, workers: Sequence[str]) -> int:
    """The worker of a layer's operands; -1 for any."""
    if layer.annotation is None:
        return -1
    if layer.annotation.gpu:
        raise UnsupportedError(f"{layer.name} is annotated with gpu=True, and workers have no GPU; leave it out")
    worker = layer.annotation.worker
    if worker is None:
        return -1
    number = worker if isinstance(worker, int) else workers.index(worker) if worker in workers else -1
    if not 0 <= number < len(workers):
        raise GraphError(
            f"{layer.name} is annotated with worker={worker!r}, and the cluster has the workers 0 to "
            f"{len(workers) - 1} ({', '.join(workers[:10])}{', …' * (len(workers) > 10)}); choose one of them"
        )
    return number
