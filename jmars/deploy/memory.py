"""Measures memory of processes, and memory and cores that the machine or container allows.

The memory of a cluster is the sum of its processes' private memory (proportional set size, without shared memory) and
the pages of the arena. Source: proc(5); cgroups v1 and v2, https://docs.kernel.org/admin-guide/cgroup-v2.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from time import perf_counter, thread_time

from jmars.errors import MemoryLimitError
from jmars.units import format_bytes, parse_bytes

MB = 2**20
CONTROL_START = 32 * MB  # that the control process takes when it starts, about
CONTROL_BYTES = 24 * MB  # that it grows by while it compiles and runs
SCHEDULER_BYTES = CONTROL_START + CONTROL_BYTES  # of a scheduler that is a process of its own
WORKER_BYTES = 10 * MB  # that an executor, the zygote, the mover or the janitor takes for itself
FEW_PLANS, MANY_PLANS = 4 * MB, 32 * MB  # of plans that are kept to be run again, under small and large limits
REST = 200  # times the seconds of a reading of private memory, before it is read again
FILE_CHANGE = 4 * MB  # of mapped files, after which private memory is read at once
LEAST_BYTES = 64 * MB  # that a limit must leave for chunks and scratch


def private_bytes(pid: int) -> int:
    """Proportional set size of a process in bytes, shared memory left out; 0 for an ended process."""
    sizes = _sizes(pid, "smaps_rollup", b"Pss_Anon", b"Pss_File")
    return sizes[b"Pss_Anon"] + sizes[b"Pss_File"]


class PrivateMemory:
    """`private_bytes` of several processes, for frequent use.

    The proportional set size costs 16 ms for each gigabyte of chunks that a process has mapped. The kernel counts
    anonymous memory anyway; the rest (libraries, pages that a forked process still shares) changes slowly, and is read
    in a two-hundredth of the time, and when the process has mapped more or less of files.
    """

    def __init__(self) -> None:
        # by pid: bytes beside anonymous ones, when they are read again, mapped bytes of files then
        self._beside: dict[int, tuple[int, float, int]] = {}

    def of(self, pids: Mapping[str, int]) -> dict[str, int]:
        """Bytes by name of process; 0 for an ended process."""
        known, self._beside = self._beside, {}
        return {name: self._of(pid, *known.get(pid, (0, 0.0, 0))) for name, pid in pids.items()}

    def _of(self, pid: int, beside: int, due: float, mapped: int) -> int:
        resident = _sizes(pid, "status", b"RssAnon", b"RssFile")
        anonymous, files = resident[b"RssAnon"], resident[b"RssFile"]
        if not anonymous:
            return 0
        if perf_counter() >= due or abs(files - mapped) > FILE_CHANGE:
            began = thread_time()
            sizes = _sizes(pid, "smaps_rollup", b"Pss_Anon", b"Pss_File", b"Anonymous")
            beside = sizes[b"Pss_Anon"] + sizes[b"Pss_File"] - sizes[b"Anonymous"]
            due, mapped = perf_counter() + REST * (thread_time() - began), files
        self._beside[pid] = beside, due, mapped
        return max(0, anonymous + beside)


def _sizes(pid: int, file: str, *names: bytes) -> dict[bytes, int]:
    """Bytes by name, from a file of a process in /proc; 0 for an ended process."""
    found = dict.fromkeys(names, 0)
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError), open(f"/proc/{pid}/{file}", "rb") as lines:
        rows = (line.partition(b":") for line in lines)
        found |= {name: int(value.split()[0]) * 1024 for name, _, value in rows if name in found}
    return found


def available() -> int:
    """Bytes that this machine, or the container that we are in, still has to give."""
    return min([_machine("MemAvailable"), *_container_free()])


def _machine(name: str) -> int:
    """A number of bytes from /proc/meminfo, by name."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:"))


def default_limit() -> int:
    """Half of the available memory, in bytes."""
    return available() // 2


