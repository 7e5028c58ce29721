"""Machines on this machine: namespaces for network, processes, mounts and name, which all end together.

A machine lives as long as its first process, which reads a pipe of ours: when the test run ends, even by SIGKILL, the
kernel ends all processes of the machine and removes its network. Nothing has a name that could stay.
Source: namespaces(7), pid_namespaces(7), veth(4).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from jmars.deploy.control_process import ended_within

__all__ = ["Machine", "need_machines", "run_here"]

_CLONE_NEWNET = 0x40000000
# The first process of a machine: bash collects the processes whose parents have ended. /run is empty there but for the
# folder that sshd wants.
_FIRST = """
set -e
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
echo {name} > /proc/sys/kernel/hostname
ip link set lo up
echo up
read
"""


@cache
def _missing() -> str:
    """What machines need and this machine lacks; "" for nothing."""
    if os.getuid() != 0:
        return "root, to make network namespaces"
    for program, package in (("ip", "iproute2"), ("unshare", "util-linux"), ("bash", "bash")):
        if shutil.which(program, path=_path()) is None:
            return f"{program} (Debian package {package})"
    try:
        Machine("probe").close()
    except (OSError, RuntimeError) as error:
        return f"the right to make namespaces ({error})"
    return ""


def need_machines() -> None:
    """Skip the test where no machine can be made, saying why."""
    if reason := _missing():
        pytest.skip(f"needs {reason}")


class Machine:
    """A machine with a process table, a network and a name of its own; files are shared, but for /run.

    Parameters
    ----------
    network
        False: the machine shares the network of this machine, so that programs here reach it by 127.0.0.1.

    Attributes
    ----------
    pid
        Its first process, as this machine numbers processes.
    """

    def __init__(self, name: str, network: bool = True) -> None:
        self.name, self.pid = name, 0
        spaces = ["--net"] * network + ["--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc"]
        self._holder = subprocess.Popen(
            ["unshare", *spaces, "bash", "-c", _FIRST.format(name=name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PATH": _path()},
        )
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if self._holder.stdout.readline() != b"up\n":
            words = self._holder.stderr.read().decode(errors="replace").strip()
            self.close()
            raise RuntimeError(f"machine {name} did not start: {words}")
        self.pid = int(Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text())

    def command(self, words: Sequence[str]) -> list[str]:
        """The command line by which a command runs on the machine."""
        return ["nsenter", f"--target={self.pid}", "--net", "--pid", "--mount", "--uts", "--", *words]

    def run(self, *words: str) -> str:
        """Run a command on the machine; returns its output."""
        return run_here(*self.command(words))

    @contextmanager
    def network(self) -> Iterator[None]:
        """Within, this thread, and threads and processes that it starts, use the machine's network."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _enter(f"/proc/{self.pid}/ns/net")
            yield
        finally:
            _set_network(before)
            os.close(before)

    def pids(self) -> dict[int, int]:
        """Processes of the machine: its number for each, and ours; none where it is switched off."""
        found: dict[int, int] = {}
        if self._holder.poll() is not None:
            return found
        space = os.readlink(f"/proc/{self.pid}/ns/pid")
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{name}/ns/pid") == space:
                    status = Path(f"/proc/{name}/status").read_text()
                    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
                    found[int(numbers[-1])] = int(name)
            except OSError:
                continue  # it has ended, or is not ours to look at
        return found

    def wait_for_end(self, pid: int, seconds: float) -> bool:
        """Whether a process, by the machine's number, ends within `seconds`."""
        ours = self.pids().get(pid)
        return ours is None or ended_within(ours, seconds)

    def crash(self) -> None:
        """Switch the machine off: its processes end without a word, and its cables hang loose."""
        if self._holder.poll() is None:  # so that the number is not given to another process yet
            os.kill(
                self.pid or self._holder.pid, signal.SIGKILL
            )  # the kernel ends the others before it tells of this end
        self._holder.wait(60)

    def close(self) -> None:
        """End all its processes and remove its network."""
        try:
            self.crash()
        finally:
            for pipe in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
                assert pipe is not None
                pipe.close()


def run_here(*words: str) -> str:
    """Run a command on this machine; returns its output."""
    done = subprocess.run(words, env={**os.environ, "PATH": _path()}, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _path() -> str:
    """PATH with the folders of a superuser's programs, which not every account has in it."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _enter(file: str) -> None:
    fd = os.open(file, os.O_RDONLY)
    try:
        _set_network(fd)
    finally:
        os.close(fd)


def _set_network(fd: int) -> None:
    """setns(2), which Python has since 3.12."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"setns: {os.strerror(ctypes.get_errno())}")
