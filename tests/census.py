"""What a test run holds at one moment: processes, threads, descriptors, shared memory, files.

`Census.take()` counts; `later - earlier` is what came in between. Used by the leak check (tests/leaks.py) and by tests
that say "nothing is left". Processes are found by a mark in their environment, by descent, and as forked copies of this
process, so that one whose parent died is found as well.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

SETTLED = 5.0  # seconds of age after which a process that is not of this run will not turn out to be
_TICKS = os.sysconf("SC_CLK_TCK")  # per second

MARK = "JMARS_TEST_RUN"  # environment variable: one word per test run around the process, innermost last

# Threads that the libraries start once and keep; ours are never among them.
KEPT_THREADS = ("IPythonHistorySavingThread", "pytest_timeout", "Tqdm", "paramiko", "Dask-Offload")


def mark_this_run() -> str:
    """Put this run's own word into the environment; everything started from here carries it."""
    word = f"{os.getpid()}-{os.urandom(4).hex()}"
    os.environ[MARK] = " ".join(filter(None, [os.environ.get(MARK), word]))
    return word


@dataclass(frozen=True)
class Process:
    """A live process, named so that a reused pid is another one."""

    pid: int
    started: int  # clock ticks since boot

    def text(self) -> str:
        """`pid 12 (python -m jmars host)`, as an error message shows it."""
        return f"pid {self.pid} ({_command(self.pid) or 'gone'})"


@dataclass(frozen=True)
class _Stat:
    """The words of /proc/<pid>/stat that matter here."""

    state: str
    parent: int
    session: int
    started: int


def _stat(pid: int) -> _Stat | None:
    text = _bytes(f"/proc/{pid}/stat")
    if not text:
        return None
    words = text[text.rindex(b")") + 2 :].split()
    return _Stat(state=words[0].decode(), parent=int(words[1]), session=int(words[3]), started=int(words[19]))


