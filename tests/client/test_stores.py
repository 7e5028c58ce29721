"""Zarr arrays in stores: URLs with options, open arrays and groups, obstore, Icechunk."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.errors import StorageError, UnsupportedError
from jmars.reports.saved_run import SavedRun
from jmars.tensor.whole_zarr import replaced_group, whole_arrays
from jmars.tensor.zarr_arrays import store_place
from tests import s3

zarr = pytest.importorskip("zarr", reason="zarr is not installed (extra jmars[io])")
pytestmark = pytest.mark.usefixtures("only_jobs")
VALUES = np.arange(400.0).reshape(20, 20)


@pytest.fixture(scope="module")
def cluster() -> Iterator[jmars.Cluster]:
    with jmars.Cluster(n_workers=2) as here:
        yield here


@pytest.fixture(scope="module")
def service() -> Iterator[s3.Proxy]:
    pytest.importorskip("moto.server", reason="moto is not installed (dependency group test)")
    with s3.service() as here:
        yield here


@pytest.fixture
def server(service: s3.Proxy) -> Iterator[s3.Proxy]:
    yield service
    service.hang_up()


@pytest.fixture(autouse=True)
def _ends_what_zarr_started(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "s3fs" in sys.modules:
        _end_s3fs()
    zarr.core.sync.cleanup_resources()
    if {"obstore", "icechunk"} & sys.modules.keys():  # their threads and connections end with the process
        request.config.pluginmanager.get_plugin("jmars-leak-check").accept()


def _end_s3fs() -> None:
    """Closes connections, and ends fsspec's thread with the threads of its loop."""
    system, asyn = sys.modules["s3fs"].S3FileSystem, sys.modules["fsspec.asyn"]
    connected = [one for one in system._cache.values() if one._s3 is not None]  # others never sent a request
    system.clear_instance_cache()
    for one in connected:
        if one.asynchronous:
            zarr.core.sync.sync(one._s3.close())
        else:
            asyn.sync(one.loop, one._s3.close)
    loop, thread = asyn.loop[0], asyn.iothread[0]
    if loop is not None:
        asyn.sync(loop, loop.shutdown_default_executor)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        asyn.loop[0] = asyn.iothread[0] = None


def _there_and_back(place: Any, component: str | None = None, **options: Any) -> None:
    mt.to_zarr(mt.asarray(VALUES, chunk_size=7) * 2, place, component, **options)
    np.testing.assert_array_equal(mt.from_zarr(place, component, **options), VALUES * 2)


def test_a_url_with_storage_options(cluster, server):
    pytest.importorskip("s3fs")
    _there_and_back("s3://data/options", storage_options=server.options)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_store_of_obstore(cluster, server, wrapped):
    pytest.importorskip("obstore")
    store = server.obstore(f"obstore-{wrapped}")
    _there_and_back(zarr.storage.ObjectStore(store) if wrapped else store, "group/a")


def test_open_arrays_groups_and_stores(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    group = zarr.open_group("g", mode="w")  # workers have another working directory
    _there_and_back(group, "a/b")
    _there_and_back(zarr.storage.LocalStore("s"), "a")
    array = group.create_array("wide", shape=(20, 20), chunks=(4, 20), shards=(8, 20), dtype="f4")
    mt.to_zarr(mt.asarray(VALUES, chunk_size=3), array)
    np.testing.assert_array_equal(mt.from_zarr(array)[3:5], VALUES[3:5])
    with pytest.raises(ValueError, match="equal shape"):
        mt.to_zarr(mt.ones((21, 20)), array)


def test_stores_of_this_process_are_refused(cluster, tmp_path):
    array = zarr.create_array({}, shape=(4,), chunks=(2,), dtype=float)
    with pytest.raises(UnsupportedError, match=r"mt.asarray\(array\[:\]\)"):
        mt.from_zarr(array)
    for store in (array, zarr.storage.ZipStore(tmp_path / "z.zip", mode="w")):
        with pytest.raises(UnsupportedError, match="only this process"):
            mt.to_zarr(mt.ones(4, chunk_size=2), store)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["folder", "obstore"])
