"""Folders: private, and gone when the cluster is."""

import json
import os
from pathlib import Path

import pytest

from jmars.config import runtime_dir
from jmars.deploy.folders import Folders, sweep
from jmars.errors import ClusterError, StorageError


@pytest.fixture(autouse=True)
def own_runtime_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("JMARS_RUNTIME_DIR", str(tmp_path / "run"))


def test_everything_is_private_under_any_umask(tmp_path):
    before = os.umask(0)
    try:
        folders = Folders.make("abc", tmp_path)
        folders.register({"id": "abc", "token": "secret"})
        folders.make_spill()
    finally:
        os.umask(before)
    modes = [os.stat(path).st_mode & 0o777 for path in (folders.registry, folders.folder, folders.spill)]
    assert modes == [0o600, 0o700, 0o700]
    assert json.loads(Path(folders.registry).read_text())["token"] == "secret"
    folders.remove()
    assert not any(os.path.exists(path) for path in (folders.registry, folders.folder, folders.spill))


def test_a_spill_dir_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(StorageError, match="no folder that can be written to"):
        Folders.make("abc", tmp_path / "missing")


def test_a_runtime_dir_that_others_may_enter_is_refused(tmp_path, monkeypatch):
    (tmp_path / "open").mkdir(mode=0o755)
    monkeypatch.setenv("JMARS_RUNTIME_DIR", str(tmp_path / "open"))
    with pytest.raises(ClusterError, match="chmod 700"):
        runtime_dir()


def test_what_dead_clusters_left_is_swept_and_what_lives_stays(tmp_path):
    dead, alive = Folders.make("dead", tmp_path), Folders.make("alive", tmp_path)
    for folders, name in ((dead, "dead"), (alive, "alive")):
        folders.register({"id": name})
        folders.make_spill()
    lock = alive.lock()
    assert sweep() == ["dead"]
    assert not os.path.exists(dead.folder) and not os.path.exists(dead.spill)
    assert os.path.exists(alive.folder) and os.path.exists(alive.registry)
    os.close(lock)
    assert sweep() == ["alive"]


def test_folders_of_a_killed_unregistered_host_are_removed_at_a_start(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, alive, young, other = [Folders.make(name, tmp_path) for name in ("killed", "alive", "young", "other")]
    locks = {one: one.lock() for one in (killed, alive, young)}
    for one in (killed, alive, young, other):
        Path(one.make_spill(), "chunk").write_bytes(b"x")
    os.close(locks[killed]), os.close(locks[young])
    for one in (killed, alive):
        os.utime(Path(one.folder) / "lock", (1e9, 1e9))
    assert sweep() == []
    assert not os.path.exists(killed.folder) and not os.path.exists(killed.spill)
    for one in (alive, young, other):
        assert os.path.exists(one.folder) and os.path.exists(one.spill + "/chunk")
    os.close(locks[alive])
