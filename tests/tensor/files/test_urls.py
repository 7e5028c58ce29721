"""Files at URLs of fsspec: .npy, plain bytes, HDF5; parts are read by ranges of bytes."""

from __future__ import annotations

import itertools
import os
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import StorageError, UnsupportedError
from jmars.tensor.ops import npy
from jmars.tensor.ops.npy import RemoteArray
from jmars.tensor.remote_files import url_stamp

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
VALUES = np.arange(24 * 17 * 5.0).reshape(24, 17, 5)


class Far(fsspec.get_filesystem_class("file")):
    """Files that only a server can reach."""

    protocol = "far"


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/a.npy"


@pytest.mark.parametrize("values", [VALUES, np.asfortranarray(VALUES), np.array(3.5), np.empty((0, 4)), VALUES > 9])
def test_npy_at_a_url(url, values):
    with fsspec.open(url, "wb") as file:
        np.save(file, values)
    for size in (None, 6):
        found = mt.load(url, chunk_size=size)
        np.testing.assert_array_equal(found, values)
        assert found.dtype == values.dtype
    if values.ndim == 3:
        np.testing.assert_array_equal(mt.load(url, chunk_size=7)[3:20:4, [1, 5, 16], 2], values[3:20:4, [1, 5, 16], 2])


def test_a_file_at_a_url_that_changes_is_told(url, tmp_path):
    np.save(tmp_path / "a.npy", VALUES)
    found, plain = mt.load(url), mt.fromfile(url, offset=128)
    np.save(tmp_path / "a.npy", VALUES + 1)
    os.utime(tmp_path / "a.npy", (0, 0))
    for x in (found, plain):
        with pytest.raises(StorageError, match="has changed since it was loaded"):
            x.fetch()
    np.testing.assert_array_equal(mt.load(url), VALUES + 1)


TAG, TIME = {"ETag": '"a"'}, {"LastModified": datetime(2026, 1, 1)}


@pytest.mark.parametrize(
    "told, stamp", [(TAG | TIME, '"a"'), (TIME, "2026-01-01 00:00:00"), ({"mtime": 0.5}, "0.5"), ({}, None)]
)
def test_stamps_are_what_stores_tell_of_a_write(told, stamp):
    assert url_stamp(SimpleNamespace(details={"size": 3, "name": "x", **told})) == (3, stamp)


class Listed(fsspec.get_filesystem_class("file")):
    """Information of files comes from a listing, where there is one, as in stores of objects."""

    protocol, listed = "listed", dict[str, dict[str, object]]()

    def info(self, path, **how):
        return self.listed.get(path) or super().info(path, **how)

    def invalidate_cache(self, path=None):
        self.listed.clear()


def test_the_stamp_of_a_first_look_comes_from_no_old_listing(tmp_path):
    fsspec.register_implementation("listed", Listed, clobber=True)
    np.save(tmp_path / "a.npy", VALUES)
    system = fsspec.filesystem("listed")
    old = system.info(f"{tmp_path}/a.npy") | {"size": 1}
    Listed.listed[f"{tmp_path}/a.npy"] = old
    np.testing.assert_array_equal(mt.load(f"listed://{tmp_path}/a.npy"), VALUES)
    assert not Listed.listed


