"""What the benchmarks share: the machine's own speed, the CPU time of a tree of processes, and medians."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable

import psutil


def calibrate() -> float:
    """Seconds of CPU for a fixed loop of plain Python, best of 5: what a figure is to be read beside."""

    def loop() -> float:
        start = time.process_time()
        total = 0
        for number in range(1_000_000):
            total += number
        return time.process_time() - start

    return min(loop() for _ in range(5))


def cpu_by_process(roots: Iterable[int]) -> dict[tuple[int, float], float]:
    """Seconds of CPU used so far by these processes and everything below them, by (pid, start)."""
    found: dict[tuple[int, float], float] = {}
    for root in roots:
        try:
            tree = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
        for process in tree:
            try:
                times = process.cpu_times()
                found[process.pid, process.create_time()] = times.user + times.system
            except psutil.NoSuchProcess:
                pass
    return found


def cpu_between(before: dict[tuple[int, float], float], after: dict[tuple[int, float], float]) -> float:
    """Seconds of CPU from one reading to the next; a process that came in between counts from its start."""
    return sum(used - before.get(process, 0.0) for process, used in after.items())


def describe(values: list[float], unit: str) -> str:
    """`12.3 µs (11.9–13.0, 5 rounds)`: the median, the extremes, how many."""
    middle = statistics.median(values)
    return f"{middle:.3g} {unit} ({min(values):.3g}–{max(values):.3g}, {len(values)} rounds)"


def this_machine() -> str:
    """One line about where a figure comes from."""
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    return f"{cores} cores, load {load:.1f} at the start, 10^6 turns of an empty Python loop take {calibrate():.3f} s"
