"""GeoTIFF and other rasters, with overviews, and stacks of scenes, by rasterio (extra `io`).

rasterio reads; the tiles of a GeoTIFF file are written by the workers as those of any TIFF file (tiff.py), with the
tags of place that rasterio makes.
Source: https://docs.ogc.org/is/19-008r4/19-008r4.html (GeoTIFF).
"""

from __future__ import annotations

import functools
import glob
import io
import os
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.files import aligned_splits
from jmars.tensor.formats.common import library, means, path_to_write, pyramid, reading
from jmars.tensor.formats.tiff import Pages, write_tiles
from jmars.tensor.operand import check_dtype
from jmars.tensor.ops.npy import from_blocks
from jmars.tensor.protocols import call, offers
from jmars.tensor.remote_files import is_url
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor

GEO_TAGS = {33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113}  # of place, of GDAL's metadata and nodata


@offers("from_geotiff")
def from_geotiff(path: Any, chunk_size: ChunkSize = None, *, chunks: ChunkSize = None, level: int = 0) -> Tensor:
    """Read the bands of a GeoTIFF or other raster of rasterio lazily; of several scenes of equal grid, a stack.

    Parameters
    ----------
    path
        A path or URL that all workers can read. It must not change while it is used. Shape: (bands, height, width). For
        a list of paths, or a pattern such as `"scenes/*.tif"`, sorted by name: (scenes, bands, height, width).
    chunk_size, chunks
        Chunk sizes; by default whole blocks of the file, up to the default chunk size.
    level
        0 for the raster itself, 1 for its first overview, and so on.

    Raises
    ------
    ImportError
        If rasterio is not installed.
    FileNotFoundError, IndexError
        If the file or the overview does not exist.
    StorageError
        If rasterio cannot read the file.
    ValueError
        At the run, for a scene with another shape, dtype or place than the first.
    """
    is_one = isinstance(path, str | os.PathLike)
    is_stack = not is_one or not is_url(path) and glob.has_magic(os.fspath(path))
    names = (
        [*map(os.fspath, path)] if not is_one else sorted(glob.glob(os.fspath(path))) if is_stack else [os.fspath(path)]
    )
    if not names:
        raise FileNotFoundError(f"no file matches {path!r}; give a pattern such as 'scenes/*.tif'")
    places = [name if "://" in name else os.path.abspath(name) for name in names]
    with reading(places[0], "a raster"), _raster(places[0], 0) as file:
        coarse = min((len(file.overviews(band)) for band in file.indexes), default=0)
        grid = _grid(file)
    if not 0 <= level <= coarse:
        raise IndexError(f"{places[0]} has {coarse} overviews; there is no level {level}")
    with reading(places[0], "a raster"), _raster(places[0], level) as file:
        image, kind = (file.count, file.height, file.width), check_dtype(np.result_type(*file.dtypes))
        own, is_here = (*map(max, zip(*file.block_shapes)),), file.driver == "GTiff"
    lead = (len(places),) if is_stack else ()
    read = (
        functools.partial(read_scenes, tuple(places), str(kind), level, grid)
        if is_stack
        else functools.partial(read_raster, places[0], str(kind), level)
    )
    shape, blocks = (*lead, *image), (*(1 for _ in lead), image[0], *own)
    return from_blocks(
        read, shape, kind, aligned_splits(shape, kind, blocks, chunk_size, chunks), name="from_geotiff",
        pure=is_here and all(one.lower().endswith((".tif", ".tiff")) for one in places[1:]), files=places,
        pieces=(*(1 for _ in lead), 1, *own),
    )  # fmt: skip


def _raster(place: str, level: int) -> Any:
    """A raster, or its overview, open for reading."""
    if place.startswith("/") and not place.startswith("/vsi"):
        os.stat(place)  # rasterio's error of a missing file is that of a damaged one
    return library("rasterio", "io").open(place, **({"overview_level": level - 1} if level else {}))


def _grid(file: Any) -> tuple[Any, ...]:
    """What scenes of a stack have in common."""
    place = file.crs.to_wkt() if file.crs else ""
    return file.count, file.height, file.width, tuple(file.transform), place


def read_raster(place: str, dtype: str, level: int, box: tuple[slice, ...]) -> Any:
    """Read a box of the bands, on a worker."""
    bands, rows, columns = box
    windows = library("rasterio.windows", "io")
    with reading(place, "a raster"), _raster(place, level) as file:
        window = windows.Window.from_slices((rows.start, rows.stop), (columns.start, columns.stop))
        return file.read([*range(bands.start + 1, bands.stop + 1)], window=window, out_dtype=dtype)


def read_scenes(places: tuple[str, ...], dtype: str, level: int, grid: Any, box: tuple[slice, ...]) -> Any:
    """Read a box of a stack, on a worker."""
    for place in places[box[0]]:
        with reading(place, "a raster"), _raster(place, 0) as file:
            found, kind = _grid(file), np.result_type(*file.dtypes)
        if found != grid or kind != np.dtype(dtype):
            what = ("bands", "height", "width", "transform", "reference system")
            differs = [f"{name} {one!r}" for name, one, first in zip(what, found, grid) if one != first]
            raise ValueError(
                f"{place} has {', '.join(differs) or f'dtype {kind}'}, unlike the first scene, {places[0]}; "
                "warp the scenes to one grid"
            )
    return np.stack([read_raster(place, dtype, level, box[1:]) for place in places[box[0]]])


