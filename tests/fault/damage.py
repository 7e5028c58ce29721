"""Spill files as a bad disk leaves them: flipped, cut short, empty, gone, or another file's bytes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

__all__ = ["KINDS", "READS", "WRITES", "all_files", "spill_files"]

WRITES = "write,pwrite64,writev,pwritev,pwritev2"  # system calls, as strace names them
READS = "pread64,preadv,preadv2,readv"


def spill_files(folder: Path) -> list[Path]:
    """Files of chunks in any cluster's folder below a `spill_dir`."""
    return [path for path in folder.glob("jmars-*-*/*") if path.is_file()]


def flip(path: Path, others: list[Path]) -> None:
    """One bit, in the middle."""
    with open(path, "r+b") as file:
        place = path.stat().st_size // 2
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 0x10]))


def truncate(path: Path, others: list[Path]) -> None:
    """Half of it is gone."""
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path, others: list[Path]) -> None:
    """No byte is left."""
    os.truncate(path, 0)


def delete(path: Path, others: list[Path]) -> None:
    """The file is gone."""
    path.unlink()


def swap(path: Path, others: list[Path]) -> None:
    """It holds what another one held."""
    if others:
        shutil.copyfile(others[0], path)


KINDS: list[Callable[[Path, list[Path]], None]] = [flip, truncate, empty, delete, swap]


def all_files(folder: Path, kind: Callable[[Path, list[Path]], None]) -> int:
    """Damage every spill file that is there now; returns how many."""
    files = spill_files(folder)
    count = 0
    for path in files:
        try:
            kind(path, [other for other in files if other != path])
            count += 1
        except (FileNotFoundError, IndexError):
            pass  # it was read or shortened a moment ago
    return count
