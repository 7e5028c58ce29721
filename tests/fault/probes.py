"""What this machine lets us break: root, cgroups v1, mounts, strace, a C compiler. A test that needs more is skipped.

Used by tests/fault and by the soak, which leaves out what cannot be done here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

__all__ = ["cgroup_parent", "has", "need"]


@cache
def cgroup_parent(controller: str) -> Path | None:
    """The folder of our own group of a cgroup v1 controller, where groups can be made below it."""
    folder = Path("/sys/fs/cgroup", controller)
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line.split(":", 2)[2] for line in lines if controller in line.split(":")[1].split(","))
        parent = folder / own.lstrip("/")
        trial = parent / f"jmars-probe-{os.getpid()}"
        trial.mkdir()
        trial.rmdir()
    except (OSError, StopIteration):
        return None
    return parent


@cache
def _mounts() -> bool:
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


@cache
def _traces() -> bool:
    command = ["strace", "-qq", "-o", os.devnull, "-e", "inject=getppid:error=EIO", "true"]
    return shutil.which("strace") is not None and subprocess.run(command, capture_output=True).returncode == 0


def has(what: str) -> bool:
    """Whether "root", "memory", "freezer", "pids", "cpu" (cgroup v1), "mount", "strace" or "cc" is there."""
    if what == "root":
        return os.getuid() == 0
    if what == "mount":
        return os.getuid() == 0 and _mounts()
    if what == "strace":
        return _traces()
    if what == "cc":
        return shutil.which("cc") is not None
    return os.getuid() == 0 and cgroup_parent(what) is not None


def need(*what: str) -> None:
    """Skip the test where one of these is missing, saying which."""
    missing = [one for one in what if not has(one)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, which this machine or user does not have")
