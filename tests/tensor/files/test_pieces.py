"""Pieces of Zarr arrays that expressions read: with default chunks no more than their elements lie in."""

import sys

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.optimize.passes import compile_graph
from jmars.tensor import zarr_arrays
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor import engine

zarr = pytest.importorskip("zarr")
xr = pytest.importorskip("xarray")
PLANE = np.random.default_rng(0).random((1000, 1000))
CUBE = np.random.default_rng(1).random((60, 18, 36)).astype("f4")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays")
    zarr.create_array(f"{folder}/plane.zarr", data=PLANE, chunks=(50, 50))
    zarr.create_array(f"{folder}/shards.zarr", data=PLANE, chunks=(50, 50), shards=(200, 200))
    cube = xr.Dataset({"t": (("time", "lat", "lon"), CUBE)})
    cube.to_zarr(f"{folder}/cube.zarr", encoding={"t": {"chunks": (1, 18, 36)}}, consolidated=False)
    yield folder
    sys.modules["zarr.core.sync"].cleanup_resources()  # threads of this process


@pytest.fixture
def read(monkeypatch):
    """Keys of the pieces that were read."""
    found, get = [], zarr.storage.LocalStore.get

    async def noted(self, key, *args, **kwargs):
        found.extend([key] if "/c/" in f"/{key}" else [])
        return await get(self, key, *args, **kwargs)

    monkeypatch.setattr(zarr.storage.LocalStore, "get", noted)
    monkeypatch.setattr(engine, "tiled", lambda graph: compile_graph(graph, {}).after)
    return found


CASES = {
    "corner": (lambda a: a[:10, :10], 1),
    "corner of sums": (lambda a: (a + 1)[:10, :10].sum(), 1),
    "steps": (lambda a: (a + 1)[::100, 7], 10),
    "column": (lambda a: a[:, 7] * 2, 20),
    "list": (lambda a: a[[3, 700]][:, [1, 999]], 4),
    "two corners": (lambda a: a[:10, :10] + a[-10:, -10:], 2),
    "transposed": (lambda a: a.T[:10, 990:], 1),
    "sum of columns": (lambda a: a.sum(axis=0)[:10], 20),
    "mean": (lambda a: a.mean(axis=0), 400),
    "sorted lines": (lambda a: np.sort(a, axis=0)[:, 60:70], 20),
    "all sorted": (lambda a: np.sort(a, axis=1), 400),
    "rechunk": (lambda a: (a.rechunk((100, -1)) if isinstance(a, mt.Tensor) else a) + 1, 400),
}


@pytest.mark.parametrize("name", CASES)
def test_a_zarr_array_with_default_chunks_is_read_where_it_is_needed(name, folder, read):
    function, needed = CASES[name]
    value = engine.OneByOne().fetch(function(mt.from_zarr(folder / "plane.zarr")).data)
    np.testing.assert_allclose(value, function(PLANE))
    assert len(read) == needed


def test_pieces_are_known(folder, read):
    for name in ("plane", "shards"):
        assert mt.from_zarr(folder / f"{name}.zarr").data.op.pieces == (50, 50)
    t = xr.open_zarr(f"{folder}/cube.zarr", chunks={}, chunked_array_type="jmars", consolidated=False).t
    assert t.data.data.op.pieces == (1, 18, 36)
    later = xr.open_zarr(f"{folder}/cube.zarr", chunks=None, consolidated=False).t[3:, ::2]
    assert later.chunk(time=9, chunked_array_type="jmars").data.data.op.pieces == ()
    again = t.chunk(time=20, chunked_array_type="jmars").max("time").data.data
    compiled = compile_graph(TensorGraph.of([again]), {})
    assert [one.label for one in compiled.unfused.operands if one.label in ("from_zarr", "rechunk")] == ["from_zarr"]
    assert np.count_nonzero(compiled.after.reads) == 3


@pytest.mark.parametrize("chunks", [{}, {"time": 20}])
@pytest.mark.parametrize(
    ("function", "needed"),
    [
        (lambda t: t.isel(time=5), 1),
        (lambda t: t.isel(time=slice(6, 60, 24)).mean("time"), 3),
        (lambda t: (t * 2).isel(lat=9, lon=18), 60),
    ],
)
def test_arrays_of_xarray_are_read_where_they_are_needed(function, needed, chunks, folder, read):
    t = xr.open_zarr(f"{folder}/cube.zarr", chunks=chunks, chunked_array_type="jmars", consolidated=False).t
    del read[:]
    value = engine.OneByOne().fetch(function(t).data.data)
    np.testing.assert_allclose(value, function(xr.DataArray(CUBE, dims=t.dims)), rtol=1e-5)
    assert len(read) == needed


PLAIN = {
    "version 3": {},
    "version 2": {"zarr_format": 2},
    "bytes": {"dtype": "u1"},
    "big endian": {"serializer": zarr.codecs.BytesCodec(endian="big")},
    "version 2, big endian": {"dtype": ">f4", "zarr_format": 2},
    "columns first": {"zarr_format": 2, "order": "F"},
    "complex": {"dtype": "c8"},
    "texts": {"dtype": "U3"},
    "compressed": {"compressors": "auto"},
    "shards": {"shards": (32, 30)},
    "narrow pieces": {"chunks": (16, 8)},
}


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning", "ignore:The data type")
@pytest.mark.parametrize("name", PLAIN)
def test_pieces_that_lie_as_in_memory_are_read_as_zarr_reads_them(name, tmp_path, monkeypatch):
    how = {"shape": (70, 30), "chunks": (16, 30), "dtype": "f4", "compressors": None, "fill_value": 0} | PLAIN[name]
    array = zarr.create_array(f"{tmp_path}/a", **how)
    array[:50] = np.arange(1500).reshape(50, 30).astype(how["dtype"])  # the last piece is not there
    array = zarr.open_array(f"{tmp_path}/a", mode="r")
    reader, took = zarr_arrays.ZarrReader(array), []
    plain = zarr_arrays._read_plain
    monkeypatch.setattr(zarr_arrays, "_read_plain", lambda *args: took.append(plain(*args)) or took[-1])
    for low, high in ((0, 16), (3, 9), (10, 41), (48, 64), (50, 70)):
        for step in (1, 2):
            box = slice(low, high), slice(0, 30, step)
            out = np.full((high - low, 30 // step), 7, array.dtype)
            reader.into(box, out)
            np.testing.assert_array_equal(out, array[box])
    is_plain = name not in ("big endian", "columns first", "texts", "compressed", "shards", "narrow pieces")
    assert took == [is_plain, False, is_plain, False, is_plain, False, is_plain, False, False, False]


def test_a_plain_piece_of_a_wrong_size_is_an_error(tmp_path):
    array = zarr.create_array(f"{tmp_path}/a", shape=(32, 8), chunks=(16, 8), dtype="f4", compressors=None)
    array[:] = 1
    reader = zarr_arrays.ZarrReader(zarr.open_array(f"{tmp_path}/a", mode="r"))
    for size in (100, 513):
        (tmp_path / "a/c/1/0").write_bytes(b"x" * size)
        with pytest.raises(ValueError):
            reader.into((slice(16, 20), slice(0, 8)), np.empty((4, 8), "f4"))
