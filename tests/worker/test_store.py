"""What a client holds stays where it is; what it lets go of, at whatever point, is gone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jmars.errors import ClusterError
from jmars.memory.dynamic_outputs import ActiveOperands
from jmars.storage.arena import SLAB
from jmars.worker.store import StoreActor
from tests.memory.buffer_host import Host


def store_of(host: Host) -> tuple[StoreActor, Any]:
    def free_chunks(chunks) -> None:
        for chunk in chunks:
            host.buffers.delete(host.chunks.free(chunk))

    execution = SimpleNamespace(
        chunks=host.chunks,
        memory=SimpleNamespace(buffers=host.buffers, active=ActiveOperands(tuple)),
        dispatch=SimpleNamespace(dispatch=lambda: None),
        free_chunks=free_chunks,
    )
    return StoreActor(execution), execution  # type: ignore[arg-type]


def test_what_is_fetched_lies_still_though_the_next_in_line_needs_its_room():
    async def fetch() -> None:
        host = Host()
        host.store(0, 1, 2, 3)
        store, execution = store_of(host)
        host.ask("first", slots=1)  # chunk 3 goes to disk for it
        fetched = asyncio.ensure_future(store.pin("ticket", [0]))
        await asyncio.sleep(0)
        host.ask("next", slots=3)  # would take chunks 2, 1 and 0
        host.move()
        assert await fetched == [0]
        assert host.chunks.memory[0] == 0 and 0 not in host.chunks.moving
        assert execution.memory.active.clients == 1
        store.unpin("ticket")
        assert execution.memory.active.clients == 0 and not host.chunks.pins

    asyncio.run(fetch())


def test_a_client_that_is_interrupted_while_it_waits_leaves_nothing():
    async def interrupted() -> None:
        host = Host()
        host.store(0, 1, 2, 3)
        for chunk in range(4):
            host.chunks.pin(chunk)
        host.buffers._idle = lambda: False  # something runs that will free memory
        store, execution = store_of(host)
        reserved, pinned = store.reserve(7, 2 * SLAB), store.pin("ticket", [0])
        store.unpin("ticket")
        store.abandon(7, 1)
        for answer in (reserved, pinned):
            with pytest.raises(ClusterError):
                await answer
        assert not host.buffers.queue and not execution.memory.active.clients and set(host.chunks.pins.values()) == {1}

    asyncio.run(interrupted())


def test_an_upload_given_up_half_way_leaves_nothing():
    async def give_up() -> None:
        host = Host()
        store, execution = store_of(host)
        await store.reserve(10, SLAB)
        store.seal(10)
        await store.reserve(11, SLAB)
        assert execution.memory.active.clients == 1
        store.abandon(10, 3)  # one stored, one being filled, one not asked for yet
        assert host.arena.used == 0 and execution.memory.active.clients == 0 and not host.chunks.memory
        with pytest.raises(ClusterError, match="not reserved"):
            store.seal(11)

    asyncio.run(give_up())


def test_a_chunk_dropped_while_it_is_pinned_goes_with_its_file():
    async def drop() -> None:
        host = Host()
        host.spilled(3)
        store, _ = store_of(host)
        pinned = store.pin("ticket", [3])
        host.move()
        await pinned
        assert host.chunks.free(3) is None
        store.unpin("ticket")
        assert host.told == [("delete", "file-3")] and host.arena.used == 0 and not host.chunks.disk

    asyncio.run(drop())
