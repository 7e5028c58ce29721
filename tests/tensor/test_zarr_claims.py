"""Claims of writers in a store of drawn order: of writers that begin at once, one at a time has the place."""

from __future__ import annotations

import asyncio
import json
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from jmars.errors import StorageError
from jmars.tensor import whole_zarr

pytest.importorskip("zarr", reason="zarr is not installed (extra jmars[io])")


class _Store:
    """An object store in memory; each request waits until the test lets it go."""

    path, protocol = "", "memory"

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects, self.waiting, self.fs = objects, [], self

    async def turn(self) -> None:
        self.waiting.append(asyncio.get_running_loop().create_future())
        await self.waiting[-1]

    async def _pipe_file(self, key: str, data: bytes, mode: str) -> None:
        await self.turn()
        if key in self.objects:
            raise FileExistsError(key)
        self.objects[key] = data

    async def get(self, key: str, prototype: Any) -> Any:
        await self.turn()
        return prototype.buffer.from_bytes(self.objects[key]) if key in self.objects else None

    async def set(self, key: str, data: Any) -> None:
        await self.turn()
        self.objects[key] = data.to_bytes()

    async def delete(self, key: str) -> None:
        await self.turn()
        self.objects.pop(key, None)


async def _run(store: _Store, writers: list[Any], chance: Random) -> list[Any]:
    """Run coroutines; the requests are answered in drawn order."""
    tasks = [asyncio.create_task(one) for one in writers]
    while True:
        for _ in range(20):  # every task reaches its next request
            await asyncio.sleep(0)
        if not store.waiting:
            return await asyncio.gather(*tasks)
        store.waiting.pop(chance.randrange(len(store.waiting))).set_result(None)


def _claim(store: _Store) -> Any:
    return whole_zarr._Claim(SimpleNamespace(store=store, path="a", store_path="a"))


def _left(token: str) -> bytes:
    """The claim of a writer on another host that died."""
    return json.dumps({"writer": "far", "token": token, "here": "far", "pid": 1, "time": 0.0}).encode()


@pytest.mark.parametrize("left", [(), (0,), (0, 1), (1,)])
def test_of_writers_that_begin_at_once_one_at_a_time_has_the_claim(left):
    for seed in range(300):
        store = _Store({f"a/.jmars-claim-{number}": _left(f"left {number}") for number in left})
        within: list[int] = []

        async def write(number: int, store: _Store = store, within: list[int] = within) -> str:
            claim = _claim(store)
            whole_zarr._held[claim.token] = None
            try:
                await claim.take()
                within.append(number)
                assert within == [number], f"writers {within} have the claim"
                await store.turn()
                await claim.check()
                within.remove(number)
                await claim.release()
            except StorageError as error:
                assert "is being written" in str(error)
                return "refused"
            finally:
                del whole_zarr._held[claim.token]
            return "written"

        found = asyncio.run(_run(store, [write(number) for number in range(4)], Random(seed)))
        assert "written" in found, f"seed {seed}: no writer has the claim"
        assert not {"a/.jmars-claim-0", "a/.jmars-claim-2"} & store.objects.keys()


def test_a_claim_that_became_void_is_removed_by_the_writer_that_took_over():
    async def writers(store: _Store) -> list[Any]:
        paused, second, third = (_claim(store) for _ in range(3))
        for claim in (paused, second):  # `paused` is in no list of held claims, so void
            await _run(store, [claim.take()], Random(1))
        whole_zarr._held[second.token] = None
        try:
            await _run(store, [paused.release()], Random(1))
            with pytest.raises(StorageError, match="is being written"):
                await _run(store, [third.take()], Random(1))
            with pytest.raises(StorageError, match="another program removed or wrote"):
                await _run(store, [paused.check()], Random(1))
            store.objects.pop("a/.jmars-claim-0")  # the request of `paused` arrives late
            with pytest.raises(StorageError, match="another program removed or wrote"):
                await _run(store, [second.check()], Random(1))
        finally:
            del whole_zarr._held[second.token]
        return [len(second.void), sorted(store.objects)]

    assert asyncio.run(writers(_Store({}))) == [1, ["a/.jmars-claim-1"]]


@pytest.mark.parametrize("void", [["own"], ["own", "earlier"], [""], ["", "earlier"]])
def test_a_paused_writer_finds_the_writer_that_took_over(void):
    async def write(store: _Store) -> None:
        paused = _claim(store)
        await _run(store, [paused.take()], Random(1))
        if "earlier" in void:  # left by a killed writer
            store.objects["a/.jmars-claim-1"] = _left("earlier")
        found = [paused.token if one == "own" else one for one in void]  # "" of a claim that was being written
        store.objects[f"a/.jmars-claim-{len(void)}"] = json.dumps({"token": "second", "void": found}).encode()
        with pytest.raises(StorageError, match="another program removed or wrote"):
            await _run(store, [paused.check()], Random(1))

    asyncio.run(write(_Store({})))


def test_a_renewal_after_the_removal_of_the_claim_ends_the_write(monkeypatch):
    async def writers(store: _Store) -> None:
        paused, second = _claim(store), _claim(store)
        await _run(store, [paused.take()], Random(1))
        renewal = asyncio.create_task(paused.beat())
        for is_last in (False, True):  # the claim is read, and `paused` stops before the claim is written
            while not store.waiting:
                await asyncio.sleep(0)
            late = store.waiting.pop()
            if not is_last:
                late.set_result(None)
        now = whole_zarr.time.time() + 2 * whole_zarr.EXPIRY
        monkeypatch.setattr(whole_zarr.time, "time", lambda: now)
        for step in (second.take, second.check, second.release):
            await _run(store, [step()], Random(1))
        assert not store.objects
        late.set_result(None)
        await renewal
        with pytest.raises(StorageError, match="another program removed or wrote"):
            await _run(store, [paused.check()], Random(1))

    asyncio.run(writers(_Store({})))