def _bytes(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    except OSError:  # the process ended meanwhile
        return b""
    finally:
        os.close(descriptor)


def _command(pid: int) -> str:
    return _bytes(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()[:200]


class ProcessFinder:
    """Live processes that this test run started, reparented ones included; zombies do not count.

    A process of others is looked at twice and then remembered by its pid, for a look costs a read of /proc/<pid>/stat
    and there may be hundreds. It is forgotten when it ends, and all are when the kernel begins anew with low pids.
    """

    def __init__(self, word: str) -> None:
        self.word = word.encode()
        self.me = os.getpid()
        self.session = os.getsid(0)
        started = _stat(self.me)
        assert started is not None
        self.born = started.started
        self._marked: dict[Process, bool] = {}  # what /proc/<pid>/environ said; it never changes for a process
        self._others: set[int] = set()  # pids of processes that are not of this run and cannot become so
        self._last_pid = 0

    def find(self) -> dict[Process, _Stat]:
        """Every process of this run except this one."""
        last = int(_bytes("/proc/loadavg").split()[-1])
        if last < self._last_pid:
            self._others.clear()
        self._last_pid = last
        pids = _pids()
        self._others.intersection_update(pids)
        new = [pid for pid in pids if pid not in self._others and pid != self.me]
        stats = {pid: stat for pid in new if (stat := _stat(pid)) is not None and stat.state not in "ZX"}
        found: dict[Process, _Stat] = {}
        for pid, stat in stats.items():
            if stat.started < self.born:
                self._others.add(pid)
                continue
            process = Process(pid, stat.started)
            if self._is_marked(process) or self._is_descendant(pid, stats) or self._is_copy(pid, stat):
                found[process] = stat
            elif time.clock_gettime(time.CLOCK_BOOTTIME) > stat.started / _TICKS + SETTLED:
                self._others.add(pid)
        return found

    def _is_marked(self, process: Process) -> bool:
        if process not in self._marked:
            # a process forked a moment ago shows its parent's environment until it has called exec, so only yes is kept
            marked = self.word in _bytes(f"/proc/{process.pid}/environ")
            if not marked:
                return False
            self._marked[process] = True
        return True

    def _is_descendant(self, pid: int, stats: dict[int, _Stat]) -> bool:
        seen = set()
        while pid in stats and pid not in seen:
            seen.add(pid)
            pid = stats[pid].parent
            if pid == self.me:
                return True
        return False

    def _is_copy(self, pid: int, stat: _Stat) -> bool:
        """A fork of this process whose parent died: our command line and environment, adopted by init."""
        if stat.parent != 1:
            return False
        same = all(_bytes(f"/proc/{pid}/{name}") == _bytes(f"/proc/self/{name}") for name in ("cmdline", "environ"))
        return same and bool(_bytes(f"/proc/{pid}/cmdline"))


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


@dataclass
class Census:
    """What is held, by kind; every entry maps something that identifies it to how a message names it."""

    processes: dict[Process, str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)  # identity of the Thread object
    descriptors: dict[tuple[int, str], str] = field(default_factory=dict)
    maps: dict[str, str] = field(default_factory=dict)  # shared memory mapped into this process, by device and inode
    shared: dict[str, str] = field(default_factory=dict)  # files in /dev/shm
    sessions: set[int] = field(default_factory=set)  # session ids of the processes

    @classmethod
    def take(cls, finder: ProcessFinder) -> Census:
        """Count now."""
        found = finder.find()
        return cls(
            processes={process: process.text() for process in found},
            threads={id(t): f"thread {t.name!r}" for t in threading.enumerate() if not _is_kept(t)},
            descriptors=_descriptors(),
            maps=_shared_maps.find(),
            shared=_shared_files(),
            sessions={stat.session for stat in found.values()} - {finder.session},
        )

    def __sub__(self, other: Census) -> Census:
        return Census(
            processes={k: v for k, v in self.processes.items() if k not in other.processes},
            threads={k: v for k, v in self.threads.items() if k not in other.threads},
            descriptors={k: v for k, v in self.descriptors.items() if k not in other.descriptors},
            maps={k: v for k, v in self.maps.items() if k not in other.maps},
            shared={k: v for k, v in self.shared.items() if k not in other.shared},
            sessions=self.sessions - other.sessions,
        )

    def __or__(self, other: Census) -> Census:
        return Census(
            processes=self.processes | other.processes,
            threads=self.threads | other.threads,
            descriptors=self.descriptors | other.descriptors,
            maps=self.maps | other.maps,
            shared=self.shared | other.shared,
            sessions=self.sessions | other.sessions,
        )

    def lines(self) -> list[str]:
        """One line per thing held."""
        kinds = (self.processes, self.threads, self.descriptors, self.maps, self.shared)
        return [text for kind in kinds for text in kind.values()]


def _is_kept(thread: threading.Thread) -> bool:
    return thread is threading.main_thread() or thread.name.startswith(KEPT_THREADS)


def _descriptors() -> dict[tuple[int, str], str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the descriptor of this very listing
            continue
        if not target.startswith(f"/proc/{os.getpid()}/fd") and not target.endswith("/proj.db"):  # PROJ keeps it open
            found[int(name), target] = f"file descriptor {name} -> {target}"
    return found


class _SharedMaps:
    """Shared memory mapped into this process.

    /proc/self/maps has a thousand lines and more, which take the kernel a millisecond to write; so it is read again
    only when the size of the address space has changed.
    """

    def __init__(self) -> None:
        self._size = b""
        self._found: dict[str, str] = {}

    def find(self) -> dict[str, str]:
        """What is mapped, by device and inode, as a message names it."""
        size = _bytes("/proc/self/statm").split()[0]
        if size != self._size:
            self._size, self._found = size, _maps()
        return self._found


_shared_maps = _SharedMaps()


def _maps() -> dict[str, str]:
    found: dict[str, str] = {}
    text = _bytes("/proc/self/maps")
    if b"/memfd:" not in text and b"/dev/shm/" not in text:
        return found
    for line in text.decode(errors="replace").splitlines():
        if "/memfd:" in line or "/dev/shm/" in line:
            _span, _mode, _offset, device, inode, path = line.split(maxsplit=5)
            found[f"{device}:{inode}"] = f"mapped shared memory {path.strip()} (inode {inode})"
    return found


def _shared_files() -> dict[str, str]:
    try:
        with os.scandir("/dev/shm") as entries:  # a folder there is nobody's shared memory
            return {entry.name: f"shared memory file {entry.path}" for entry in entries if not entry.is_dir()}
    except FileNotFoundError:
        return {}


class ForeignFiles:
    """Files in /dev/shm that processes outside this run have open or mapped, and no process of it.

    To find the holders of files, maps and descriptors of processes are read, a third of a millisecond for each process;
    a file that was found to be foreign stays so, and is known by its inode.
    """

    def __init__(self) -> None:
        self._known: set[tuple[str, int]] = set()  # name, inode

    def among(self, names: Iterable[str], ours: set[int]) -> set[str]:
        """The names of /dev/shm that are foreign, or gone by now; `ours` are the pids of this run."""
        inodes = {name: inode for name in names if (inode := _inode(name))}
        unknown = dict(set(inodes.items()) - self._known)
        # ours first, for what they hold is not foreign, whoever else holds it; then the youngest, whose files are new
        for pid in sorted(_pids(), key=lambda pid: (pid not in ours, -pid)):
            if not unknown:
                break
            for name in _held(pid, unknown):
                inode = unknown.pop(name)
                if pid not in ours:
                    self._known.add((name, inode))
        return {name for name in names if name not in inodes or (name, inodes[name]) in self._known}


def _inode(name: str) -> int:
    try:
        return os.stat(f"/dev/shm/{name}").st_ino
    except FileNotFoundError:
        return 0


def _held(pid: int, inodes: Mapping[str, int]) -> list[str]:
    """Names of the files that a process has mapped or open; a semaphore is mapped before it gets its name."""
    mapped = {int(inode) for inode in re.findall(rb" (\d+) +/dev/shm/", _bytes(f"/proc/{pid}/maps"))}
    opened = set()
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):
                opened.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    except OSError:
        pass  # the process has ended
    return [name for name, inode in inodes.items() if inode in mapped or f"/dev/shm/{name}" in opened]
