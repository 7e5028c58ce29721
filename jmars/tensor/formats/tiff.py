"""TIFF and OME-TIFF files, by tifffile (extra `microscopy`).

tifffile shows a level of a series as a Zarr array, whose pieces are the file's tiles or strips.

A file is written in tiles. First this process writes the pages without pixels. Then each worker encodes the tiles of
its chunks, appends the bytes to the file, one worker at a time, and enters offsets and lengths in the pages' tables.
The file is written atomically (atomic_file.py).
Source: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf (tiles);
https://ome-model.readthedocs.io/en/stable/ome-tiff/specification.html (pyramids in sub-IFDs).
"""

from __future__ import annotations

import fcntl
import functools
import io
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmars.errors import StorageError, UnsupportedError
from jmars.tensor.atomic_file import atomic_file, claimed
from jmars.tensor.engine import get_engine
from jmars.tensor.files import aligned_splits, block_writes, whole_pieces
from jmars.tensor.formats.common import file_of, library, path_to_write, place_of, pyramid, reading
from jmars.tensor.operand import check_dtype
from jmars.tensor.ops.chunks import rechunk
from jmars.tensor.ops.npy import from_blocks
from jmars.tensor.protocols import offers
from jmars.tensor.remote_files import is_url
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
CLASSIC_BYTES = 3 * 2**30  # of pixels; larger files are BigTIFF


@offers("from_tiff")
def from_tiff(path: Any, series: int = 0, level: int = 0, chunk_size: ChunkSize = None, *, chunks: ChunkSize = None,
              storage_options: Mapping[str, Any] | None = None) -> Tensor:  # fmt: skip
    """Read an image of a TIFF or OME-TIFF file lazily: workers read the tiles or strips that they need.

    Parameters
    ----------
    path
        A file that all workers can read, or a URL of fsspec. It must not change while it is used.
    series, level
        Number of the image in the file, and level of the pyramid; 0 is the largest.
    chunk_size, chunks
        Chunk sizes; by default whole tiles or strips, up to the default chunk size.
    storage_options
        Options of fsspec for a URL.

    Raises
    ------
    ImportError
        If tifffile is not installed.
    FileNotFoundError, IndexError
        If the file, the series or the level does not exist.
    StorageError
        For a file that is no TIFF file, is damaged or cut short.
    """
    place = place_of(path)
    with reading(place, "TIFF"), _tiff(place, storage_options) as file:
        number = len(file.series)
        if missing := not 0 <= series < number:
            text = f"{place} has {number} series; there is no series {series}"
        elif missing := not 0 <= level < len(file.series[series].levels):
            text = f"series {series} of {place} has {len(file.series[series].levels)} levels; there is no level {level}"
        else:
            _refuse_cut(place, file.series[series].levels[level])
            array, is_here = _as_zarr(file, series, level), not file.series[series].is_multifile
            shape, kind, own = array.shape, check_dtype(array.dtype), array.chunks
    if missing:
        raise IndexError(text)
    read = functools.partial(read_tiff, place, storage_options, series, level)
    splits = aligned_splits(shape, kind, own, chunk_size, chunks)
    return from_blocks(
        read, shape, kind, splits, name="from_tiff", takes="steps", pieces=own, pure=is_here and not is_url(place),
        files=[] if is_url(place) else [place],
    )  # fmt: skip


def read_tiff(place: str, options: Any, series: int, level: int, box: tuple[slice, ...]) -> Any:
    """Read the elements of a box, on a worker."""
    with reading(place, "TIFF"), _tiff(place, options) as file:
        return _as_zarr(file, series, level)[box]


def _tiff(place: str, options: Any) -> AbstractContextManager[Any]:
    return library("tifffile", "microscopy").TiffFile(file_of(place, options))  # type: ignore[no-any-return]


def _as_zarr(file: Any, series: int, level: int) -> Any:
    """A level as a Zarr array."""
    return library("zarr", "microscopy").open_array(file.series[series].aszarr(level=level), mode="r")


def _refuse_cut(place: str, level: Any) -> None:
    """Raise StorageError where the first or the last page has pixels behind the end of the file."""
    for page in {0, len(level.pages) - 1}:
        found = level.pages[page]
        if found is not None and found.dataoffsets:
            end = max(map(sum, zip(found.dataoffsets, found.databytecounts)))
            if end > (size := found.parent.filehandle.size):
                raise StorageError(f"{place} is cut short: its pages ask for {end} bytes and it has {size}")


