"""Workers that users annotated operands with: `jmars.annotate(worker=...)`, checked against the cluster, and wishes.

Source: `expect_worker` of Mars's operands; docs/explanation/seeds.md, "Initial worker assignment".
"""

from __future__ import annotations

from collections.abc import Sequence

from jmars.errors import GraphError
from jmars.tensor.chunk import ChunkGraph, GraphLayer

__all__ = ["pinned_workers", "preferred_workers"]


def pinned_workers(graph: ChunkGraph, workers: Sequence[str]) -> dict[int, int]:
    """Number of the only worker that may run an operand, by operand.

    Raises
    ------
    GraphError
        If there is no such worker.
    """
    return _by_operand(graph, [_worker(layer, workers) for layer in graph.layers])


def preferred_workers(graph: ChunkGraph, workers: Sequence[str]) -> dict[int, int]:
    """Number of the worker that a user wishes for an operand, by operand; of a host the first worker.

    A wish for a worker or host that is not here has no effect.
    """
    return _by_operand(graph, [_preferred(layer, workers) for layer in graph.layers])


def _by_operand(graph: ChunkGraph, worker_of: Sequence[int]) -> dict[int, int]:
    """The workers by operand, from workers by layer, -1 for none."""
    if max(worker_of, default=-1) < 0:
        return {}
    rows = zip(graph.layer.tolist(), graph.program.tolist(), strict=True)
    return {i: worker_of[layer] for i, (layer, program) in enumerate(rows) if worker_of[layer] >= 0 and program >= 0}


def _preferred(layer: GraphLayer, workers: Sequence[str]) -> int:
    """The worker of a wish; -1 for none."""
    wish = None if layer.annotation is None else layer.annotation.prefer
    if wish is None or isinstance(wish, int):
        return -1 if wish is None or wish >= len(workers) else wish
    return next((at for at, name in enumerate(workers) if wish in (name, name.rpartition("/")[0])), -1)


def _worker(layer: GraphLayer, workers: Sequence[str]) -> int:
    """The worker of a layer's operands; -1 for any."""
    if layer.annotation is None:
        return -1
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
