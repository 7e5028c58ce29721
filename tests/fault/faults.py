"""The faults that a soak draws from: rows that need no machine of their own, each with its promise.

A fault is injected into a `Scene` and mended when its `ExitStack` closes, `seconds` later.
Source: the reliability matrix of the design.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import jmars.tensor as mt
from jmars.errors import JobCancelledError
from tests.fault import damage, injections, program
from tests.fault.harness import Scene
from tests.fault.probes import has

__all__ = ["FAULTS", "Fault", "there"]


@dataclass(frozen=True)
class Fault:
    """One kind of fault."""

    name: str
    row: int
    promise: str  # E: the value; X: the value or a clear error
    inject: Callable[[Scene, ExitStack], None]
    seconds: float = 0.0  # for which it lasts
    needs: str = ""  # what tests/fault/probes.py must find


def there(fault: Fault) -> bool:
    """Whether this machine allows it."""
    return not fault.needs or has(fault.needs)


def _kill_one(scene: Scene, stack: ExitStack) -> None:
    injections.kill(scene.worker())


def _kill_all(scene: Scene, stack: ExitStack) -> None:
    for pid in scene.workers():
        injections.kill(pid)


def _kill_mover(scene: Scene, stack: ExitStack) -> None:
    for pid in scene.movers():
        injections.kill(pid)


def _stop_worker(scene: Scene, stack: ExitStack) -> None:
    stack.enter_context(injections.stopped([scene.worker()]))


def _stop_worker_for_ever(scene: Scene, stack: ExitStack) -> None:
    injections.stop(scene.worker())


def _stop_mover(scene: Scene, stack: ExitStack) -> None:
    for pid in scene.movers():
        injections.stop(pid)


def _stop_control(scene: Scene, stack: ExitStack) -> None:
    stack.enter_context(injections.stopped([scene.control()]))


def _freeze(scene: Scene, stack: ExitStack) -> None:
    frozen = stack.enter_context(injections.group("freezer", injections.thaw))
    frozen.add(scene.worker())
    frozen.set("freezer.state", "FROZEN")


def _no_memory(scene: Scene, stack: ExitStack) -> None:
    small = stack.enter_context(injections.group("memory"))
    small.set("memory.limit_in_bytes", 2**20)
    small.add(scene.worker())


def _no_processes(scene: Scene, stack: ExitStack) -> None:
    few = stack.enter_context(injections.group("pids"))
    few.add(scene.zygote())
    few.set("pids.max", 1)
    injections.kill(scene.worker())


def _slow_core(scene: Scene, stack: ExitStack) -> None:
    slow = stack.enter_context(injections.group("cpu"))
    slow.set("cpu.cfs_quota_us", 10_000)
    slow.add(scene.worker())


def _hogs(scene: Scene, stack: ExitStack) -> None:
    for _ in range(3):
        hog = stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
        stack.callback(hog.kill)


def _slow_disk(scene: Scene, stack: ExitStack) -> None:
    stack.enter_context(injections.traced(scene.movers(), f"{damage.WRITES}:delay_enter=50000"))


def _no_reads(scene: Scene, stack: ExitStack) -> None:
    stack.enter_context(injections.traced(scene.movers(), f"{damage.READS}:error=EIO"))


def _no_writes(scene: Scene, stack: ExitStack) -> None:
    stack.enter_context(injections.traced(scene.movers(), f"{damage.WRITES}:error=ENOSPC"))


def _damage(scene: Scene, stack: ExitStack) -> None:
    damage.all_files(Path(tempfile.gettempdir()), scene.random.choice(damage.KINDS))


def _late_messages(scene: Scene, stack: ExitStack) -> None:
    stack.enter_context(injections.traced([scene.worker()], "sendto,recvfrom:delay_enter=20000"))


def _cancels(scene: Scene, stack: ExitStack) -> None:
    """Another job is cancelled at a random point."""
    job = scene.cluster.submit(*program.arrays())
    job.wait(scene.random.uniform(0.0, 0.5))
    job.cancel()
    assert job.wait(30) and (job.error is None or isinstance(job.error, JobCancelledError))


def _scale(scene: Scene, stack: ExitStack) -> None:
    scene.cluster.scale(scene.random.randint(1, 4))


def _exception(scene: Scene, stack: ExitStack) -> None:
    """Another job fails by the user's own exception."""

    def fails(block: object) -> object:
        raise KeyError("the user's own")

    job = scene.cluster.submit(mt.map_blocks(fails, mt.arange(3, chunk_size=1), dtype=int))
    assert job.wait(30) and isinstance(job.error, KeyError), job.error


FAULTS = [
    Fault("a worker killed", 1, "E", _kill_one),
    Fault("all workers killed", 5, "E", _kill_all),
    Fault("the mover killed", 3, "E", _kill_mover),
    Fault("a worker stopped for 5 s", 6, "E", _stop_worker, 5),
    Fault("a worker stopped for ever", 6, "E", _stop_worker_for_ever),
    Fault("the mover stopped for ever", 6, "E", _stop_mover),
    Fault("a worker frozen for 20 s", 6, "E", _freeze, 20, "freezer"),
    Fault("the control process stopped for 2 s", 7, "E", _stop_control, 2),
    Fault("a worker out of memory", 8, "E", _no_memory, 3, "memory"),
    Fault("no room on the disk for 3 s", 10, "X", _no_writes, 3, "strace"),
    Fault("spill files damaged", 11, "E", _damage),
    Fault("a slow disk for 3 s", 12, "E", _slow_disk, 3, "strace"),
    Fault("a disk that cannot be read for 1 s", 12, "E", _no_reads, 1, "strace"),
    Fault("no process can be forked for 2 s", 14, "X", _no_processes, 2, "pids"),
    Fault("late messages for 3 s", 16, "E", _late_messages, 3, "strace"),
    Fault("a worker with a tenth of a core for 3 s", 20, "E", _slow_core, 3, "cpu"),
    Fault("hogs for 3 s", 20, "E", _hogs, 3),
    Fault("another number of workers", 1, "E", _scale),
    Fault("another job fails", 23, "E", _exception),
    Fault("another job cancelled", 25, "E", _cancels),
]
