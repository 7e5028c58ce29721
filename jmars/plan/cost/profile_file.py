"""The cost file: measured costs of operands on this machine, readable by this user alone.

`<cache_dir>/costs-<machine>.json`, mode 0600. The machine is its processor, cores and operating system, so several
machines may share a home folder. The file holds names of functions, sizes and seconds, no values of arrays. A save
writes a new file under a lock and renames the new file over the old file, so a reader sees either; a damaged file
counts as missing.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xxhash

from jmars.config import cache_dir

__all__ = ["costs_file", "read", "update"]

VERSION = 1
LARGEST = 64 * 2**20  # bytes; jmars writes no larger file


def costs_file() -> Path:
    """Path of this machine's cost file.

    Raises
    ------
    OSError, ClusterError
        If the folder cannot be made, or other users may enter it.
    """
    return cache_dir() / f"costs-{_machine()}.json"


def read(path: Path) -> dict[str, Any]:
    """Contents of the cost file; empty if the file is missing or, with a warning, damaged."""
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST} bytes")
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict) or found.get("version") != VERSION:
            raise ValueError("it is of another version of jmars")
        return found
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        warnings.warn(
            f"{path}, where jmars keeps the costs of operands, cannot be read ({error}); costs are measured anew",
            stacklevel=2,
        )
        return {}


def update(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Replaces the contents of the file by `change(contents)`, one writer at a time.

    Raises
    ------
    OSError
        If the file cannot be written; the old one stays.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = json.dumps({**change(read(path)), "version": VERSION}, separators=(",", ":"))
        name = path.with_suffix(".new")  # overwrites the file of a killed writer
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(fd, "w") as file:
                file.write(text)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    finally:
        os.close(lock)


def _machine() -> str:
    """Eight characters that name this kind of machine."""
    model = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            model = next((line for line in file if line.startswith(("model name", "CPU part"))), "")
    except OSError:
        pass
    what = f"{platform.system()} {platform.machine()} {model} {len(os.sched_getaffinity(0))}"
    return xxhash.xxh3_64_hexdigest(what.encode())[:8]
