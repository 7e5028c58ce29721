"""The chunks of kept tensors, and reference counts of chunks.

A chunk may belong to several tensors (a reshape without a copy) and to reading jobs, so holders are counted;
the last release frees the chunk. Source: docs/explanation/seeds.md, "Operand states".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jmars.errors import ChunkLostError

__all__ = ["ChunkMetaActor"]


class ChunkMetaActor:
    """Kept tensors by key, and the number of holders of each chunk."""

    def __init__(self) -> None:
        self.tensors: dict[str, list[int]] = {}  # key: chunks in C order of the grid
        self.shapes: dict[int, tuple[int, ...]] = {}  # of held chunks whose size was known only when they were there
        self._holders: dict[int, int] = {}
        self._lost: set[int] = set()  # held chunks that are gone

    def keep(self, key: str, chunks: Sequence[int]) -> list[int]:
        """Make `chunks` the tensor `key`; returns chunks to free because the tensor was here already.

        The first tensor stays, unless some of its chunks are lost: a job may be reading the tensor, and a key's value
        never changes.
        """
        self.hold(chunks)
        before = self.tensors.get(key)
        if before is not None and self._lost.isdisjoint(before):
            return self.release(chunks)
        self.tensors[key] = list(chunks)
        return self.release(before or ())

    def chunks(self, key: str) -> list[int]:
        """Chunks of a kept tensor; raises ChunkLostError when the tensor is not here, or some chunks are gone."""
        known = self.tensors.get(key)
        if known is None:
            raise ChunkLostError(f"tensor {key} is no longer on the cluster; compute it again", [key])
        if self._lost and not self._lost.isdisjoint(known):
            raise ChunkLostError(f"a chunk of tensor {key} was lost; compute it again", [key])
        return known

    def held(self) -> list[int]:
        """Chunks with at least one holder."""
        return list(self._holders)

    def is_held(self, chunk: int) -> bool:
        """Whether a chunk is here and has a holder."""
        return chunk in self._holders and chunk not in self._lost

    def lost(self, chunks: Iterable[int]) -> list[str]:
        """Chunks are gone; returns the tensors that cannot be read any more."""
        gone = {chunk for chunk in chunks if chunk in self._holders}
        self._lost |= gone
        return [key for key, held in self.tensors.items() if not gone.isdisjoint(held)] if gone else []

    def drop(self, key: str) -> list[int]:
        """Forget a tensor; returns chunks without a holder now."""
        return self.release(self.tensors.pop(key, ()))

    def hold(self, chunks: Iterable[int]) -> None:
        """Add a holder to each chunk."""
        for chunk in chunks:
            self._holders[chunk] = self._holders.get(chunk, 0) + 1

    def told(self, chunk: int, shape: tuple[int, ...]) -> None:
        """Note the shape of a chunk that was not known before, while the chunk has a holder."""
        if chunk in self._holders:
            self.shapes[chunk] = shape

    def release(self, chunks: Iterable[int]) -> list[int]:
        """Remove a holder from each chunk; returns chunks without a holder now."""
        holders, free = self._holders, []
        for chunk in chunks:
            left = holders[chunk] - 1
            if left:
                holders[chunk] = left
            else:
                del holders[chunk]
                free.append(chunk)
        if self._lost:
            self._lost.difference_update(free)
        if self.shapes:
            for chunk in free:
                self.shapes.pop(chunk, None)
        return free
