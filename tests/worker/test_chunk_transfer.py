"""Chunks that go in and out by messages."""

from __future__ import annotations

import asyncio
import mmap

import numpy as np
import pytest

from jmars.errors import ClusterError, StorageError
from jmars.storage.arena import SLAB
from jmars.storage.chunks import ChunkElements, checksum
from jmars.worker.store import ChunkTransferActor
from tests.memory.buffer_host import Host
from tests.worker.test_store import store_of


def test_what_is_put_is_read_in_parts_and_nothing_stays_held():
    async def through() -> None:
        host = Host()
        store, execution = store_of(host)
        with mmap.mmap(-1, 4 * SLAB) as memory:
            passing = ChunkTransferActor(store, memory)
            data = bytes(range(256)) * (SLAB // 256)
            await passing.put(3, 0, len(data), data, checksum(data))
            assert await passing.gather(ChunkElements(3, 0, 1, (SLAB,), (1,))) == (data, checksum(data))
            assert (await passing.gather(ChunkElements.first(3, 50, 250)))[0] == data[250:300]
            table = np.frombuffer(data, "<u2").reshape(-1, 64)
            told, _ = await passing.gather(ChunkElements(3, 2 * 64 * 2 + 8, 2, (5, 3), (2 * 128, 20)))
            assert np.array_equal(np.frombuffer(told, "<u2").reshape(5, 3), table[2:12:2, 4:34:10])
        assert execution.memory.active.clients == 0 and not host.chunks.pins

    asyncio.run(through())


def test_a_chunk_that_is_not_there_is_an_error_and_holds_nothing():
    async def ask() -> None:
        host = Host()
        store, execution = store_of(host)
        with pytest.raises(StorageError, match="chunk 5 is not on this host"), mmap.mmap(-1, SLAB) as memory:
            await ChunkTransferActor(store, memory).gather(ChunkElements(5, 0, 1, (1,), (1,)))
        assert execution.memory.active.clients == 0 and not host.buffers.queue

    asyncio.run(ask())


def test_bytes_that_changed_on_their_way_are_not_stored():
    async def ask() -> None:
        host = Host()
        store, execution = store_of(host)
        data = bytes(SLAB)
        with pytest.raises(StorageError, match="bytes of chunk 3 changed"), mmap.mmap(-1, 4 * SLAB) as memory:
            await ChunkTransferActor(store, memory).put(3, 0, len(data), data, checksum(data[1:] + b"x"))
        assert execution.memory.active.clients == 0 and 3 not in host.chunks.memory and not host.buffers.queue

    asyncio.run(ask())


def test_what_was_given_up_while_room_was_made_is_written_nowhere():
    async def give_up() -> None:
        host = Host()
        host.store(0, 1, 2, 3)
        store, execution = store_of(host)
        with mmap.mmap(-1, 4 * SLAB) as memory:
            data = b"x" * SLAB
            putting = asyncio.ensure_future(
                ChunkTransferActor(store, memory).put(7, 0, len(data), data, checksum(data))
            )
            await asyncio.sleep(0)  # it stands in line
            host.move()  # there is room: it will go on, but its client leaves first
            store.abandon(7, 1)
            host.store(8)  # the slot is another's
            with pytest.raises(ClusterError, match="was given up"):
                await putting
            assert memory[:] == bytes(4 * SLAB) and 7 not in host.chunks.memory
        assert execution.memory.active.clients == 0

    asyncio.run(give_up())
