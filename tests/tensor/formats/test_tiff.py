"""TIFF and OME-TIFF: equal to what tifffile reads and writes, lazily, and written whole or not at all."""

import importlib.util
import os

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import StorageError, UnsupportedError

tifffile = pytest.importorskip("tifffile", reason="TIFF needs the extra microscopy")
pytest.importorskip("zarr")

STACK = np.random.default_rng(1).integers(0, 60000, (3, 200, 150), np.uint16)
PHOTO = np.random.default_rng(2).integers(0, 255, (90, 130, 3), np.uint8)


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (STACK, {}),
        (STACK, {"compression": "zlib", "predictor": True}),
        (STACK[0].astype(">f4"), {"compression": "zlib"}),
        (STACK[:, :17, :9] % 2 == 0, {}),
        (STACK.reshape(3, 2, 100, 150), {"bigtiff": True}),
        (STACK, {"ome": True, "metadata": {"axes": "ZYX", "PhysicalSizeX": 0.5}}),
        (PHOTO, {}),
        (np.stack([PHOTO, PHOTO[::-1]]), {"compression": "zlib", "ome": True}),
        (STACK[0, :16, :16], {}),
        (STACK[:, :32, :48], {}),  # a page is one tile
        (STACK[:, :32, :48], {"compression": None, "ome": True}),
        (PHOTO[:32, :48], {}),
    ],
)
def test_tiffs_go_there_and_back(cluster, tmp_path, values, options):
    mt.to_tiff(mt.asarray(values, chunk_size=40) if values.shape[-1] > 3 else values, tmp_path / "a.tif",
               tile=(32, 48), **options)  # fmt: skip
    assert os.listdir(tmp_path) == ["a.tif"]
    found = tifffile.imread(tmp_path / "a.tif")
    assert found.dtype == values.dtype.newbyteorder("=") and found.shape == values.shape
    np.testing.assert_array_equal(found, values)
    back = mt.from_tiff(tmp_path / "a.tif")
    assert (back.shape, back.dtype) == (found.shape, found.dtype)
    np.testing.assert_array_equal(back, values)
    np.testing.assert_array_equal(back[..., 3:9, ::-2], values[..., 3:9, ::-2])


def test_a_level_of_one_tile_is_written_as_others(tmp_path):
    values = STACK[:, :128, :128]
    mt.to_tiff(values, tmp_path / "a.ome.tif", levels=4, tile=(32, 32))
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        levels = file.series[0].levels
        assert {page.compression for level in levels for page in level.pages} == {1}
        np.testing.assert_array_equal(levels[0].asarray(), values)
        half = values.reshape(3, 64, 2, 64, 2).mean(axis=(2, 4)).round()
        quarter = half.reshape(3, 32, 2, 32, 2).mean(axis=(2, 4)).round()
        np.testing.assert_array_equal(levels[2].asarray(), quarter)
    Image = pytest.importorskip("PIL.Image")
    mt.to_tiff(values[:, :32, :32], tmp_path / "b.tif", tile=(32, 32))
    with Image.open(tmp_path / "b.tif") as image:
        image.seek(2)
        np.testing.assert_array_equal(image, values[2, :32, :32])