@offers("to_tiff")
def to_tiff(x: Any, path: Any, *, levels: int = 1, tile: tuple[int, int] = (256, 256), ome: bool | None = None,
            bigtiff: bool | None = None, **options: Any) -> None:  # fmt: skip
    """Compute a tensor and write a TIFF or OME-TIFF file in tiles, from the workers; replaces an existing file.

    Parameters
    ----------
    x
        A tensor or array; the last two axes are rows and columns, or the last three with samples, as red, green, blue.
    path
        A file that all workers can write.
    levels
        Levels of the pyramid, in OME-TIFF files: each further one has half the rows and columns, as means.
    tile
        Rows and columns of a tile, multiples of 16.
    ome
        Whether to write OME-TIFF; by default if the name ends in ".ome.tif" or ".ome.tiff".
    bigtiff
        Whether to write BigTIFF; by default for arrays of more than 3 GiB.
    **options
        Options of tifffile's `TiffWriter.write`: `compression="zlib"`, `predictor=True`, `photometric="rgb"` (the
        default for small integers with 3 or 4 samples), `metadata={"axes": "ZYX", "PhysicalSizeX": 0.1}`.

    Raises
    ------
    ImportError
        If tifffile, or the library of a compression, is not installed.
    UnsupportedError
        For samples in separate planes.
    """
    place = path_to_write(path, "TIFF")
    ome = place.lower().endswith((".ome.tif", ".ome.tiff")) if ome is None else ome
    if levels > 1 and not ome:
        raise UnsupportedError("pyramids are written to OME-TIFF files: give ome=True, or a name with .ome.tif")
    if options.get("planarconfig") in ("separate", 2):
        raise UnsupportedError("samples are written side by side; move the axis of samples to the end")
    tensor: Tensor = as_tensor(x)
    if tensor.ndim < 2 or not tensor.size:
        raise ValueError(f"TIFF files have images of rows and columns, not arrays of shape {tensor.shape}")
    if tensor.dtype.kind not in "biufc":
        raise UnsupportedError(f"TIFF files have no dtype {tensor.dtype}; convert by astype")
    small = tensor.ndim > 2 and tensor.shape[-1] in (3, 4) and tensor.dtype in (np.uint8, np.uint16)
    options.setdefault("photometric", "rgb" if small and not options.get("planarconfig") else "minisblack")
    samples = options["photometric"] in ("rgb", "ycbcr") or options.get("planarconfig") in ("contig", 1)
    rows = tensor.ndim - 2 - samples
    images = pyramid(tensor, levels, (rows, rows + 1))
    write_tiles(Pages(tuple(one.shape for one in images), rows, tile, ome, bigtiff), images, place, options)


