"""Drawn arrays, files and slices: each format's reader agrees with NumPy, and its library with our writer."""

import numpy as np
import pytest

import jmars.tensor as mt


def _theirs(name):
    return pytest.importorskip(name)


def _hdf5(path, x, rng):
    with _theirs("h5py").File(path, "w") as file:
        pieces = {"chunks": tuple(int(rng.integers(1, n + 1)) for n in x.shape)} if x.size else {}
        file.create_dataset("v", data=x, **(pieces if rng.random() < 0.7 else {}))


def _netcdf(path, x, rng):
    with _theirs("h5netcdf").File(path, "w") as file:
        file.dimensions = {f"d{i}": n or None for i, n in enumerate(x.shape)}
        pieces = {"chunks": tuple(int(rng.integers(1, n + 1)) for n in x.shape)} if x.size else {}
        file.create_variable("v", tuple(file.dimensions), x.dtype, data=x, **(pieces if rng.random() < 0.7 else {}))


def _zarr(path, x, rng):
    pieces = tuple(int(rng.integers(1, n + 2)) for n in x.shape)
    made = _theirs("zarr").create_array(path, shape=x.shape, dtype=x.dtype, chunks=pieces, fill_value=0)
    made[...] = x


def _fits(path, x, rng):
    _theirs("astropy.io.fits").writeto(path, x)


def _tiff(path, x, rng):
    how = [{}, {"tile": (16, 16)}, {"rowsperstrip": 3}, {"compression": "zlib"}, {"byteorder": ">"}][rng.integers(5)]
    _theirs("tifffile").imwrite(path, x, photometric="minisblack", metadata={"axes": "TZYX"[-x.ndim :]}, **how)


FORMATS = {  # how the library writes, our reader, our writer, how the library reads
    "hdf5": (
        _hdf5,
        lambda path, **cut: mt.from_hdf5(path, "v", **cut),
        lambda x, path: mt.to_hdf5(x, path, "v"),
        lambda path: _read(_theirs("h5py").File(path), "v"),
    ),
    "netcdf": (
        _netcdf,
        lambda path, **cut: mt.from_netcdf(path, "v", **cut),
        lambda x, path: mt.to_netcdf(x, path, "v"),
        lambda path: _read(_theirs("h5netcdf").File(path), "v"),
    ),
    "zarr": (_zarr, mt.from_zarr, mt.to_zarr, lambda path: _theirs("zarr").open_array(path, mode="r")[...]),
    "fits": (_fits, mt.from_fits, mt.to_fits, lambda path: np.array(_theirs("astropy.io.fits").getdata(path))),
    "tiff": (
        _tiff,
        mt.from_tiff,
        lambda x, path: mt.to_tiff(x, path, tile=(16, 32), metadata={"axes": "TZYX"[-x.ndim :]}),
        lambda path: _theirs("tifffile").imread(path),
    ),
}
MODULES = {"hdf5": "h5py", "netcdf": "h5netcdf", "zarr": "zarr", "fits": "astropy", "tiff": "tifffile"}


def _read(file, name):
    with file:
        return file[name][...]


def _array(rng, least, lengths):
    shape = tuple(int(n) for n in rng.integers(*lengths, int(rng.integers(least, 4))))
    kind = ["u1", "i2", ">i4", "u2", "f4", ">f8", "i8"][rng.integers(7)]
    return rng.integers(0, 200, shape).astype(kind)


def _chunks(rng, shape):
    return tuple(int(rng.integers(1, max(2, n + 1))) for n in shape)


def _slice(rng, n):
    bounds = [None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3)) for _ in range(2)]
    return slice(*bounds, int(rng.choice([-7, -3, -2, -1, 1, 1, 2, 3, 7])))


def _index(rng, shape):
    """Slices, numbers, and at most one list or mask of rows."""
    index = [int(rng.integers(-n, n)) if n and rng.random() < 0.15 else _slice(rng, n) for n in shape]
    axis = int(rng.integers(len(shape)))
    if shape[axis] and rng.random() < 0.3:
        mask = rng.random(shape[axis]) < 0.4
        index = [one if isinstance(one, slice) else slice(one, one + 1 or None) for one in index]
        index[axis] = mask if rng.random() < 0.5 else rng.permutation(shape[axis])[: int(rng.integers(1, 9))]
    return tuple(index[: int(rng.integers(1, len(shape) + 1))] if rng.random() < 0.2 else index)


def _same(found, wanted):
    assert (found.shape, found.dtype.newbyteorder("=")) == (wanted.shape, wanted.dtype.newbyteorder("="))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FORMATS)
def test_drawn_slices_of_files_are_those_of_numpy(tmp_path, name, seed):
    pytest.importorskip(MODULES[name])
    rng = np.random.default_rng([1, seed])
    x = _array(rng, 2 if name == "tiff" else 1, (2, 40) if name == "tiff" else (0, 40))
    write, read, _, _ = FORMATS[name]
    write(tmp_path / "a", x, rng)
    for k in range(6):
        tensor = read(tmp_path / "a", **({} if k % 3 == 0 else {"chunk_size": _chunks(rng, x.shape)}))
        index = _index(rng, x.shape)
        _same(tensor[index].fetch(), x[index])
        once, again = _slice(rng, len(x)), _slice(rng, x.shape[-1])
        _same((tensor[once][..., again] * 2).fetch(), x[once][..., again] * 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FORMATS)
def test_drawn_slices_are_written_as_the_library_reads_them(tmp_path, name, seed):
    pytest.importorskip(MODULES[name])
    rng = np.random.default_rng([2, seed])
    _, read, write, their_read = FORMATS[name]
    low = 2 if name == "tiff" else 0
    for k in range(4):
        x = _array(rng, 2 if name == "tiff" else 1, (low, 40))
        tensor = mt.asarray(x, chunk_size=_chunks(rng, x.shape))
        index = tuple(_slice(rng, n) for n in x.shape)
        if name == "tiff" and min(x[index].shape) < 2:
            index = ()
        write(tensor[index], tmp_path / f"{k}")
        _same(np.asarray(their_read(tmp_path / f"{k}")), x[index])
        back = read(tmp_path / f"{k}")
        place = tmp_path / (f"{k}-copy" if name == "zarr" else f"{k}")  # a file is written over itself
        write(back[::-1] + 1, place)
        _same(np.asarray(their_read(place)), x[index][::-1] + 1)