@offers("to_geotiff")
def to_geotiff(x: Any, path: Any, *, like: Any = None, crs: Any = None, transform: Any = None, nodata: Any = None,
               levels: int = 1, resampling: Literal["average", "nearest"] = "average",
               tile: tuple[int, int] = (256, 256), bigtiff: bool | None = None, **options: Any) -> None:  # fmt: skip
    """Compute a tensor and write a tiled GeoTIFF file, with overviews, from the workers; replaces an existing file.

    Parameters
    ----------
    x
        A tensor or array of shape (bands, height, width), or (height, width).
    path
        A file that all workers can write.
    like
        A raster, by path or as rasterio opened it, whose reference system, transform and nodata are taken, where not
        given.
    crs, transform, nodata
        Reference system, such as "EPSG:32632", affine transform (its six numbers), and the value of missing elements.
    levels
        1 for the raster alone; each further level is an overview with half the rows and columns.
    resampling
        Whether an element of an overview is the mean of 2 x 2 elements that are not missing, or the first of them.
    tile
        Rows and columns of a tile, multiples of 16.
    bigtiff
        Whether to write BigTIFF; by default for arrays of more than 3 GiB.
    **options
        Options of tifffile's `TiffWriter.write`: `compression="zlib"`, `predictor=True`, `photometric="rgb"`.

    Raises
    ------
    ImportError
        If rasterio or tifffile is not installed.
    """
    place, tensor = path_to_write(path, "GeoTIFF"), as_tensor(x)
    if tensor.ndim not in (2, 3) or not tensor.size:
        raise UnsupportedError(f"a GeoTIFF has (bands, height, width) or (height, width), not shape {tensor.shape}")
    if resampling not in ("average", "nearest"):
        raise ValueError(f"resampling is 'average' or 'nearest', not {resampling!r}")
    given = {"crs": crs, "transform": transform, "nodata": nodata}
    if like is not None:
        with nullcontext(like) if hasattr(like, "transform") else library("rasterio", "io").open(like) as other:
            given = {name: getattr(other, name) if value is None else value for name, value in given.items()}
    if tensor.ndim == 3 and len(tensor) == 1:
        tensor = tensor[0]
    rows, missing = tensor.ndim - 2, given["nodata"]
    coarser = functools.partial(_present_means, missing=missing) if resampling == "average" else _firsts
    images = pyramid(tensor, levels, (rows, rows + 1), coarser)
    planes = len(tensor) if rows else 1
    apart: dict[str, Any] = {"planarconfig": "separate"} if rows else {}
    how = {"photometric": "minisblack", "metadata": None, **options, **apart, "extratags": _geo_tags(tensor, given)}
    shapes = tuple(one.shape for one in images)
    write_tiles(Pages(shapes, rows, tile, bigtiff=bigtiff, planes=planes), images, place, how)


def _geo_tags(tensor: Tensor, given: Mapping[str, Any]) -> list[tuple[int, int, int, Any, bool]]:
    """Tags of place and nodata, as rasterio writes them."""
    profile = {name: value for name, value in given.items() if value is not None}
    if "transform" in profile:
        profile["transform"] = library("affine", "io").Affine(*[*profile["transform"]][:6])
    with warnings.catch_warnings(), library("rasterio.io", "io").MemoryFile() as memory:
        warnings.simplefilter("ignore", library("rasterio.errors", "io").NotGeoreferencedWarning)
        with memory.open(driver="GTiff", count=1, height=1, width=1, dtype=tensor.dtype.name, **profile):
            pass
        data = memory.read()
    with library("tifffile", "microscopy").TiffFile(io.BytesIO(data)) as file:
        tags = [tag for tag in file.pages[0].tags if tag.code in GEO_TAGS]
        return [(tag.code, int(tag.dtype), tag.count, tag.value, True) for tag in tags]


def _present_means(x: Tensor, blocks: Mapping[int, int], missing: Any) -> Any:
    """Means of the neighbours that are not missing; missing where all are."""
    if missing is None:
        return means(x, blocks)
    kind = x.dtype if x.dtype.kind == "c" else float
    is_there = call("logical_not", call("isnan", x)) if np.isnan(missing) else x != missing
    sums = call("coarsen", np.sum, call("where", is_there, x, 0).astype(kind), blocks, trim_excess=True)
    count = call("coarsen", np.sum, is_there, blocks, trim_excess=True)
    return call("where", count > 0, sums / call("maximum", count, 1), missing)


def _firsts(x: Tensor, blocks: Mapping[int, int]) -> Any:
    """The first of neighbours, in as many blocks as `means` has."""
    return x[tuple(slice(0, n // blocks.get(i, 1) * blocks.get(i, 1), blocks.get(i, 1)) for i, n in enumerate(x.shape))]
