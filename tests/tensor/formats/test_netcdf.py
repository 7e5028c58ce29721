"""NetCDF 4: equal to what h5netcdf and xarray read and write, lazily, and written whole or not at all."""

import os

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import StorageError, UnsupportedError

h5netcdf = pytest.importorskip("h5netcdf", reason="NetCDF needs the extra netcdf")

FIELD = np.random.default_rng(1).normal(280, 10, (12, 20, 30)).astype("f4")


@pytest.mark.parametrize("options", [{}, {"compression": "gzip", "shuffle": True}, {"chunks": (5, 7, 30)}])
def test_netcdf_goes_there_and_back(cluster, tmp_path, options):
    path = tmp_path / "a.nc"
    x = mt.asarray(FIELD, chunk_size=(5, 7, 30))
    mt.to_netcdf(x, path, "t2m", ("time", "lat", "lon"), attributes={"units": "K"}, **options)
    mt.to_netcdf(np.arange(20.0), path, "lat", ("lat",), mode="a")
    mt.to_netcdf(x + 1, path, "deep/er/time", ("time", "lat", "lon"), mode="a")
    assert os.listdir(tmp_path) == ["a.nc"]
    with h5netcdf.File(path) as file:
        found = file["t2m"]
        assert (found.dimensions, found.chunks, found.attrs["units"]) == (("time", "lat", "lon"), (5, 7, 30), "K")
        np.testing.assert_array_equal(found[...], FIELD)
        np.testing.assert_array_equal(file["lat"][:], np.arange(20.0))
        np.testing.assert_array_equal(file["deep/er"].variables["time"][...], FIELD + 1)
    back = mt.from_netcdf(path, "t2m")
    assert back.dtype == "f4"
    np.testing.assert_array_equal(back, FIELD)
    np.testing.assert_array_equal((back * 2)[::5, 3, ::-4], (FIELD * 2)[::5, 3, ::-4])
    np.testing.assert_array_equal(mt.from_netcdf(path, "deep/er/time")[3], FIELD[3] + 1)


def test_variables_and_dimensions_that_exist_are_refused(cluster, tmp_path):
    path = tmp_path / "a.nc"
    mt.to_netcdf(FIELD, path, "t", ("time", "lat", "lon"))
    before = path.read_bytes()
    for name, values, dims, text in (
        ("t", FIELD, None, "has a variable t"),
        ("u", FIELD[:3], ("time", "lat", "lon"), "dimension time of 12"),
        ("u", FIELD, ("time",), "for each of 3 axes"),
    ):
        with pytest.raises(ValueError, match=text):
            mt.to_netcdf(values, path, name, dims, mode="a")
    assert path.read_bytes() == before
    mt.to_netcdf(FIELD, path, "g/t", mode="a")
    for name in "ug":
        with pytest.raises(KeyError, match=rf"a\.nc has no variable {name}; it has t, g/\.\.\."):
            mt.from_netcdf(path, name)


@pytest.mark.parametrize("dtype", ["?", "M8[ns]", "m8[s]", "U3"])
def test_dtypes_that_files_lack_are_refused_before_there_is_one(cluster, tmp_path, dtype):
    for write, name in ((mt.to_netcdf, "NetCDF"), (mt.to_tiff, "TIFF")):
        if (name, dtype) != ("TIFF", "?"):
            with pytest.raises(UnsupportedError, match=f"{name} files have no dtype"):
                write(np.zeros((3, 4), dtype), tmp_path / "a", *["v"] * (name == "NetCDF"))
    assert not [*tmp_path.iterdir()]


def test_a_single_dimension_is_named_by_its_text(cluster, tmp_path):
    mt.to_netcdf(mt.ones(3), tmp_path / "a.nc", "t", "time")
    assert mt.from_netcdf(tmp_path / "a.nc", "t").shape == (3,)


def test_files_of_xarray_are_decoded_as_asked(cluster, tmp_path):
    xr = pytest.importorskip("xarray")
    values = FIELD.astype("f8")
    values[0, 0, :3] = np.nan
    codes = {
        "dtype": "int16",
        "scale_factor": 0.01,
        "add_offset": 250.0,
        "_FillValue": -9999,
        "chunksizes": (4, 20, 30),
    }
    byte = {"dtype": "uint8", "_Unsigned": "true", "_FillValue": 255, "scale_factor": 2.0}
    data = xr.Dataset(
        {"t": (("time", "y", "x"), values), "cloud": (("y", "x"), np.arange(600.0).reshape(20, 30) % 400)}
    )
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"t": codes, "cloud": byte})
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as decoded:
        for name in ("t", "cloud"):
            x = mt.from_netcdf(tmp_path / "a.nc", name, decode=True)
            np.testing.assert_allclose(x, decoded[name].values, rtol=1e-12)
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf", mask_and_scale=False) as stored:
        x = mt.from_netcdf(f"file://{tmp_path}/a.nc", "t", chunk_size=7)
        assert x.dtype == np.int16
        np.testing.assert_array_equal(x[:, 5], stored["t"].values[:, 5])


