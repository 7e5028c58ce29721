"""Writes chunks to files and reads them back, as a whole or in part.

File names are random, so no name of a user reaches the file system; files are new, with mode 0600, in a folder of mode
0700. Every 32 KiB have a checksum, kept in memory with the chunk's place, so that a flipped byte or a foreign file does
not become a wrong array, and a part is checked without reading the whole. Slots go to disk past the page cache if the
file system allows (O_DIRECT), in blocks of 4 MiB. Two blocks are in flight while the others are summed. The mover
process runs this module. Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import secrets
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import xxhash

from jmars.errors import ChecksumError, StorageError
from jmars.model.limits import PAGE
from jmars.units import format_bytes

BLOCK = 4 * 2**20  # bytes of a write or read
IN_FLIGHT = 2  # blocks of a chunk that are written or read at once
CHECKED = 2**15  # bytes under a checksum; a part is read in multiples of it
LEFT_FREE = 0.05  # share of a disk that stays free, at most LEFT_FREE_BYTES
LEFT_FREE_BYTES = 5 * 2**30
NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECT = getattr(os, "O_DIRECT", 0)


class Span:
    """Consecutive checked blocks of a chunk's file: start, bytes and checksums."""

    __slots__ = ("nbytes", "start", "sums")

    def __init__(self, sums: bytes, size: int, start: int, stop: int) -> None:
        """Blocks that contain bytes [start, stop) of a chunk of `size` bytes."""
        first, last = start // CHECKED, -(-stop // CHECKED)
        self.start = first * CHECKED
        self.nbytes = min(size, last * CHECKED) - self.start
        self.sums = sums[8 * first : 8 * last]


def spill_room(folder: str) -> int:
    """Bytes that may still be spilled to the disk of `folder`: the free bytes less those that stay free."""
    disk = os.statvfs(folder)
    left = min(LEFT_FREE * disk.f_blocks * disk.f_frsize, LEFT_FREE_BYTES)
    return max(0, disk.f_bavail * disk.f_frsize - int(left))


def takes_direct(folder: str) -> bool:
    """Whether files of `folder` can be written past the page cache; tries it, since for example tmpfs refuses."""
    if not DIRECT:
        return False
    path = os.path.join(folder, secrets.token_hex(16))
    try:
        fd = os.open(path, os.O_WRONLY | NEW | DIRECT, 0o600)
    except OSError:
        return False
    finally:
        delete_chunk(folder, os.path.basename(path))
    try:
        with mmap.mmap(-1, PAGE) as page:
            return os.write(fd, page) == PAGE
    except OSError:
        return False
    finally:
        os.close(fd)


def write_chunk(folder: str, data: memoryview, direct: bool = False) -> tuple[str, bytes]:
    """Write `data` to a new file of `folder`; returns its name and the checksums.

    Parameters
    ----------
    direct
        Whether the folder `takes_direct`; `data` that ends within a page goes through the cache nevertheless.

    Raises
    ------
    StorageError
        If the disk refuses the bytes; no file is left behind.
    """
    name = secrets.token_hex(16)
    path = os.path.join(folder, name)
    try:
        if spill_room(folder) < len(data):
            raise OSError(errno.ENOSPC, "the disk is nearly full")
        direct = direct and not len(data) % PAGE
        fd = os.open(path, os.O_WRONLY | NEW | (DIRECT if direct else 0), 0o600)

        def write(start: int) -> int:
            block, done = data[start : start + BLOCK], 0
            while done < len(block):
                done += _moved(fd, os.pwrite, block[done:], start + done)
            return done

        try:
            sums = _sums_of_moved(data, write)
            if not _is_direct(fd):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    except OSError as error:
        delete_chunk(folder, name)
        raise StorageError(
            f"cannot spill {format_bytes(len(data))} to {folder}: {error.strerror}; free disk space, "
            "give another spill_dir, or raise memory_limit"
        ) from error
    return name, sums


def read_chunk(folder: str, name: str, sums: bytes, into: memoryview, direct: bool = False) -> None:
    """Fill `into` from a file that `write_chunk` made.

    Raises
    ------
    ChecksumError
        If the bytes differ from the written ones.
    StorageError
        If the file cannot be read.
    """
    read_span(folder, name, Span(sums, len(into), 0, len(into)), into, direct)


def read_span(folder: str, name: str, span: Span, into: memoryview, direct: bool = False) -> None:
    """Fill `into`, as long as the span, from a file; raises like `read_chunk`."""
    try:
        direct = direct and not len(into) % PAGE
        fd = os.open(os.path.join(folder, name), OLD | (DIRECT if direct else 0))

        def read(start: int) -> int:
            block, done = into[start : start + BLOCK], 0
            while done < len(block) and (count := _moved(fd, _pread_into, block[done:], span.start + start + done)):
                done += count
            return done

        try:
            sums = _sums_of_moved(into, read)
        finally:
            os.close(fd)
    except OSError as error:
        raise StorageError(
            f"cannot read a spilled chunk back from {folder}: {error.strerror}; run the cell again"
        ) from error
    if sums != span.sums:
        raise ChecksumError(f"a spilled chunk in {folder} is damaged; check the disk, then run the cell again")


def delete_chunk(folder: str, name: str) -> None:
    """Delete a file if it exists."""
    try:
        os.unlink(os.path.join(folder, name))
    except FileNotFoundError:
        pass


def is_chunk_name(name: str) -> bool:
    """Whether `write_chunk` may have made a file of this name."""
    return len(name) == 32 and not name.strip("0123456789abcdef")


def _sums_of_moved(data: memoryview, move: Callable[[int], int]) -> bytes:
    """Checksums of `data`, moved block by block; `move` takes a block's start and returns the bytes moved."""
    starts = range(0, len(data), BLOCK)
    if len(starts) <= 1:
        return b"".join(block_sums(data[: move(start)]) for start in starts)
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        try:
            moved = pool.map(move, starts)
        except RuntimeError as error:  # the system has no thread left
            raise OSError(errno.EAGAIN, str(error)) from error
        return b"".join(block_sums(data[start : start + count]) for start, count in zip(starts, moved, strict=True))


def block_sums(data: memoryview) -> bytes:
    """Checksums of `data`, 8 bytes for each `CHECKED` bytes."""
    digest = xxhash.xxh3_64_intdigest
    return array("Q", [digest(data[at : at + CHECKED]) for at in range(0, len(data), CHECKED)]).tobytes()


def _moved(fd: int, move: Callable[[int, memoryview, int], int], data: memoryview, at: int) -> int:
    """Move bytes, and return their number; switches to the page cache if direct transfer is refused."""
    try:
        return move(fd, data, at)
    except OSError as error:
        if error.errno != errno.EINVAL:  # an earlier block may have switched the file already
            raise
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~DIRECT)
        return move(fd, data, at)


def _pread_into(fd: int, data: memoryview, at: int) -> int:
    return os.preadv(fd, [data], at)


def _is_direct(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & DIRECT)
