"""The file that keeps what operands cost, on this machine and for this user alone.

`<cache_dir>/costs-<machine>.json`, mode 0600, where the machine is its processor, cores and operating system, so that a
home folder may be shared by several. It holds names of functions and seconds, nothing of arrays. Written beside and
renamed, under a lock, so that a reader sees the old or the new one; a damaged file counts as none.
Used by `profile`.
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
LARGEST = 64 * 2**20  # bytes; a larger file is none of ours


def costs_file() -> Path:
    """Where this machine's costs lie.

    Raises
    ------
    OSError, ClusterError
        If the folder cannot be made, or others may enter it.
    """
    return cache_dir() / f"costs-{_machine()}.json"


def read(path: Path) -> dict[str, Any]:
    """What the file holds; empty where there is none, or (with a warning) where it cannot be understood."""
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
            f"{path}, where jmars keeps what operands cost, cannot be read ({error}); costs are learnt anew",
            stacklevel=2,
        )
        return {}


def update(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Replace what the file holds by what `change` makes of it; one writer at a time.

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
        name = path.with_suffix(".new")  # one that a killed writer left is written over
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
    """Eight letters for this kind of machine."""
    model = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            model = next((line for line in file if line.startswith(("model name", "CPU part"))), "")
    except OSError:
        pass
    what = f"{platform.system()} {platform.machine()} {model} {len(os.sched_getaffinity(0))}"
    return xxhash.xxh3_64_hexdigest(what.encode())[:8]