def test_a_plain_file_of_a_store_has_no_stamp(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    with open(tmp_path / "a", "rb") as file:
        assert url_stamp(file) is None


def test_an_archive_at_a_url_is_refused_by_name(url):
    with fsspec.open(url, "wb") as file:
        np.savez(file, VALUES)
    with pytest.raises(UnsupportedError, match=r"is an .npz archive; copy it"):
        mt.load(url)


@pytest.mark.parametrize("near", [0, 100, 1 << 16])
@pytest.mark.parametrize("fortran", [False, True])
def test_boxes_by_ranges(url, near, fortran, monkeypatch):
    monkeypatch.setattr(npy, "NEAR", near)
    values = np.asfortranarray(VALUES) if fortran else VALUES
    with fsspec.open(url, "wb") as file:
        file.write(b"head" + values.tobytes("A"))
    array = RemoteArray(url, None, VALUES.shape, VALUES.dtype, 4, fortran)
    edges = [[slice(0, n), slice(2, 3), slice(1, n - 1)] for n in VALUES.shape]
    for box in itertools.product(*edges):
        np.testing.assert_array_equal(array(box), VALUES[box])


def test_a_column_of_a_large_array_is_read_by_small_ranges(url, monkeypatch):
    read = []
    inner = fsspec.implementations.local.LocalFileSystem.cat_file

    def counted(self, path, start=None, end=None, **how):
        read.append(end - start)
        return inner(self, path, start, end, **how)

    monkeypatch.setattr(fsspec.implementations.local.LocalFileSystem, "cat_file", counted)
    values = np.arange(20 * 40_000.0).reshape(20, 40_000)
    with fsspec.open(url, "wb") as file:
        np.save(file, values)
    array = RemoteArray(url, None, values.shape, values.dtype, 128)
    np.testing.assert_array_equal(array((slice(0, 20), slice(7, 9))), values[:, 7:9])
    assert sum(read) == 20 * 2 * 8


def test_plain_bytes_at_a_url(url):
    with fsspec.open(url, "wb") as file:
        file.write(b"head" + VALUES.tobytes())
    np.testing.assert_array_equal(mt.fromfile(url, offset=4, shape=(24, -1), chunk_size=7), VALUES.reshape(24, -1))
    np.testing.assert_array_equal(mt.fromfile(url, offset=4, count=10), VALUES.reshape(-1)[:10])
    cut = RemoteArray(url, None, (30, 17, 5), VALUES.dtype, 4)
    with pytest.raises(StorageError, match="cut short"):
        cut((slice(20, 30), slice(0, 17), slice(0, 5)))


def test_a_server_without_ranges_is_told(url, monkeypatch):
    local = fsspec.implementations.local.LocalFileSystem
    inner = local.cat_file
    monkeypatch.setattr(local, "cat_file", lambda self, path, start=None, end=None, **how: inner(self, path, **how))
    with fsspec.open(url, "wb") as file:
        np.save(file, VALUES)
    with pytest.raises(StorageError, match="ignores ranges of bytes"):
        RemoteArray(url, None, VALUES.shape, VALUES.dtype, 128)((slice(2, 3), slice(0, 17), slice(0, 5)))


def test_files_in_the_memory_of_this_process_are_refused():
    with fsspec.open("memory://a.npy", "wb") as file:
        np.save(file, VALUES)
    with pytest.raises(UnsupportedError, match="memory of this process"):
        mt.load("memory://a.npy")
    fsspec.filesystem("memory").rm("/a.npy")


def test_hdf5_at_a_url(url, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.npy", "w") as file:
        file.create_dataset("g/x", data=VALUES, chunks=(5, 17, 5), compression="gzip")
    np.testing.assert_array_equal(mt.from_hdf5(url, "g/x")[3:20:4, ::2], VALUES[3:20:4, ::2])
    with pytest.raises(UnsupportedError, match="write Zarr"):
        mt.to_hdf5(mt.ones(3), url, "x")


def test_a_missing_file_and_a_missing_library_are_told(url):
    with pytest.raises(FileNotFoundError):
        mt.load(url)
    with pytest.raises(ValueError, match="nosuch"):
        mt.load("nosuch://a/b.npy")


@pytest.mark.parametrize("allow_pickle", [False, True])
def test_objects_at_a_url_are_refused_by_name(tmp_path, allow_pickle):
    np.save(tmp_path / "a.npy", np.array([1, None]), allow_pickle=True)
    with pytest.raises(UnsupportedError, match="holds Python objects"):
        mt.load(f"file://{tmp_path}/a.npy", allow_pickle=allow_pickle)
