"""What the system says of processes: read from /proc, so that nobody needs to answer.

Used by `care`, which asks `health` what to do about it. Source: Linux's proc_pid_stat(5), proc_pid_wchan(5); cgroups(7)
for the freezers of version 1 (a frozen process waits in `__refrigerator`, or from Linux 6.1 on, where it slept, in
state D) and 2 (in `do_freezer_trap`).
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
_HELD = ("FROZEN", "FREEZING")  # the second as long as another process of the group still runs
_TICKS = os.sysconf("SC_CLK_TCK")  # of a second
_UNTOLD = ("", "0")  # what wchan holds where the system hides it, or where a process waits for nothing


def vitals(pids: Iterable[int]) -> dict[int, Vital]:
    """How each process is."""
    return {pid: _vital(pid) for pid in pids}


def _vital(pid: int) -> Vital:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            letter = stat.read().rpartition(b")")[2][1:2]
        if letter in b"TX":  # a debugger's stop is "t": who holds a process so looks at it
            return Vital.STOPPED if letter == b"T" else Vital.GONE
        if letter == b"Z":
            return Vital.GONE
        if letter in b"DSI" and _is_frozen(pid, letter):
            return Vital.FROZEN
    except (FileNotFoundError, ProcessLookupError):
        return Vital.GONE
    except OSError:
        return Vital.RUNS  # we are out of files: nothing is known, so nothing is held against it
    return Vital.RUNS


def _is_frozen(pid: int, letter: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/wchan") as wchan:
            waits = wchan.read()
    except PermissionError:
        waits = ""
    return waits in _FROZEN or ((letter == b"D" or waits in _UNTOLD) and _in_frozen_group(pid))


def _in_frozen_group(pid: int) -> bool:
    """Whether the process is in a cgroup that is frozen or, version 1, about to be."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "freezer" not in controllers.split(","):
            continue
        base = Path("/sys/fs/cgroup/freezer" if controllers else "/sys/fs/cgroup")
        try:
            state = (base / path.lstrip("/") / ("freezer.state" if controllers else "cgroup.events")).read_text()
        except OSError:
            continue  # the root of a hierarchy has no such file
        if state.strip() in _HELD or "frozen 1" in state:
            return True
    return False


def private_now(pid: int) -> int:
    """Bytes that a process has for itself now: what is resident and neither shared nor of a file; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            fields = statm.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * 4096 if len(fields) > 2 else 0


def use(pid: int) -> ProcessUsage | None:
    """What a process has used; None where the system does not tell."""
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
    """What a process has started, and what these have; nobody where the system does not tell."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(child) for child in file.read().split()]
    except OSError:
        return []
    return children + [one for child in children for one in descendants(child)]


def kills_for_memory() -> int:
    """How many processes the system has ended for want of memory since it started, in all its groups."""
    try:
        with open("/proc/vmstat", "rb") as vmstat:
            for line in vmstat:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass  # a system that does not count
    return 0
