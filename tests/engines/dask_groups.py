"""Tests of DaskEngine: stand-ins for `run_group`, `EngineWorkers` that record, a Dask cluster in a process."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster

from jmars.engines.dask import DaskEngine
from jmars.engines.engine import EngineWorker, GroupTask, Result
from jmars.kernels.group_run import GroupReport
from jmars.model.messages import Failure
from jmars.storage.chunks import ChunkElements


def run_spec(
    spec: bytes, inputs: Sequence[Any], stop: Callable[[], bool], worker: str
) -> tuple[GroupReport, list[Any]]:
    """Runs the function and arguments that `spec` names."""
    name, *args = pickle.loads(spec)
    return FUNCTIONS[name](inputs, stop, worker, *args)


def _fill(inputs: Any, stop: Any, worker: str, *values: float) -> Any:
    return GroupReport(worker, [5] * len(values)), [np.full((4, 4), value) for value in values]


def _large(inputs: Any, stop: Any, worker: str) -> Any:
    return GroupReport(worker, [5]), [np.ones((1500, 1500))]


def _add(inputs: Any, stop: Any, worker: str) -> Any:
    return GroupReport(worker, [7]), [sum(inputs)]


def _nap(inputs: Any, stop: Any, worker: str, seconds: float) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if stop():
            return GroupReport(worker, stopped=True), [None]
        time.sleep(0.01)
    return GroupReport(worker, [int(seconds * 1e6)]), [np.array([os.getpid()])]


def _deaf(inputs: Any, stop: Any, worker: str, seconds: float) -> Any:
    time.sleep(seconds)
    return GroupReport(worker, [int(seconds * 1e6)]), [np.array([os.getpid()])]


def _gated(inputs: Any, stop: Any, worker: str, gate: str) -> Any:
    while not os.path.exists(gate):
        time.sleep(0.01)
    return GroupReport(worker, [1]), [np.array([os.getpid()])]


def _die(inputs: Any, stop: Any, worker: str) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _hog(inputs: Any, stop: Any, worker: str) -> Any:
    hoard = np.ones(140_000_000)  # 1.1 GB, beyond the limit
    time.sleep(20)
    return GroupReport(worker, [int(hoard[0])]), [None]


def _fail(inputs: Any, stop: Any, worker: str) -> Any:
    return GroupReport(worker, failure=Failure.of(ZeroDivisionError("by 0"))), [None]


def _miss(inputs: Any, stop: Any, worker: str) -> Any:
    raise ModuleNotFoundError("No module named 'mine'", name="mine")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "fill": _fill, "large": _large, "add": _add, "nap": _nap, "deaf": _deaf, "gated": _gated,
    "die": _die, "hog": _hog, "fail": _fail, "miss": _miss,
}  # fmt: skip


@dataclass
class Recorded:
    """Events of an engine, and waiting for them."""

    starts: dict[str, str] = field(default_factory=dict)
    ends: dict[str, list[GroupReport]] = field(default_factory=dict)
    losses: dict[str, tuple[str, str]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    joined: list[EngineWorker] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def started(self, task: str, worker: str) -> None:
        self.starts[task] = worker

    def ended(self, task: str, report: GroupReport) -> None:
        self.ends.setdefault(task, []).append(report)

    def lost(self, tasks: Sequence[str], why: str, how: str, deaths: int = 1) -> None:
        self.losses |= dict.fromkeys(tasks, (why, how))

    def failed(self, task: str, failure: Failure) -> None:
        self.failures[task] = failure

    def came(self, worker: EngineWorker) -> None:
        self.joined.append(worker)

    def left(self, key: str, why: str) -> None:
        self.gone.append(key)

    def closed(self, why: str) -> None:
        self.reasons.append(why)

    async def until(self, happened: Callable[[], Any], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end, self
            await asyncio.sleep(0.01)


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[tuple[DaskEngine, Recorded, list[EngineWorker]]]:
    engine, events = DaskEngine(client, runner=run_spec), Recorded()
    workers = list(await engine.start(events))
    try:
        yield engine, events, workers
    finally:
        await engine.close()


def group(name: str, function: str, *args: Any, inputs: list[Result] = (), outputs: int = 1, **more: Any) -> GroupTask:  # type: ignore[assignment]
    told: dict[str, Any] = {"worker": "", "memory": 10**6, "priority": 0, "job": 1} | more
    spec = pickle.dumps((function, *args))
    return GroupTask(name=name, spec=spec, inputs=inputs, outputs=outputs, **told)


async def whole(engine: DaskEngine, result: Result) -> np.ndarray[Any, Any]:
    return np.frombuffer(await engine.read(result, ChunkElements(0, 0, 8, (4, 4), (32, 8)))).reshape(4, 4)


Test = Callable[[Client], Coroutine[Any, Any, None]]


def in_head(test: Test) -> Callable[[Client], None]:
    """Runs a test in a loop of its own, as the head's."""

    def run(client: Client) -> None:
        asyncio.run(test(client))

    run.__name__ = test.__name__
    return run


Ask = Callable[[object], str]  # of a cluster in a process


def local_cluster(n_workers: int, failures: int) -> LocalCluster:
    """Workers in processes of their own, with a thread each; a task may outlive so many of its workers."""
    # a worker that dies twice within that time may lose its nanny: the first death is looked at while it starts again
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    settings = {"distributed.scheduler.allowed-failures": failures, "distributed.comm.timeouts.connect": "5s"}
    with dask.config.set(settings):
        return LocalCluster(
            n_workers=n_workers, threads_per_worker=1, memory_limit="1GB", dashboard_address=":0", silence_logs=50
        )


@contextmanager
def cluster_process(n_workers: int, failures: int = 0) -> Iterator[Ask]:
    """A Dask cluster, as a function that gives its address; it takes a number of workers, "close", or ""."""
    command = [sys.executable, "-m", "tests.engines.dask_groups", str(n_workers), str(failures)]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"DASK_TEMPORARY_DIRECTORY": folder},
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None

        def ask(scale: object) -> str:
            print(scale, file=process.stdin, flush=True)
            return process.stdout.readline().strip()  # type: ignore[union-attr]

        yield ask
        process.stdin.close()
        assert process.wait(60) == 0


if __name__ == "__main__":
    with local_cluster(*map(int, sys.argv[1:])) as cluster:
        for line in sys.stdin:
            if line.strip() == "close":
                break
            if line.strip():
                cluster.scale(int(line))
            print(cluster.scheduler_address, flush=True)
