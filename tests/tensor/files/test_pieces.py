"""Pieces of Zarr arrays that expressions read: with default chunks no more than their elements lie in."""

import sys
from typing import ClassVar

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.optimize.passes import compile_graph
from jmars.tensor import zarr_arrays
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor import engine

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")
xr = pytest.importorskip("xarray")
PLANE = np.random.default_rng(0).random((1000, 1000))
CUBE = np.random.default_rng(1).random((60, 18, 36)).astype("f4")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays")
    zarr.create_array(f"{folder}/plane.zarr", data=PLANE, chunks=(50, 50))
    zarr.create_array(f"{folder}/shards.zarr", data=PLANE, chunks=(50, 50), shards=(200, 200))
    cube = xr.Dataset(dict.fromkeys(("t", "packed"), (("time", "lat", "lon"), CUBE)))
    packing = {"dtype": "i4", "scale_factor": 1e-9, "_FillValue": -1}
    encoding = {"t": {"chunks": (1, 18, 36)}, "packed": {"chunks": (1, 18, 36), **packing}}
    cube.to_zarr(f"{folder}/cube.zarr", encoding=encoding, consolidated=False)
    yield folder
    sys.modules["zarr.core.sync"].cleanup_resources()  # threads of this process


@pytest.fixture(autouse=True)
def _semaphore_of_blosc(request):
    yield
    request.config.pluginmanager.get_plugin("jmars-leak-check").accept()  # numcodecs keeps it


