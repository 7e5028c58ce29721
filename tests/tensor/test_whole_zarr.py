"""Zarr arrays that are whole or not there: what readers see during a write, claims, what killed writers leave."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import StorageError
from jmars.tensor import atomic_file, whole_zarr, zarr_arrays
from tests.fault.harness import until

zarr = pytest.importorskip("zarr", reason="zarr is not installed (extra jmars[io])")
VALUES = np.arange(1.0, 37.0).reshape(6, 6)


SEE: list[Any] = []  # the function that is called during a write


@pytest.fixture(autouse=True)
def _threads_of_zarr(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    zarr.core.sync.cleanup_resources()
    if "obstore" in sys.modules:
        request.config.pluginmanager.get_plugin("jmars-leak-check").accept()  # its threads end with the process


@pytest.fixture(params=["folder", "fsspec", "obstore"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "folder":
        return tmp_path / "s"
    pytest.importorskip(request.param)
    if request.param == "obstore":
        return sys.modules["obstore"].store.LocalStore(str(tmp_path / "s"), mkdir=True)
    return zarr.storage.FsspecStore.from_url(f"file://{tmp_path}/s", storage_options={"auto_mkdir": True})


def _watched(see: Any) -> Any:
    """VALUES in four chunks; `see` is called while the last is computed."""
    SEE[:] = [see]
    return mt.asarray(VALUES, chunk_size=3).map_blocks(_seen, dtype=float)


def _seen(block: Any) -> Any:
    if block[0, 0] == VALUES[3, 3]:
        SEE[0]()
    return block


def _there(place: Any, name: str | None) -> Any:
    """What a reader finds; None for no array."""
    try:
        return mt.from_zarr(place, name).fetch()
    except FileNotFoundError:
        return None


def _fails() -> None:
    raise KeyError("a chunk")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["g/a", None])
def test_readers_find_an_array_when_it_is_whole(place, name, version):
    seen = []
    mt.to_zarr(_watched(lambda: seen.append(_there(place, name))), place, name, zarr_format=version)
    assert seen == [None]
    np.testing.assert_array_equal(_there(place, name), VALUES)
    if name:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of files that are no members
            assert list(zarr.open_group(_store(place), path="g", mode="r").array_keys()) == ["a"]
    with pytest.raises(zarr.errors.ContainsArrayError):
        mt.to_zarr(_watched(_fails), place, name, zarr_format=version)
    if name:
        with pytest.raises(zarr.errors.ContainsGroupError, match="at path 'g'"):
            mt.to_zarr(_watched(_fails), place, "g", zarr_format=version)


def _store(place: Any) -> Any:
    return zarr.storage.ObjectStore(place) if type(place).__module__.startswith("obstore") else place


def test_an_overwritten_folder_keeps_the_old_array_until_the_new_is_whole(tmp_path):
    mt.to_zarr(VALUES * 5, tmp_path / "a")
    with pytest.raises(KeyError, match="a chunk"):
        mt.to_zarr(_watched(_fails), tmp_path / "a", overwrite=True)
    assert os.listdir(tmp_path) == ["a"]
    seen = []
    mt.to_zarr(_watched(lambda: seen.append(_there(tmp_path, "a"))), tmp_path / "a", overwrite=True)
    np.testing.assert_array_equal(seen[0], VALUES * 5)
    np.testing.assert_array_equal(_there(tmp_path, "a"), VALUES)
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_stays_and_a_file_is_refused(tmp_path):
    mt.to_zarr(VALUES * 5, tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    mt.to_zarr(VALUES, tmp_path / "link", overwrite=True)
    np.testing.assert_array_equal(_there(tmp_path, "a"), VALUES)
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="a file is there"):
        mt.to_zarr(VALUES, tmp_path, "file", overwrite=True)
    assert (tmp_path / "file").read_text() == "mine"


def test_folders_are_exchanged_in_steps_where_the_system_cannot(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_file, "RENAME_EXCHANGE", 1 << 20)  # EINVAL
    for factor in (5, 1):
        mt.to_zarr(VALUES * factor, tmp_path / "a", overwrite=True)
        np.testing.assert_array_equal(_there(tmp_path, "a"), VALUES * factor)
    assert os.listdir(tmp_path) == ["a"]


def test_other_files_in_the_place_of_a_new_array_stay(tmp_path):
    (tmp_path / "c" / "0").mkdir(parents=True)  # pieces of a program that was killed
    (tmp_path / "notes").write_text("mine")
    mt.to_zarr(mt.asarray(VALUES, chunk_size=3), tmp_path)
    np.testing.assert_array_equal(_there(tmp_path, None), VALUES)
    assert sorted(os.listdir(tmp_path)) == ["c", "notes", "zarr.json"]
    mt.to_zarr(mt.asarray(VALUES, chunk_size=3), tmp_path / "below" / "v2", zarr_format=2)
    np.testing.assert_array_equal(_there(tmp_path, "below/v2"), VALUES)


@pytest.mark.filterwarnings("ignore:Object at a/notes is not recognized")
@pytest.mark.parametrize("version", [2, 3])
def test_pieces_without_metadata_are_no_part_of_a_new_array(place, tmp_path, version):
    mt.to_zarr(mt.asarray(VALUES, chunk_size=2), place, "a", zarr_format=version)
    for name in {".zarray", ".zattrs", "zarr.json"} & {*os.listdir(tmp_path / "s/a")}:
        (tmp_path / "s/a" / name).unlink()  # as after a killed writer
    (tmp_path / "s/a/notes").write_text("mine")
    new = np.zeros((4, 4))
    new[2, 2] = 1.0
    mt.to_zarr(mt.asarray(new, chunk_size=2), place, "a", zarr_format=version)
    zarr.open_array(_store(place), path="a", mode="r+").resize((6, 6))
    np.testing.assert_array_equal(_there(place, "a"), np.pad(new, (0, 2)))
    assert (tmp_path / "s/a/notes").read_text() == "mine"


@pytest.mark.parametrize("name, version", [("c", 3), ("c/0", 3), ("0", 2)])
def test_an_array_where_pieces_of_a_new_array_would_lie_stays(place, tmp_path, name, version):
    mt.to_zarr(mt.asarray(VALUES, chunk_size=2), tmp_path / "s" / name, zarr_format=2)
    there = {path: path.stat().st_mtime_ns for path in (tmp_path / "s" / name).rglob("*")}
    separator = {} if version == 3 else {"chunk_key_encoding": {"name": "v2", "separator": "/"}}
    with pytest.raises(StorageError, match=f"group {name} lies where .* its pieces; write it to another place"):
        mt.to_zarr(mt.asarray(VALUES, chunk_size=2), place, zarr_format=version, **separator)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "s" / name).rglob("*")} == there
    np.testing.assert_array_equal(_there(tmp_path / "s", name), VALUES)


def test_files_of_others_in_a_folder_of_pieces_stay(tmp_path):
    (tmp_path / "c/0").mkdir(parents=True)
    (tmp_path / "c/0/notes").write_text("mine")
    mt.to_zarr(mt.asarray(VALUES, chunk_size=2), tmp_path)
    assert (tmp_path / "c/0/notes").read_text() == "mine"
    np.testing.assert_array_equal(_there(tmp_path, None), VALUES)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_second_writer_gets_an_error_before_it_writes(place, overwrite):
    errors = []

    def second() -> None:
        with pytest.raises(StorageError, match=rf"is being written by process {os.getpid()} of ") as caught:
            mt.to_zarr(_watched(_fails), place, "a", overwrite=overwrite)
        errors.append(caught.value)

    mt.to_zarr(_watched(second), place, "a", overwrite=overwrite)
    assert len(errors) == 1
    np.testing.assert_array_equal(_there(place, "a"), VALUES)


def test_a_writer_whose_place_is_emptied_writes_no_metadata(place, tmp_path):
    def other() -> None:
        subprocess.run(f"rm -rf {tmp_path}/s/* {tmp_path}/s/.a.claim", shell=True, check=True)

    with pytest.raises((StorageError, FileNotFoundError)):
        mt.to_zarr(_watched(other), place, "a")
    assert _there(place, "a") is None
    mt.to_zarr(_watched(lambda: None), place, "a")
    np.testing.assert_array_equal(_there(place, "a"), VALUES)


KILLED = """
import os, signal, sys
from tests.tensor.test_whole_zarr import VALUES
import jmars, jmars.tensor as mt, zarr
kernel, cluster = os.getpid(), jmars.Cluster(n_workers=1, memory_limit="256MiB")
place = sys.argv[1]
if place == "fsspec":
    place = zarr.storage.FsspecStore.from_url(sys.argv[2], storage_options={"auto_mkdir": True})

