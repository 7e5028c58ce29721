"""Keeps machine code of GPU kernels in a folder of the user, so that the next process need not compile.

A folder that cannot be read or written costs a compilation in each process, no operand; the log says why.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

from jmars.config import cache_dir
from jmars.errors import ClusterError

__all__ = ["find_kernel", "keep_kernel"]

log = logging.getLogger("jmars.worker")

LIMIT = 256 * 2**20  # bytes of all files: some ten thousand kernels


def find_kernel(name: str) -> bytes | None:
    """The machine code kept under `name`, which counts as used now; None if there is none.

    Examples
    --------
    >>> keep_kernel("0123456789abcdef", b"machine code")
    >>> find_kernel("0123456789abcdef"), find_kernel("fedcba9876543210")
    (b'machine code', None)
    """
    try:
        path = _folder() / name
        code = path.read_bytes()
        os.utime(path)
    except FileNotFoundError:
        return None
    except (OSError, ClusterError) as error:
        _warn(error)
        return None
    return code


def keep_kernel(name: str, code: bytes) -> None:
    """Writes machine code, mode 0600; removes the files that were not used for longest beyond LIMIT bytes in all."""
    try:
        folder = _folder()
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            try:
                file.write(code)
                file.flush()
                os.replace(file.name, folder / name)
            except OSError:
                os.unlink(file.name)
                raise
        _remove_oldest(folder)
    except (OSError, ClusterError) as error:
        _warn(error)


def _folder() -> Path:
    folder = cache_dir() / "gpu-kernels"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _remove_oldest(folder: Path) -> None:
    files = []
    for entry in os.scandir(folder):
        try:
            status = entry.stat()
        except FileNotFoundError:  # another process removed it
            continue
        files.append((status.st_mtime_ns, status.st_size, entry.path))
    beyond = sum(size for _, size, _ in files) - LIMIT
    for _, size, path in sorted(files):
        if beyond <= 0:
            break
        Path(path).unlink(missing_ok=True)
        beyond -= size


def _warn(error: Exception) -> None:
    log.warning("kernels of GPUs are compiled anew in each process: %s", error)