@dataclass(frozen=True)
class Pages:
    """How the levels of a pyramid lie in the pages of a TIFF file."""

    shapes: tuple[tuple[int, ...], ...]  # of the levels
    rows: int  # axis of rows
    tile: tuple[int, int]
    ome: bool = False  # coarser levels in sub-IFDs, as OME-TIFF has them; else in further pages, as GeoTIFF has them
    bigtiff: bool | None = None
    planes: int = 1  # samples of a page in planes apart; more than 1: the axis before the rows

    def write(self, part: str, dtype: np.dtype[Any], big: bool, options: Mapping[str, Any]) -> None:
        """Write all pages without pixels, as pages of compressed tiles: others have pixels where a page is one tile."""
        options = dict(options) | ({} if _is_compressed(options) else {"compression": "zlib"})
        tifffile = library("tifffile", "microscopy")  # which would follow the link of a file without a name
        tags = {name: value for name, value in options.items() if name not in PAGES_ONLY}
        with open(part, "w+b") as stream, tifffile.TiffWriter(stream, bigtiff=big, byteorder="<", ome=self.ome) as file:
            for level, shape in enumerate(self.shapes):
                number = math.prod(shape[: self.rows]) * math.prod(
                    -(-n // size) for n, size in zip(shape[self.rows :], self.tile)
                )
                of = {**tags, "subfiletype": 1, "metadata": None} if level else dict(options)
                of |= {"subifds": len(self.shapes) - 1} if self.ome and not level else {}
                empty = itertools.repeat(b"", number)
                file.write(empty, shape=shape, dtype=dtype, tile=self.tile, **of)

    def tables(self, part: str, is_compressed: bool) -> list[tuple[Array, tuple[int, int]]]:
        """For each level: places of the tables of offsets and of lengths, by page, and the bytes of their entries."""
        number = math.prod(self.shapes[0][: self.rows]) // self.planes
        marks: list[int] = []
        with open(part, "rb") as stream, library("tifffile", "microscopy").TiffFile(stream) as file:
            file.pages.useframes = False  # frames know no places of tables
            found: list[list[Any]] = [[] for _ in self.shapes]
            for page in itertools.islice(file.pages, number if self.ome else number * len(self.shapes)):
                level = 0 if self.ome else page.index // number
                for k, one in enumerate([page, *(page.pages or ())]):
                    found[level + k].append([one.tags["TileOffsets"], one.tags["TileByteCounts"]])
                    marks.append(one.tags["Compression"].valueoffset)
        with open(part, "r+b") as written:
            for mark in [] if is_compressed else marks:  # else the pages say from here on that tiles are not
                written.seek(mark)
                written.write(b"\1\0")
        return [
            (
                np.array([[tag.valueoffset for tag in tags] for tags in of_level]),
                (ENTRY[int(of_level[0][0].dtype)], ENTRY[int(of_level[0][1].dtype)]),
            )
            for of_level in found
        ]


def _is_compressed(options: Mapping[str, Any]) -> bool:
    return str(options.get("compression")).lower() not in ("none", "0", "1", "false")


PAGES_ONLY = {"metadata", "description", "resolution", "resolutionunit", "extratags", "software", "datetime"}
BLOCKS_NOT = PAGES_ONLY | {"planarconfig", "extrasamples"}  # options that a block of planes is not encoded by


def write_tiles(pages: Pages, levels: Sequence[Tensor], place: str, options: Mapping[str, Any]) -> None:
    """Compute the levels of a pyramid, in one job, and write the file."""
    if any(n < 1 or n % 16 for n in pages.tile):
        raise ValueError(f"tile is {pages.tile}; give two multiples of 16")
    big = sum(one.nbytes for one in levels) > CLASSIC_BYTES if pages.bigtiff is None else pages.bigtiff
    not_blocks = PAGES_ONLY if pages.planes == 1 else BLOCKS_NOT
    how = {name: value for name, value in options.items() if name not in not_blocks}
    rows, tile = pages.rows, pages.tile
    with claimed(place), atomic_file(place) as part:
        pages.write(part, levels[0].dtype, big, options)
        nodes = []
        for one, (tables, sizes) in zip(levels, pages.tables(part, _is_compressed(options))):
            lengths = tuple(
                whole_pieces(axis, tile[i - rows], 0) if rows <= i < rows + 2 else axis if i < rows else (one.shape[i],)
                for i, axis in enumerate(one.chunks)
            )
            write = TileWriter(part, place, one.shape, pages, tables, sizes, big, how)
            nodes.append(block_writes(rechunk(one, lengths), write, "to_tiff"))
        get_engine().execute(nodes)


ENTRY = {3: 2, 4: 4, 16: 8}  # bytes, by TIFF's number of the type


@dataclass(frozen=True)
class TileWriter:
    """Encodes the tiles of a block and writes them, on a worker."""

    part: str
    place: str  # for errors
    shape: tuple[int, ...]
    pages: Pages
    tables: Array  # places of the tables of offsets and of lengths, by page
    sizes: tuple[int, int]  # bytes of an entry in either table
    big: bool
    options: dict[str, Any]

    def __call__(self, box: tuple[slice, ...], block: Any) -> None:
        """Append the encoded tiles of a block, under the file's lock, and enter them in the tables."""
        encoded, rows = self.encoded(block), self.pages.rows
        (first, last), (left, right) = (
            (one.start // size, -(-one.stop // size)) for one, size in zip(box[rows:], self.pages.tile)
        )
        down, across = (-(-n // size) for n, size in zip(self.shape[rows:], self.pages.tile))
        with open(self.part, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = file.seek(0, os.SEEK_END)
            starts = np.cumsum([end + end % 2, *(n + n % 2 for n in map(len, encoded))])  # even, as TIFF has it
            if starts[-1] > 2**32 and not self.big:
                raise StorageError(f"{self.place} becomes larger than 4 GiB; give bigtiff=True")
            file.write(b"\0" * (end % 2))
            file.writelines(part for one in encoded for part in (one, b"\0" * (len(one) % 2)))
            number = 0
            for image, row in itertools.product(self._images(box), range(first, last)):
                page, plane = divmod(image, self.pages.planes)
                here = slice(number, number + right - left)
                lengths = [len(one) for one in encoded[here]]
                for table, size, values in zip(self.tables[page], self.sizes, (starts[here], lengths)):
                    file.seek(int(table) + ((plane * down + row) * across + left) * size)
                    file.write(np.asarray(values).astype(f"<u{size}").tobytes())
                number = here.stop

    def _images(self, box: tuple[slice, ...]) -> list[int]:
        """Numbers of the images of rows and columns that a block has parts of."""
        lead = self.shape[: self.pages.rows]
        numbers = np.arange(math.prod(lead)).reshape(lead)[box[: self.pages.rows]]
        return [int(one) for one in numbers.reshape(-1)]

    def encoded(self, block: Any) -> list[memoryview]:
        """The tiles of a block as a TIFF file has them, page by page."""
        tifffile, buffer = library("tifffile", "microscopy"), io.BytesIO()
        with tifffile.TiffWriter(buffer, bigtiff=self.big, byteorder="<") as file:
            try:
                file.write(block, tile=self.pages.tile, metadata=None, **self.options)
            except ImportError as error:
                needs = f"compression {self.options.get('compression')!r} needs imagecodecs"
                raise ImportError(f"{needs}: pip install imagecodecs") from error
        buffer.seek(0)
        found = memoryview(buffer.getvalue())
        with tifffile.TiffFile(buffer) as file:
            segments = [pair for page in file.pages for pair in zip(page.dataoffsets, page.databytecounts)]
        return [found[start : start + n] for start, n in segments]
