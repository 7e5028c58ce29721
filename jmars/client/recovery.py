"""Computes lost chunks again from the lineage that the client has.

The scheduler recovers chunks of running jobs; only the client has the graph of tensors that were computed or sent
before. So a job that ends with ChunkLostError is submitted once more without the lost tensors, and a tensor whose chunk
is found to be lost at a fetch is computed again. Source: docs/explanation/seeds.md, "Future work".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from jmars.errors import ChunkLostError
from jmars.tensor.operand import TensorData
from jmars.tensor.tensor_graph import LinkedGraph, Stored

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster

RECOVERIES = 3  # times that a job is submitted again with the same tensors, or one is computed again for one fetch

SMALL = 2**16  # bytes of a tensor that is fetched together with others

Value = TypeVar("Value")


def can_recover(cluster: Cluster, data: Sequence[TensorData], keys: Sequence[str]) -> bool:
    """Whether the lineage of nodes is here, as far as the cluster has lost (`keys`) or does not have them."""
    held = cluster.retained() - set(keys) - {one.key for one in data}
    linked = LinkedGraph.of(data, held)
    return not any(
        isinstance(operand, Stored) and node.key not in held
        for operand, node in zip(linked.operands, linked.nodes, strict=True)
    )


def with_recovery(cluster: Cluster, data: TensorData, fetch: Callable[[], Value]) -> Value:
    """Result of `fetch`; lost chunks of `data` are computed again first."""
    for left in reversed(range(RECOVERIES + 1)):
        try:
            return fetch()
        except ChunkLostError as error:
            if not left or not can_recover(cluster, [data], [data.key, *error.keys]):
                raise
            for key in {data.key, *error.keys}:
                cluster.forget(key)
            _compute(cluster, data)
    raise AssertionError("the last try returns or raises")


def fetch_each(cluster: Cluster, data: Sequence[TensorData]) -> list[Any]:
    """Values of nodes that the cluster has; those of small nodes travel together, unless a chunk is lost."""
    small = [k for k, one in enumerate(data) if _size(one) <= SMALL] if len(data) > 1 else []
    found: dict[int, Any] = {}
    try:
        values = cluster.shared.fetch_each([(data[k].key, data[k].dtype, data[k].chunks) for k in small])
        found = dict(zip(small, values, strict=True))
    except ChunkLostError:
        pass  # `cluster.fetch` computes it again
    return [found[k] if k in found else cluster.fetch(one) for k, one in enumerate(data)]


def _size(node: TensorData) -> int:
    """Bytes of a node of known lengths."""
    return math.prod(map(sum, node.chunks)) * node.dtype.itemsize


def _compute(cluster: Cluster, data: TensorData) -> Any:
    job = cluster.submit_data([data])
    try:
        job.wait()
    except BaseException:  # an interrupt
        job.cancel()
        raise
    if job.error is not None:
        raise job.error
