"""An `ExecutionActor` whose child processes are lists of what they were sent, and a scheduler that notes reports."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

from jmars.actors.frames import pack
from jmars.dispatch import dispatcher
from jmars.kernels.program import Call, ChunkType, single
from jmars.model.messages import JobTable, Report
from jmars.processes.vitals import Vital
from jmars.storage.arena import Arena
from jmars.worker import ExecutionActor

__all__ = ["Host", "program", "table"]


def _nothing(out, inputs, params, arg):
    pass


def program(inputs: int = 0, size: int = 4096, sized: bool = True, work: int = 0, users: bool = False) -> Any:
    """A program that reads so many chunks of `size` bytes and gives one."""
    chunk = ChunkType((size,), np.dtype("u1"))
    out = chunk if sized else ChunkType((-1,), np.dtype("u1"))
    call = Call(_nothing, (), tuple(range(inputs)), out, work=work, runs_user_code=users)
    return single("step", [chunk] * inputs, call)


def table(number: int, programs: list[Any], rows: list[int], inputs: list[tuple[int, ...]], **more: Any) -> JobTable:
    """A job; chunks are numbered 1000 * number + operand."""
    n = len(rows)
    readers: list[list[int]] = [[] for _ in range(n)]
    for reader, read in enumerate(inputs):
        for one in read:
            readers[one].append(reader)
    base = 1000 * number
    values: dict[str, Any] = {
        "job": f"job-{number}",
        "number": number,
        "programs": programs,
        "program": rows,
        "inputs": inputs,
        "args": None,
        "base": base,
        "chunk": [base + i for i in range(n)],
        "nbytes": [programs[row].output.nbytes for row in rows],
        "work": [programs[row].work for row in rows],
        "rank": list(range(n)),
        "kept": 0,
        "stored": (),
        "readers": readers,
    }
    return JobTable(**(values | more))


class Scheduler:
    """A `ReportPort` that keeps all reports."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def report(self, report: Report) -> None:
        self.told.append(report)

    def of(self, *kinds: type) -> list[Any]:
        """Reports of these classes, in order."""
        return [one for one in self.told if isinstance(one, kinds)]


class Children:
    """Processes that do nothing."""

    def __init__(self) -> None:
        self.sent: dict[str, list[Any]] = {}
        self.links: dict[str, Any] = {}
        self.trouble, self.zygote, self._pid = "", 0, 2**22
        self.states: dict[int, Vital] = {}
        self.token = False  # whether a batch that was sent is still to be had

    def start(self, link: Any, role: str, *args: Any) -> None:
        self._pid += 1
        link.pid = self._pid
        self.sent[link.name], self.links[link.name] = [], link
        link.send = self.sent[link.name].append
        link.revoke = lambda: self.token

    def pids(self) -> dict[str, int]:
        return {name: link.pid for name, link in self.links.items()}

    def vitals(self, pids: Any) -> dict[int, Vital]:
        return {pid: self.states.get(pid, Vital.RUNS) for pid in pids}

    def private(self, pid: int) -> int:
        return 0

    def use(self, pid: int) -> None:
        return None

    def kill_all(self, link: Any, how: str) -> None:
        link.how = how
        link.ended(how)


class Host:
    """Use it in a coroutine, as a context manager. Batches never run long: the dispatcher's clock stands still."""

    def __init__(self, pages: int = 64, workers: int = 1, graph_bytes: int = 0, gpus: Sequence[str] = ()) -> None:
        self.fd = os.memfd_create("steps")
        self.arena = Arena(self.fd, pages * 4096)
        self.children = Children()
        self.scheduler = Scheduler()
        children: Any = self.children
        self.execution = ExecutionActor(
            self.arena, children, workers, lambda: "/nowhere", lambda: 2**40, graph_bytes=graph_bytes, gpus=gpus
        )
        self.execution.connect(self.scheduler)
        self.execution.ledger.save = lambda: None
        self._clock = patch.object(dispatcher, "monotonic", lambda: 0.0)

    def __enter__(self) -> Host:
        self._clock.start()
        self.execution.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.execution.close()
        self._clock.stop()
        self.arena.memory.close()
        os.close(self.fd)

    def run(self, job: JobTable, *operands: int) -> None:
        """Open a job, and have operands run."""
        self.execution.open_job(job)
        self.execution.enqueue_graph(job.job, operands, [0] * len(operands))

    def say(self, *message: Any, worker: int = 0) -> None:
        """An executor reports."""
        self.children.links[f"worker-{worker}"].data_received(pack(message))

    def batches(self, worker: int = 0) -> list[Any]:
        """What an executor was sent to run."""
        return [one for one in self.children.sent[f"worker-{worker}"] if one[0] == "run"]

    def held(self) -> dict[str, int]:
        """All that operands may hold; 0 each where they hold nothing."""
        execution = self.execution
        return {
            "slots": self.arena.used - sum(map(self.arena.size_of, execution.chunks.memory.values())),
            "promised": execution.memory.quota.granted,
            "line": len(execution.memory.buffers.queue) + len(execution.memory.buffers.loading),
            "pins": len(execution.chunks.pins),
            "batches": sum(len(worker.batches) for worker in execution.workers),
        }


def in_loop(function: Any) -> Any:
    """A test that runs in an event loop."""

    @functools.wraps(function)
    def test(*args: Any, **kwargs: Any) -> None:
        async def run() -> None:
            function(*args, **kwargs)

        asyncio.run(run())

    return test
