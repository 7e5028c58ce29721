"""A file that gets its name when it is complete: what is written to files by `save` and its like.

Until then it has none, where the file system can do that (O_TMPFILE), and is opened through /proc by the workers, which
are on the same host: nothing is left of it even if this process is killed. Elsewhere it has a name beside, of its own,
and what a process that was killed has left so is removed when the same file is written again.
Source: open(2) and proc(5) of Linux.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import xxhash

__all__ = ["atomic_file"]

TMPFILE = getattr(os, "O_TMPFILE", 0)


@contextmanager
def atomic_file(path: str, keep: bool = True) -> Iterator[str]:
    """Where this process and the workers write what becomes the file `path`, and replaces what had that name.

    Parameters
    ----------
    path
        Absolute.
    keep
        Whether it becomes that file; else it is gone at the end.

    Raises
    ------
    OSError
        If there can be no such file; names `path`, not where it was written.
    """
    named = f"{path}.{_here()}-{os.getpid()}-{secrets.token_hex(4)}.part"
    _remove_left(path)
    descriptor = _unnamed(path)
    part = named if descriptor < 0 else f"/proc/{os.getpid()}/fd/{descriptor}"
    try:
        yield part
        if keep and descriptor >= 0:
            os.link(f"/proc/self/fd/{descriptor}", named, src_dir_fd=descriptor)  # only so Python follows the link
        if keep:
            os.replace(named, path)
    except OSError as error:
        if error.filename in (part, named):
            raise OSError(error.errno, error.strerror, path) from error
        raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        if os.path.lexists(named):
            os.unlink(named)


def _here() -> str:
    """Among which processes the number of one means it: of this boot of this host, and of this container."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read()
        return xxhash.xxh3_64_hexdigest(boot + str(os.stat("/proc/self/ns/pid").st_ino).encode())[:8]
    except OSError:
        return "elsewhere"  # nobody knows whether its writer lives


def _remove_left(path: str) -> None:
    """Remove what writers of this file left that have ended."""
    folder, name = os.path.split(path)
    pattern = re.compile(rf"{re.escape(name)}\.{_here()}-([0-9]+)-[0-9a-f]{{8}}\.part")
    try:
        found = [(one, int(match[1])) for one in os.listdir(folder) if (match := pattern.fullmatch(one))]
    except OSError:  # who makes the file finds out what is wrong
        return
    for one, pid in found:
        if not os.path.exists(f"/proc/{pid}"):
            with suppress(FileNotFoundError):  # another writer was faster
                os.unlink(os.path.join(folder, one))


def _unnamed(path: str) -> int:
    """A file without a name in the folder of `path`, open; -1 where that cannot be."""
    if not TMPFILE or not os.path.isdir("/proc/self/fd"):
        return -1
    try:
        return os.open(os.path.dirname(path), TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError:  # who opens it by a name finds out what is wrong, if it is the folder
        return -1
