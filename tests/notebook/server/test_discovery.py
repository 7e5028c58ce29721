"""Clusters by their registry files."""

import asyncio
import json

import pytest

from jmars.errors import ClusterLostError
from jmars.notebook.server.discovery import ClusterFinder
from tests.notebook.events_for_tests import started
from tests.notebook.server.fake_cluster import TOKEN, FakeCluster

ENTRY = {"id": "c1", "name": "local", "socket": "/none", "token": TOKEN}


def write(path, entry=ENTRY, mode=0o600):
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_text(entry if isinstance(entry, str) else json.dumps(entry))
    return path


def test_it_asks_the_cluster_and_asks_again_after_a_loss(runtime_dir):
    async def ask_twice():
        finder = ClusterFinder()
        with FakeCluster(runtime_dir, started(4).events):
            assert (await finder.ask("fake-1", "cluster", "summary"))["workers"] == 2
        with pytest.raises(KeyError):
            await finder.ask("fake-1", "cluster", "summary")
        with FakeCluster(runtime_dir, started(4).events):
            assert (await finder.ask("fake-1", "cluster", "summary"))["workers"] == 2
            finder.close()

    asyncio.run(ask_twice())


def test_a_registered_cluster_that_is_gone_is_a_clear_error(runtime_dir):
    write(runtime_dir / "c1.json")

    async def ask():
        with pytest.raises(ClusterLostError, match="no cluster answers"):
            await ClusterFinder().ask("c1", "cluster", "summary")

    try:
        asyncio.run(ask())
    finally:
        (runtime_dir / "c1.json").unlink()