def test_after_an_error_there_is_no_array_and_a_second_run_writes_it(cluster, request, tmp_path, kind, version):
    if kind == "obstore":
        pytest.importorskip("obstore")
        place: Any = request.getfixturevalue("server").obstore(f"half-{version}")
    else:
        place = tmp_path

    def fails(block):
        if block[0, 0] == VALUES[14, 14]:
            raise ValueError("the last chunk")
        return block

    x = mt.asarray(VALUES, chunk_size=7)
    for name in ("a", None):
        with pytest.raises(ValueError, match="the last chunk"):
            mt.to_zarr(x.map_blocks(fails, dtype=float), place, name, zarr_format=version, attributes={"unit": "K"})
        with pytest.raises(FileNotFoundError):
            mt.from_zarr(place, name)
        mt.to_zarr(x * 2, place, name, zarr_format=version)
        np.testing.assert_array_equal(mt.from_zarr(place, name), VALUES * 2)
        with pytest.raises(Exception, match=r"already exists|An array exists"):  # of a second writer, before it writes
            mt.to_zarr(x, place, name, zarr_format=version)
        place = place / "root" if kind == "folder" else request.getfixturevalue("server").obstore(f"root-{version}")


@pytest.fixture
def repository(tmp_path):
    icechunk = pytest.importorskip("icechunk")
    return icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "ice")))


def test_a_session_of_icechunk_gets_all_changes_in_one_commit(cluster, repository):
    before = repository.readonly_session("main")
    session = repository.writable_session("main")
    mt.to_zarr(mt.asarray(VALUES, chunk_size=7), session, "a")
    with pytest.raises(FileNotFoundError):
        zarr.open_group(before.store, mode="r")
    session.commit("a")
    np.testing.assert_array_equal(mt.from_zarr(repository.readonly_session("main"), "a"), VALUES)
    assert len(list(repository.ancestry(branch="main"))) == 2


def test_a_fork_of_icechunk_takes_several_arrays(cluster, repository):
    session = repository.writable_session("main")
    fork = session.fork()
    for name in "ab":
        mt.to_zarr(mt.asarray(VALUES, chunk_size=7), fork, name)
        np.testing.assert_array_equal(mt.from_zarr(fork, name), VALUES)
    session.merge(fork)
    session.commit("ab")
    assert sorted(zarr.open_group(repository.readonly_session("main").store, mode="r")) == ["a", "b"]


def test_a_writable_session_of_icechunk_is_not_read(cluster, repository):
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), dtype=float)
    with pytest.raises(UnsupportedError, match="readonly_session"):
        mt.from_zarr(session, "a")
    with pytest.raises(ValueError, match="uncommitted changes"):
        mt.to_zarr(mt.ones(4), session, "b")


def test_xarray_writes_into_a_fork_of_icechunk_from_the_workers(cluster, repository):
    xr = pytest.importorskip("xarray")
    session = repository.writable_session("main")
    fork, jobs = session.fork(), len(cluster.jobs())
    data = xr.Dataset({name: (("y", "x"), VALUES + i) for i, name in enumerate("ab")})
    data.chunk({"y": 7}, chunked_array_type="jmars").to_zarr(fork.store, consolidated=False)
    assert len(cluster.jobs()) == jobs + 1
    session.merge(fork)
    session.commit("data")
    store = repository.readonly_session("main").store
    found = xr.open_zarr(store, consolidated=False, chunks={"y": 7}, chunked_array_type="jmars")
    assert found.compute().identical(data)


@pytest.mark.parametrize("kind", ["s3fs", "obstore"])
def test_xarray_in_an_object_store(cluster, server, kind):
    xr, _ = pytest.importorskip("xarray"), pytest.importorskip(kind)
    if kind == "obstore":
        place, options = zarr.storage.ObjectStore(server.obstore("xarray")), {}
    else:
        place, options = "s3://data/xarray-s3fs", {"storage_options": server.options}
    data, jobs = xr.Dataset({"a": (("y", "x"), VALUES)}), len(cluster.jobs())
    data.chunk({"y": 7}, chunked_array_type="jmars").to_zarr(place, consolidated=False, **options)
    assert len(cluster.jobs()) == jobs + 1
    found = xr.open_zarr(place, consolidated=False, chunks={"y": 7}, chunked_array_type="jmars", **options)
    assert found.compute().identical(data)
    rows = data.isel(y=slice(3)).chunk({"y": 7}, chunked_array_type="jmars")
    with warnings.catch_warnings():
        warnings.simplefilter("error", zarr.errors.ZarrUserWarning)
        rows.to_zarr(place, mode="w", consolidated=False, **options)
    found = xr.open_zarr(place, chunks=None, consolidated=False, **options)
    assert found.identical(data.isel(y=slice(3)))


