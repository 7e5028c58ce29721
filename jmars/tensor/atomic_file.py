"""Atomic writes: a file or folder appears under the name only when complete, as for `np.save`; and claims of writers.

Where the file system supports O_TMPFILE, the unfinished file has no name, and workers of the same host open the file
through /proc; no file is left if this process is killed. Elsewhere the file has a temporary name in the same folder; a
later write of the same file removes the temporary files of killed processes.

A folder is written beside; the two folders of an overwritten one change places in one step (renameat2).

A claim keeps a second writer of a path away: a lock of the system on a file beside, which ends with the process.
Source: open(2), flock(2), renameat2(2) and proc(5) of Linux.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import xxhash

from jmars.errors import StorageError

TMPFILE = getattr(os, "O_TMPFILE", 0)
AT_FDCWD, RENAME_EXCHANGE = -100, 2
NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}


@contextmanager
def claimed(path: str, place: str | None = None) -> Iterator[Callable[[], None]]:
    """Keep other writers of a path away; yields a function that raises StorageError when the claim is lost.

    The claim is a file, by default beside the path. On a file system without locks, second writers are not told.

    Raises
    ------
    StorageError
        If another writer has the claim.
    """
    folder, name = os.path.split(path)
    place = place or os.path.join(folder, f".{name}.claim")
    descriptor = _locked(place, path)

    def check() -> None:
        if not _is_file(place, descriptor):
            raise StorageError(f"another program removed {path} while it was written; write again")

    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} of {socket.gethostname()}".encode(), 0)
        yield check
    finally:
        if _is_file(place, descriptor):
            os.unlink(place)
        os.close(descriptor)


def _locked(place: str, path: str) -> int:
    """Open and lock a file, which the last writer may remove meanwhile; errors name `path`."""
    while True:
        try:
            descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 1000, 0).decode() or "another process"
            os.close(descriptor)
            raise StorageError(f"{path} is being written by {holder}; wait, or write to another place") from error
        except OSError as error:
            if error.errno not in NO_LOCKS:
                os.close(descriptor)
                raise
        if _is_file(place, descriptor):
            return descriptor
        os.close(descriptor)


def _is_file(place: str, descriptor: int) -> bool:
    """Whether an open file still has the name."""
    try:
        return os.path.samestat(os.stat(place), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def atomic_file(path: str, keep: bool = True, named: bool = False) -> Iterator[str]:
    """Yield a temporary path that this process and the workers can write; at the end the file replaces `path`.

    Parameters
    ----------
    path
        Absolute path.
    keep
        False: remove the temporary file at the end and leave `path` alone.
    named
        Whether the caller makes the file, by a library that needs a name.

    Raises
    ------
    OSError
        If the file cannot be made, or a folder or device is there; the error names `path`, not the temporary path.
    """
    path = os.path.realpath(path) if os.path.islink(path) else path  # the link stays, as for NumPy
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "a folder is there, which no file replaces", path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise FileExistsError(errno.EEXIST, "a device or pipe is there, which no file replaces", path)
    beside = f"{path}.{here()}-{os.getpid()}-{secrets.token_hex(4)}.part"
    _remove_left(path)
    descriptor = -1 if named else _unnamed(path)
    part = beside if descriptor < 0 else f"/proc/{os.getpid()}/fd/{descriptor}"
    try:
        yield part
        if keep and descriptor >= 0:
            os.link(
                f"/proc/self/fd/{descriptor}", beside, src_dir_fd=descriptor
            )  # with src_dir_fd the link is followed
        if keep:
            os.replace(beside, path)
    except OSError as error:
        if error.filename in (part, beside):
            raise OSError(error.errno, error.strerror, path) from error
        raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        if os.path.lexists(beside):
            os.unlink(beside)


@contextmanager
def atomic_folder(path: str, replaces: bool, last: str) -> Iterator[str]:
    """Yield a new folder; at the end the folder takes the place of `path`.

    Parameters
    ----------
    path
        Absolute path. Its claim is held.
    replaces
        Whether the folder replaces an old one; otherwise new files are put beside the files there.
    last
        The file of the new folder that is put beside others at the end.
    """
    _remove_left(path)
    if os.path.exists(path) and not os.path.isdir(path):
        raise FileExistsError(errno.EEXIST, "a file is there, which no folder replaces", path)
    is_mount = os.path.ismount(path)
    if is_mount and replaces:
        raise StorageError(f"{path} is a mount point, which no folder can replace; empty it, or write below it")
    part = f"{path}{'/' if is_mount else ''}.{here()}-{os.getpid()}-{secrets.token_hex(4)}.part"
    os.mkdir(part)
    try:
        yield part
        if replaces and os.path.exists(path):
            _exchange(part, path)
        elif os.path.isdir(path) and os.listdir(path):
            for name in sorted(os.listdir(part), key=last.__eq__):
                _move(os.path.join(part, name), os.path.join(path, name))
        else:
            os.rename(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)  # after an error workers may write for another moment


def _move(source: str, target: str) -> None:
    """Move a file or folder; files of a folder join the files of a folder at the target."""
    if not os.path.isdir(source) or not os.path.isdir(target):
        return os.rename(source, target)
    for name in os.listdir(source):
        _move(os.path.join(source, name), os.path.join(target, name))


def _exchange(one: str, other: str) -> None:
    """Exchange two folders; where the file system cannot, there is none under the name for a moment."""
    names = os.fsencode(one), os.fsencode(other)
    if not ctypes.CDLL(None, use_errno=True).renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE):
        return
    if (code := ctypes.get_errno()) not in (errno.ENOSYS, errno.EINVAL):
        raise OSError(code, os.strerror(code), other)
    os.rename(other, f"{one}.old")
    os.rename(one, other)
    os.rename(f"{one}.old", one)


def here() -> str:
    """Identify the space of process numbers: this boot of this host, and this container."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read()
        return xxhash.xxh3_64_hexdigest(boot + str(os.stat("/proc/self/ns/pid").st_ino).encode())[:8]
    except OSError:
        return "elsewhere"  # the writer's process number has no meaning here


def _remove_left(path: str) -> None:
    """Remove temporary files that ended processes left for this path."""
    folder, name = os.path.split(path)
    pattern = re.compile(rf"{re.escape(name)}\.{here()}-([0-9]+)-[0-9a-f]{{8}}\.part")
    try:
        found = [(one, int(match[1])) for one in os.listdir(folder) if (match := pattern.fullmatch(one))]
    except OSError:  # making the file will raise the error
        return
    for one, pid in found:
        if not os.path.exists(f"/proc/{pid}"):
            left = os.path.join(folder, one)
            if os.path.isdir(left):
                shutil.rmtree(left, ignore_errors=True)  # workers may write for another moment
                continue
            with suppress(FileNotFoundError):  # a second writer was faster
                os.unlink(left)


def _unnamed(path: str) -> int:
    """Open a file without a name in the folder of `path`; -1 if the file system does not support that."""
    if not TMPFILE or not os.path.isdir("/proc/self/fd"):
        return -1
    try:
        return os.open(os.path.dirname(path), TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError:  # if the folder is wrong, opening the named file raises
        return -1


def write_atomically(path: str | os.PathLike[str], data: str | bytes) -> Path:
    """Write a text or bytes to a file, all of it or nothing; returns the path."""
    with atomic_file(os.path.abspath(path)) as part:
        Path(part).write_bytes(data.encode() if isinstance(data, str) else data)
    return Path(path)
