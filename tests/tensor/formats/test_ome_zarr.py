"""OME-Zarr: pyramids as ome-zarr-py writes and reads them, written whole or not at all."""

import importlib.util
import shutil
import subprocess
import sys

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import StorageError

zarr = pytest.importorskip("zarr")

STACK = np.random.default_rng(1).integers(0, 60000, (3, 200, 150), np.uint16)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("options", [{}, {"chunks": (1, 32, 32)}])
def test_pyramids_go_there_and_back(cluster, tmp_path, version, options):
    x = mt.asarray(STACK, chunk_size=(1, 64, 64))
    units = ["micrometer"] * 3
    mt.to_ome_zarr(x, tmp_path / "a", levels=3, scale=(2, 0.5, 0.5), units=units, version=version, **options)
    group = zarr.open_group(tmp_path / "a", mode="r")
    found = group.attrs.asdict() if version == "0.4" else group.attrs["ome"]
    (image,) = found["multiscales"]
    assert (found if version == "0.5" else image)["version"] == version
    assert image["axes"][0] == {"name": "z", "type": "space", "unit": "micrometer"}
    assert image["datasets"][2]["coordinateTransformations"] == [
        {"type": "scale", "scale": [2.0, 2.0, 2.0]},
        {"type": "translation", "translation": [0.0, 0.75, 0.75]},
    ]
    assert group["1"].chunks == options.get("chunks", (1, 64, 64))
    half = STACK.reshape(3, 100, 2, 75, 2).mean(axis=(2, 4)).round().astype("u2")
    for level, values in enumerate([STACK, half]):
        back = mt.from_ome_zarr(tmp_path / "a", level)
        assert back.dtype == "u2"
        np.testing.assert_array_equal(back, values)
        np.testing.assert_array_equal(back[1, ::-3, 5], values[1, ::-3, 5])
    assert mt.from_ome_zarr(tmp_path / "a", 2).shape == (3, 50, 37)
    with pytest.raises(IndexError, match="3 levels; there is no level 3"):
        mt.from_ome_zarr(tmp_path / "a", 3)
    with pytest.raises(IndexError, match="1 images; there is no image 1"):
        mt.from_ome_zarr(tmp_path / "a", image=1)
    with pytest.raises(FileExistsError):
        mt.to_ome_zarr(x, tmp_path / "a")
    mt.to_ome_zarr(x[0], tmp_path / "a", version=version, overwrite=True)
    assert [*zarr.open_group(tmp_path / "a", mode="r")] == ["0"]


def test_images_may_be_empty(tmp_path):
    mt.to_ome_zarr(STACK[:, :0], tmp_path / "b")
    assert mt.from_ome_zarr(tmp_path / "b").fetch().shape == (3, 0, 150)
    zarr.create_array(tmp_path / "c", shape=(0, 3), chunks=(0, 3), dtype="i2")
    assert mt.from_zarr(tmp_path / "c").fetch().shape == (0, 3)


WRITE = """
import sys, numpy as np, zarr
from ome_zarr import format, writer
path, version = sys.argv[1:]
values = np.load(path + ".npy")
found = format.format_from_version(version)
group = zarr.open_group(path, mode="w", zarr_format=found.zarr_format)
writer.write_image(values, group.create_group("deep"), axes="zyx", fmt=found)
"""


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_images_of_ome_zarr_py_are_read(cluster, tmp_path, version):
    if importlib.util.find_spec("ome_zarr") is None:
        pytest.skip("ome-zarr is not installed")
    np.save(tmp_path / "a.npy", STACK)
    subprocess.run([sys.executable, "-c", WRITE, str(tmp_path / "a"), version], check=True, timeout=100)
    np.testing.assert_array_equal(mt.from_ome_zarr(tmp_path / "a", component="deep"), STACK)
    group = zarr.open_group(tmp_path / "a", mode="r")["deep"]
    half = mt.from_ome_zarr(group, 1)
    assert half.shape == (3, 100, 75)
    (image,) = group.attrs.asdict().get("ome", group.attrs.asdict())["multiscales"]
    np.testing.assert_array_equal(half, group[image["datasets"][1]["path"]][:])


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_other_libraries_accept_what_is_written(cluster, tmp_path, version):
    models = pytest.importorskip("ome_zarr_models", reason="ome-zarr-models is not installed")
    mt.to_ome_zarr(mt.asarray(STACK, chunk_size=64), tmp_path / "a", levels=2, version=version)
    found = models.open_ome_zarr(zarr.open_group(tmp_path / "a", mode="r"))
    assert found.ome_zarr_version == version and type(found).__name__ == "Image"


def test_damaged_groups_are_named(cluster, tmp_path):
    with pytest.raises(FileNotFoundError):
        mt.from_ome_zarr(tmp_path / "none")
    mt.to_zarr(STACK, tmp_path / "plain", "x")
    with pytest.raises(StorageError, match=r"plain has no metadata of an OME-Zarr image"):
        mt.from_ome_zarr(tmp_path / "plain")
    mt.to_ome_zarr(STACK, tmp_path / "a", levels=2)
    shutil.rmtree(tmp_path / "a" / "1")
    with pytest.raises(StorageError, match=r"a is damaged: level 1 is missing"):
        mt.from_ome_zarr(tmp_path / "a", 1)


def test_an_image_that_was_not_written_whole_is_none(cluster, tmp_path):
    def fail(block):
        raise ZeroDivisionError("on purpose")

    x = mt.asarray(STACK, chunk_size=64).map_blocks(fail, dtype="u2")
    with pytest.raises(ZeroDivisionError):
        mt.to_ome_zarr(x, tmp_path / "a")
    with pytest.raises((StorageError, FileNotFoundError)):
        mt.from_ome_zarr(tmp_path / "a")


def test_axes_that_do_not_fit_are_refused(cluster, tmp_path):
    for given in ({"axes": "yx"}, {"axes": "zzx"}, {"axes": "tcx"}, {"scale": [1, 2]}, {"version": "0.3"},
                  {"levels": 0}, {"chunks": (1, 0, 64)}):  # fmt: skip
        with pytest.raises(ValueError, match=r"axes|entries|version|from 1 on"):
            mt.to_ome_zarr(STACK, tmp_path / "a", **given)