@pytest.mark.parametrize("parallel", [False, True])
def test_files_of_an_object_store_are_opened_without_reading_ahead(cluster, server, tmp_path, parallel):
    xr, system = pytest.importorskip("xarray"), pytest.importorskip("s3fs").S3FileSystem(**server.options)
    pytest.importorskip("h5netcdf"), pytest.importorskip("dask")
    noise = np.random.default_rng(0).normal(size=(2, 4, 2**18))  # 8 MiB a file
    for k in range(2):
        part = xr.Dataset({"a": (("t", "y", "x"), noise[k : k + 1])})
        part.to_netcdf(tmp_path / f"{k}.nc", engine="h5netcdf")
        system.pipe(f"data/many/{k}-{parallel}.nc", (tmp_path / f"{k}.nc").read_bytes())
    server.reset()
    with sys.modules["dask"].config.set(scheduler="sync"), xr.open_mfdataset(
        [system.open(f"data/many/{k}-{parallel}.nc") for k in range(2)], engine="h5netcdf", combine="nested",
        concat_dim="t", chunked_array_type="jmars", parallel=parallel,
    ) as data:  # fmt: skip
        assert server.counts["bytes"] <= 2**22
        np.testing.assert_array_equal(data.a, noise)
        assert server.counts["bytes"] < 1.5 * noise.nbytes
    server.reset()
    one = xr.open_dataset(system.open(f"data/many/0-{parallel}.nc"), chunks={}, chunked_array_type="jmars")
    assert server.counts["bytes"] <= 2**21
    one.close()


