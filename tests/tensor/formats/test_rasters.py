"""Rasters: equal to what rasterio reads and writes, with overviews, stacked, and written whole or not at all."""

import os

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import StorageError, UnsupportedError

rasterio = pytest.importorskip("rasterio", reason="rasters need the extra io")
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of a library that rasterio stands on

BANDS = np.random.default_rng(1).integers(1, 255, (2, 64, 48), np.uint8)


def write(path, values, north=64, **options):
    profile = {"driver": "GTiff", "count": len(values), "height": values.shape[1], "width": values.shape[2]}
    profile |= {"dtype": values.dtype.name, "transform": rasterio.transform.from_origin(0, north, 1, 1), **options}
    with rasterio.open(path, "w", **profile) as file:
        file.write(values)


def test_rasters_are_read_by_their_blocks(cluster, tmp_path):
    write(tmp_path / "a.tif", BANDS, tiled=True, blockxsize=16, blockysize=16)
    found = mt.from_geotiff(tmp_path / "a.tif", chunk_size=(1, 32, 16))
    np.testing.assert_array_equal(found, BANDS)
    np.testing.assert_array_equal(mt.from_geotiff(tmp_path / "a.tif").max(axis=(1, 2)), BANDS.max(axis=(1, 2)))


def test_overviews_of_cloud_optimised_files_are_levels(cluster, tmp_path):
    values = np.random.default_rng(2).integers(0, 999, (1, 1100, 1300)).astype("u2")
    write(tmp_path / "a.tif", values, driver="COG", blocksize=256, crs="EPSG:32632")
    np.testing.assert_array_equal(mt.from_geotiff(tmp_path / "a.tif")[:, 500:600, ::100], values[:, 500:600, ::100])
    with rasterio.open(tmp_path / "a.tif", overview_level=0) as file:
        np.testing.assert_array_equal(mt.from_geotiff(tmp_path / "a.tif", level=1), file.read())
    with pytest.raises(IndexError, match=r"a\.tif has 3 overviews; there is no level 4"):
        mt.from_geotiff(tmp_path / "a.tif", level=4)


def test_scenes_are_stacked(cluster, tmp_path):
    scenes = np.stack([BANDS, BANDS + 1, BANDS + 2])
    for k, one in enumerate(scenes):
        write(tmp_path / f"{k}.tif", one)
    found = mt.from_geotiff(str(tmp_path / "*.tif"), chunk_size=(2, 2, 32, 48))
    assert found.shape == (3, 2, 64, 48)
    np.testing.assert_array_equal(found, scenes)
    np.testing.assert_array_equal(found[1:, 1, ::9, 3], scenes[1:, 1, ::9, 3])
    np.testing.assert_array_equal(mt.from_geotiff([tmp_path / "2.tif"]), scenes[2:])
    write(tmp_path / "1.tif", BANDS, north=65)
    with pytest.raises(ValueError, match=r"1\.tif has transform .*, unlike the first scene, .*0\.tif"):
        mt.from_geotiff(str(tmp_path / "*.tif")).fetch()
    with pytest.raises(FileNotFoundError, match="pattern"):
        mt.from_geotiff(str(tmp_path / "*.png"))


@pytest.mark.parametrize("options", [{}, {"compression": "zlib", "predictor": True}])
@pytest.mark.parametrize("values", [BANDS, BANDS[0], BANDS[:1].astype("f4"), np.tile(BANDS.astype("i2"), (2, 3, 2))])
def test_geotiffs_go_there_and_back(cluster, tmp_path, values, options):
    pytest.importorskip("tifffile")
    if options and values.dtype.kind == "f":
        pytest.importorskip("imagecodecs", reason="predictors of floats need imagecodecs")
    place = {"crs": "EPSG:32632", "transform": rasterio.transform.from_origin(5e5, 5e6, 10, 10), "nodata": 7}
    mt.to_geotiff(mt.asarray(values, chunk_size=30), tmp_path / "a.tif", tile=(16, 32), levels=2, **place, **options)
    assert os.listdir(tmp_path) == ["a.tif"]
    bands = values if values.ndim == 3 else values[None]
    with rasterio.open(tmp_path / "a.tif") as file:
        assert (file.crs, file.transform, file.nodata) == (place["crs"], place["transform"], 7)
        assert file.overviews(1) == [2] and file.block_shapes[0] == (16, 32)
        np.testing.assert_array_equal(file.read(), bands)
    np.testing.assert_array_equal(mt.from_geotiff(tmp_path / "a.tif"), bands)
    whole = np.where(bands == 7, np.nan, bands).reshape(len(bands), bands.shape[1] // 2, 2, -1, 2)
    half = np.nanmean(whole, axis=(2, 4))
    half = half if values.dtype.kind == "f" else half.round()
    np.testing.assert_array_equal(mt.from_geotiff(tmp_path / "a.tif", level=1), half.astype(values.dtype))


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_overviews_take_neither_missing_elements_nor_means_where_told(cluster, tmp_path):
    pytest.importorskip("tifffile")
    values = np.where(np.arange(30.0) % 5 < 4, np.arange(30.0), np.nan) * np.ones((5, 1))
    values[:2, :2] = np.nan
    mt.to_geotiff(values, tmp_path / "a.tif", levels=2, nodata=np.nan)
    half = mt.from_geotiff(tmp_path / "a.tif", level=1).fetch()
    assert half.shape == (1, 2, 15) and np.isnan(half[0, 0, 0])
    assert half[0, 0, 1:3].tolist() == [2.5, 5.0]
    mt.to_geotiff(values, tmp_path / "b.tif", levels=2, resampling="nearest", like=tmp_path / "a.tif")
    np.testing.assert_array_equal(mt.from_geotiff(tmp_path / "b.tif", level=1)[0], values[:4:2, ::2])
    with rasterio.open(tmp_path / "b.tif") as file:
        assert np.isnan(file.nodata)
        mt.to_geotiff(values, tmp_path / "d.tif", like=file)
    with rasterio.open(tmp_path / "d.tif") as file:
        assert np.isnan(file.nodata)
    with pytest.raises(UnsupportedError, match="height, width"):
        mt.to_geotiff(np.ones(3), tmp_path / "c.tif")


def test_damaged_rasters_are_named(cluster, tmp_path):
    path = tmp_path / "a.tif"
    path.write_bytes(b"no raster at all")
    with pytest.raises(StorageError, match=r"a\.tif cannot be read as a raster"):
        mt.from_geotiff(path)
    with pytest.raises(FileNotFoundError):
        mt.from_geotiff(tmp_path / "none.tif")
    write(path, BANDS, tiled=True, blockxsize=16, blockysize=16)
    os.truncate(path, path.stat().st_size - 3000)
    with pytest.raises(StorageError, match=r"a\.tif cannot be read as a raster"):
        mt.from_geotiff(path).sum().fetch()
