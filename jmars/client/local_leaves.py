"""LocalLeaves: chunks that a run in the client's process reads: parts of NumPy arrays, and tensors of the cluster.

Chunks of a tensor in the cluster's memory are read in place. They stay pinned for the next run, until the tensor is
dropped or a job is submitted, which may need the memory.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jmars.client.arrays import Array, boxes, whole
from jmars.client.cluster_link import ClusterLink
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, TensorData

__all__ = ["LocalLeaves"]

PINNED = 2**26  # bytes in the cluster's memory that are pinned at most
SHARE = 16  # of the memory for chunks: the part that they may take


class _Pinned(NamedTuple):
    """Chunks of a tensor of the cluster."""

    chunks: list[Array]
    nbytes: int
    unpin: Callable[[], None]


class LocalLeaves:
    """Leaves of the graphs that run in this process."""

    def __init__(self, cluster: ClusterLink) -> None:
        self._cluster = cluster
        self._pinned: dict[str, _Pinned] = {}
        self._lock = threading.Lock()

    def chunks(self, leaves: Sequence[tuple[TensorData, Operand]]) -> list[list[Array]] | None:
        """The chunks of each leaf, in C order; None where an array may have changed, or is too large or far away."""
        found = []
        for node, operand in leaves:
            op = node.op if isinstance(node.op, FromArray) else operand
            if isinstance(op, FromArray):
                if op.checksum is not None:
                    return None
                found.append([op.array[whole(box)] for box in boxes(node.chunks)])
            else:
                chunks = self._stored(node)
                if chunks is None:
                    return None
                found.append(chunks)
        return found

    def forget(self, key: str) -> None:
        """Unpin a tensor."""
        with self._lock:
            found = self._pinned.pop(key, None)
        if found is not None:
            found.unpin()

    def release(self) -> None:
        """Unpin all tensors."""
        for key in list(self._pinned):
            self.forget(key)

    def _stored(self, node: TensorData) -> list[Array] | None:
        """Chunks of a tensor of the cluster; None where there is no room to pin them."""
        with self._lock:
            known = self._pinned.get(node.key)
            if known is not None:
                return known.chunks
            nbytes = math.prod(map(sum, node.chunks)) * node.dtype.itemsize
            room = min(PINNED, self._cluster.capacity // SHARE)
            if nbytes + sum(one.nbytes for one in self._pinned.values()) > room:
                return None
            pinned = self._cluster.shared.pin(node.key, node.dtype, node.chunks)
            if pinned is None:
                return None
            chunks, unpin = pinned
            self._pinned[node.key] = _Pinned(chunks, nbytes, unpin)
            return chunks
