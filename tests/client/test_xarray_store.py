"""Writes of xarray data sets: from the workers into Zarr arrays, window by window into other targets."""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.errors import StorageError, UnsupportedError
from jmars.optimize import compile_graph
from jmars.tensor import files, zarr_arrays
from jmars.tensor.ops.map_blocks import pickled
from jmars.tensor.tensor_graph import TensorGraph
from tests.fault.harness import until

xr = pytest.importorskip("xarray", reason="xarray is not installed (extra jmars[xarray])")
pytest.importorskip("fsspec")
zarr = pytest.importorskip("zarr", reason="zarr is not installed (extra jmars[io])")

from fsspec import AbstractFileSystem  # noqa: E402
from fsspec.spec import AbstractBufferedFile  # noqa: E402

from jmars.client import xarray_store  # noqa: E402  (its caller needs xarray)
from jmars.client.xarray_manager import JmarsManager, _Reader  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    with jmars.Cluster(n_workers=2) as here:
        yield here


@pytest.fixture(autouse=True)
def no_threads_of_zarr():
    yield
    zarr.core.sync.cleanup_resources()


@pytest.fixture
def lazy(cluster):
    values = np.random.default_rng(0).random((64, 128, 128))  # 8 MiB
    data = xr.Dataset({name: (("t", "y", "x"), values + i) for i, name in enumerate("ab")})
    return data.chunk({"t": 16}, chunked_array_type="jmars")


def stored(path):
    with xr.open_zarr(path, chunks=None, consolidated=False) as data:
        return data.load()


