"""What breaks things, and mends them again at the end of a `with` block.

Used by the tests of this folder and by the soak; tests/fault/probes.py says what this machine allows.
Source: RELIABILITY's table of injections that were measured to work without docker.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fault.harness import alive, until
from tests.fault.probes import cgroup_parent

__all__ = ["Group", "group", "kill", "stop", "stopped", "tmpfs", "traced"]


def kill(pid: int) -> None:
    """SIGKILL."""
    _signal(pid, signal.SIGKILL)


def stop(pid: int) -> None:
    """SIGSTOP."""
    _signal(pid, signal.SIGSTOP)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it was replaced a moment ago


@contextmanager
def stopped(pids: Iterable[int]) -> Iterator[None]:
    """Processes that are stopped; continued at the end."""
    held = list(pids)
    for pid in held:
        stop(pid)
    try:
        yield
    finally:
        for pid in held:
            _signal(pid, signal.SIGCONT)


class Group:
    """A group of a cgroup v1 controller: `set("memory.limit_in_bytes", 2**24)`, `add(pid)`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def set(self, name: str, value: object) -> None:
        """Write one of its files."""
        (self.folder / name).write_text(str(value))

    def get(self, name: str) -> str:
        """Read one."""
        return (self.folder / name).read_text().strip()

    def add(self, *pids: int) -> None:
        """Put processes into it; what they fork from now on is in it too."""
        for pid in pids:
            try:
                self.set("cgroup.procs", pid)
            except ProcessLookupError:
                pass  # it ended a moment ago


@contextmanager
def group(controller: str, mend: Callable[[Group], None] = lambda group: None) -> Iterator[Group]:
    """A group below our own; at the end it is mended, its processes go back, and it is removed."""
    parent = cgroup_parent(controller)
    assert parent is not None
    made = Group(parent / f"jmars-fault-{secrets.token_hex(4)}")
    made.folder.mkdir()
    try:
        yield made
    finally:
        mend(made)

        def empty() -> bool:
            back = Group(parent)
            back.add(*map(int, made.get("cgroup.procs").split()))
            try:
                made.folder.rmdir()
            except OSError:  # one that ends is still counted
                return False
            return True

        until(empty, 5, f"{made.folder} cannot be removed")


def thaw(frozen: Group) -> None:
    """Let a frozen group go on."""
    frozen.set("freezer.state", "THAWED")


@contextmanager
def tmpfs(folder: Path, options: str) -> Iterator[Path]:
    """A small file system at `folder`, unmounted even if this process is killed."""
    folder.mkdir(exist_ok=True)
    script = 'mount -t tmpfs -o "$2" none "$1" && echo up && read -r _; umount -l "$1"'
    command = ["sh", "-c", script, "sh", str(folder), options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as keeper:
        assert keeper.stdin is not None and keeper.stdout is not None
        assert keeper.stdout.readline() == b"up\n"
        try:
            yield folder
        finally:
            keeper.stdin.close()
            keeper.wait()


@contextmanager
def traced(pids: Iterable[int], inject: str) -> Iterator[None]:
    """System calls of processes fail or wait, as strace's `inject` says: "write:error=EIO", "write:delay_enter=99"."""
    calls = inject.split(":", 1)[0]
    attach = [word for pid in pids for word in ("-p", str(pid))]
    command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={calls}", "-e", f"inject={inject}", *attach]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(lambda: tracer.poll() is not None or all(map(_is_traced, pids)), 60, "strace does not attach")
        yield
    finally:
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)
        tracer.wait()


def _is_traced(pid: int) -> bool:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return not alive(pid)
    return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in lines)
