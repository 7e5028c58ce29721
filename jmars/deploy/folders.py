"""The private folder, registry file and spill folder of a cluster.

<runtime_dir>/<id>.json        0600: socket and token; the Jupyter server part reads it
<tmp>/jmars-<random>/          0700: the socket, the log and a lock that the control process and the janitor hold
<spill_dir>/jmars-<id>-<random>/  0700: spilled chunks; made for the first spilled chunk

A registry file with a free lock belongs to a cluster that was killed with the janitor: the finder removes the folders.
A host of several has no registry file: who starts later finds its lock, which names the spill folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import stat
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jmars.config import runtime_dir
from jmars.errors import StorageError
from jmars.model.versions import versions
from jmars.storage.spill import spill_room

YOUNG_SECONDS = 60.0  # a folder that is younger may belong to a process that starts


@dataclass(frozen=True, slots=True)
class Folders:
    """Paths of a cluster, as text."""

    registry: str
    folder: str
    spill: str

    @classmethod
    def make(cls, cluster: str, spill_dir: str | os.PathLike[str] | None) -> Folders:
        """Make the private folder; the other folders are made on first use.

        Raises
        ------
        StorageError
            If `spill_dir` is no folder that we may write to, or one that another user may change.
        """
        parent = Path(spill_dir) if spill_dir is not None else Path(tempfile.gettempdir())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise StorageError(f"spill_dir {parent} is no folder that can be written to; make it, or give another")
        if (owner := parent.stat().st_uid) not in (0, os.getuid()):  # who may put another folder in the place of ours
            raise StorageError(
                f"spill_dir {parent} belongs to another user (uid {owner}), who could change what is spilled there; "
                "make a folder of your own in it, and give that"
            )
        folder = tempfile.mkdtemp(prefix="jmars-")  # 0700
        spill = parent.resolve() / f"jmars-{cluster}-{secrets.token_hex(8)}"
        return cls(str(runtime_dir() / f"{cluster}.json"), folder, str(spill))

    @property
    def socket(self) -> Path:
        """Where the control process listens."""
        return Path(self.folder) / "control"

    @property
    def log(self) -> Path:
        """Output of the cluster's processes."""
        return Path(self.folder) / "log"

    @property
    def journal(self) -> Path:
        """Journal of a scheduler in another process."""
        return Path(self.folder) / "journal"

    def disk_room(self) -> int:
        """Bytes that may be spilled; see `spill_room`."""
        return spill_room(os.path.dirname(self.spill))

    def make_spill(self) -> str:
        """The spill folder, made on first use."""
        try:
            os.makedirs(self.spill, mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot make the spill folder {self.spill}: {error.strerror}; give another spill_dir"
            ) from error
        found = os.lstat(self.spill)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise StorageError(
                f"the spill folder {self.spill} was put there by somebody else, as a link or open to others; "
                "give a spill_dir that only you can write to"
            )
        return self.spill

    def register(self, entry: dict[str, Any]) -> None:
        """Write the registry file atomically, readable by this user alone."""
        temporary = f"{self.registry}.{secrets.token_hex(4)}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(fd, "w") as file:
            more = {"folders": asdict(self), "started": time.time(), "versions": versions()}
            json.dump({**entry, **more}, file)
        os.replace(temporary, self.registry)

    def lock(self) -> int:
        """Hold the cluster's lock until the returned descriptor closes."""
        fd = os.open(Path(self.folder) / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)
        os.write(fd, os.fsencode(self.spill))  # for `sweep`
        return fd

    def remove(self) -> None:
        """Remove all files and folders; missing files do not matter."""
        shutil.rmtree(self.spill, ignore_errors=True)
        Path(self.registry).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def sweep() -> list[str]:
    """Remove files of clusters whose processes were all killed; returns ids of the clusters."""
    swept = []
    for path in runtime_dir().glob("*.json"):
        try:
            folders = Folders(**json.loads(path.read_text())["folders"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # being written, or not ours
        if Path(folders.registry) != path:
            continue
        try:
            fd = os.open(Path(folders.folder) / "lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            fd = -1
        try:
            if fd >= 0:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # alive
        finally:
            if fd >= 0:
                os.close(fd)
        folders.remove()
        swept.append(path.stem)
    for lock in Path(tempfile.gettempdir()).glob("jmars-*/lock"):
        _remove_abandoned(lock)
    return swept


def _remove_abandoned(lock: Path) -> None:
    """Remove the folders of a host that no registry file names, if all of its processes were killed."""
    try:
        for path, kind in ((lock.parent, stat.S_ISDIR), (lock, stat.S_ISREG)):
            found = path.lstat()
            if not kind(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
                return
        if time.time() - found.st_mtime < YOUNG_SECONDS:
            return  # perhaps not locked yet
        fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    with open(fd, "rb") as file:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # alive
        spill = os.fsdecode(file.read(4096))
        if os.path.basename(spill).startswith("jmars-"):
            shutil.rmtree(spill, ignore_errors=True)
        shutil.rmtree(lock.parent, ignore_errors=True)
