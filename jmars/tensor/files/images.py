"""Stacks of images by Pillow, and GeoTIFF by rasterio (extra `io`): each read by the worker that needs it."""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.tensor.files.aligned import aligned_splits
from jmars.tensor.infer import check_dtype
from jmars.tensor.ops.io.from_blocks import from_blocks
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor

__all__ = ["from_geotiff", "from_images"]


def pillow() -> Any:
    """Pillow's module `Image`; ImportError with what to install."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images need the package pillow: pip install 'jmars[io]'") from error
    return Image


def rasterio() -> Any:
    """The module `rasterio`; ImportError with what to install."""
    try:
        import rasterio
    except ImportError as error:
        raise ImportError("GeoTIFF files need the package rasterio: pip install 'jmars[io]'") from error
    return rasterio


def read_image(path: str) -> Any:
    """The pixels of an image, shape (height, width) or (height, width, channels)."""
    with pillow().open(path) as image:
        return np.asarray(image)


@offers("from_images")
def from_images(paths: str | Sequence[str | os.PathLike[str]], chunk_size: ChunkSize = None, *,
                chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """Images of one size as an array, shape (images, height, width) or (images, height, width, channels).

    Parameters
    ----------
    paths
        A pattern such as "folder/*.png", read in the order of the names, or the files themselves.
    chunk_size, chunks
        How to cut it; by default whole images, as many as make a chunk of the usual size.

    Raises
    ------
    ImportError
        If Pillow is not installed.
    FileNotFoundError
        If no file has such a name.
    ValueError
        When it is computed, if an image has another size or another kind of pixel than the first.
    """
    names = sorted(glob.glob(paths)) if isinstance(paths, str) else [os.fspath(path) for path in paths]
    if not names:
        raise FileNotFoundError(f"no file is named like {paths!r}; give a pattern such as 'folder/*.png'")
    names = [os.path.abspath(name) for name in names]
    first = read_image(names[0])
    shape = (len(names), *first.shape)
    splits = aligned_splits(shape, check_dtype(first.dtype), (1, *first.shape), chunk_size, chunks)
    read = functools.partial(read_images, tuple(names), first.shape, str(first.dtype))
    return from_blocks(read, shape, first.dtype, splits, name="from_images")


def read_images(names: tuple[str, ...], shape: tuple[int, ...], dtype: str, box: tuple[slice, ...]) -> Any:
    """A box of the stack, on a worker."""
    found = []
    for name in names[box[0]]:
        image = read_image(name)
        if image.shape != shape or image.dtype != dtype:
            raise ValueError(
                f"{name} has {image.dtype} of shape {image.shape}, and the first image {dtype} of shape {shape}; "
                "give images of one kind"
            )
        found.append(image[box[1:]])
    return np.stack(found)


@offers("from_geotiff")
def from_geotiff(path: Any, chunk_size: ChunkSize = None, *, chunks: ChunkSize = None) -> Tensor:
    """The bands of a GeoTIFF, or of any raster that rasterio reads, shape (bands, height, width).

    Parameters
    ----------
    path
        A path or URL that all workers can read. It must not change while it is used.
    chunk_size, chunks
        How to cut it; by default whole blocks of the file, as many as make a chunk of the usual size.

    Raises
    ------
    ImportError
        If rasterio is not installed.
    rasterio.errors.RasterioIOError
        If there is no such file, or it is none that rasterio reads.
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