@pytest.mark.parametrize("chosen", ["readahead", "bytes"])
def test_a_file_of_a_versioned_bucket_is_read_in_the_version_that_is_open(cluster, server, tmp_path, chosen):
    xr, s3fs = pytest.importorskip("xarray"), pytest.importorskip("s3fs")
    pytest.importorskip("h5netcdf")
    system = s3fs.S3FileSystem(**server.options, version_aware=True)
    system.call_s3("create_bucket", Bucket=(bucket := f"versions-{chosen}"))  # removed objects of "data" stay removed
    system.call_s3("put_bucket_versioning", Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    opened = []
    for k in range(3):
        xr.Dataset({"a": ("x", np.full(2**18, float(k)))}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        system.pipe(f"{bucket}/a.nc", (tmp_path / "a.nc").read_bytes())
        opened.append(system.open(f"{bucket}/a.nc", cache_type=chosen))
    opened.append(system.open(f"{bucket}/a.nc", version_id=opened[1].version_id, cache_type=chosen))
    for file, value in zip(opened, (0.0, 1.0, 2.0, 1.0)):
        with xr.open_dataset(file, engine="h5netcdf", chunks={}, chunked_array_type="jmars") as data:
            again = pickle.loads(pickle.dumps(data))
            for one in (data, again):
                assert float(one.a.min()) == float(one.a.max()) == value


@pytest.mark.parametrize("kind", ["s3fs", "obstore"])
def test_a_group_of_an_object_store_has_one_writer(cluster, server, kind):
    xr, _ = pytest.importorskip("xarray"), pytest.importorskip(kind)
    if kind == "obstore":
        place = zarr.storage.ObjectStore(server.obstore("twice"))
    else:
        place = zarr.storage.FsspecStore.from_url("s3://data/again", storage_options=server.options)
    data = xr.Dataset({"a": (("y", "x"), VALUES)})
    lazy, filters = data.chunk({"y": 7}, chunked_array_type="jmars"), [*warnings.filters]
    lazy.to_zarr(place, mode="w", consolidated=False)
    with replaced_group(store_place(place, None, None)):
        for one in (lazy, xr.DataTree(lazy)):
            with pytest.raises(StorageError, match=r"is being written by process \d+ of"):
                (one + 1).to_zarr(place, mode="w", consolidated=False)
    assert warnings.filters == filters  # of the user
    (xr.DataTree.from_dict({"/g": lazy}) - 2).to_zarr(place, mode="w", consolidated=False)
    (lazy + 2).to_zarr(place, mode="w", consolidated=False)
    assert xr.open_zarr(place, chunks=None, consolidated=False).identical(data + 2)
    assert [*zarr.core.sync.sync(_keys(place))] == ["a/c/0/0", "a/c/1/0", "a/c/2/0", "a/zarr.json", "zarr.json"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"append_dim": "y"}, "append_dim unless"),
        ({"region": {"y": slice(0, 20)}}, "region unless"),
        ({"zarr_format": 7}, "zarr_format"),
        ({}, "name 3 for"),
    ],
)
def test_what_xarray_refuses_removes_no_group(cluster, tmp_path, options, error):
    xr, store = pytest.importorskip("xarray"), pytest.importorskip("obstore").store
    place = zarr.storage.ObjectStore(store.LocalStore(str(tmp_path / "a"), mkdir=True))
    data = xr.Dataset({"a": (("y", "x"), VALUES)})
    data.to_zarr(place, consolidated=False)
    lazy = (data + 1 if options else data.rename(a=3)).chunk({"y": 5}, chunked_array_type="jmars")
    with pytest.raises((ValueError, TypeError), match=error):
        lazy.to_zarr(place, mode="w", consolidated=False, **options)
    with pytest.raises(ValueError, match="zarr_format"):
        xr.DataTree(data.chunk(chunked_array_type="jmars")).to_zarr(place, mode="w", zarr_format=7)
    assert xr.open_zarr(place, chunks=None, consolidated=False).identical(data)


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.filterwarnings("ignore:Object at a is not recognized")  # the empty folder that obstore leaves
@pytest.mark.parametrize("group", [None, "g", "g/h"])
def test_a_group_in_an_object_store_of_local_files_is_replaced(cluster, tmp_path, group):
    xr, store = pytest.importorskip("xarray"), pytest.importorskip("obstore").store
    place = zarr.storage.ObjectStore(store.LocalStore(str(tmp_path / "a"), mkdir=True))
    data = xr.Dataset({"a": (("y", "x"), VALUES)})
    lazy = data.chunk({"y": 7}, chunked_array_type="jmars")
    for one in (lazy, lazy + 1, *([xr.DataTree(lazy + 2)] if group is None else [])):
        one.to_zarr(place, mode="w", **({"group": group} if group else {}))
        assert xr.open_zarr(place, group=group, chunks=None).identical(one["a"].to_dataset().compute())
    array = zarr.open_array(place, path=f"{group or ''}/a")
    for claim, name in (
        (replaced_group(store_place(place, group, None)), group or "a"),
        (whole_arrays([array], "found"), "a"),
    ):
        with claim, pytest.raises(StorageError, match=f"/{name} is being written by"):
            lazy.to_zarr(place, mode="w", group=group)
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


async def _keys(store: Any) -> list[str]:
    return sorted([key async for key in store.list()])


def _spellings(secret: str) -> list[bytes]:
    """The secret as it is, and in base64 at each of three alignments."""
    lead = [base64.b64encode(b"\0" * k + secret.encode()) for k in range(1)]
    return [secret.encode(), *(text[4 * (k > 0) : -4] for k, text in enumerate(lead))]


def test_credentials_reach_no_log_graph_event_report_or_saved_run(cluster, server, tmp_path, caplog, capfd):
    pytest.importorskip("s3fs"), pytest.importorskip("bokeh")
    caplog.set_level(logging.DEBUG, "jmars")
    x = mt.from_zarr(_written(server), storage_options=server.options)
    shown = [repr(x.data), repr(x.data.op), repr(x)]
    job = cluster.submit(x + 1)
    job.result()
    job.save(tmp_path / "run"), job.report(tmp_path / "page.html"), job.trace(tmp_path / "trace")
    saved = SavedRun(tmp_path / "run")
    shown += [job.why(), repr(job.events()), repr(cluster.events()), repr(saved.events), saved.summary()]
    plan = (x * 2).plan()
    shown += [str(plan), repr(plan), plan._repr_html_(), plan.what_if(chunks={"from_zarr": 5}).change]
    shown += [job.visualize().dot, repr([job.operand(k) for k in range(1)])]
    with pytest.raises(TypeError) as failed:
        fails = x.map_blocks(lambda block: block / object(), dtype=float)
        mt.to_zarr(fails, "s3://data/f", storage_options=server.options)
    shown += ["".join(traceback.format_exception(failed.value)), caplog.text, *capfd.readouterr()]
    files = [path for folder in (tmp_path, os.environ["JMARS_RUNTIME_DIR"]) for path in Path(folder).rglob("*")]
    found = [*(str(text).encode() for text in shown), *(path.read_bytes() for path in files if path.is_file())]
    assert len(found) > 15
    for text in found:
        assert not [one for one in _spellings(s3.SECRET) if one in text], text[:2000]


