"""A chunk is sent from its slot or from its file; the source takes no memory for it."""

from __future__ import annotations

import asyncio
import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jmars.errors import ChecksumError, ChunkLostError, ClusterError
from jmars.storage.arena import SLAB, Allocator
from jmars.storage.chunks import Chunks, SpillFile, received
from jmars.storage.spill import write_chunk
from jmars.worker.chunk_exchange import ServingActor

DATA = bytes(range(256)) * (SLAB // 256)


class Source:
    def __init__(self, folder: Path) -> None:
        self.memory = mmap.mmap(-1, 4 * SLAB)
        self.chunks = Chunks(Allocator(4 * SLAB), lambda chunk: 0)
        self.spills: set[int] = set()
        execution: Any = SimpleNamespace(
            chunks=self.chunks, memory=SimpleNamespace(buffers=SimpleNamespace(spills=self.spills))
        )
        self.actor = ServingActor(execution, self.memory, str(folder))
        self.folder = str(folder)

    def store(self, chunk: int) -> None:
        slot = self.chunks.allocator.allocate(SLAB)
        assert slot is not None
        self.memory[slot : slot + SLAB] = DATA
        self.chunks.memory[chunk] = slot

    def read(self, chunk: int, start: int, stop: int) -> bytes:
        data, sent = asyncio.run(self.actor.read(chunk, start, stop))
        return received(data, sent, "it")


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def test_a_chunk_in_memory_also_while_it_is_spilled(source: Source) -> None:
    source.store(1)
    assert source.read(1, 3, 300) == DATA[3:300]
    source.chunks.start_spill(1)
    source.spills.add(1)
    assert source.read(1, 0, SLAB) == DATA


def test_a_chunk_that_is_being_reloaded_is_read_from_its_file(source: Source) -> None:
    name, sums = write_chunk(source.folder, memoryview(DATA))
    source.chunks.disk[1] = SpillFile(name, sums, SLAB)
    assert source.read(1, 70_001, 90_000) == DATA[70_001:90_000]
    source.chunks.start_load(1, 0)  # its slot has no bytes of it yet
    assert source.read(1, 5, 9) == DATA[5:9]
    assert source.chunks.allocator.used == 0


def test_a_damaged_file_is_told(source: Source) -> None:
    name, sums = write_chunk(source.folder, memoryview(DATA))
    path = Path(source.folder) / name
    path.write_bytes(b"x" + path.read_bytes()[1:])
    source.chunks.disk[1] = SpillFile(name, sums, SLAB)
    with pytest.raises(ChecksumError):
        source.read(1, 0, 10)


def test_what_is_not_here_and_what_lies_outside(source: Source) -> None:
    with pytest.raises(ChunkLostError):
        source.read(1, 0, 10)
    source.store(2)
    with pytest.raises(ClusterError, match="no part"):
        source.read(2, 0, SLAB + 1)
    source.chunks.elsewhere[3] = None  # type: ignore[assignment]
    with pytest.raises(ChunkLostError):
        source.read(3, 0, 10)
