"""Clusters by their registry files."""

from __future__ import annotations

import json
import os
import socket

import pytest

from jmars.actors.registry import entries, find_entry, read_entry, refuse_twin
from jmars.errors import ClusterError, ClusterLostError

TOKEN = "0" * 64
ENTRY = {"id": "c1", "name": "local", "socket": "/none", "token": TOKEN, "folders": {"folder": "/private"}}


def write(path, entry=ENTRY, mode=0o600):
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_text(entry if isinstance(entry, str) else json.dumps(entry))
    return path


def test_a_registry_file_gives_a_cluster_and_hides_its_token(tmp_path):
    entry = read_entry(write(tmp_path / "c1.json"))
    assert entry is not None
    assert (entry.id, entry.name, entry.folder) == ("c1", "local", "/private")
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


def test_a_cluster_is_found_by_id_or_name_and_the_newest_without(runtime_dir):
    with pytest.raises(ClusterLostError, match="start one"):
        find_entry()
    write(runtime_dir / "c1.json", ENTRY | {"started": 2.0})
    write(runtime_dir / "c2.json", ENTRY | {"id": "c2", "name": "other", "started": 1.0})
    assert [one.id for one in entries()] == ["c1", "c2"]
    assert find_entry().id == "c1"
    assert find_entry("c2").id == find_entry("other").id == "c2"
    with pytest.raises(ClusterLostError, match="no cluster 'c3' runs here; there are c2"):
        find_entry("c3")
    write(runtime_dir / "c3.json", ENTRY | {"id": "c3"})
    with pytest.raises(ClusterLostError, match="2 clusters are called 'local'"):
        find_entry("local")
    for name in "c1", "c2", "c3":
        (runtime_dir / f"{name}.json").unlink()


def test_a_name_is_taken_while_its_cluster_listens_and_free_after_a_kill(runtime_dir, tmp_path):
    path = str(tmp_path / "s")
    file = write(runtime_dir / "c1.json", ENTRY | {"socket": path})
    refuse_twin("local")  # nobody is there
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(1)
        for name in ("local", "c1"):
            with pytest.raises(ClusterError, match="runs here already"):
                refuse_twin(name)
        refuse_twin("another")
    refuse_twin("local")  # its file is there still
    file.unlink()