def killed(block):
    if block[0, 0] == VALUES[3, 3]:
        os.kill(kernel, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)  # the worker: it would write for another moment
    return block

x = mt.asarray(VALUES, chunk_size=3).map_blocks(killed, dtype=float)
mt.to_zarr(x, place, "a", overwrite=sys.argv[3] == "True")
"""


@pytest.mark.parametrize("before", [False, True])
def test_a_killed_writer_leaves_no_array_and_the_next_run_writes_it(tmp_path, before):
    place = str(tmp_path / "s")
    if before:
        mt.to_zarr(VALUES * 5, place, "a")
    killed = subprocess.run([sys.executable, "-c", KILLED, place, "", str(before)])
    assert killed.returncode == -signal.SIGKILL
    np.testing.assert_array_equal(_there(place, "a"), VALUES * 5 if before else None)
    mt.to_zarr(VALUES, place, "a", overwrite=before)
    np.testing.assert_array_equal(_there(place, "a"), VALUES)
    assert sorted(os.listdir(tmp_path / "s")) == ["a", "zarr.json"]


def test_a_killed_writer_to_a_store_loses_its_claim(tmp_path):
    pytest.importorskip("fsspec")
    url = f"file://{tmp_path}/s"
    killed = subprocess.run([sys.executable, "-c", KILLED, "fsspec", url, "False"])
    assert killed.returncode == -signal.SIGKILL and (tmp_path / "s/a/.jmars-claim-0").exists()
    assert _there(url, "a") is None
    mt.to_zarr(VALUES, url, "a", storage_options={"auto_mkdir": True})
    np.testing.assert_array_equal(_there(url, "a"), VALUES)
    assert not list((tmp_path / "s/a").glob(".jmars*"))


@pytest.mark.parametrize(("age", "valid"), [(0, True), (2 * whole_zarr.EXPIRY, False)])
def test_a_claim_of_another_host_is_void_when_it_is_not_renewed(tmp_path, age, valid):
    pytest.importorskip("fsspec")
    url, options = f"file://{tmp_path}/a", {"storage_options": {"auto_mkdir": True}}
    (tmp_path / "a").mkdir()
    claim = tmp_path / "a/.jmars-claim-0"
    facts = {"writer": "process 7 of far", "token": "x", "here": "far", "pid": os.getpid()}
    claim.write_text(json.dumps({**facts, "time": whole_zarr.time.time() - age}))
    if valid:
        with pytest.raises(StorageError, match=r"written by process 7 of far.*void after 60 s"):
            mt.to_zarr(VALUES, url, **options)
        assert os.listdir(tmp_path / "a") == [claim.name]
    else:
        mt.to_zarr(VALUES, url, **options)
        np.testing.assert_array_equal(_there(url, None), VALUES)
        assert not claim.exists()


@pytest.mark.parametrize(
    ("group", "age", "valid"), [("g", 0, True), ("h", 0, False), ("g", 2 * whole_zarr.EXPIRY, False)]
)
def test_a_group_is_not_replaced_while_an_array_within_is_written(tmp_path, group, age, valid):
    pytest.importorskip("fsspec")
    (tmp_path / "g/a").mkdir(parents=True)
    facts = {"writer": "process 7 of far", "token": "x", "here": "far", "pid": os.getpid()}
    (tmp_path / "g/a/.jmars-claim-0").write_text(json.dumps({**facts, "time": whole_zarr.time.time() - age}))
    replaced = whole_zarr.replaced_group(zarr_arrays.store_place(f"file://{tmp_path}", group, None))
    if valid:
        with pytest.raises(StorageError, match=r"g/a is being written by process 7 of far; wait"), replaced:
            pass
    else:
        with replaced as mode:
            assert mode == "a" and (tmp_path / "g/a/.jmars-claim-0").exists() == (group == "h")


@pytest.mark.parametrize("place", ["obstore"], indirect=True)  # files of fsspec know no conditional put
def test_of_two_writers_that_begin_at_once_one_replaces_a_group(place, monkeypatch):
    made, meet, ended = whole_zarr._made, asyncio.Barrier(2), threading.Event()

    async def at_once(*given):
        await meet.wait()
        return await made(*given)

    def write(number):
        try:
            with whole_zarr.replaced_group(zarr_arrays.store_place(place, "g", None)):
                assert ended.wait(60)
                return number
        except StorageError as error:
            ended.set()
            return str(error)

    monkeypatch.setattr(whole_zarr, "_made", at_once)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(write, range(2)))
    assert sorted(isinstance(one, int) for one in found) == [False, True]
    assert any(re.search("g is being written by (another )?process", str(one)) for one in found)


def test_a_claim_is_renewed_while_its_writer_lives(tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    monkeypatch.setattr(whole_zarr, "BEAT", 0.01)
    claim, times = tmp_path / "s/a/.jmars-claim-0", set()

    def see() -> None:
        while len(times) < 3:
            if text := claim.read_text():  # not while it is written
                times.add(text)

    url = f"file://{tmp_path}/s"
    mt.to_zarr(_watched(see), url, "a", storage_options={"auto_mkdir": True})
    np.testing.assert_array_equal(_there(url, "a"), VALUES)


def test_pieces_in_stores_have_checksums(tmp_path):
    pytest.importorskip("fsspec")
    url, options = f"file://{tmp_path}/a", {"storage_options": {"auto_mkdir": True}}
    mt.to_zarr(mt.asarray(VALUES, chunk_size=3), url, **options)
    piece = tmp_path / "a/c/1/1"
    wrong = bytearray(piece.read_bytes())
    wrong[-1] ^= 1
    piece.write_bytes(wrong)
    with pytest.raises(ValueError, match="checksum"):
        mt.from_zarr(url).fetch()
    for how in ({"checksum": False}, {"compressors": None}, {"zarr_format": 2}):
        mt.to_zarr(VALUES, url, overwrite=True, **options, **how)
        assert "crc32c" not in str(zarr.open_array(url).metadata)
        np.testing.assert_array_equal(_there(url, None), VALUES)


def test_a_claim_cut_short_by_a_death_is_void(tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    monkeypatch.setattr(whole_zarr, "READS", 2)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.jmars-claim-0").touch()
    mt.to_zarr(VALUES, f"file://{tmp_path}/a", storage_options={"auto_mkdir": True})
    np.testing.assert_array_equal(_there(tmp_path, "a"), VALUES)
    assert not list((tmp_path / "a").glob(".jmars*"))


def test_a_folder_that_a_dying_worker_fills_stops_no_write(tmp_path, monkeypatch):
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = tmp_path / f"a.{atomic_file.here()}-{ended.pid}-0123abcd.part"
    (left / "c").mkdir(parents=True)

    def filled(*args: Any, **kwargs: Any) -> None:
        raise OSError(39, "Directory not empty", "c")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", filled)
        mt.to_zarr(VALUES, tmp_path / "a")
    np.testing.assert_array_equal(_there(tmp_path, "a"), VALUES)
    assert left.exists()
    mt.to_zarr(VALUES, tmp_path / "a", overwrite=True)
    assert os.listdir(tmp_path) == ["a"]


def test_a_claim_that_was_just_seen_is_removed_without_another_look(tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    looks, read = [], whole_zarr._read_claim

    async def look(store: Any, key: str) -> Any:
        looks.append(key)
        return await read(store, key)

    monkeypatch.setattr(whole_zarr, "_read_claim", look)
    mt.to_zarr(VALUES, f"file://{tmp_path}/a", storage_options={"auto_mkdir": True})
    assert looks == [".jmars-claim-0", ".jmars-claim-1"]  # the second is of a writer that took over
    assert not list((tmp_path / "a").glob(".jmars*"))


def test_after_an_error_the_claim_of_another_writer_stays(tmp_path):
    pytest.importorskip("fsspec")
    claim = tmp_path / "a/.jmars-claim-0"

    def taken():
        facts = {"writer": "process 7 of far", "token": "x", "here": "far", "pid": 7, "time": whole_zarr.time.time()}
        claim.write_text(json.dumps(facts))
        raise KeyError("a chunk")

    with pytest.raises(KeyError):
        mt.to_zarr(_watched(taken), f"file://{tmp_path}/a", storage_options={"auto_mkdir": True})
    assert json.loads(claim.read_text())["token"] == "x"


@pytest.mark.parametrize("fails", [False, True])
def test_a_writer_whose_claim_was_taken_over_leaves_the_place(tmp_path, fails):
    pytest.importorskip("fsspec")
    piece = tmp_path / "a/c/7/7"

    def paused():  # for longer than the claim is valid, while a second writer begins
        facts = {"writer": "process 7 of far", "token": "x", "here": "far", "pid": 7, "time": whole_zarr.time.time()}
        facts["void"] = [json.loads((tmp_path / "a/.jmars-claim-0").read_text())["token"]]
        (tmp_path / "a/.jmars-claim-1").write_text(json.dumps(facts))
        piece.parent.mkdir(parents=True)
        piece.write_text("of the second writer")
        if fails:
            raise KeyError("a chunk")

    with pytest.raises(KeyError if fails else StorageError) as caught:
        mt.to_zarr(_watched(paused), f"file://{tmp_path}/a", storage_options={"auto_mkdir": True})
    told = "".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "another program removed or wrote" in told and piece.exists()
    assert not (tmp_path / "a/zarr.json").exists()


def test_a_claim_that_an_earlier_writer_left_keeps_no_writer_away(tmp_path):
    pytest.importorskip("fsspec")
    (tmp_path / "a").mkdir()
    facts = {"writer": "process 7 of far", "token": "x", "here": "far", "pid": 7, "time": whole_zarr.time.time() - 99}
    (tmp_path / "a/.jmars-claim-1").write_text(json.dumps(facts))
    mt.to_zarr(VALUES, f"file://{tmp_path}/a", storage_options={"auto_mkdir": True})
    np.testing.assert_array_equal(_there(tmp_path, "a"), VALUES)


def test_pieces_of_an_array_within_the_place_stay(tmp_path):
    zarr.create_array(tmp_path / "a/0", shape=(4,), chunks=(2,), dtype="i4", zarr_format=2)[:] = 1
    (tmp_path / "a/c").mkdir()
    (tmp_path / "a/c/0").write_text("left")
    whole_zarr.remove_left([zarr.storage.StorePath(zarr.storage.LocalStore(tmp_path), "a")])
    assert not (tmp_path / "a/c/0").exists() and zarr.open_array(tmp_path / "a/0")[:].tolist() == [1] * 4


def test_the_pieces_of_an_array_that_is_there_are_not_listed(tmp_path, monkeypatch):
    zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="i4", zarr_format=2)[:] = 1
    monkeypatch.setattr(zarr.storage.LocalStore, "list_dir", None)
    monkeypatch.setattr(zarr.storage.LocalStore, "list_prefix", None)
    whole_zarr.remove_left([zarr.storage.StorePath(zarr.storage.LocalStore(tmp_path), "a")])
    assert zarr.open_array(tmp_path / "a")[:].tolist() == [1] * 4


@pytest.fixture
def failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, threading.Event]]:
    """A write that has failed while its removal waits for an event: the place, and the event."""
    store = pytest.importorskip("fsspec") and zarr.storage.FsspecStore
    listed, answers = store.list_prefix, threading.Event()

    async def late(*args: Any) -> Any:
        await asyncio.to_thread(answers.wait, 60)
        async for key in listed(*args):
            yield key

    def fails() -> None:
        patch.setattr(store, "list_prefix", late)
        raise KeyError("a chunk")

    place = {"url": f"file://{tmp_path}/a", "storage_options": {"auto_mkdir": True}}
    with monkeypatch.context() as patch:
        patch.setattr(whole_zarr, "CLEANUP_SECONDS", 0.05)
        with pytest.raises(KeyError, match="a chunk") as caught:
            mt.to_zarr(_watched(fails), **place)
    assert "could not be removed: the store did not remove them within 0.05 s; the" in caught.value.__notes__[-1]
    yield place, answers
    answers.set()


def _when_met(monkeypatch: pytest.MonkeyPatch, do: Any) -> None:
    """Have a function called when a writer has met a claim."""
    refuse = whole_zarr._refuse

    def met(*facts: Any) -> None:
        try:
            refuse(*facts)
        finally:
            do()

    monkeypatch.setattr(whole_zarr, "_refuse", met)


def test_a_writer_waits_until_the_pieces_of_a_failed_write_are_removed(tmp_path, monkeypatch, failed_write):
    place, answers = failed_write
    (claim,) = (tmp_path / "a").glob(".jmars*")
    until(lambda: '"removing": true' in claim.read_text(), 10, "the claim says that its writer removes pieces")
    _when_met(monkeypatch, answers.set)
    mt.to_zarr(mt.asarray(VALUES, chunk_size=2), **place)
    np.testing.assert_array_equal(_there(tmp_path, "a"), VALUES)
    assert sorted(os.listdir(tmp_path / "a")) == ["c", "zarr.json"]


def test_a_writer_waits_for_a_removal_no_longer_than_a_claim_is_valid(tmp_path, monkeypatch, failed_write):
    place, answers = failed_write
    monkeypatch.setattr(whole_zarr, "EXPIRY", 0.05)
    with pytest.raises(StorageError, match=rf"by process {os.getpid()} of .* has ended, but .* within 0\.05 s; write"):
        mt.to_zarr(_watched(_fails), **place)
    answers.set()
    monkeypatch.setattr(whole_zarr, "EXPIRY", 60)
    mt.to_zarr(VALUES, **place)
    np.testing.assert_array_equal(_there(tmp_path, "a"), VALUES)


@pytest.mark.parametrize("ends", [True, False])
def test_a_writer_waits_for_a_removal_of_another_host(tmp_path, monkeypatch, ends):
    pytest.importorskip("fsspec")
    (tmp_path / "g/a").mkdir(parents=True)
    claim = tmp_path / "g/a/.jmars-claim-0"
    facts = {"writer": "process 7 of far", "token": "x", "here": "far", "pid": 7, "removing": True}
    claim.write_text(json.dumps({**facts, "time": whole_zarr.time.time()}))
    monkeypatch.setattr(whole_zarr, "BEAT", 0.01)
    if ends:
        _when_met(monkeypatch, lambda: claim.unlink(missing_ok=True))
    else:  # the host is gone, and the claim becomes void
        monkeypatch.setattr(whole_zarr, "EXPIRY", 0.2)
    with whole_zarr.replaced_group(zarr_arrays.store_place(f"file://{tmp_path}", "g", None)):
        assert not claim.exists()
    mt.to_zarr(VALUES, f"file://{tmp_path}", "g/a", storage_options={"auto_mkdir": True})
    np.testing.assert_array_equal(_there(tmp_path, "g/a"), VALUES)


def test_a_failed_write_to_a_folder_ends_when_its_pieces_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(whole_zarr, "CLEANUP_SECONDS", 0)
    array = zarr.create_array(tmp_path / "a", shape=(6, 6), chunks=(3, 3), dtype=float)
    with pytest.raises(KeyError, match="a chunk") as caught:
        zarr_arrays.write_zarr([(_watched(_fails), array, (0, 0))])
    assert not getattr(caught.value, "__notes__", ()) and os.listdir(tmp_path) == []


def _group(x: Any, tmp_path: Path, **how: Any) -> None:
    mt.to_zarr_group({"a": x}, f"file://{tmp_path}/g", storage_options={"auto_mkdir": True}, **how)


def test_a_failed_write_of_a_group_removes_no_objects_of_others(tmp_path):
    pytest.importorskip("fsspec")
    (tmp_path / "g").mkdir()
    (tmp_path / "g/notes").write_text("mine")
    with pytest.raises(FileExistsError, match=r"g\)> has objects; give overwrite=True"):
        _group(_watched(_fails), tmp_path)
    assert (tmp_path / "g/notes").read_text() == "mine"
    with pytest.raises(KeyError, match="a chunk"):
        _group(_watched(_fails), tmp_path, overwrite=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_group_in_a_store_has_one_writer(tmp_path):
    pytest.importorskip("fsspec")
    refused = []

    def second() -> None:
        with pytest.raises(StorageError, match=r"g\)> is being written by process \d+ of"):
            _group(VALUES * 2, tmp_path, overwrite=True)
        refused.append(True)

    _group(_watched(second), tmp_path, overwrite=True)
    assert refused
    np.testing.assert_array_equal(_there(tmp_path, "g/a"), VALUES)


def test_after_an_error_the_group_of_a_writer_that_took_over_stays(tmp_path):
    pytest.importorskip("fsspec")
    place = zarr_arrays.store_place(f"file://{tmp_path}", "g", {"auto_mkdir": True})
    with pytest.raises(KeyError, match="x") as caught, whole_zarr.replaced_group(place):
        (claim,) = (tmp_path / "g").glob(".jmars-claim-*")
        claim.write_text(json.dumps(json.loads(claim.read_text()) | {"token": "of the second writer"}))
        (tmp_path / "g/zarr.json").write_text("of the second writer")
        raise KeyError("x")
    assert "another program removed or wrote" in caught.value.__notes__[-1]
    assert (tmp_path / "g/zarr.json").exists() and claim.exists()
