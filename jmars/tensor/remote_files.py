"""Files at URLs and open files of fsspec: opened, read in blocks, and known by a stamp."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from functools import cache, partial
from typing import Any, TypeGuard

import numpy as np

from jmars.errors import StorageError, UnsupportedError


def is_url(place: Any) -> TypeGuard[str]:
    """Whether a place is a URL rather than a path."""
    return isinstance(place, str) and "://" in place


def opened(url: str, options: Any, stamp: Hashable = None) -> Any:
    """A file of fsspec, open for reading, by `open_pieces`.

    Raises
    ------
    StorageError
        If a stamp of `url_stamp` is given and the file has another.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"{url.split('://')[0]}:// needs the package fsspec: pip install fsspec") from error
    system, path = url_to_fs(url, **(options or {}))
    if "memory" in np.ravel(system.protocol):
        raise UnsupportedError(
            f"{url} lies in the memory of this process; read it by NumPy from fsspec.open(...).open()"
        )
    if stamp is None:
        system.invalidate_cache()  # a listing may be old, and word times other than the answer to a worker
    file = open_pieces(system, path)
    if stamp is not None and url_stamp(file) != stamp:
        file.close()
        raise StorageError(f"{url} has changed since it was loaded; load it again")
    return file


FILE_BLOCK = 2**20  # bytes of a block of a file
HEADER_BLOCK = 2**18  # of a block of an open file of the user, of which the kernel reads the header
FILE_CACHE = {"maxblocks": 32}  # of fsspec: blocks that a file keeps


def open_pieces(system: Any, path: str, **options: Any) -> Any:
    """A file of fsspec: small reads, as of an index, in blocks (32 MiB are kept); a request for a large read.

    The file pickles as a file of `open_pieces`.
    """
    how = {"cache_type": _cache_of_pieces().name, "cache_options": FILE_CACHE}
    return _pickles_so(system.open(path, "rb", block_size=FILE_BLOCK, **how, **options))


def in_pieces(file: Any) -> Any:
    """The open file, read as a file of `open_pieces` where it is of fsspec and reads ahead; else the object."""
    if not reads_ahead(file):
        return file
    kind: Any = type(file)
    twin = kind.__new__(kind)
    twin.__dict__.update(file.__dict__, loc=0, blocksize=HEADER_BLOCK)
    twin.cache = _cache_of_pieces()(HEADER_BLOCK, twin._fetch_range, twin.size, **FILE_CACHE)
    return _pickles_so(twin)


def reads_ahead(file: Any) -> bool:
    """Whether an object is an open file of fsspec that reads megabytes beyond a request."""
    return _is_buffered(file) and file.cache.name == "readahead"


def _is_buffered(file: Any) -> bool:
    fsspec: Any = sys.modules.get("fsspec.spec")
    return fsspec is not None and isinstance(file, fsspec.AbstractBufferedFile) and bool(getattr(file, "cache", None))


def _pickles_so(file: Any) -> Any:
    if isinstance(getattr(file, "cache", None), _cache_of_pieces()):
        again = _reopened(open_pieces, file), (file.fs, file.path)
        file.__reduce_ex__ = lambda protocol: again
    return file


def pickled_file(file: Any) -> Any:
    """How an open file of fsspec pickles: read in pieces if it reads ahead, and in the version that is open.

    Returns
    -------
    tuple or None
        A function and its arguments; None if the object itself says how.
    """
    if reads_ahead(file):
        return _reopened(open_pieces, file), (file.fs, file.path)
    if _is_buffered(file) and type(file.cache) is not _cache_of_pieces() and _version(file):
        how = {"mode": file.mode, "block_size": file.blocksize, "cache_type": file.cache.name}
        return _reopened(file.fs.open, file, **how), (file.path,)
    return None


def _reopened(opens: Any, file: Any, **how: Any) -> Any:
    return partial(opens, size=file.size, **how, **_version(file))


def _version(file: Any) -> dict[str, Any]:
    """The version of an object that a file was opened in, as the option of fsspec: S3 and Azure, or Google."""
    found = {name: getattr(file, name, None) for name in ("version_id", "generation")}
    is_known = getattr(file.fs, "version_aware", False)
    return {name: value for name, value in found.items() if value is not None and is_known}


@cache
def _cache_of_pieces() -> Any:
    from fsspec.caching import BlockCache, register_cache

    class PieceCache(BlockCache):  # type: ignore[misc]
        name = "jmars"
        last: tuple[int, int, bytes] = (0, 0, b"")  # a large read: its bounds and bytes

        def _fetch(self, start: int | None, end: int | None) -> bytes:
            if start is None or end is None or end - start < self.blocksize // 4:
                return super()._fetch(start, end)  # type: ignore[no-any-return]
            if (last := self.last)[:2] != (start, end):  # read once: several threads may read the file
                last = self.last = start, end, self.fetcher(start, min(end, self.size))
            return last[2]

    register_cache(PieceCache, clobber=True)
    return PieceCache


# fields of a file in stores of fsspec that change with a write: entity tags and digests, then times
_OF_A_WRITE = """ETag etag generation Content-MD5 content_md5 Digest md5Hash Last-Modified LastModified last_modified
    updated mtime modified""".split()  # noqa: SIM905


def url_stamp(file: Any) -> Hashable:
    """Stamp of an open file of fsspec: the size, and the tag or else the time of the last write; or None."""
    told = getattr(file, "details", None) or (file.fs.info(file.path) if hasattr(file, "fs") else None)
    return told and (told["size"], next((str(told[name]) for name in _OF_A_WRITE if told.get(name) is not None), None))
