"""GRIB: equal to what cfgrib reads, message by message."""

import os

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import StorageError

eccodes = pytest.importorskip("eccodes", reason="GRIB needs the extra grib")
pytest.importorskip("cfgrib")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:cfgrib")

LEVELS, STEPS = (850, 500), (0, 6, 12)
GRID = {"Ni": 20, "Nj": 10, "iDirectionIncrementInDegrees": 5, "jDirectionIncrementInDegrees": 5}
GRID |= {"latitudeOfFirstGridPointInDegrees": 90, "latitudeOfLastGridPointInDegrees": 45}
GRID |= {"longitudeOfFirstGridPointInDegrees": 0, "longitudeOfLastGridPointInDegrees": 95}


def field(step, level):
    return np.arange(200.0).reshape(10, 20) + 1000 * step + level


def write(path, left_out=()):
    with open(path, "wb") as file:
        for step in STEPS:
            for level in LEVELS:
                if (step, level) in left_out:
                    continue
                message = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
                facts = {"dataDate": 20260101, "stepRange": step, "level": level, "shortName": "t", **GRID}
                for name, value in facts.items():
                    eccodes.codes_set(message, name, value)
                eccodes.codes_set_values(message, field(step, level).reshape(-1))
                eccodes.codes_write(message, file)
                eccodes.codes_release(message)


def test_fields_are_read_by_message(cluster, tmp_path):
    write(tmp_path / "a.grib")
    values = np.array([[field(step, level) for level in LEVELS] for step in STEPS]).astype("f4")
    x = mt.from_grib(tmp_path / "a.grib", "t", chunk_size=(1, 2, 10, 20))
    assert (x.shape, x.dtype) == ((3, 2, 10, 20), np.float32)
    np.testing.assert_allclose(x, values, rtol=1e-4)
    np.testing.assert_array_equal((x + 1)[1:, 1, ::3, 5:1:-1], (x.fetch() + 1)[1:, 1, ::3, 5:1:-1])
    assert mt.from_grib(tmp_path / "a.grib", "t", filter={"level": 500}).shape == (3, 10, 20)
    with pytest.raises(KeyError, match=r"a\.grib has no variable u; it has .*t"):
        mt.from_grib(tmp_path / "a.grib", "u")


def test_messages_that_a_file_has_not_are_nan(cluster, tmp_path):
    write(tmp_path / "a.grib", left_out={(6, 500)})
    found = mt.from_grib(tmp_path / "a.grib", "t").fetch()
    assert np.isnan(found[1, 1]).all() and np.isfinite(found).sum() == 5 * 200


def test_damaged_grib_files_are_named(cluster, tmp_path):
    path = tmp_path / "a.grib"
    path.write_bytes(b"no GRIB at all")
    with pytest.raises(StorageError, match=r"a\.grib cannot be read as GRIB"):
        mt.from_grib(path, "t")
    with pytest.raises(FileNotFoundError):
        mt.from_grib(tmp_path / "none.grib", "t")
    write(path)
    x = mt.from_grib(path, "t")
    os.truncate(path, path.stat().st_size - 300)
    with pytest.raises(StorageError, match=r"a\.grib cannot be read as GRIB"):
        x.sum().fetch()
    for name in os.listdir(tmp_path):
        if name.endswith(".idx"):
            os.unlink(tmp_path / name)
    with pytest.raises(StorageError, match=r"a\.grib cannot be read as GRIB"):
        mt.from_grib(path, "t")
