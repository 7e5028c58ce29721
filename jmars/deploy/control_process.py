"""ControlProcess: starts a control process from this process, and sees it end.

It is up in 20 ms. `LocalHost` and `HostsHost` are its two kinds.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jmars.actors import new_token
from jmars.deploy.ending import end_control, ended_within
from jmars.deploy.environment import process_environment
from jmars.deploy.folders import Folders, sweep
from jmars.errors import ClusterStartError, MemoryLimitError

__all__ = ["ControlProcess"]

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
