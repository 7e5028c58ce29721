"""Stacks of images, by Pillow, and GeoTIFF files, by rasterio (extra `io`), read by the workers."""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.tensor.files.aligned import aligned_splits
from jmars.tensor.operand import check_dtype
from jmars.tensor.ops.io.from_blocks import from_blocks
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor

__all__ = ["from_geotiff", "from_images"]


def pillow() -> Any:
    """Import Pillow's module `Image`; the ImportError says what to install."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images need the package pillow: pip install 'jmars[io]'") from error
    return Image


def rasterio() -> Any:
    """Import `rasterio`; the ImportError says what to install."""
    try:
        import rasterio
    except ImportError as error:
        raise ImportError("GeoTIFF files need the package rasterio: pip install 'jmars[io]'") from error
    return rasterio


def read_image(path: str) -> Any:
    """Read the pixels of an image, shape (height, width) or (height, width, channels)."""
    with pillow().open(path) as image:
        return np.asarray(image)


@offers("from_images")
def from_images(paths: str | Sequence[str | os.PathLike[str]], chunk_size: ChunkSize = None, *,
                chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """Stack images of equal size, shape (images, height, width) or (images, height, width, channels).

    Parameters
    ----------
    paths
        A pattern such as `"folder/*.png"`, whose files are sorted by name, or a list of files.
    chunk_size, chunks
        Chunk sizes; by default whole images, up to the default chunk size.

    Raises
    ------
    ImportError
        If Pillow is not installed.
    FileNotFoundError
        If no file matches.
    ValueError
        At the run, if an image's size or pixel type differs from the first image's.
    """
    names = sorted(glob.glob(paths)) if isinstance(paths, str) else [os.fspath(path) for path in paths]
    if not names:
        raise FileNotFoundError(f"no file matches {paths!r}; give a pattern such as 'folder/*.png'")
    names = [os.path.abspath(name) for name in names]
    first = read_image(names[0])
    shape = (len(names), *first.shape)
    splits = aligned_splits(shape, check_dtype(first.dtype), (1, *first.shape), chunk_size, chunks)
    read = functools.partial(read_images, tuple(names), first.shape, str(first.dtype))
    return from_blocks(read, shape, first.dtype, splits, name="from_images")


def read_images(names: tuple[str, ...], shape: tuple[int, ...], dtype: str, box: tuple[slice, ...]) -> Any:
    """Read a box of the stack, on a worker."""
    found = []
    for name in names[box[0]]:
        image = read_image(name)
        if image.shape != shape or image.dtype != dtype:
            raise ValueError(
                f"{name} has dtype {image.dtype} and shape {image.shape}, but the first image has {dtype} and {shape}; "
                "give images of equal dtype and shape"
            )
        found.append(image[box[1:]])
    return np.stack(found)


@offers("from_geotiff")
def from_geotiff(path: Any, chunk_size: ChunkSize = None, *, chunks: ChunkSize = None) -> Tensor:
    """Read the bands of a GeoTIFF or another raster of rasterio lazily, shape (bands, height, width).

    Parameters
    ----------
    path
        A path or URL that all workers can read. It must not change while it is used.
    chunk_size, chunks
        Chunk sizes; by default whole blocks of the file, up to the default chunk size.

    Raises
    ------
    ImportError
        If rasterio is not installed.
    rasterio.errors.RasterioIOError
        If the file does not exist, or rasterio cannot read it.
    """
    text = os.fspath(path)
    place = text if "://" in text else os.path.abspath(text)
    with rasterio().open(place) as file:
        shape, kind = (file.count, file.height, file.width), check_dtype(np.result_type(*file.dtypes))
        own = (file.count, *map(max, zip(*file.block_shapes)))
    splits = aligned_splits(shape, kind, own, chunk_size, chunks)
    return from_blocks(functools.partial(read_raster, place, str(kind)), shape, kind, splits, name="from_geotiff")


def read_raster(path: str, dtype: str, box: tuple[slice, ...]) -> Any:
    """A box of the bands, on a worker."""
    bands, rows, columns = box
    library = rasterio()
    with library.open(path) as file:
        window = library.windows.Window.from_slices((rows.start, rows.stop), (columns.start, columns.stop))
        return file.read(list(range(bands.start + 1, bands.stop + 1)), window=window, out_dtype=dtype)
