"""Formats of images, telescopes and weather on workers: written by all of them, read in part, whole or not there."""

import os
import sys

import numpy as np
import pytest

import jmars.tensor as mt

CUBE = np.random.default_rng(1).integers(0, 60000, (3, 200, 150), np.uint16)


@pytest.fixture(autouse=True)
def threads_of_zarr():
    yield
    if "zarr" in sys.modules:
        sys.modules["zarr.core.sync"].cleanup_resources()


def tiff(path):
    pytest.importorskip("tifffile")
    return lambda x: mt.to_tiff(x, path, tile=(64, 64), compression="zlib"), lambda: mt.from_tiff(path, chunks=100)


def fits(path):
    pytest.importorskip("astropy")
    return lambda x: mt.to_fits(x, path), lambda: mt.from_fits(path, chunks=100)


def netcdf(path):
    pytest.importorskip("h5netcdf")
    return lambda x: mt.to_netcdf(x, path, "v"), lambda: mt.from_netcdf(path, "v", chunks=100)


def ome_zarr(path):
    return lambda x: mt.to_ome_zarr(x, path, overwrite=True), lambda: mt.from_ome_zarr(path, chunks=100)


def geotiff(path):
    pytest.importorskip("tifffile"), pytest.importorskip("rasterio")
    place = {"transform": (10, 0, 5e5, 0, -10, 5e6)}
    return lambda x: mt.to_geotiff(x, path, tile=(64, 64), **place), lambda: mt.from_geotiff(path, chunks=100)


def zarr_group(path):
    return lambda x: mt.to_zarr_group({"v": x}, path, overwrite=True), lambda: mt.from_zarr_group(path)["v"]


def fail(block):
    raise ZeroDivisionError("on purpose")


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of a library that rasterio stands on
@pytest.mark.parametrize("kind", [tiff, fits, netcdf, ome_zarr, geotiff, zarr_group])
def test_workers_write_files_and_read_parts(cluster, tmp_path, kind):
    path = tmp_path / "a"
    write, read = kind(path)
    x = mt.asarray(CUBE, chunk_size=(1, 64, 64))
    write(x * 2)
    assert os.listdir(tmp_path) == ["a"]
    np.testing.assert_array_equal((read() + 1).fetch(), CUBE * 2 + 1)
    part = (read() + 1)[2, ::50, 7:9]
    rows = 2 * 51 if kind in (fits, geotiff) else 4  # ranges, no steps; astropy maps no unsigned integers
    assert part.plan().read == rows * 2 * CUBE.itemsize
    np.testing.assert_array_equal(part.fetch(), CUBE[2, ::50, 7:9] * 2 + 1)
    if path.is_file():
        before = path.read_bytes()
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            write(x.map_blocks(fail, dtype=x.dtype))
        assert path.read_bytes() == before and os.listdir(tmp_path) == ["a"]
