"""FITS images and cubes, by astropy (extra `astronomy`).

An image without scaling or compression is an array without gaps: workers map the file, as an .npy file.
Scaled and compressed images are read by astropy's sections. Written files have a single image, whose elements the
workers write to the mapped file (atomic_file.py).
Source: https://fits.gsfc.nasa.gov/fits_standard.html.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from jmars.errors import StorageError, UnsupportedError
from jmars.tensor.files import aligned_splits
from jmars.tensor.formats.common import file_of, library, path_to_write, place_of, reading
from jmars.tensor.operand import check_dtype
from jmars.tensor.ops.npy import Layout, file_stamp, from_blocks, loaded, write_file
from jmars.tensor.protocols import call, offers
from jmars.tensor.remote_files import is_url
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor

BITPIX = {8: "u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}  # dtypes of elements as they are stored
RECORD = 2880  # bytes
OF_DATA = {"BSCALE", "BZERO", "BLANK", "CHECKSUM", "DATASUM"}  # cards that describe the data of another image


@offers("from_fits")
def from_fits(path: Any, hdu: int | str | tuple[str, int] | None = None, chunk_size: ChunkSize = None, *,
              chunks: ChunkSize = None, storage_options: Mapping[str, Any] | None = None) -> Tensor:  # fmt: skip
    """Read an image or cube of a FITS file lazily, with axes in NumPy's order, as `astropy.io.fits.getdata` has them.

    Elements that are scaled by BSCALE and BZERO, or marked by BLANK, are the values that astropy gives.

    Parameters
    ----------
    path
        A file that all workers can read, or a URL of fsspec. It must not change while it is used.
    hdu
        Number or name of the image in the file, or name and version; -1 for the last; by default the first image.
    chunk_size, chunks
        Chunk sizes; by default whole tiles of compressed images, up to the default chunk size.
    storage_options
        Options of fsspec for a URL.

    Raises
    ------
    ImportError
        If astropy is not installed.
    FileNotFoundError, LookupError
        If the file or the image does not exist.
    StorageError
        For a file that is no FITS file, is damaged or cut short.
    UnsupportedError
        For tables.
    """
    place = place_of(path)
    with reading(place, "FITS"), _fits(place, storage_options) as file:
        hdu = hdu + len(file) if isinstance(hdu, int) and hdu < 0 else hdu
        number = next((k for k, one in enumerate(file) if _is_meant(k, one, hdu)), None)
        if number is None:
            names = ", ".join(f"{k} {one.name}".rstrip() for k, one in enumerate(file))
        else:
            found = file[number]
            if not found.is_image or not found.shape:
                raise UnsupportedError(f"HDU {number} of {place} has no image; tables are not read by jmars")
            shape, own = tuple(map(int, found.shape)), getattr(found, "tile_shape", None)
            kind, offset = _dtype(found, shape), found.fileinfo()["datLoc"]
            is_plain = own is None and not {"BSCALE", "BZERO", "BLANK"} & {*found.header}
    if number is None:
        raise LookupError(f"{place} has no image{'' if hdu is None else f' {hdu}'}; its HDUs are {names}")
    if is_plain and not is_url(place) and _begins(place, b"SIMPLE"):  # not packed by gzip
        layout = Layout.contiguous(place, shape, kind, offset, file_stamp(os.stat(place)), False)
        if (end := offset + math.prod(shape) * kind.itemsize) > layout.stamp[0]:
            raise StorageError(f"{place} is cut short: its image asks for {end} bytes and it has {layout.stamp[0]}")
        return loaded(layout, chunk_size, chunks)
    if not math.prod(shape):
        return as_tensor(np.empty(shape, kind))
    blocks = tuple(map(int, own or (*(1 for _ in shape[1:]), shape[-1])))  # whole rows: astropy reads a row at a time
    splits = aligned_splits(shape, kind, blocks, chunk_size, chunks)
    return from_blocks(
        functools.partial(read_fits, place, storage_options, number, str(kind)), shape, kind, splits, name="from_fits",
        pieces=own or (), pure=not is_url(place), files=[] if is_url(place) else [place],
    )  # fmt: skip


def _fits(place: str, options: Any) -> AbstractContextManager[Any]:
    fits = library("astropy.io.fits", "astronomy")
    return fits.open(file_of(place, options), memmap=False)  # type: ignore[no-any-return]  # maps count as memory of workers


def _is_meant(number: int, found: Any, hdu: Any) -> bool:
    """Whether an HDU is the one that a user names by number, name, or name and version; or the first image."""
    if hdu is None:
        return bool(found.is_image and found.shape)
    if isinstance(hdu, str):
        return bool(found.name == hdu.upper())
    return (found.name, found.ver) == (hdu[0].upper(), hdu[1]) if isinstance(hdu, tuple) else number == hdu


def _dtype(found: Any, shape: tuple[int, ...]) -> np.dtype[Any]:
    """Dtype of the elements as astropy gives them."""
    some = found.section[(slice(0, 1),) * len(shape)] if math.prod(shape) else found.data
    return check_dtype(some.dtype)


def _begins(place: str, mark: bytes) -> bool:
    with open(place, "rb") as file:
        return file.read(len(mark)) == mark


def read_fits(place: str, options: Any, number: int, dtype: str, box: tuple[slice, ...]) -> Any:
    """Read the elements of a box, on a worker."""
    with reading(place, "FITS"), _fits(place, options) as file:
        return np.asarray(file[number].section[box]).astype(dtype, casting="equiv", copy=False)


@offers("to_fits")
def to_fits(x: Any, path: Any, header: Any = None) -> None:
    """Compute a tensor and write a FITS file with a single image, from the workers; replaces an existing file.

    Parameters
    ----------
    x
        A tensor or array of real numbers with 1 axis or more. Unsigned integers are stored with BZERO, as by astropy.
    path
        A file that all workers can write.
    header
        Cards of the image: a mapping, or a Header of astropy; those of shape, scale and checksums are left out.

    Raises
    ------
    ImportError
        If astropy is not installed.
    UnsupportedError
        For dtypes that FITS has not, and for arrays without axes.
    """
    place, fits, tensor = path_to_write(path, "FITS"), library("astropy.io.fits", "astronomy"), as_tensor(x)
    stored, zero = tensor.dtype.newbyteorder(">"), None
    if tensor.dtype.kind == "u" and tensor.dtype.itemsize > 1 or tensor.dtype == np.int8:
        zero = 2 ** (8 * tensor.dtype.itemsize - 1) * (-1 if tensor.dtype == np.int8 else 1)
        stored = np.dtype("u1" if zero < 0 else f">i{tensor.dtype.itemsize}")
        tensor = call("bitwise_xor", tensor, tensor.dtype.type(zero)).astype(stored)  # the highest bit: zero is added
    bits = next((bits for bits, one in BITPIX.items() if stored == one), None)
    if bits is None or not tensor.ndim:
        raise UnsupportedError(f"FITS images have no dtype {tensor.dtype} of {tensor.ndim} axes; convert by astype")
    cards = fits.Header([] if header is None else header)
    for name in [name for name in cards if name in OF_DATA or re.fullmatch("NAXIS[0-9]*", name)]:
        cards.remove(name)
    cards = fits.PrimaryHDU(np.zeros((1,) * tensor.ndim, stored), cards).header
    for axis, n in enumerate(reversed(tensor.shape), 1):
        cards[f"NAXIS{axis}"] = n
    if zero is not None:
        cards["BSCALE"], cards["BZERO"] = 1, zero
    text = cards.tostring().encode("ascii")

    def begin(part: str) -> Layout:
        Path(part).write_bytes(text)
        os.truncate(part, len(text) + -(-tensor.nbytes // RECORD) * RECORD)
        return Layout.contiguous(part, tensor.shape, stored, len(text), file_stamp(os.stat(part)), False)

    write_file(tensor, place, begin)
