"""Finds the clusters of this user by their registry files, which tell socket and token.

A file is believed only if this user alone can write and read it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path

from jmars.config import runtime_dir
from jmars.errors import ClusterError, ClusterLostError

_ID = re.compile(r"[\w.-]{1,100}")
_LARGEST = 64 * 1024  # bytes of a registry file


@dataclass(frozen=True)
class Entry:
    """Contents of a registry file.

    Attributes
    ----------
    socket
        Path of the Unix socket on which it listens.
    token
        Its secret: never shown, never sent on.
    folder
        Its private folder; "" where an older cluster does not say.
    started
        Seconds since the epoch.
    engine
        Kind of the engine whose workers compute; "ssh" for a cluster of another machine, to which ssh leads; "" for
        workers that share memory with clients.
    versions
        Of jmars, NumPy and Python; empty where an older cluster does not say.
    """

    id: str
    name: str
    socket: str
    token: str
    folder: str = ""
    started: float = 0.0
    engine: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def far(self) -> bool:
        """Whether the processes run on another machine."""
        return self.engine == "ssh"

    def __repr__(self) -> str:
        return f"Entry({self.id!r})"


def read_entry(path: Path) -> Entry | None:
    """The cluster of a registry file; None for a file of another user, open to other users, or with other contents."""
    if not _ID.fullmatch(path.stem):
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None  # ended meanwhile
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            return None
        try:
            fields = json.loads(file.read(_LARGEST))
            cluster, name, socket, token = (str(fields[name]) for name in ("id", "name", "socket", "token"))
            folder = str(fields.get("folders", {}).get("folder", ""))
            started, engine = float(fields.get("started", 0.0)), str(fields.get("engine", ""))
            versions = {str(what): str(one) for what, one in fields.get("versions", {}).items()}
            entry = Entry(cluster, name, socket, token, folder, started, engine, versions)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
    return entry if entry.id == path.stem else None


def entries() -> list[Entry]:
    """The clusters that are registered, by id."""
    try:
        paths = sorted(runtime_dir().glob("*.json"))
    except ClusterError:
        return []  # other users may write to the folder: not trusted
    return [entry for entry in map(read_entry, paths) if entry is not None]


def refuse_twin(name: str) -> None:
    """Raise ClusterError where a cluster of that name or id runs here, since a name must tell which cluster is
    meant.
    """
    for entry in entries():
        if name in (entry.name, entry.id) and _listens(entry):
            raise ClusterError(
                f"a cluster called {name!r} runs here already ({entry.id}); use it with jmars.connect({name!r}), end "
                f"it with python -m jmars stop {entry.id}, or give this one another name"
            )


def _listens(entry: Entry) -> bool:
    """Whether the cluster listens: the file of a killed cluster stays until the janitor comes."""
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(entry.socket)
        except OSError:
            return False
    return True


def find_entry(name: str = "") -> Entry:
    """The cluster of that id or name; the newest cluster for "".

    Raises
    ------
    ClusterLostError
        If none is registered, or several have that name.
    """
    known = sorted(entries(), key=lambda entry: entry.started)
    if not known:
        asked = f"no cluster {name!r} is here: " if name else ""
        raise ClusterLostError(f"{asked}no cluster of yours runs here; start one with jmars.Cluster()")
    if not name:
        return known[-1]
    found = [entry for entry in known if entry.id == name] or [entry for entry in known if entry.name == name]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{entry.id} ({entry.name})" for entry in known)
    why = f"{len(found)} clusters are called {name!r}" if found else f"no cluster {name!r} runs here"
    raise ClusterLostError(f"{why}; there are {listed}: give an id")
