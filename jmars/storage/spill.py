"""Chunks written to files and read back.

A file's name is random, so nothing that a user names reaches the file system; it is made new, 0600, in a folder that
only we can enter. A checksum goes with every chunk: a flipped byte on disk must not become a wrong array. Run by the
mover process. Source: seed 003, "内存管理".
"""

from __future__ import annotations

import errno
import os
import secrets

import xxhash

from jmars.errors import ChecksumError, StorageError
from jmars.units import format_bytes

__all__ = ["delete_chunk", "read_chunk", "spill_room", "write_chunk"]

BLOCK = 4 * 2**20  # bytes of one write
LEFT_FREE = 0.05  # share of a disk that is left to others, at most LEFT_FREE_BYTES
LEFT_FREE_BYTES = 5 * 2**30


def spill_room(folder: str) -> int:
    """Bytes that may still be spilled to the disk of `folder`: what is free, less what is left to others."""
    disk = os.statvfs(folder)
    left = min(LEFT_FREE * disk.f_blocks * disk.f_frsize, LEFT_FREE_BYTES)
    return max(0, disk.f_bavail * disk.f_frsize - int(left))


def write_chunk(folder: str, data: memoryview) -> tuple[str, int]:
    """Write `data` to a new file of `folder`; returns its name and the checksum.

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
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            checksum = xxhash.xxh3_64()
            for start in range(0, len(data), BLOCK):
                block = data[start : start + BLOCK]
                checksum.update(block)
                while block:
                    block = block[os.write(fd, block) :]
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    except OSError as error:
        delete_chunk(folder, name)
        raise StorageError(
            f"cannot spill {format_bytes(len(data))} to {folder}: {error.strerror}; free disk space, "
            "give another spill_dir, or raise memory_limit"
        ) from error
    return name, checksum.intdigest()


def read_chunk(folder: str, name: str, checksum: int, into: memoryview) -> None:
    """Fill `into` from a file that `write_chunk` made.

    Raises
    ------
    ChecksumError
        If the bytes are not those that were written.
    StorageError
        If the file cannot be read.
    """
    try:
        fd = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            seen, start = xxhash.xxh3_64(), 0
            while start < len(into):
                count = os.preadv(fd, [into[start : start + BLOCK]], start)
                if not count:
                    break
                seen.update(into[start : start + count])
                start += count
        finally:
            os.close(fd)
    except OSError as error:
        raise StorageError(
            f"cannot read a spilled chunk back from {folder}: {error.strerror}; run the cell again"
        ) from error
    if start != len(into) or seen.intdigest() != checksum:
        raise ChecksumError(f"a spilled chunk in {folder} is damaged; check the disk, then run the cell again")


def delete_chunk(folder: str, name: str) -> None:
    """Remove a file if it is there."""
    try:
        os.unlink(os.path.join(folder, name))
    except FileNotFoundError:
        pass
