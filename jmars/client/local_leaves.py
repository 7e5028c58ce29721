"""LocalLeaves: chunks that a run in the client's process reads: parts of NumPy arrays, and tensors of the cluster.

Chunks of a tensor in the cluster's memory are read in place. They stay pinned for the next run, until the tensor is
dropped or a job is submitted, which may need the memory; during a run, until the end of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from jmars.client.arrays import Array, boxes, whole
from jmars.client.cluster_link import ClusterLink
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, TensorData
from jmars.tensor.tensor_graph import Stored

__all__ = ["LocalLeaves"]

PINNED = 2**26  # bytes in the cluster's memory that are pinned at most
SHARE = 16  # of the memory for chunks: the part that they may take


class _Pinned(NamedTuple):
    """Chunks of a tensor of the cluster."""

    chunks: list[Array]
    nbytes: int
    unpin: Callable[[], None]


class LocalLeaves:
    """Leaves of the graphs that run in this process, one graph at a time.

    `forget` may be called at any moment, by the garbage collector too, and takes no lock.
    """

    def __init__(self, cluster: ClusterLink) -> None:
        self._cluster = cluster
        self._pinned: dict[str, _Pinned] = {}
        self._is_read = False  # by a run
        self._forgotten = 0  # calls of `forget` and `release`
        self._late: list[Callable[[], None]] = []  # to call when the run has ended

    @contextmanager
    def read(self, leaves: Sequence[tuple[TensorData, Operand]]) -> Iterator[list[list[Array]] | None]:
        """The chunks of each leaf, in C order, valid within the block; None where an array may have changed, or is
        too large or far away.
        """
        self._is_read = True
        try:
            yield self._chunks(leaves)
        finally:
            self._is_read = False
            self._unpin_late()

    def forget(self, key: str) -> None:
        """Unpin a tensor."""
        self._forgotten += 1
        found = self._pinned.pop(key, None)
        if found is not None:
            self._late.append(found.unpin)
            if not self._is_read:
                self._unpin_late()

    def release(self) -> None:
        """Unpin all tensors."""
        self._forgotten += 1
        for key in list(self._pinned):
            self.forget(key)

    def _unpin_late(self) -> None:
        while self._late:
            self._late.pop()()

    def _chunks(self, leaves: Sequence[tuple[TensorData, Operand]]) -> list[list[Array]] | None:
        found = []
        for node, operand in leaves:
            op = node.op
            if isinstance(op, FromArray) and op.checksum is None:
                chunks: list[Array] | None = [op.array[whole(box)] for box in boxes(node.chunks)]
            else:
                chunks = self._stored(node) if isinstance(operand, Stored) else None
            if chunks is None:
                return None
            found.append(chunks)
        return found

    def _stored(self, node: TensorData) -> list[Array] | None:
        """Chunks of a tensor of the cluster; None where there is no room to pin them."""
        known = self._pinned.get(node.key)
        if known is not None:
            return known.chunks
        nbytes = math.prod(map(sum, node.chunks)) * node.dtype.itemsize
        room = min(PINNED, self._cluster.capacity // SHARE)
        if nbytes + sum(one.nbytes for one in list(self._pinned.values())) > room:
            return None
        before = self._forgotten
        pinned = self._cluster.shared.pin(node.key, node.dtype, node.chunks)
        if pinned is None:
            return None
        chunks, unpin = pinned
        if self._forgotten == before:
            self._pinned[node.key] = _Pinned(chunks, nbytes, unpin)
        else:  # perhaps this tensor
            self._late.append(unpin)
        return chunks
