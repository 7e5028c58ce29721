"""FITS: equal to what astropy reads and writes, lazily, and written whole or not at all."""

import gzip
import os

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import StorageError, UnsupportedError

fits = pytest.importorskip("astropy.io.fits", reason="FITS needs the extra astronomy")

CUBE = np.random.default_rng(1).integers(0, 250, (3, 40, 50)).astype("i2")
DTYPES = ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", ">f4"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_fits_goes_there_and_back(cluster, tmp_path, dtype):
    values = (CUBE % 100).astype(dtype)
    values[0, 0, :2] = 0, np.iinfo(dtype).max if np.dtype(dtype).kind in "iu" else 1e9
    header = fits.Header([("OBJECT", "M31", "a galaxy"), ("BSCALE", 3.0)])
    mt.to_fits(mt.asarray(values, chunk_size=16), tmp_path / "a.fits", header)
    assert os.listdir(tmp_path) == ["a.fits"]
    with fits.open(tmp_path / "a.fits") as file:
        file.verify("exception")
        assert file[0].header["OBJECT"] == "M31"
        found = file[0].data
        assert found.dtype.newbyteorder("=") == values.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found, values)
        del found
    back = mt.from_fits(tmp_path / "a.fits")
    assert back.dtype == fits.getdata(tmp_path / "a.fits").dtype
    np.testing.assert_array_equal(back, values)
    np.testing.assert_array_equal(back[1, ::3, 5:1:-1], values[1, ::3, 5:1:-1])


def test_files_of_the_field_are_read(cluster, tmp_path):
    images = [fits.PrimaryHDU(), fits.ImageHDU(CUBE.astype("f4"), name="SCI"), fits.CompImageHDU(CUBE, name="PACKED")]
    scaled = fits.ImageHDU(CUBE.astype("f8"), name="SCALED")
    scaled.scale("int16", bscale=0.5, bzero=100)
    table = fits.BinTableHDU.from_columns([fits.Column("a", "J", array=np.arange(3))])
    fits.HDUList([*images, scaled, table]).writeto(tmp_path / "a.fits")
    with gzip.open(tmp_path / "a.fits.gz", "wb") as packed:
        packed.write((tmp_path / "a.fits").read_bytes())
    for path in (tmp_path / "a.fits", tmp_path / "a.fits.gz", f"file://{tmp_path}/a.fits"):
        for hdu in (None, 1, "sci", "PACKED", ("SCALED", 1), 3):
            x = mt.from_fits(path, hdu, chunk_size=(1, 20, 30))
            np.testing.assert_array_equal(x, CUBE)
            np.testing.assert_array_equal((x * 2)[1:, ::7, 3], (CUBE * 2)[1:, ::7, 3])
    with pytest.raises(LookupError, match=r"a\.fits has no image RAW; its HDUs are 0 PRIMARY, 1 SCI"):
        mt.from_fits(tmp_path / "a.fits", "RAW")
    fits.HDUList([fits.PrimaryHDU(), table]).writeto(tmp_path / "table.fits")
    with pytest.raises(LookupError, match=r"table\.fits has no image; its HDUs are 0 PRIMARY, 1"):
        mt.from_fits(tmp_path / "table.fits")
    np.testing.assert_array_equal(mt.from_fits(tmp_path / "a.fits", -2), CUBE)
    for hdu in (4, -1):
        with pytest.raises(UnsupportedError, match="tables"):
            mt.from_fits(tmp_path / "a.fits", hdu)


def test_a_mark_of_missing_elements_is_nan_as_in_astropy(cluster, tmp_path):
    fits.PrimaryHDU(CUBE, fits.Header([("BLANK", 7)])).writeto(tmp_path / "a.fits")
    values = fits.getdata(tmp_path / "a.fits")
    assert np.isnan(values).any()
    np.testing.assert_array_equal(mt.from_fits(tmp_path / "a.fits"), values)


def test_cards_of_other_data_are_left_out(tmp_path):
    header = fits.Header(
        [("NAXIS4", 5), ("CHECKSUM", "le6Moe5Lle5Lle5L"), ("DATASUM", "2147975178"), ("OBJECT", "M31")]
    )
    mt.to_fits(CUBE, tmp_path / "a.fits", header)
    with fits.open(tmp_path / "a.fits", checksum=True) as file:  # warns of wrong checksums
        file.verify("exception")
        assert [*file[0].header][3:] == ["NAXIS1", "NAXIS2", "NAXIS3", "OBJECT"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_images_without_elements_have_the_dtype_of_astropy(tmp_path, dtype):
    mt.to_fits(np.zeros((0, 3), dtype), tmp_path / "a.fits")
    found, wanted = mt.from_fits(tmp_path / "a.fits"), fits.getdata(tmp_path / "a.fits")
    assert (found.fetch().shape, found.dtype) == (wanted.shape, wanted.dtype)


@pytest.mark.filterwarnings("ignore:.*may have been truncated")
def test_damaged_fits_files_are_named(cluster, tmp_path):
    path = tmp_path / "a.fits"
    path.write_bytes(b"no FITS at all")
    with pytest.raises(StorageError, match=r"a\.fits cannot be read as FITS"):
        mt.from_fits(path)
    with pytest.raises(FileNotFoundError):
        mt.from_fits(tmp_path / "none.fits")
    for image in (fits.PrimaryHDU(CUBE), fits.CompImageHDU(CUBE), fits.PrimaryHDU(CUBE.astype("u2"))):
        image.writeto(path, overwrite=True)
        os.truncate(path, 4000 if isinstance(image, fits.PrimaryHDU) else path.stat().st_size - 3000)
        with pytest.raises(StorageError, match=r"a\.fits (is cut short|cannot be read)"):
            mt.from_fits(path).sum().fetch()


def test_what_fits_has_not_is_refused(cluster, tmp_path):
    for values in (CUBE > 3, CUBE * 1j, np.float64(1), CUBE.astype("f2")):
        with pytest.raises(UnsupportedError, match="FITS images have no dtype"):
            mt.to_fits(values, tmp_path / "a.fits")
    mt.to_fits(np.empty((0, 3)), tmp_path / "empty.fits", {"EXPTIME": 2.5})
    header = fits.getheader(tmp_path / "empty.fits")
    assert header["NAXIS1"] == 3 and header["EXPTIME"] == 2.5
