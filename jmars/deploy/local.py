"""LocalHost: starts a control process from this process, and sees it end.

A host is up in 20 ms, the executors in 100.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jmars.actors import new_token
from jmars.deploy.ending import end_control, ended_within
from jmars.deploy.folders import Folders, sweep
from jmars.deploy.memory import chosen_limit
from jmars.errors import ClusterStartError, MemoryLimitError

__all__ = ["LocalHost"]

START_SECONDS = 30.0
END_SECONDS = 5.0

# Freed memory stays with the process instead of being faulted anew for every temporary: 2 to 7 times faster.
_MALLOC = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_TOP_PAD_": str(16 * 2**20),
    "MALLOC_ARENA_MAX": "1",
}
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS")


class LocalHost:
    """A cluster's processes on this machine.

    Attributes
    ----------
    arena
        Descriptor of the shared memory, ours to close.
    token
        The cluster's secret.
    detached
        Whether it outlives this process, and ends when nobody has used it for `lease` seconds.
    """

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
    ) -> None:
        if sys.platform != "linux":
            raise ClusterStartError(
                f"clusters run on Linux only so far, and this is {sys.platform}: they need memfd, pidfd and /proc; "
                "run the kernel on a Linux machine"
            )
        sweep()
        self.id = secrets.token_hex(4)
        self.detached, self._lease = detached, lease
        self.name = name or f"local-{self.id}"
        self.token = new_token()
        self.limit = chosen_limit(memory_limit)
        self.folders = Folders.make(self.id, spill_dir)
        self.arena = self._log = -1
        self.pid = self.janitor = 0
        self.words = ""  # what it said last, once it has ended
        try:
            self.arena = os.memfd_create(f"jmars-{self.id}", os.MFD_CLOEXEC)
            self._log = os.open(self.folders.log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._process = self._start(workers, threads, meanwhile)
        except BaseException:
            self._close_files()
            self.folders.remove()
            raise

    def _start(self, workers: int, threads: int, meanwhile: Callable[[], None] | None) -> subprocess.Popen[bytes]:
        orders: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "token": self.token,
            "workers": workers,
            "threads": threads,
            "limit": self.limit,
            "arena": self.arena,
            "kernel": 0 if self.detached else os.getpid(),
            "detach": self.detached,
            "lease": self._lease,
            "path": sys.path,
            "folders": {"registry": self.folders.registry, "folder": self.folders.folder, "spill": self.folders.spill},
        }
        env = {
            **os.environ,
            **_MALLOC,
            **dict.fromkeys(_THREADS, str(threads)),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jmars", "host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            pass_fds=[self.arena],
            start_new_session=True,
            env=env,
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
            raise MemoryLimitError(answer["error"])
        self.pid, self.janitor = answer["pid"], answer["janitor"]
        if self.detached:  # what we started has made the control process and ended; that one is nobody's child
            process.stdin.close()
            process.wait()
        return process

    def _first_line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        if not poll.poll(START_SECONDS * 1000):
            raise TimeoutError(f"no word for {START_SECONDS:.0f} s")
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
