"""Reads the state and the memory of processes from /proc, so that no process has to answer.

`worker/execution.py` samples with it, and `Health` decides.

`Health` decides from samples when a stopped or frozen child process is suspect, killed or given up. Pure: samples in,
actions out. A process that computes, with or without the interpreter's lock, sleeps, waits for a disk or is held by a
debugger runs. A process that a signal stopped or that a freezer holds hangs: suspect after two samples, killed after
FENCE_SECONDS, and given up after a kill without effect. Time counts only while samples come, so a host that was stopped
or slept learns no hang from the clock.

`AllocationLivelockDetector` finds a process that retries a failing malloc for ever. Some libraries (OpenBLAS while it
is loaded) retry a refused allocation without end and hold the interpreter's lock meanwhile, so no MemoryError is
raised. Such a process never waits and spends nearly all time in the system, while memory, page faults, reads and writes
stand still. A process that lists folders or serves sockets looks the same, so only a process without room for such a
library's request is suspected; after a wrong suspicion the operand runs again, with more memory. Pure: samples in,
process ids out.

`StopGrace` finds processes that do not obey the stop of a job, on a busy machine too. Pure: samples in, process ids
out.

`Meter` separates computing time from page faults and from waiting for a core, in an executor or a task of an engine.
Neither is a cost of the operand: memory is fresh once, and cores belong to other processes at times. The kernel counts
both; a reading takes a microsecond per report.
Source: Linux proc_pid_stat(5), proc_pid_wchan(5); Linux cgroups(7) for the freezers of version 1 (a frozen process
waits in `__refrigerator` or, from Linux 6.1 on, in state D) and version 2 (in `do_freezer_trap`);
docs/explanation/reliability.md; Linux proc_pid_stat(5), proc_pid_io(5); Linux `Documentation/scheduler/sched-stats.rst`
("time spent waiting on a runqueue"); Linux getrusage(2).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_DATA, RUSAGE_SELF, getrusage, prlimit
from sys import maxsize
from time import perf_counter
from typing import NamedTuple

from jmars.model.limits import PAGE

_FROZEN = ("__refrigerator", "do_freezer_trap")
_HELD = ("FROZEN", "FREEZING")  # FREEZING while a process of the group still runs
_TICKS = os.sysconf("SC_CLK_TCK")  # of a second
_NO_WAIT = ("", "0")  # wchan of a process that does not wait, or hidden by the system


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


LOOK_SECONDS = 0.25  # between two samples while there is work
FENCE_SECONDS = 6.0  # so that a stop of five seconds has no effect
GIVE_UP_SECONDS = 1.0  # after the kill; a frozen process dies only after it is thawed


class Vital(Enum):
    """State of a process in /proc."""

    RUNS = "runs"  # computes, sleeps, waits for a disk, or is held by a debugger
    STOPPED = "stopped"  # by a signal
    FROZEN = "frozen"  # by a cgroup's freezer
    GONE = "gone"


class HealthAction(Enum):
    """An action on a process."""

    SUSPECT = "suspect"  # send no batch, and start speculative copies of its repeatable operands
    WELL = "well"  # the process runs again
    FENCE = "fence"  # kill the process
    GIVE_UP = "give up"  # the process cannot die: treat it as dead


class _Case:
    """A process that hangs."""

    __slots__ = ("ended", "seconds", "steps")

    def __init__(self) -> None:
        self.seconds = 0.0  # seconds that the process was seen to hang
        self.ended = 0.0  # value of `seconds` at the kill
        self.steps = [HealthAction.SUSPECT, HealthAction.FENCE, HealthAction.GIVE_UP]  # still to come


class Health:
    """Processes that hang.

    Examples
    --------
    >>> health = Health()
    >>> health.look(0.0, {7: Vital.STOPPED}), health.look(0.25, {7: Vital.STOPPED}), health.look(0.5, {7: Vital.RUNS})
    ([], [(7, <HealthAction.SUSPECT: 'suspect'>)], [(7, <HealthAction.WELL: 'well'>)])
    """

    def __init__(self) -> None:
        self._cases: dict[int, _Case] = {}  # by pid
        self._looked: float | None = None

    @property
    def suspects(self) -> bool:
        """Whether a process hangs."""
        return bool(self._cases)

    def look(self, now: float, vitals: Mapping[int, Vital]) -> list[tuple[int, HealthAction]]:
        """Add a sample of all processes, taken at `now`; returns (pid, action) in order.

        Parameters
        ----------
        now
            Seconds of a clock that never goes back.
        vitals
            By pid; a process without a sample is forgotten.
        """
        passed = 0.0 if self._looked is None else min(now - self._looked, 2 * LOOK_SECONDS)
        self._looked = now
        steps: list[tuple[int, HealthAction]] = []
        for pid in [pid for pid in self._cases if vitals.get(pid, Vital.GONE) is Vital.GONE]:
            del self._cases[pid]
        for pid, vital in vitals.items():
            if vital is Vital.RUNS:
                case = self._cases.pop(pid, None)
                if case is not None and HealthAction.SUSPECT not in case.steps:
                    steps.append((pid, HealthAction.WELL))
            elif vital is not Vital.GONE:
                case = self._cases.get(pid)
                if case is None:
                    self._cases[pid] = _Case()
                else:
                    case.seconds += passed
                    steps += [(pid, step) for step in self._due(case)]
        return steps

    def _due(self, case: _Case) -> list[HealthAction]:
        """The next action that is due."""
        if not case.steps:
            return []
        step = case.steps[0]
        if step is HealthAction.FENCE and case.seconds < FENCE_SECONDS:
            return []
        if step is HealthAction.GIVE_UP and case.seconds < case.ended + GIVE_UP_SECONDS:
            return []
        if step is HealthAction.FENCE:
            case.ended = case.seconds
        del case.steps[0]
        return [step]


LIVELOCK_SECONDS = 4.0
STUCK_SECONDS = 10.0  # that a process waits which may allocate nothing: a thread of a library got no memory and is gone
SYSTEM_SHARE = 2 / 3  # least share of system time
MOST_ASKED = 2**27  # bytes of the largest allocation that a library retries: OpenBLAS's buffers
BUSY = 0.1  # least share of a core; low, as many processes may wait for a core


class ProcessUsage(NamedTuple):
    """Resources that a process has used, sampled from /proc."""

    waits: bool  # in the system, for a lock or a device
    user: float  # seconds
    system: float  # seconds
    still: tuple[int, ...]  # private pages, page faults, reads and writes
    left: int = 0  # bytes that the process may still allocate


class AllocationLivelockDetector:
    """Processes without progress.

    Examples
    --------
    >>> detector = AllocationLivelockDetector()
    >>> [detector.look(t, {7: ProcessUsage(False, 0.1 * t, 0.8 * t, (20, 5, 0))}) for t in (0.0, 2.0, 4.0)]
    [[], [], [7]]
    """

    def __init__(self) -> None:
        self._since: dict[int, tuple[float, ProcessUsage]] = {}  # by pid: when progress stopped, and the usage then

    def look(self, now: float, uses: Mapping[int, ProcessUsage]) -> list[int]:
        """Add samples by pid, taken at `now` monotonic seconds; returns livelocked and stuck pids, once each."""
        self._since = {pid: seen for pid, seen in self._since.items() if pid in uses}
        found = []
        for pid, use in uses.items():
            start, first = self._since.setdefault(pid, (now, use))
            stuck = use.waits and use.left <= 0
            before = first.waits and first.left <= 0
            if use.still != first.still or use.left > MOST_ASKED or use.waits and not stuck or stuck != before:
                self._since[pid] = (now, use)
            elif stuck:
                if now - start >= STUCK_SECONDS:
                    del self._since[pid]
                    found.append(pid)
            elif now - start >= LIVELOCK_SECONDS:
                del self._since[pid]
                system, busy = use.system - first.system, use.user + use.system - first.user - first.system
                if busy >= BUSY * (now - start) and system >= SYSTEM_SHARE * busy:
                    found.append(pid)
        return found


GRACE_SECONDS = 0.5  # for a running operand to obey the stop of its job
GRACE_LOOK_SECONDS = 0.1  # between two samples


class StopGrace:
    """Processes that were told to stop, and the time that each had to obey.

    The time in which a process waits for a core does not count, and between two samples not more than was meant to
    pass: on a busy machine the process, or this one, may get no core for seconds.

    Examples
    --------
    >>> grace = StopGrace(0.0)
    >>> [grace.look(k / 5, {7: None, 8: ProcessUsage(False, 0.01 * k, 0.0, ())}) for k in range(1, 8)]
    [[], [], [], [], [7], [], []]
    """

    def __init__(self, now: float) -> None:
        self._looked = now
        self._had: dict[int, float] = {}  # seconds, by pid
        self._used: dict[int, float] = {}

    def look(self, now: float, uses: Mapping[int, ProcessUsage | None]) -> list[int]:
        """Add samples by pid, None if the system gives none; returns pids at the end of their grace, once each."""
        passed, self._looked = min(now - self._looked, GRACE_LOOK_SECONDS), now
        over = []
        for pid, use in uses.items():
            had, used = self._had.get(pid, 0.0), 0.0 if use is None else use.user + use.system
            computes = use is not None and not use.waits  # or waits for a core
            more = min(passed, used - self._used.get(pid, used)) if computes else passed
            self._had[pid], self._used[pid] = had + more, used
            if had < GRACE_SECONDS <= had + more:
                over.append(pid)
        return over


FAULT_SECONDS = 1e-6  # to touch a fresh page
LEAST = 0.1  # least share of the time for which fresh memory is reported


class Meter:
    """Counters of the calling thread between two readings; the kernel counts page faults by process."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the kernel does not count
            self._file = -1
        self.start()

    def start(self) -> None:
        """Start counting."""
        self._time, self._faults, self._waited = perf_counter(), _faults(), self._nanoseconds()

    def read(self, elapsed: list[int]) -> tuple[list[int], int, int]:
        """Computing time of operands, fresh memory and waiting since the start or the last reading.

        Parameters
        ----------
        elapsed
            Microseconds of the operands by the clock.

        Returns
        -------
        list of int, int, int
            Microseconds without the waiting; bytes of fresh memory per operand, 0 if they cost hardly any time;
            microseconds of waiting for a core.
        """
        time, faults, waited = self._time, self._faults, self._waited
        self.start()
        pages, wait = self._faults - faults, (self._waited - waited) // 1000
        by_clock = sum(elapsed)
        seconds = self._time - time - wait * 1e-6
        fresh = pages * PAGE // max(len(elapsed), 1) if pages * FAULT_SECONDS > LEAST * seconds else 0
        if not 0 < wait < by_clock:
            return elapsed, fresh, 0
        share = 1 - wait / by_clock
        return [int(one * share) for one in elapsed], fresh, wait

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)

    def _nanoseconds(self) -> int:
        """Nanoseconds that this thread waited for a core since its start."""
        return int(os.pread(self._file, 64, 0).split()[1]) if self._file >= 0 else 0


def _faults() -> int:
    return getrusage(RUSAGE_SELF).ru_minflt
