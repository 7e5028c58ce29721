"""ControlProcess: starts a control process from this process, and sees it end.

It is up in 20 ms. `LocalHost` and `HostsHost` are its two kinds.

Waits for processes of a cluster that are no children of this process.

Environment of a process that computes: how freed memory is kept, and how many threads libraries may use.

LocalHost: the control process of a cluster on this machine, with the memory that it shares with the kernel.

A host is up in 20 ms, the executors in 100.

AttachedHost: a running cluster, started by another process, as a client holds it.

Found by the registry file; the shared memory comes over the authenticated socket. A cluster on an engine has none.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jmars.actors import new_token
from jmars.actors.channel import received
from jmars.actors.registry import Entry
from jmars.deploy.folders import Folders, sweep
from jmars.deploy.memory import chosen_limit
from jmars.errors import ClusterStartError, MemoryLimitError
from jmars.model.versions import refuse_other_versions

START_SECONDS = 30.0
END_SECONDS = 5.0


class ControlProcess:
    """A cluster's control process on this machine.

    Attributes
    ----------
    arena
        Descriptor of the shared memory, ours to close; -1 for none.
    token
        The cluster's secret.
    detached
        Whether it outlives this process.
    words
        What it said last, once it has ended.
    """

    command: Sequence[str]  # of `python -m jmars`
    start_seconds = START_SECONDS
    far = False

    def __init__(self, name: str, kind: str, spill_dir: str | None, detached: bool = False) -> None:
        if sys.platform != "linux":
            raise ClusterStartError(
                f"clusters run on Linux only so far, and this is {sys.platform}: they need memfd, pidfd and /proc; use "
                'the cluster of a Linux machine: jmars.connect("ssh://user@machine/name")'
            )
        sweep()
        self.id = secrets.token_hex(4)
        self.name = name or f"{kind}-{self.id}"
        self.detached = detached
        self.token = new_token()
        self.folders = Folders.make(self.id, spill_dir)
        self.arena = self._log = -1
        self.limit = self.pid = self.janitor = 0
        self.words = ""

    def _begin(self, orders: dict[str, Any], threads: int, meanwhile: Callable[[], None] | None = None) -> None:
        """Start the process; an exception leaves nothing behind."""
        try:
            self._log = os.open(self.folders.log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._process = self._start(orders, threads, meanwhile)
        except BaseException:
            self._close_files()
            self.folders.remove()
            raise

    def _start(
        self, orders: dict[str, Any], threads: int, meanwhile: Callable[[], None] | None
    ) -> subprocess.Popen[bytes]:
        orders = {
            "id": self.id,
            "name": self.name,
            "token": self.token,
            "kernel": 0 if self.detached else os.getpid(),
            "detach": self.detached,
            "path": sys.path,
            "folders": {"registry": self.folders.registry, "folder": self.folders.folder, "spill": self.folders.spill},
            **orders,
        }
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jmars", *self.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            pass_fds=[self.arena] if self.arena >= 0 else [],
            start_new_session=True,
            env=process_environment(threads) | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(orders).encode() + b"\n")
            process.stdin.flush()
            if meanwhile is not None:
                meanwhile()
            answer = json.loads(self._first_line(process))
        except (OSError, ValueError) as error:
            self._kill(process)
            raise ClusterStartError(
                f"the control process did not come up ({error}); its last words:\n{self.last_words()}"
            ) from error
        except BaseException:
            self._kill(process)
            raise
        if "error" in answer:
            self._kill(process)
            raise (MemoryLimitError if answer.get("kind") != "start" else ClusterStartError)(answer["error"])
        self.pid, self.janitor = answer["pid"], answer["janitor"]
        if self.detached:  # what we started has made the control process and ended; that one is nobody's child
            process.stdin.close()
            process.wait()
        return process

    def _first_line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        if not poll.poll(self.start_seconds * 1000):
            raise TimeoutError(f"no word for {self.start_seconds:.0f} s")
        line = process.stdout.readline()
        process.stdout.close()
        return line

    def last_words(self) -> str:
        """The end of the cluster's log."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, 2000, max(0, size - 2000)).decode(errors="replace") or "(none)"

    @property
    def socket(self) -> Path:
        """Where the cluster listens."""
        return self.folders.socket

    def is_alive(self) -> bool:
        """Whether the control process runs."""
        return not ended_within(self.pid, 0) if self.detached else self._process.poll() is None

    def hang_up(self) -> None:
        """Close the descriptors of a detached cluster, which runs on."""
        self._close_files()

    def close(self) -> None:
        """Wait until all processes of the cluster have ended, by force if need be, with their files and memory
        removed.
        """
        if self.detached:
            try:
                end_control(self.pid, self.janitor, END_SECONDS)
                self.words = self.last_words()
                self.folders.remove()
            finally:
                self._close_files()
            return
        process = self._process
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()  # the kernel's end, to the control process
        try:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._kill(process)
            ended_within(self.janitor, END_SECONDS)  # it ends last, when the whole process group is gone
            self.words = self.last_words()
            self.folders.remove()
        finally:  # who is interrupted here has let go of the memory all the same
            self._close_files()

    def _close_files(self) -> None:
        for fd in (self.arena, self._log):
            if fd >= 0:
                os.close(fd)
        self.arena = self._log = -1

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def ended_within(pid: int, seconds: float) -> bool:
    """Whether a process has ended, or does so within `seconds`."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(watch)


def end_control(pid: int, janitor: int, seconds: float) -> None:
    """Wait until the control process has ended, by force after `seconds`, and then the janitor, the last process.

    No effect without a janitor: then the head is a part of a program of the user's, which goes on.
    """
    if not janitor:
        return
    if not ended_within(pid, seconds):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    ended_within(janitor, seconds)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by a signal or a debugger."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b") ")[2][:1] in (b"T", b"t")
    except (FileNotFoundError, ProcessLookupError):
        return False


# Freed memory stays with the process instead of being faulted anew for every temporary: 2 to 7 times faster.
_MALLOC = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_TOP_PAD_": str(16 * 2**20),
    "MALLOC_ARENA_MAX": "1",
}
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS")


def process_settings(threads: int) -> dict[str, str]:
    """Variables that a process which computes has beside those of its user."""
    return {**_MALLOC, **dict.fromkeys(_THREADS, str(threads))}


def process_environment(threads: int) -> dict[str, str]:
    """Environment of a process whose libraries may use so many threads."""
    return {**os.environ, **process_settings(threads)}


class LocalHost(ControlProcess):
    """A cluster's processes on this machine.

    Parameters
    ----------
    lease
        Seconds that a detached cluster lives on when nobody uses it.
    schedulers
        Processes that schedule; 0: the control process does.
    gpus
        Names of the GPUs to use (`devices.find`).
    meanwhile
        Called while the process starts.
    """

    command = ("host",)

    def __init__(
        self,
        workers: int,
        threads: int,
        memory_limit: str | int | None,
        spill_dir: str | None,
        name: str,
        detached: bool = False,
        lease: float = math.inf,
        meanwhile: Callable[[], None] | None = None,
        schedulers: int = 0,
        gpus: Sequence[str] = (),
    ) -> None:
        super().__init__(name, "local", spill_dir, detached)
        try:
            self.limit = limit = chosen_limit(memory_limit)
            self.arena = os.memfd_create(f"jmars-{self.id}", os.MFD_CLOEXEC)
        except BaseException:
            self.folders.remove()
            raise
        orders: dict[str, Any] = {
            "workers": workers,
            "threads": threads,
            "limit": limit,
            "arena": self.arena,
            "lease": lease,
        }
        orders["schedulers"] = schedulers
        if gpus:
            orders["gpus"] = list(gpus)
        self._begin(orders, threads, meanwhile)


class AttachedHost:
    """A cluster of another process; has the interface of `LocalHost`.

    Parameters
    ----------
    entry
        What the registry says of it.

    Raises
    ------
    ClusterLostError
        If it does not answer, or has other versions of jmars, NumPy or Python than this process.
    AuthenticationError
        If it has another token than its registry file says.
    """

    detached = True  # it does not end with us
    words = ""

    def __init__(self, entry: Entry) -> None:
        refuse_other_versions(f"the cluster {entry.id}", entry.versions)
        self.id, self.name, self.token = entry.id, entry.name, entry.token
        self._socket = Path(entry.socket)
        self.limit = 0  # bytes; told by the cluster, as the processes
        self.pid = self.janitor = 0
        self.far = entry.far
        self.arena = -1 if entry.engine else received(entry.socket, entry.token, "host", "descriptor")

    @property
    def socket(self) -> Path:
        """Where the cluster listens."""
        return self._socket

    def is_alive(self) -> bool:
        """Whether another attempt to connect may succeed."""
        return False

    def hang_up(self) -> None:
        """Close the descriptor of the shared memory."""
        if self.arena >= 0:
            os.close(self.arena)
            self.arena = -1

    def close(self) -> None:
        """Wait until all processes of a cluster that was told to end have ended."""
        try:
            if self.pid:
                end_control(self.pid, self.janitor, END_SECONDS)
        finally:
            self.hang_up()
