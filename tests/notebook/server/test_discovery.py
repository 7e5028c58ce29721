"""Clusters by their registry files."""

import asyncio
import json
import os

import pytest

from jmars.errors import ClusterLostError
from jmars.notebook.server.discovery import Finder, read_entry
from tests.notebook.events_for_tests import started
from tests.notebook.server.fake_cluster import TOKEN, FakeCluster

ENTRY = {"id": "c1", "name": "local", "socket": "/none", "token": TOKEN}


def write(path, entry=ENTRY, mode=0o600):
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_text(entry if isinstance(entry, str) else json.dumps(entry))
    return path


def test_a_registry_file_gives_a_cluster_and_hides_its_token(tmp_path):
    entry = read_entry(write(tmp_path / "c1.json"))
    assert entry is not None
    assert (entry.id, entry.name) == ("c1", "local")
    assert TOKEN not in repr(entry)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps(ENTRY | {"id": "other"})])
def test_what_says_something_else_is_no_cluster(tmp_path, text):
    assert read_entry(write(tmp_path / "c1.json", text)) is None


def test_a_file_that_others_may_read_is_not_believed(tmp_path):
    assert read_entry(write(tmp_path / "c1.json", mode=0o644)) is None


def test_links_and_pipes_are_not_followed(tmp_path):
    write(tmp_path / "real.json")
    (tmp_path / "c1.json").symlink_to(tmp_path / "real.json")
    assert read_entry(tmp_path / "c1.json") is None
    os.mkfifo(tmp_path / "c2.json", 0o600)
    assert read_entry(tmp_path / "c2.json") is None
    assert read_entry(tmp_path / "gone.json") is None


def test_names_that_could_leave_a_url_are_no_clusters(tmp_path):
    assert read_entry(write(tmp_path / "a b.json", ENTRY | {"id": "a b"})) is None


def test_it_asks_the_cluster_and_asks_again_after_a_loss(runtime_dir):
    async def ask_twice():
        finder = Finder()
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
            await Finder().ask("c1", "cluster", "summary")

    try:
        asyncio.run(ask())
    finally:
        (runtime_dir / "c1.json").unlink()