I2, F4 = np.array([0, 1, -9999, -32768, 7], "i2"), np.array([0, 0.1, 1e20], "f4")
CODES = [  # stored values, attributes, decoded values
    (I2, {"missing_value": 1e20}, I2),  # int16 has no such number
    (I2, {"missing_value": -9999.0}, [0, 1, np.nan, -32768, 7]),
    (I2, {"missing_value": np.array([7, -9999], "i2"), "add_offset": 1}, [1, 2, np.nan, -32767, np.nan]),
    (I2.astype(">i2"), {"_FillValue": np.int16(7), "scale_factor": 0.5}, [0, 0.5, -4999.5, -16384, np.nan]),
    (np.array([-1, -2, 3], "i1"), {"_Unsigned": "true", "_FillValue": np.int8(-1)}, [np.nan, 254, 3]),
    (np.array([255, 254, 3], "u1"), {"_Unsigned": "false", "_FillValue": np.uint8(255)}, [np.nan, -2, 3]),
    (F4, {"missing_value": np.float32(0.1)}, np.array([0, np.nan, 1e20], "f4")),
    (F4, {"add_offset": 300.0}, F4.astype(float) + 300),
    (F4, {"scale_factor": np.float32(3)}, F4 * np.float32(3)),
]


@pytest.mark.filterwarnings("ignore:variable 'v' has")
@pytest.mark.parametrize("stored, attributes, wanted", CODES)
def test_attributes_of_coded_values_mean_what_xarray_takes_them_for(tmp_path, stored, attributes, wanted):
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions["x"] = len(stored)
        file.create_variable("v", ("x",), stored.dtype, data=stored).attrs.update(attributes)
    found = mt.from_netcdf(tmp_path / "a.nc", "v", decode=True)
    assert found.dtype == (np.float32 if np.asarray(wanted).dtype == np.float32 else float)
    np.testing.assert_array_equal(found, wanted)
    xr = pytest.importorskip("xarray")
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as theirs:
        np.testing.assert_allclose(found, theirs["v"].values, rtol=1e-15)


def test_text_is_not_decoded(tmp_path):
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions["x"] = 2
        file.create_variable("v", ("x",), "S1", data=np.array([b"a", b"b"]))
    with pytest.raises(UnsupportedError, match="for integers and floats"):
        mt.from_netcdf(tmp_path / "a.nc", "v", decode=True)


@pytest.mark.parametrize("version", [1, 2])
def test_netcdf_3_files_of_scipy_are_read_and_damaged_ones_named(cluster, tmp_path, version):
    io, path = pytest.importorskip("scipy.io"), tmp_path / "a.nc"
    with io.netcdf_file(path, "w", version=version) as file:
        for name, length in (("time", None), ("lat", 20), ("lon", 30)):
            file.createDimension(name, length)
        file.createVariable("t2m", "f4", ("time", "lat", "lon"))[:] = FIELD
        packed = file.createVariable("packed", "i2", ("lat",))
        packed[:], packed.scale_factor, packed._FillValue = np.arange(20), 0.5, np.int16(3)
    back = mt.from_netcdf(path, "t2m", chunk_size=(5, 7, 30))
    assert back.dtype == np.dtype("f4") and back.chunks[0] == (5, 5, 2)
    np.testing.assert_array_equal(back, FIELD)
    np.testing.assert_array_equal((back * 2)[::5, 3, ::-4], (FIELD * 2)[::5, 3, ::-4])
    wanted = np.where(np.arange(20) == 3, np.nan, np.arange(20) * 0.5)
    np.testing.assert_array_equal(mt.from_netcdf(path, "packed", decode=True), wanted)
    with pytest.raises(KeyError, match=r"a\.nc has no variable u; it has packed, t2m"):
        mt.from_netcdf(path, "u")
    whole = path.read_bytes()
    for length in (5, 60, len(whole) - 100, len(whole) // 2):
        path.write_bytes(whole[:length])
        with pytest.raises(StorageError, match=r"a\.nc cannot be read as NetCDF; it may be damaged or cut short"):
            mt.from_netcdf(path, "t2m")
    path.write_bytes(whole[:4] + b"\xff" * 4 + whole[8:])  # the number of records, as a stream has it
    with pytest.raises(StorageError, match=r"a\.nc cannot be read as NetCDF"):
        mt.from_netcdf(path, "t2m")


def test_damaged_netcdf_files_are_named(cluster, tmp_path):
    path = tmp_path / "a.nc"
    path.write_bytes(b"no NetCDF at all")
    with pytest.raises(StorageError, match=r"a\.nc cannot be read as NetCDF"):
        mt.from_netcdf(path, "t")
    path.write_bytes(b"CDF\x01" + b"\xff" * 100)
    with pytest.raises(StorageError, match=r"a\.nc cannot be read as NetCDF"):
        mt.from_netcdf(path, "t")
    with pytest.raises(FileNotFoundError):
        mt.from_netcdf(tmp_path / "none.nc", "t")
    mt.to_netcdf(mt.asarray(FIELD, chunk_size=10), path, "t", compression="gzip", fletcher32=True)
    x = mt.from_netcdf(path, "t")
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size - 3000)
        file.write(bytes(2000))
    with pytest.raises(StorageError, match=r"a\.nc cannot be read as NetCDF"):
        x.sum().fetch()
    os.truncate(path, 2000)
    with pytest.raises(StorageError, match=r"a\.nc cannot be read as NetCDF"):
        mt.from_netcdf(path, "t")
