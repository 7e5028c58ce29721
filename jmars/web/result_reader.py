"""Reads the elements of results from the cluster's chunks, piece by piece, while they are sent.

Bytes travel with a checksum. A lost chunk is computed again, and the stream continues at the same element.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import numpy as np

from jmars.errors import ChunkLostError
from jmars.storage.chunk_checksums import received
from jmars.tensor.operand import Splits
from jmars.web.cluster_connection import ClusterConnection
from jmars.web.result_recovery import RECOVERIES, ResultRecovery
from jmars.web.slices import ChunkRead, Selection, chunk_reads, pieces

__all__ = ["MOVING", "ResultReader"]

AT_ONCE = 64  # chunks of a piece that are read at the same time
MOVING = 600.0  # seconds that a chunk may wait for memory, or take to be read from disk


class ResultReader:
    """Reads results for a gateway and counts the bytes sent in `counts`."""

    def __init__(self, cluster: ClusterConnection, recovery: ResultRecovery, counts: Counter[tuple[str, ...]]) -> None:
        self._cluster, self._recovery, self._counts = cluster, recovery, counts

    async def read(
        self, key: str, dtype: np.dtype[Any], splits: Splits, selection: Selection
    ) -> AsyncGenerator[bytes, None]:
        """Yields the elements of a selection as bytes in C order, piece by piece; computes lost chunks again."""
        coming: asyncio.Task[bytes] | None = None  # the next piece is read while the last piece is sent
        try:
            for box in pieces(selection.ranges, dtype.itemsize):
                before, coming = coming, asyncio.ensure_future(self._piece(box, key, dtype, splits))
                if before is not None:
                    yield await before
            if coming is not None:
                yield await coming
        finally:
            if coming is not None:
                coming.cancel()

    async def _piece(self, box: Sequence[range], key: str, dtype: np.dtype[Any], splits: Splits) -> bytes:
        """Reads the elements of a box from all chunks that overlap it."""
        for left in reversed(range(RECOVERIES + 1)):
            try:
                (chunks,) = await self._cluster.ask("session", "chunks", [key])
                return await self._gathered(box, chunks, dtype, splits)
            except ChunkLostError as error:
                if not left:
                    raise
                await self._recovery.again(key, error)
        raise AssertionError("the last try returns or raises")

    async def _gathered(
        self, box: Sequence[range], chunks: Sequence[int], dtype: np.dtype[Any], splits: Splits
    ) -> bytes:
        piece = np.empty([len(one) for one in box], dtype)
        parts = list(chunk_reads(box, splits, dtype.itemsize))
        for some in (parts[i : i + AT_ONCE] for i in range(0, len(parts), AT_ONCE)):
            answers = [self._part(chunks[one.chunk], one, dtype.itemsize) for one in some]
            for one, data in zip(some, await asyncio.gather(*answers)):
                target: Any = (*one.target, ...)
                piece[target] = np.frombuffer(data, dtype).reshape(one.shape)
        self._counts["bytes", "out"] += piece.nbytes
        return piece.tobytes()

    async def _part(self, chunk: int, part: ChunkRead, itemsize: int) -> bytes:
        asked = chunk, part.start, itemsize, part.shape, part.strides
        data, sent = await self._cluster.ask("passing", "gather", *asked, patience=MOVING)
        return received(data, sent, f"chunk {chunk}")