def _container_free() -> Iterable[int]:
    """Bytes left below each memory limit of cgroup v2 or v1 that holds for this process."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base, limit_name, usage_name = Path("/sys/fs/cgroup"), "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit_name, usage_name = (
                Path("/sys/fs/cgroup/memory"),
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
        else:
            continue
        folder = base / path.lstrip("/")
        while True:
            try:
                limit = (folder / limit_name).read_text().strip()
                if limit != "max" and int(limit) < 1 << 60:
                    yield max(0, int(limit) - int((folder / usage_name).read_text()))
            except OSError:
                pass  # this level sets no limit, or is not shown inside the container
            if folder == base:
                break
            folder = folder.parent


def chosen_limit(given: str | int | None) -> int:
    """The given memory limit in bytes, or the default.

    Raises
    ------
    ValueError
        If the machine has less than what was given.
    """
    if given is None:
        return default_limit()
    limit = parse_bytes(given)
    total = _machine("MemTotal")
    if limit > total:
        raise ValueError(
            f"memory_limit {format_bytes(limit)} is more than this machine's {format_bytes(total)}; give less, "
            "or leave it out for half of what is available"
        )
    return limit


def plan_bytes(limit: int) -> int:
    """Bytes of a memory limit for plans that are kept to be run again."""
    return min(MANY_PLANS, FEW_PLANS + max(0, limit - 1024 * MB) // 64)


def usable_cores() -> int:
    """Cores that this process may use, a container's quota counted."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, max(1, int(quota) // int(period))) if quota != "max" else cores
    except (OSError, ValueError):
        pass  # no cgroup v2, or no quota
    return cores


def room_for_chunks(limit: int, workers: int, control: int = CONTROL_START) -> int:
    """Bytes that a memory limit leaves for chunks and scratch.

    Parameters
    ----------
    limit
        Bytes for all processes of a host together.
    workers
        Executors.
    control
        Bytes that the control process takes when it starts.

    Raises
    ------
    MemoryLimitError
        If they are less than 64 MiB.

    Examples
    --------
    >>> format_bytes(room_for_chunks(2**30, workers=2))
    '918.0 MiB'
    """
    base = control + CONTROL_BYTES + plan_bytes(limit) - FEW_PLANS  # these are part of CONTROL_BYTES
    base += (workers + 3) * WORKER_BYTES  # and zygote, mover, janitor
    left = limit - base
    if left < LEAST_BYTES:
        raise MemoryLimitError(
            f"memory_limit {format_bytes(limit)} is too small: {workers} workers and their control "
            f"process take about {format_bytes(base)} and {format_bytes(LEAST_BYTES)} must be left for arrays; "
            f"give {format_bytes(base + LEAST_BYTES)} or more, or fewer workers"
        )
    return left


def set_aside(limit: int, workers: int, room: int) -> int:
    """Bytes of a memory limit that are left for the control process, and the scheduler's, where chunks have `room`.

    Examples
    --------
    >>> format_bytes(set_aside(2**30, 2, room_for_chunks(2**30, 2)))
    '56.0 MiB'
    """
    return limit - room - (workers + 3) * WORKER_BYTES


def of_control(private: Mapping[str, int]) -> int:
    """Bytes of the control process and the scheduler's process, from bytes of all processes by name."""
    return private.get("control", 0) + private.get("scheduler", 0)


def beyond(private: Mapping[str, int], workers: int, promised: int) -> int:
    """Bytes that executors and helpers take in addition to those set aside for them, and to promised bytes.

    Parameters
    ----------
    private
        Bytes by name of process.
    workers
        Executors.
    promised
        Bytes promised to operands, and for memory that functions left behind.

    Examples
    --------
    >>> private = {"control": 90 * MB, "worker-0": 50 * MB, "worker-1": 20 * MB, "zygote": 10 * MB, "janitor": 10 * MB}
    >>> beyond(private, 2, promised=16 * MB) // MB
    24
    """
    return max(0, sum(private.values()) - of_control(private) - (workers + 3) * WORKER_BYTES - promised)
