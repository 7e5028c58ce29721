"""CPU of a Dask cluster and of this process by use, read from the clocks of threads, for engines.py.

An engine's CPU is what a job would not take on workers of jmars:

scheduler, nannies
    Dask's processes, wholly.
worker
    Dask's workers without the threads that run tasks and without the network: event loop, messages, loads of tasks.
task
    Threads that run tasks, without the operands: loads of groups, reports, Dask's way to the task's function.
client
    Dask's threads in this process, and the thread in which graphs of tasks are built and sent.
port
    Code of `jmars.engines` in the thread of the head: tasks, results, ends of operands; not what it calls of the
    scheduler of jmars.
grouping
    `planned_groups`, once for each job.

The rest is `kernels`, the operands and the threads of BLAS; `network`, the calls of the system that move 16 KiB or more
between Dask's workers, which move as many bytes between workers of jmars on two hosts; and `jmars`, all else in this
process: tensors, tiling, fusing, plans, the scheduler of jmars and its events.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

from tornado.iostream import IOStream

from jmars.engines import engine, group_task, port

__all__ = ["ENGINE", "cpu_by_use", "time_port", "time_workers"]

ENGINE = "scheduler", "nannies", "worker", "task", "client", "port", "grouping"
DASKS = "IO loop", "Dask-", "Profile", "TCP-Executor", "jmars-dask-send"  # threads of this process

BULK = 2**14  # bytes that a call of the system moves at least, to count as network

_kernels = [0.0]  # of this worker
_network = [0.0]
_nested: list[list[Any]] = []  # uses of this process's port that run, and when each began or went on
_spent: Counter[str] = Counter()


def time_workers(client: Any) -> None:
    """Count the CPU of operands and of transfers in the workers from now on."""
    client.run(_time_steps)
    client.run(_time_network)


def _time_network() -> None:
    for name in ("read_from_fd", "write_to_fd"):
        _time_bulk(name)


def _time_bulk(name: str) -> None:
    move = getattr(IOStream, name)

    def timed(stream: IOStream, data: Any) -> Any:
        before = time.thread_time()
        moved = move(stream, data)
        if (moved or 0) >= BULK:
            _network[0] += time.thread_time() - before
        return moved

    setattr(IOStream, name, timed)


def _time_steps() -> None:
    run = group_task.run_steps

    def timed(*args: Any) -> Any:
        before = time.thread_time()
        try:
            return run(*args)
        finally:
            _kernels[0] += time.thread_time() - before

    group_task.run_steps = timed


def time_port() -> None:
    """Count the CPU of the engine's port in clusters of this process from now on."""
    of = port.EngineWorkers
    for method in (
        of.open_job, of.enqueue_graph, of.stop_execution, of.replan, of.close_job, of.abandon,
        of.started, of.ended, of.lost, of.failed, of._submit_more, of._settle,
    ):  # fmt: skip
        _time(of, method.__name__, "port")
    _time(port.EngineWorkers, "report", "jmars")
    _time(port, "planned_groups", "grouping")
    _time(engine.TaskEngine, "_drain", "port")
    send = engine.TaskEngine._send

    async def timed(one: Any) -> None:
        await _Timed(send(one))

    engine.TaskEngine._send = timed  # type: ignore[method-assign]


def cpu_by_use(client: Any) -> Counter[str]:
    """Seconds of CPU by use, so far."""
    found: Counter[str] = Counter(
        scheduler=client.run_on_scheduler(time.process_time),
        nannies=sum(client.run(time.process_time, nanny=True).values()),
    )
    for told in client.run(_worker_cpu).values():
        found.update(told)
    threads = _threads()
    found["client"] = sum(seconds for name, seconds in threads if name.startswith(DASKS))
    found.update(port=_spent["port"], grouping=_spent["grouping"])
    found["jmars"] = time.process_time() - found["client"] - found["port"] - found["grouping"]
    return found


def _threads() -> list[tuple[str, float]]:
    """Name and CPU of each thread of Python in this process."""
    found = []
    for one in threading.enumerate():
        if one.ident is not None and one.is_alive():
            found.append((one.name, time.clock_gettime(time.pthread_getcpuclockid(one.ident))))
    return found


def _worker_cpu() -> dict[str, float]:
    """CPU of this worker by use; threads that are not of Python are of BLAS."""
    threads = _threads()
    running = sum(seconds for name, seconds in threads if name.startswith("Dask-Default-Threads"))
    others = sum(seconds for _, seconds in threads) - running
    native = time.process_time() - running - others
    return {
        "kernels": _kernels[0] + native,
        "task": running - _kernels[0],
        "network": _network[0],
        "worker": others - _network[0],
    }


def _time(owner: Any, name: str, use: str) -> None:
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        _begin(use)
        try:
            return function(*args, **kwargs)
        finally:
            _end()

    setattr(owner, name, timed)


def _begin(use: str) -> None:
    """A use begins; the one around it pauses."""
    now = time.thread_time()
    if _nested:
        outer, since = _nested[-1]
        _spent[outer] += now - since
    _nested.append([use, now])


def _end() -> None:
    now = time.thread_time()
    use, since = _nested.pop()
    _spent[use] += now - since
    if _nested:
        _nested[-1][1] = now


class _Timed:
    """A coroutine of the port, whose steps are timed."""

    def __init__(self, coroutine: Any) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = functools.partial(self._coroutine.send, None)
        while True:
            _begin("port")
            try:
                awaited = step()
            except StopIteration as done:
                return done.value
            finally:
                _end()
            try:
                step = functools.partial(self._coroutine.send, (yield awaited))
            except BaseException as error:  # a cancellation
                step = functools.partial(self._coroutine.throw, error)
