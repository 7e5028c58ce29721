"""Chunks written to files and read back, as a whole or in part.

A file's name is random, so nothing that a user names reaches the file system; it is made new, 0600, in a folder that
only we can enter. Each 32 KiB have a checksum, kept in memory with the chunk's place: a flipped byte on disk, or
another file in its place, must not become a wrong array, and a part can be checked without reading the whole. Slots of
the arena go to disk as they lie, past the page cache where the file system allows it (O_DIRECT). Two blocks are in
flight, and who waits for them sums those that are there. Run by the mover process.
Source: seed 003, "内存管理"; RUNTIME 2.6 (blocks of 4 MiB by O_DIRECT, two in flight).
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
from jmars.storage.arena import PAGE
from jmars.units import format_bytes

__all__ = [
    "BLOCK",
    "CHECKED",
    "Span",
    "delete_chunk",
    "is_chunk_name",
    "read_chunk",
    "read_span",
    "spill_room",
    "takes_direct",
    "write_chunk",
]

BLOCK = 4 * 2**20  # bytes of one write or read
IN_FLIGHT = 2  # blocks of a chunk that are written or read at once
CHECKED = 2**15  # bytes under one checksum: what a part costs more than its own bytes
LEFT_FREE = 0.05  # share of a disk that is left to others, at most LEFT_FREE_BYTES
LEFT_FREE_BYTES = 5 * 2**30
NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECT = getattr(os, "O_DIRECT", 0)


class Span:
    """Some bytes of a chunk's file, whole checked blocks: where they begin, how many, and their checksums."""

    __slots__ = ("nbytes", "start", "sums")

    def __init__(self, sums: bytes, size: int, start: int, stop: int) -> None:
        """What must be read for bytes [start, stop) of a chunk of `size` bytes."""
        first, last = start // CHECKED, -(-stop // CHECKED)
        self.start = first * CHECKED
        self.nbytes = min(size, last * CHECKED) - self.start
        self.sums = sums[8 * first : 8 * last]


def spill_room(folder: str) -> int:
    """Bytes that may still be spilled to the disk of `folder`: what is free, less what is left to others."""
    disk = os.statvfs(folder)
    left = min(LEFT_FREE * disk.f_blocks * disk.f_frsize, LEFT_FREE_BYTES)
    return max(0, disk.f_bavail * disk.f_frsize - int(left))


def takes_direct(folder: str) -> bool:
    """Whether files of `folder` can be written past the page cache, found out by trying; tmpfs, for one, refuses."""
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
        Whether the folder `takes_direct`; `data` that begins or ends within a page goes through the cache all the same.

    Raises
    ------
    StorageError
        If the disk refuses it; nothing is left behind.
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
        If the bytes are not those that were written.
    StorageError
        If the file cannot be read.
    """
    read_span(folder, name, Span(sums, len(into), 0, len(into)), into, direct)


def read_span(folder: str, name: str, span: Span, into: memoryview, direct: bool = False) -> None:
    """Fill `into`, which has as many bytes as the span; raises what `read_chunk` raises."""
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
    """Remove a file if it is there."""
    try:
        os.unlink(os.path.join(folder, name))
    except FileNotFoundError:
        pass


def is_chunk_name(name: str) -> bool:
    """Whether a file may be one that `write_chunk` made."""
    return len(name) == 32 and not name.strip("0123456789abcdef")


def _sums_of_moved(data: memoryview, move: Callable[[int], int]) -> bytes:
    """Checksums of `data`, block by block as `move`, given where one begins, says how much of it is there."""
    starts = range(0, len(data), BLOCK)
    if len(starts) <= 1:
        return b"".join(_sums(data[: move(start)]) for start in starts)
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        try:
            moved = pool.map(move, starts)
        except RuntimeError as error:  # the system has no thread to give
            raise OSError(errno.EAGAIN, str(error)) from error
        return b"".join(_sums(data[start : start + count]) for start, count in zip(starts, moved, strict=True))


def _sums(data: memoryview) -> bytes:
    """The checksums of `data`, each of 8 bytes."""
    digest = xxhash.xxh3_64_intdigest
    return array("Q", [digest(data[at : at + CHECKED]) for at in range(0, len(data), CHECKED)]).tobytes()


def _moved(fd: int, move: Callable[[int, memoryview, int], int], data: memoryview, at: int) -> int:
    """Bytes that a write or read took; through the page cache from now on where a direct one is refused."""
    try:
        return move(fd, data, at)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of a file that is not direct by now, another block was refused
            raise
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~DIRECT)
        return move(fd, data, at)


def _pread_into(fd: int, data: memoryview, at: int) -> int:
    return os.preadv(fd, [data], at)


def _is_direct(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & DIRECT)