def test_workers_write_in_a_single_job_and_no_value_reaches_the_kernel(lazy, cluster, tmp_path):
    jobs = len(cluster.jobs())
    tracemalloc.start()
    try:
        (lazy * 2).to_zarr(tmp_path / "out", consolidated=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < lazy.a.nbytes / 4
    assert len(cluster.jobs()) == jobs + 1
    assert stored(tmp_path / "out").identical((lazy * 2).compute())


def test_a_write_that_is_put_off_runs_on_compute(lazy, tmp_path):
    dask = pytest.importorskip("dask")
    handle = lazy.to_zarr(tmp_path / "out", compute=False, consolidated=False)
    file = lazy.to_netcdf(tmp_path / "out.nc", engine="scipy", compute=False)
    assert np.isnan(stored(tmp_path / "out").a[0, 0, 0])
    with ThreadPoolExecutor(1) as pool, dask.config.set(pool=pool):
        dask.compute(handle, file)
    assert stored(tmp_path / "out").identical(lazy.compute())
    with xr.open_dataset(tmp_path / "out.nc", engine="scipy") as found:
        assert found.equals(lazy.compute())


def test_a_write_that_is_put_off_is_not_sent_to_other_processes(lazy):
    with pytest.raises(UnsupportedError, match="scheduler='threads'"):
        pickle.dumps(xarray_store.Write([lazy.a.data], [np.empty(lazy.a.shape)], [None]))


def test_a_path_is_that_of_the_kernel_directory(lazy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lazy.to_zarr("out", consolidated=False)
    assert stored(tmp_path / "out").identical(lazy.compute())


@pytest.mark.parametrize("start", [0, 1, 5])
def test_each_piece_has_a_single_writer(cluster, start):
    x = np.arange(20.0)
    for lengths in [(3, 3, 14), (1,) * 20, (20,), (7, 13)]:
        splits = files.whole_pieces(lengths, 4, start)
        assert sum(splits) == 20 and 0 not in splits
        assert all((edge + start) % 4 == 0 for edge in np.cumsum(splits)[:-1])
        target = zarr.create_array({}, shape=(30,), chunks=(4,), dtype=float, fill_value=-1)
        JmarsManager().store(mt.asarray(x, chunks=(lengths,)), target, regions=(slice(start, start + 20),))
        np.testing.assert_array_equal(target[start : start + 20], x)
        assert (np.delete(target[:], range(start, start + 20)) == -1).all()


def test_pieces_across_the_chunks_are_written_within_the_memory(tmp_path):
    with jmars.Cluster(n_workers=2, memory_limit="192MiB") as cluster:
        x = mt.arange(27_000_000, dtype="i4", chunk_size=1_350_000).reshape(100, 600, 450).rechunk((5, 300, 450))
        target = zarr.create_array(
            tmp_path / "z", shape=(103, 600, 450), chunks=(103, 24, 90), dtype="i4", fill_value=-1
        )
        JmarsManager().store(x, target, regions=(slice(2, 102), slice(None), slice(None)))
        np.testing.assert_array_equal(target[2:102, 500, 7], np.arange(500 * 450 + 7, 27_000_000, 270_000))
        assert (target[:2] == -1).all() and (target[102] == -1).all()
        assert cluster.info()["memory"]["peak"] < 1.1 * cluster.memory_limit


def test_a_region_counts_from_the_end(cluster, tmp_path):
    xr.Dataset({"a": ("x", np.zeros(10))}).to_zarr(tmp_path / "z", encoding={"a": {"chunks": (2,)}}, consolidated=False)
    data = xr.Dataset({"a": ("x", mt.arange(1.0, 5, chunk_size=2))})
    data.to_zarr(tmp_path / "z", region={"x": slice(-4, None)}, consolidated=False)
    np.testing.assert_array_equal(stored(tmp_path / "z").a, [0] * 6 + [1, 2, 3, 4])


@pytest.mark.parametrize("region", [slice(0, 4), slice(-6, None), slice(0, 10, 2)])
def test_a_region_of_another_shape_or_with_a_step_is_refused(cluster, region):
    with pytest.raises(ValueError, match="does not fit"):
        JmarsManager().store(mt.ones(5), np.zeros(10), regions=(region,))


@pytest.mark.parametrize("n", [4, 200_000])
def test_a_write_that_is_put_off_writes_the_values_of_its_time(cluster, n):
    pytest.importorskip("dask", reason="dask is not installed")
    x, target = mt.zeros(n) + 1, np.zeros(n)
    write = JmarsManager().store(x, target, compute=False)
    x[1] = 9
    write.compute(scheduler="synchronous")
    assert (target == 1).all()


def test_pieces_shared_by_chunks_are_written_whole_from_workers(cluster, tmp_path):
    target = zarr.create_array(tmp_path / "z", shape=(30, 6), chunks=(4, 3), shards=(8, 6), dtype=float, fill_value=-1)
    x = np.random.default_rng(1).random((20, 6))
    JmarsManager().store(mt.asarray(x, chunk_size=(3, 2)), target, regions=(slice(5, 25), slice(None)))
    np.testing.assert_array_equal(target[5:25], x)
    assert (target[:5] == -1).all() and (target[25:] == -1).all()


def test_a_folder_that_a_worker_does_not_see_is_an_error(cluster, tmp_path):
    target = zarr.create_array(tmp_path / "z", shape=(4,), chunks=(2,), dtype=float)
    os.rename(tmp_path / "z", tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="all hosts share"):
        JmarsManager().store(mt.ones(4, chunk_size=2), target)


@pytest.mark.parametrize("kind", ["memory", "file system in memory", "folder"])
def test_stores_that_workers_open(tmp_path, kind):
    store = {} if kind == "memory" else tmp_path / "z"
    if kind == "file system in memory":
        fsspec = pytest.importorskip("fsspec")
        wrapper = pytest.importorskip("fsspec.implementations.asyn_wrapper").AsyncFileSystemWrapper
        store = zarr.storage.FsspecStore(wrapper(fsspec.filesystem("memory"), asynchronous=True), path="/z")
    array = zarr.create_array(store, shape=(4,), chunks=(2,), dtype=float)
    assert zarr_arrays.opens_on_workers(array) == (kind == "folder")
    assert not zarr_arrays.opens_on_workers(np.empty(4))


def test_other_targets_are_written_in_windows_and_means_computed_once(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(xarray_store, "WINDOW_SHARE", cluster.memory_limit // 80)  # a window for each chunk
    log = tmp_path / "log"

    def read(box):
        with open(log, "ab", buffering=0) as file:
            file.write(b".")
        return np.arange(40.0)[box]

    x = mt.from_blocks(read, (40,), float, chunk_size=10)
    target = np.zeros(50)
    JmarsManager().store(x - x.mean(), target, regions=(slice(5, 45),))
    np.testing.assert_array_equal(target[5:45], np.arange(40.0) - 19.5)
    assert (target[:5] == 0).all() and (target[45:] == 0).all()
    assert log.stat().st_size == 8  # once for the mean, once for the windows


@pytest.mark.parametrize("shards", [None, (8, 6)])
def test_sources_that_share_a_piece_are_written_one_after_the_other(cluster, tmp_path, shards):
    kind = {"shape": (32, 6), "chunks": (4, 3), "dtype": float, "fill_value": -1, "shards": shards}
    target, other = (zarr.create_array(tmp_path / name, **kind) for name in "ab")
    starts, jobs = [0, 3, 6, 9, 20], len(cluster.jobs())
    sources = [mt.ones((3, 6), chunk_size=1) * k for k in range(len(starts))]
    regions = [(slice(low, low + 3), slice(None)) for low in starts]
    JmarsManager().store([*sources, mt.ones((32, 6))], [target] * 5 + [other], regions=[*regions, None])
    expected = np.full((32, 6), -1.0)
    for low, k in zip(starts, range(5)):
        expected[low : low + 3] = k
    np.testing.assert_array_equal(target[:], expected)
    np.testing.assert_array_equal(other[:], 1)
    assert jobs + 2 <= len(cluster.jobs()) <= jobs + 4


@pytest.mark.parametrize("store", ["folder", "memory"])
def test_a_source_larger_than_its_zarr_array_is_refused_and_not_cut(cluster, tmp_path, store):
    target = zarr.create_array(tmp_path / "z" if store == "folder" else {}, shape=(4,), chunks=(2,), dtype=float)
    for x in (mt.ones(5), mt.ones((4, 1))):
        with pytest.raises(ValueError, match="does not fit into"):
            JmarsManager().store(x, target)
    JmarsManager().store(mt.ones(3), target)
    assert target[:].tolist() == [1, 1, 1, 0]


def test_a_data_set_is_not_written_over_its_source(lazy, cluster, tmp_path):
    place = tmp_path / "a.zarr"
    lazy.to_zarr(place, consolidated=False)
    before = stored(place)
    with xr.open_zarr(place, consolidated=False, chunked_array_type="jmars") as opened:
        with pytest.raises(ValueError, match=r"the data are computed from .*a.zarr/[ab]; write to another place"):
            (opened * 2).to_zarr(place, mode="w", consolidated=False)
        with pytest.raises(ValueError, match="are computed from"):
            (opened[["a"]] + opened.b).to_zarr(f"{tmp_path}/../{tmp_path.name}/a.zarr", mode="a", consolidated=False)
        for crossed in (opened.rename(a="b", b="a"), opened.assign(a=opened.b * 2, b=opened.a * 2)):
            with pytest.raises(ValueError, match="are computed from"):
                crossed.to_zarr(place, mode="a", consolidated=False)
        (opened * 2).load()  # the elements are not held
        with pytest.raises(ValueError, match="are computed from"):
            (opened * 2).to_zarr(place, mode="w", consolidated=False)
        assert stored(place).identical(before)
        opened.assign(c=opened.a * 2).to_zarr(place, mode="a", consolidated=False)
        assert stored(place).identical(before.assign(c=before.a * 2))
    with xr.open_zarr(place, consolidated=False, chunked_array_type="jmars") as opened:
        (opened * 2).to_zarr(place, append_dim="t", consolidated=False)
    before = before.assign(c=before.a * 2)
    assert stored(place).equals(xr.concat([before, before * 2], "t"))


def test_a_tree_is_not_written_over_its_source(lazy, cluster, tmp_path):
    tree, place = xr.DataTree.from_dict({"/g": lazy}), tmp_path / "a.zarr"
    tree.to_zarr(place, consolidated=False)
    how = {"engine": "zarr", "consolidated": False}
    opened = xr.open_datatree(place, chunks={}, chunked_array_type="jmars", **how)
    with pytest.raises(ValueError, match=r"the data are computed from .*a.zarr/g/[ab]; write to another place"):
        (opened * 2).to_zarr(place, mode="w", consolidated=False)
    (opened * 2).to_zarr(tmp_path / "b.zarr", mode="w", consolidated=False)
    for name, by in (("a.zarr", 1), ("b.zarr", 2)):
        assert xr.open_datatree(tmp_path / name, chunks=None, **how)["g"].to_dataset().equals(lazy.compute() * by)


def test_a_netcdf_file_is_whole_or_not_there(lazy, cluster, tmp_path):
    pytest.importorskip("h5netcdf")
    path, copy = tmp_path / "a.nc", tmp_path / "b.nc"
    lazy.to_netcdf(path, engine="h5netcdf")

    def fails(block):
        raise KeyError("a chunk")

    with pytest.raises(KeyError, match="a chunk"):
        lazy.map(lambda x: x.copy(data=x.data.map_blocks(fails, dtype=float))).to_netcdf(path, engine="h5netcdf")
    assert os.listdir(tmp_path) == ["a.nc"]
    with xr.open_dataset(path, engine="h5netcdf", chunks={"t": 16}, chunked_array_type="jmars") as opened:
        with pytest.raises(ValueError, match=f"computed from {path}; write it to another place"):
            (opened + 1).to_netcdf(path, engine="h5netcdf")
        (opened + 1).to_netcdf(copy, engine="h5netcdf")
    with xr.open_dataset(path, engine="h5netcdf") as old, xr.open_dataset(copy, engine="h5netcdf") as new:
        assert old.equals(lazy.compute()) and new.equals((lazy + 1).compute())


def test_readers_find_a_variable_when_it_is_whole(lazy, cluster, tmp_path):
    seen, place = tmp_path / "seen", str(tmp_path / "a.zarr")

    def see(block):
        with open(seen, "a") as file:
            file.write(f"{os.path.exists(place + '/a/zarr.json')} ")
        return block

    watched = lazy.map(lambda x: x.copy(data=x.data.map_blocks(see, dtype=float)))
    watched.to_zarr(place, consolidated=False)
    assert set(seen.read_text().split()) == {"False"} and stored(place).equals(lazy.compute())

    def fails(block):
        raise KeyError("a chunk")

    failing = lazy.map(lambda x: x.copy(data=x.data.map_blocks(fails, dtype=float)))
    with pytest.raises(KeyError, match="a chunk"):
        failing.to_zarr(place, mode="w", consolidated=False)
    assert not stored(place).data_vars
    lazy.to_zarr(place, mode="w", consolidated=False)
    assert stored(place).equals(lazy.compute())


def test_readers_are_promised_memory_for_pieces_and_decoding(tmp_path):
    packed = {"scale_factor": 0.1, "_FillValue": -9, "dtype": "i4", "chunks": (4, 100)}
    unsigned = packed | {"_FillValue": 9, "_Unsigned": "true"}
    encoding = {"packed": packed, "unsigned": unsigned, "plain": {"chunks": (4, 100)}}
    data = xr.Dataset({name: (("t", "x"), np.ones((8, 100))) for name in encoding})
    data.to_zarr(tmp_path / "a", encoding=encoding, consolidated=False)
    lazy = xr.open_zarr(tmp_path / "a", chunks={}, chunked_array_type="jmars", consolidated=False)
    for name, each in (
        ("packed", 4 + 4),
        ("unsigned", 8 + 8 + 4 + 4 + 1 + 4),  # by layers of xarray's
        ("plain", 8),
    ):  # bytes of an element; plain pieces are decoded into the chunk
        graph = TensorGraph.of([lazy[name].data.data])
        assert compile_graph(graph, {}).after.work.max() == each * 400


@pytest.mark.parametrize("mode", ["a", "r+"])
def test_a_netcdf_file_that_is_a_source_is_not_changed(lazy, cluster, tmp_path, mode):
    pytest.importorskip("h5netcdf")
    path = tmp_path / "a.nc"
    lazy.to_netcdf(path, engine="h5netcdf")
    before = path.read_bytes()
    with xr.open_dataset(path, engine="h5netcdf", chunks={"t": 16}, chunked_array_type="jmars") as opened:
        for how in ({}, {"compute": False}, {"group": "b"}):
            with pytest.raises(ValueError, match=f"computed from {path}; write it to another place"):
                (opened + 1).to_netcdf(path, mode=mode, engine="h5netcdf", **how)
    assert path.read_bytes() == before
    lazy.rename(a="c", b="d").to_netcdf(path, mode=mode, engine="h5netcdf")
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        assert opened.equals(lazy.assign(c=lazy.a, d=lazy.b).compute())


def test_a_group_that_is_being_replaced_is_not_replaced_by_others(lazy, tmp_path):
    place, started, lock = tmp_path / "z" / "a.zarr", tmp_path / "started", tmp_path / "lock"

    def held(block):
        started.touch()
        with open(lock) as file:
            fcntl.flock(file, fcntl.LOCK_SH)
        return block

    slow = lazy.map(lambda x: x.copy(data=x.data.map_blocks(held, dtype=float)))
    with ThreadPoolExecutor(1) as pool:
        with open(lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            first = pool.submit(slow.to_zarr, place, mode="w", consolidated=False)
            until(lambda: started.exists() or first.done(), 60, "a chunk is computed")
            with pytest.raises(StorageError, match=r"a\.zarr is being written by process \d+ of .*; wait, or"):
                (lazy + 1).to_zarr(f"{place}/../../z/a.zarr", mode="w", consolidated=False)
            with pytest.raises(StorageError, match=r"a\.zarr is being written by"):
                xr.DataTree(lazy).to_zarr(place, mode="w", consolidated=False)
        first.result(60)
    assert stored(place).equals(lazy.compute())
    (lazy + 1).to_zarr(place, mode="w", consolidated=False)
    assert stored(place).equals((lazy + 1).compute()) and os.listdir(tmp_path / "z") == ["a.zarr"]


class FarFile(AbstractBufferedFile):
    """A file that notes the ranges that are read."""

    ranges: ClassVar[list[tuple[int, int]]] = []

    def _fetch_range(self, start, end):
        self.ranges.append((start, end))
        with open(self.path, "rb") as file:
            return file.read()[start:end]


class Far(AbstractFileSystem):
    """Files of this machine, read by ranges."""

    def info(self, path, **options):
        return {"name": path, "size": os.path.getsize(path), "type": "file"}

    def _open(self, path, mode="rb", **options):
        return FarFile(self, path, mode, **options)


def test_the_source_of_a_reader_is_known_without_the_file(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"abc")
    copy = pickle.loads(pickled(_Reader([Far().open(f"{tmp_path}/a")])))
    monkeypatch.setattr(Far, "_open", None)
    assert copy.source is None and pickle.loads(pickled(copy)).source is None
    ds = xr.Dataset({"x": ("a", np.arange(4))})
    ds.to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "b.nc", engine="h5netcdf") as opened:
        read = pickle.loads(pickled(_Reader(opened["x"].variable._data)))
    assert read.source == str(tmp_path / "b.nc") and read._data is None
    assert read.data.shape == (4,)


@pytest.mark.parametrize(("chosen", "most"), [("readahead", 2**20), ("bytes", 2**22)])
def test_a_file_that_reads_ahead_is_read_in_blocks_on_workers(tmp_path, chosen, most):
    (tmp_path / "a").write_bytes(content := np.random.default_rng(0).bytes(2**24))
    file = Far().open(f"{tmp_path}/a", block_size=2**22, cache_type=chosen)
    copy = pickle.loads(pickled(_Reader([file]))).data[0]
    FarFile.ranges.clear()
    for start in (2**23, 5, 2**23 + 7):  # as HDF5 jumps between elements and its index
        copy.seek(start)
        assert copy.read(10) == content[start : start + 10]
    assert max(end - start for start, end in FarFile.ranges) <= most + 10
    assert len(FarFile.ranges) == (2 if chosen == "readahead" else 3)
    if chosen == "readahead":
        FarFile.ranges.clear()
        for _ in range(2):  # a piece, by a request of its own
            copy.seek(2**22 - 3)
            assert copy.read(2**20) == content[2**22 - 3 : 2**22 - 3 + 2**20]
        assert FarFile.ranges == [(2**22 - 3, 2**22 - 3 + 2**20)]


@pytest.mark.parametrize("mode", ["rb", "wb"])
def test_a_file_that_is_closed_or_written_pickles_as_fsspec_says(tmp_path, monkeypatch, mode):
    (tmp_path / "a").write_bytes(b"content")
    file = Far().open(f"{tmp_path}/a", mode)
    monkeypatch.setattr(Far, "version_aware", True, raising=False)
    file.version_id = "1"
    if mode == "rb":
        file.close()
        assert pickle.loads(pickled(_Reader([file]))).data[0].closed is False
        return
    with pytest.raises(RuntimeError, match="writeable file"):
        pickled(_Reader([file]))
    file.closed = True  # nothing to flush


def test_automatic_chunks_of_a_tensor_are_pieces_of_zarr(cluster, tmp_path, monkeypatch):
    """Chunks of a tensor stay tensors, also where Dask is xarray's usual manager."""
    monkeypatch.setattr(jmars.config, "chunk_size_limit", 1120)
    data = xr.Dataset({"x": (("time", "row"), mt.ones((20, 25), chunk_size=(1, 25)))})
    data.chunk({"time": -1, "row": "auto"}).to_zarr(tmp_path / "x", consolidated=False)
    assert stored(tmp_path / "x").x.encoding["chunks"] == (20, 7)


SEARCHED = "jmars, importlib.util; importlib.util.find_spec('xarray'); import xarray"  # as libraries do


@pytest.mark.parametrize("imports", ["jmars, xarray", "xarray, jmars", SEARCHED])
def test_the_first_write_of_a_program_is_checked(tmp_path, imports):
    """xarray loads its chunk managers within a write; what is checked before is checked in the first write, too."""
    zarr.create_array(str(tmp_path / "x"), data=np.arange(6.0))
    program = f"""
import {imports}
import jmars.tensor as mt
with jmars.Cluster(n_workers=1):
    data = xarray.Dataset({{"x": ("row", mt.from_zarr({str(tmp_path / "x")!r}) * 2)}})
    try:
        data.to_zarr({str(tmp_path)!r}, mode="w")
    except ValueError as error:
        print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "computed from" in ran.stdout
    assert zarr.open_array(str(tmp_path / "x"))[:].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.filterwarnings("ignore:Object at a is not recognized")  # before jmars removes the pieces
@pytest.mark.parametrize("kind", ["data set", "tree", "url", "append", "a-"])
def test_an_array_made_by_mode_a_has_no_pieces_of_a_killed_write(lazy, tmp_path, kind):
    place = str(tmp_path / "a.zarr")
    lazy.to_zarr(place, consolidated=False)
    (tmp_path / "a.zarr/a/zarr.json").unlink()  # as a killed write of all elements leaves the array
    (tmp_path / "a.zarr/a/notes").write_text("mine")
    part = lazy.isel(t=slice(16))[["a"]]
    if kind == "tree":
        xr.DataTree(part).to_zarr(place, mode="a", consolidated=False)
    elif kind in ("append", "a-"):
        part.to_zarr(place, append_dim="t", mode=kind if kind == "a-" else None, consolidated=False)
    else:
        url, twice = f"file://{place}" if kind == "url" else place, lazy.isel(t=slice(32))[["a"]]
        twice.to_zarr(url, mode="a", compute=False, consolidated=False)
        part.to_zarr(url, region={"t": slice(16)}, consolidated=False)
    target = zarr.open_array(place, path="a", mode="r+")
    target.resize((64, 128, 128))
    np.testing.assert_array_equal(target[:16], part.a.values)
    assert np.isnan(target[16:]).all()
    assert stored(place).b.identical(lazy.b.load())
    assert (tmp_path / "a.zarr/a/notes").read_text() == "mine"
