"""Reads the state and the memory of processes from /proc, so that no process has to answer.

`supervision` samples with it, and `health` decides.
Source: Linux proc_pid_stat(5), proc_pid_wchan(5); Linux cgroups(7) for the freezers of version 1 (a frozen process
waits in `__refrigerator` or, from Linux 6.1 on, in state D) and version 2 (in `do_freezer_trap`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_DATA, prlimit
from sys import maxsize

from jmars.processes.allocation_livelock import ProcessUsage
from jmars.processes.health import Vital
from jmars.storage.arena import PAGE

__all__ = ["descendants", "kills_for_memory", "private_now", "use", "vitals"]

_FROZEN = ("__refrigerator", "do_freezer_trap")
_HELD = ("FROZEN", "FREEZING")  # FREEZING while a process of the group still runs
_TICKS = os.sysconf("SC_CLK_TCK")  # of a second
_NO_WAIT = ("", "0")  # wchan of a process that waits for nothing, or if the system hides it


def vitals(pids: Iterable[int]) -> dict[int, Vital]:
    """States of processes, by pid."""
    return {pid: _vital(pid) for pid in pids}


def _vital(pid: int) -> Vital:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            letter = stat.read().rpartition(b")")[2][1:2]
        if letter in b"TX":  # a debugger's stop is "t", and intended
            return Vital.STOPPED if letter == b"T" else Vital.GONE
        if letter == b"Z":
            return Vital.GONE
        if letter in b"DSI" and _is_frozen(pid, letter):
            return Vital.FROZEN
    except (FileNotFoundError, ProcessLookupError):
        return Vital.GONE
    except OSError:
        return Vital.RUNS  # jmars has no descriptor left: the state is unknown
    return Vital.RUNS


def _is_frozen(pid: int, letter: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/wchan") as wchan:
            waits = wchan.read()
    except PermissionError:
        waits = ""
    return waits in _FROZEN or ((letter == b"D" or waits in _NO_WAIT) and _in_frozen_group(pid))


def _in_frozen_group(pid: int) -> bool:
    """Whether the process is in a cgroup that is frozen or, in version 1, freezing."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "freezer" not in controllers.split(","):
            continue
        base = Path("/sys/fs/cgroup/freezer" if controllers else "/sys/fs/cgroup")
        try:
            state = (base / path.lstrip("/") / ("freezer.state" if controllers else "cgroup.events")).read_text()
        except OSError:
            continue  # the root of a hierarchy has no state
        if state.strip() in _HELD or "frozen 1" in state:
            return True
    return False


def private_now(pid: int) -> int:
    """Private bytes of a process: resident, neither shared nor file-backed; 0 after the end."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            fields = statm.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * 4096 if len(fields) > 2 else 0


def use(pid: int) -> ProcessUsage | None:
    """Resources that a process has used; None if the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/statm", "rb") as statm:
            data = int(statm.read().split()[5])
        with open(f"/proc/{pid}/io", "rb") as io:
            calls = [int(line.split()[1]) for line in io if line.startswith(b"sysc")]
        limit, _ = prlimit(pid, RLIMIT_DATA)
    except OSError:
        return None
    user, system = (int(ticks) / _TICKS for ticks in fields[11:13])
    left = maxsize if limit == RLIM_INFINITY else limit - data * PAGE
    return ProcessUsage(fields[0] != b"R", user, system, (data, int(fields[7]), *calls), left)


def descendants(pid: int) -> list[int]:
    """Pids of a process's children and their children; empty if the system does not tell."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(child) for child in file.read().split()]
    except OSError:
        return []
    return children + [one for child in children for one in descendants(child)]


def kills_for_memory() -> int:
    """Number of processes that the kernel killed for lack of memory since boot, in all cgroups."""
    try:
        with open("/proc/vmstat", "rb") as vmstat:
            for line in vmstat:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass  # the system does not count
    return 0