def test_pyramids_of_ome_tiff_are_written_and_read_by_level(cluster, tmp_path):
    mt.to_tiff(mt.asarray(STACK, chunk_size=(1, 64, 64)), tmp_path / "a.ome.tif", levels=3, tile=(32, 32))
    half = STACK.reshape(3, 100, 2, 75, 2).mean(axis=(2, 4)).round().astype("u2")
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        assert file.is_ome and [one.shape for one in file.series[0].levels] == [
            (3, 200, 150),
            (3, 100, 75),
            (3, 50, 37),
        ]
        np.testing.assert_array_equal(file.series[0].levels[1].asarray(), half)
    np.testing.assert_array_equal(mt.from_tiff(tmp_path / "a.ome.tif", level=1), half)
    assert mt.from_tiff(tmp_path / "a.ome.tif", level=2).shape == (3, 50, 37)
    for given, text in (({"series": 1}, "no series 1"), ({"level": 3}, "no level 3")):
        with pytest.raises(IndexError, match=rf"a\.ome\.tif has 1|a\.ome\.tif has 3.*{text}"):
            mt.from_tiff(tmp_path / "a.ome.tif", **given)
    with pytest.raises(UnsupportedError, match="OME-TIFF"):
        mt.to_tiff(STACK, tmp_path / "b.tif", levels=2)
    with pytest.raises(ValueError, match="two multiples of 16"):
        mt.to_tiff(STACK, tmp_path / "b.tif", tile=(0, 16))
    with pytest.raises(ValueError, match="levels is 0"):
        mt.to_tiff(STACK, tmp_path / "b.tif", levels=0)


def test_files_of_the_field_are_read(cluster, tmp_path):
    tifffile.imwrite(tmp_path / "strips.tif", STACK, rowsperstrip=7, compression="zlib", photometric="minisblack")
    tifffile.imwrite(tmp_path / "imagej.tif", STACK[:, None, :, :], imagej=True)
    tifffile.imwrite(tmp_path / "planes.tif", STACK, planarconfig="separate", photometric="rgb")
    tifffile.imwrite(tmp_path / "photo.tif", PHOTO, tile=(16, 16), byteorder=">")
    for name, values in (("strips", STACK), ("imagej", STACK), ("planes", STACK), ("photo", PHOTO)):
        x = mt.from_tiff(tmp_path / f"{name}.tif")
        np.testing.assert_array_equal(x, values)
        np.testing.assert_array_equal((x + 1)[1:, 20:60:7], (values + 1)[1:, 20:60:7])
    np.testing.assert_array_equal(mt.from_tiff(f"file://{tmp_path}/strips.tif")[1], STACK[1])


def test_damaged_tiffs_are_named(cluster, tmp_path):
    path = tmp_path / "a.tif"
    path.write_bytes(b"no TIFF at all")
    with pytest.raises(StorageError, match=r"a\.tif cannot be read as TIFF"):
        mt.from_tiff(path)
    with pytest.raises(FileNotFoundError):
        mt.from_tiff(tmp_path / "none.tif")
    tifffile.imwrite(path, STACK, tile=(32, 32), photometric="minisblack")
    os.truncate(path, path.stat().st_size - 5000)
    with pytest.raises(StorageError, match=r"a\.tif is cut short|a\.tif cannot be read"):
        mt.from_tiff(path).sum()
    tifffile.imwrite(path, STACK, tile=(32, 32), photometric="minisblack", compression="zlib")
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size - 2000)
        file.write(bytes(1000))
    with pytest.raises(StorageError, match=r"a\.tif cannot be read as TIFF"):
        mt.from_tiff(path).sum().fetch()


@pytest.mark.skipif(
    any(map(importlib.util.find_spec, ["imagecodecs", "compression"])), reason="there are encoders of zstd"
)
def test_a_compression_that_needs_imagecodecs_says_so(cluster, tmp_path):
    with pytest.raises(ImportError, match="compression 'zstd' needs imagecodecs: pip install imagecodecs"):
        mt.to_tiff(STACK, tmp_path / "a.tif", compression="zstd")


def test_a_failed_write_leaves_the_file_before(cluster, tmp_path):
    def fail(block):
        raise ZeroDivisionError("on purpose")

    mt.to_tiff(STACK, tmp_path / "a.tif")
    with pytest.raises(ZeroDivisionError):
        mt.to_tiff(mt.asarray(STACK, chunk_size=64).map_blocks(fail, dtype="u2"), tmp_path / "a.tif")
    assert os.listdir(tmp_path) == ["a.tif"]
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "a.tif"), STACK)