def _written(server: s3.Proxy) -> str:
    options = {"storage_options": server.options, "mode": "w", "shape": VALUES.shape, "chunks": (10, 10)}
    zarr.create(store="s3://data/keys/a", dtype=float, **options)[:] = VALUES
    return "s3://data/keys/a"


def test_npy_bytes_and_hdf5_at_a_url(cluster, server, tmp_path):
    h5py, fsspec = pytest.importorskip("h5py"), pytest.importorskip("s3fs") and pytest.importorskip("fsspec")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(5, 20))
    np.save(tmp_path / "a.npy", VALUES)
    (tmp_path / "a.raw").write_bytes(VALUES.tobytes())
    there = fsspec.filesystem("s3", **server.options)
    for name in ("a.h5", "a.npy", "a.raw"):
        there.pipe(f"data/{name}", (tmp_path / name).read_bytes())
    how = {"storage_options": server.options, "chunk_size": 7}
    for found in (
        mt.load("s3://data/a.npy", **how),
        mt.from_hdf5("s3://data/a.h5", "x", **how),
        mt.fromfile("s3://data/a.raw", shape=VALUES.shape, **how),
    ):
        np.testing.assert_array_equal(found[3:, ::2] * 2, VALUES[3:, ::2] * 2)
        assert s3.SECRET not in repr(found.data.op)


def test_xarray_opens_netcdf_at_a_url(cluster, server, tmp_path):
    xr, fsspec = pytest.importorskip("xarray"), pytest.importorskip("s3fs") and pytest.importorskip("fsspec")
    pytest.importorskip("h5netcdf")
    data = xr.Dataset({"a": (("y", "x"), VALUES)})
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    fsspec.filesystem("s3", **server.options).pipe("data/a.nc", (tmp_path / "a.nc").read_bytes())
    with fsspec.open("s3://data/a.nc", **server.options) as file:
        found = xr.open_dataset(file, engine="h5netcdf", chunks={"y": 5}, chunked_array_type="jmars")
        np.testing.assert_array_equal((found.a * 2).compute(), VALUES * 2)
        found.close()


def test_small_pieces_are_read_many_at_once(cluster, server):
    pytest.importorskip("obstore")
    x, _ = _many_pieces(server, "obstore"), server.reset()
    server.delay = 0.4
    np.testing.assert_array_equal(x, VALUES[:10, :10])
    assert server.most_at_once >= 32
    server.most_at_once = 0
    np.testing.assert_array_equal(_many_pieces(server, "obstore", chunk_size=10), VALUES[:10, :10])
    assert server.most_at_once >= 50
    server.reset()


@pytest.mark.parametrize("kind", ["obstore", pytest.param("s3fs", marks=pytest.mark.long)])
def test_a_busy_server_and_broken_bodies_are_asked_again(cluster, server, kind):
    pytest.importorskip(kind)
    x, _ = _many_pieces(server, kind), server.reset()
    server.busy, server.cut = 0.2, 0.1
    try:
        np.testing.assert_array_equal(x, VALUES[:10, :10])
        assert server.counts["busy"] > 5 and server.counts["cut"] > 2
    finally:
        server.reset()


def _many_pieces(server: s3.Proxy, kind: str, chunk_size: int = 1) -> Any:
    """An array of 100 pieces."""
    place, options = (f"s3://data/{kind}", server.options) if kind == "s3fs" else (server.obstore(kind), None)
    store = place if kind == "s3fs" else zarr.storage.ObjectStore(place)
    array = zarr.create(store=store, shape=(10, 10), chunks=(1, 1), dtype=float, storage_options=options, mode="w")
    array[:] = VALUES[:10, :10]
    return mt.from_zarr(store, chunk_size=chunk_size, storage_options=options)