@pytest.fixture
def read(monkeypatch):
    """Keys of the pieces that were read."""
    found, get = [], zarr.storage.LocalStore.get

    async def noted(self, key, *args, **kwargs):
        found.extend([key] if "/c/" in f"/{key}" else [])
        return await get(self, key, *args, **kwargs)

    def noted_file(path):
        found.append(path)
        return file_bytes(path)

    file_bytes = zarr_arrays._file_bytes
    monkeypatch.setattr(zarr_arrays, "_file_bytes", noted_file)
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
@pytest.mark.parametrize("name", ["t", "packed"])
def test_arrays_of_xarray_are_read_where_they_are_needed(name, function, needed, chunks, folder, read):
    t = xr.open_zarr(f"{folder}/cube.zarr", chunks=chunks, chunked_array_type="jmars", consolidated=False)[name]
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
    "gzip": {"compressors": zarr.codecs.GzipCodec()},
    "zstd, checksum of the frame": {"compressors": zarr.codecs.ZstdCodec(level=3, checksum=True)},
    "zstd, crc32c": {"compressors": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]},
    "crc32c": {"compressors": [zarr.codecs.Crc32cCodec()]},
    "crc32c first": {"compressors": [zarr.codecs.Crc32cCodec(), zarr.codecs.ZstdCodec()]},
    "blosc": {"compressors": zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle"), "chunks": (16, 8)},
    "version 2, blosc": {"zarr_format": 2, "compressors": numcodecs.Blosc()},
    "version 2, zstd, fill": {"zarr_format": 2, "compressors": numcodecs.Zstd(), "fill_value": 9.5},
    "version 2, filter": {"zarr_format": 2, "compressors": numcodecs.Zstd(), "filters": [numcodecs.Delta("f4")]},
    "not a number": {"compressors": "auto", "fill_value": float("nan"), "chunks": (7, 11)},
}
ZARR_DECODES = {"version 2, big endian", "big endian", "columns first", "texts", "shards", "gzip", "crc32c first",
                "version 2, filter"}  # fmt: skip


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning", "ignore:The data type")
@pytest.mark.parametrize("store", ["folder", "fsspec"])
@pytest.mark.parametrize("name", PLAIN)
def test_pieces_are_read_as_zarr_reads_them(name, store, tmp_path, monkeypatch):
    how = {"shape": (70, 30), "chunks": (16, 30), "dtype": "f4", "compressors": None, "fill_value": 0} | PLAIN[name]
    array = zarr.create_array(f"{tmp_path}/a", **how)
    array[:50] = np.arange(1500).reshape(50, 30).astype(how["dtype"])  # the last piece is not there
    array = zarr.open_array(f"{tmp_path}/a" if store == "folder" else f"file://{tmp_path}/a", mode="r")
    reader, took, by_zarr = zarr_arrays.zarr_reader(array), [], zarr_arrays.ZarrReader.into
    assert isinstance(reader, zarr_arrays.PieceReader) == (name not in ZARR_DECODES)
    monkeypatch.setattr(zarr_arrays.ZarrReader, "into", lambda *args: took.append(args) or by_zarr(*args))
    for low, high in ((0, 16), (3, 9), (10, 41), (48, 64), (50, 70)):
        for step in (1, 2):
            box = slice(low, high), slice(0, 30, step)
            out, before = np.full((high - low, 30 // step), 7, array.dtype), len(took)
            reader.into(box, out)
            np.testing.assert_array_equal(out, array[box])
            assert len(took) - before == (step == 2 or name in ZARR_DECODES)
            np.testing.assert_array_equal(reader(box), array[box])
    if name not in ZARR_DECODES:
        np.testing.assert_array_equal(reader(box := (slice(9, 40), slice(2, 20)), reader.begin(box)), array[box])


def _damaged(tmp_path, change, **how):
    """A reader of an array with a damaged piece in rows 16 to 31."""
    array = zarr.create_array(f"{tmp_path}/a", shape=(32, 8), chunks=(16, 8), dtype="f4", **how)
    array[:] = np.arange(256).reshape(32, 8)
    piece = tmp_path / "a/c/1/0"
    piece.write_bytes(change(piece.read_bytes()))
    return zarr_arrays.zarr_reader(zarr.open_array(f"{tmp_path}/a", mode="r"))


ZSTD, OTHER = zarr.codecs.ZstdCodec(), numcodecs.Zstd().encode(np.ones(100, "f4"))
DAMAGES = {
    "plain, short": (lambda data: data[:100], {"compressors": None}),
    "plain, long": (lambda data: data + b"x", {"compressors": None}),
    "empty": (lambda data: b"", {"compressors": ZSTD}),
    "cut": (lambda data: data[:-5], {"compressors": ZSTD}),
    "no frame": (lambda data: b"text" * 20, {"compressors": ZSTD}),
    "fewer elements": (lambda data: OTHER, {"compressors": ZSTD}),
    "more elements": (lambda data: numcodecs.Zstd().encode(np.ones(200, "f4")), {"compressors": ZSTD}),
    "blosc, fewer elements": (lambda data: numcodecs.Blosc().encode(np.ones(100, "f4")),
                              {"compressors": zarr.codecs.BloscCodec()}),
    "another byte": (lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:],
                     {"compressors": [ZSTD, zarr.codecs.Crc32cCodec()]}),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_piece_is_an_error_of_zarr(name, tmp_path):
    change, how = DAMAGES[name]
    reader, out = _damaged(tmp_path, change, **how), np.zeros((4, 8), "f4")
    reader.into((slice(12, 16), slice(0, 8)), out)
    np.testing.assert_array_equal(out, np.arange(96, 128).reshape(4, 8))
    with pytest.raises((ValueError, RuntimeError)):
        reader.into((slice(16, 20), slice(0, 8)), out)


def test_the_size_of_a_frame_is_read_from_its_header():
    for count in (1, 25, 64, 100, 16_000, 20_000, 5_000_000):
        for codec, name in ((numcodecs.Zstd(), "zstd"), (numcodecs.Blosc(), "blosc")):
            body = np.frombuffer(codec.encode(np.zeros(count, "u1")), "u1")
            assert zarr_arrays.decoded_size(name, body) == count


class Counted(zarr.storage.FsspecStore):
    """A store that notes the pieces that are asked for."""

    found: ClassVar[list[str]] = []

    async def get(self, key, *args, **kwargs):
        self.found.extend([key] if "/c/" in f"/{key}" else [])
        return await super().get(key, *args, **kwargs)


@pytest.mark.parametrize("rows", [slice(0, 40), slice(5, 38, 9), slice(7, 9)])
@pytest.mark.parametrize("columns", [slice(0, 30), slice(9, 31)])
def test_what_was_begun_ahead_is_not_read_again(tmp_path, rows, columns):
    box = rows, columns
    values = np.arange(40 * 31.0).reshape(40, 31)
    zarr.create_array(f"{tmp_path}/a", data=values, chunks=(8, 10))
    store = Counted.from_url(f"file://{tmp_path}/a", read_only=True)
    reader, out = zarr_arrays.zarr_reader(zarr.open_array(store, mode="r")), np.empty(values[box].shape)
    assert isinstance(reader, zarr_arrays.PieceReader) and reader.folder is None
    del store.found[:]
    begun = reader.begin(box)
    asked = sorted(store.found)
    assert len(asked) == len(set(asked)) > 3
    reader.into(box, out, begun)
    assert sorted(store.found) == asked
    np.testing.assert_array_equal(out, values[box])


class Masked(zarr.storage.LocalStore):
    """A store of files whose pieces are masked in the files."""

    async def get(self, *args, **kwargs):
        found = await super().get(*args, **kwargs)
        if found is None or "/c/" not in f"/{args[0]}":
            return found
        return type(found).from_bytes(bytes(255 - one for one in found.to_bytes()))


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_a_store_of_files_with_bytes_of_its_own_is_asked(tmp_path, compressors):
    array = zarr.create_array(f"{tmp_path}/a", shape=(8, 4), chunks=(4, 4), dtype="i4", compressors=compressors)
    array[:] = np.arange(32).reshape(8, 4)
    for piece in (tmp_path / "a/c").rglob("0"):
        if piece.is_file():
            piece.write_bytes(bytes(255 - one for one in piece.read_bytes()))
    reader = zarr_arrays.zarr_reader(zarr.open_array(Masked(tmp_path / "a"), mode="r"))
    np.testing.assert_array_equal(reader((slice(0, 8), slice(0, 4))), np.arange(32).reshape(8, 4))


def test_a_frame_without_a_size_is_decoded(tmp_path):
    array = zarr.create_array(f"{tmp_path}/a", shape=(8, 4), chunks=(8, 4), dtype="i4", compressors=ZSTD)
    array[:] = 1
    values = np.arange(32, dtype="i4").reshape(8, 4)
    block = (128 << 3 | 1).to_bytes(3, "little") + values.tobytes()  # the last block, stored
    (tmp_path / "a/c/0/0").write_bytes(b"\x28\xb5\x2f\xfd\x00\x50" + block)
    reader, out = zarr_arrays.zarr_reader(zarr.open_array(f"{tmp_path}/a", mode="r")), np.empty((8, 4), "i4")
    assert zarr_arrays.decoded_size("zstd", np.fromfile(tmp_path / "a/c/0/0", "u1")) == -1
    assert reader._decode((slice(0, 8), slice(0, 4)), out, {})
    np.testing.assert_array_equal(out, values)


def test_no_fill_value_is_left_to_zarr(tmp_path):
    array = zarr.create_array(f"{tmp_path}/a", shape=(8,), chunks=(4,), dtype="f4", zarr_format=2, fill_value=None)
    array[:4] = 2
    reader = zarr_arrays.zarr_reader(zarr.open_array(f"{tmp_path}/a", mode="r"))
    np.testing.assert_array_equal(reader((slice(2, 6),)), [2, 2, 0, 0])


@pytest.mark.parametrize(
    ("chunks", "key", "pieces"),
    [
        ((4, 8), (slice(None), slice(None)), 1),  # a whole piece, decoded in the chunk
        ((6, 8), (slice(None), slice(None)), 3 + 1),  # from within a piece on; a piece is decoded beside the chunk
        ((16, 8), (slice(None), slice(None)), 4),
        ((16, 8), (slice(None, None, 2), slice(None)), 4 + 4),  # zarr decodes several pieces at once
    ],
)
def test_calls_are_promised_memory_for_pieces(tmp_path, monkeypatch, chunks, key, pieces):
    monkeypatch.setattr(zarr_arrays, "pieces_at_once", lambda array: 64)
    zarr.create_array(f"{tmp_path}/a", data=np.ones((48, 8)), chunks=(4, 8))
    graph = TensorGraph.of([mt.from_zarr(tmp_path / "a", chunks=chunks)[key].data])
    assert compile_graph(graph, {}).after.work.max() == pieces * 4 * 8 * 8
