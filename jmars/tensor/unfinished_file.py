"""A file that gets its name when it is complete: what is written to files by `save` and its like.

Until then it has none, where the file system can do that (O_TMPFILE), and is opened through /proc by the workers, which
are on the same host: nothing is left of it even if this process is killed. Elsewhere it has a name beside.
Source: open(2) and proc(5) of Linux.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["unfinished"]

TMPFILE = getattr(os, "O_TMPFILE", 0)


@contextmanager
def unfinished(path: str, keep: bool = True) -> Iterator[str]:
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
    named = f"{path}.{os.getpid()}-{secrets.token_hex(4)}.part"
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


def _unnamed(path: str) -> int:
    """A file without a name in the folder of `path`, open; -1 where that cannot be."""
    if not TMPFILE or not os.path.isdir("/proc/self/fd"):
        return -1
    try:
        return os.open(os.path.dirname(path), TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError:  # who opens it by a name finds out what is wrong, if it is the folder
        return -1
