"""One run of one work on one engine, in the process that this is called in: seconds, peak memory, value.

Every engine has two workers of one thread (NumPy: a BLAS of two threads) and first runs the work at a hundredth of its
size, so that what it imports and compiles the first time is not measured. Memory is the most that this process and all
its children have at a time: their proportional set sizes, and what lies in shared memory that nobody has mapped.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil

from tests.benchmarks.arrays.works import NoSuchFunctionError, Work
from tests.benchmarks.machine import cpu_between, cpu_by_process

__all__ = ["ENGINES", "run"]

WORKERS = 2
SAMPLE_SECONDS = 0.05  # between two readings of the memory
WARM = 0.01  # of the size, before

Array = np.ndarray[Any, Any]


class NumPy:
    """Plain NumPy: what there is to win."""

    name = "numpy"
    np: Any = np

    def random(self, seed: int, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Any:
        return np.random.default_rng(seed).random(shape)

    def rechunk(self, x: Any, chunks: tuple[int, ...]) -> Any:
        return x.copy(order="F")

    def sort(self, x: Any) -> Any:
        return np.sort(x)

    def map_overlap(self, function: Callable[[Any], Any], x: Any, depth: int) -> Any:
        return function(x)

    def cut(self, chunks: tuple[int, ...]) -> dict[str, Any]:
        return {}

    def cholesky(self, x: Any) -> Any:
        return self.np.linalg.cholesky(x)

    def given(self, x: Any, chunks: tuple[int, ...]) -> Any:
        return x

    def hold(self, arrays: Any) -> Any:
        return arrays

    def compute(self, value: Any) -> Any:
        return value

    def resident(self) -> int:
        return 0

    def close(self) -> None:
        pass


class Jmars(NumPy):
    """Ours."""

    name = "jmars"

    def __init__(self) -> None:
        import jmars
        import jmars.tensor

        self.np = jmars.tensor
        self.cluster = jmars.Cluster(n_workers=WORKERS)

    def random(self, seed: int, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Any:
        return self.np.random.default_rng(seed).random(shape, chunk_size=chunks)

    def rechunk(self, x: Any, chunks: tuple[int, ...]) -> Any:
        return x.rechunk(chunks)

    def sort(self, x: Any) -> Any:
        return self.np.sort(x)

    def map_overlap(self, function: Callable[[Any], Any], x: Any, depth: int) -> Any:
        return self.np.map_overlap(function, x, depth, "none", dtype=x.dtype)

    def cut(self, chunks: tuple[int, ...]) -> dict[str, Any]:
        return {"chunk_size": chunks}

    def given(self, x: Any, chunks: tuple[int, ...]) -> Any:
        return self.np.asarray(x, chunk_size=chunks)

    def hold(self, arrays: Any) -> Any:
        job = self.cluster.submit(*arrays)
        assert job.wait(600) and job.state == "succeeded", job.error
        return arrays

    def compute(self, value: Any) -> Any:
        return self.cluster.submit(value).result()

    def resident(self) -> int:
        """Bytes of the cluster, its shared memory included, whoever has mapped it."""
        found: int = self.cluster.info()["memory"]["resident"]
        return found

    def close(self) -> None:
        self.cluster.close()


class Dask(NumPy):
    """dask.array on threads of this process."""

    name = "dask"

    def __init__(self) -> None:
        import dask
        import dask.array

        self.np = dask.array
        dask.config.set(scheduler="threads", num_workers=WORKERS)
        self.dask = dask

    def random(self, seed: int, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Any:
        return self.np.random.default_rng(seed).random(shape, chunks=chunks)

    def rechunk(self, x: Any, chunks: tuple[int, ...]) -> Any:
        return x.rechunk(chunks)

    def sort(self, x: Any) -> Any:
        """By hand, as there is none: percentiles, a shuffle by blocks, each part sorted."""
        parts = len(x.chunks[0])
        cuts = self.np.percentile(x, np.linspace(0, 100, parts + 1)[1:-1]).compute()
        pieces = [self.dask.delayed(_cut_at, nout=parts)(block, cuts) for block in x.to_delayed().ravel()]
        ordered = [self.dask.delayed(_joined)([piece[j] for piece in pieces]) for j in range(parts)]
        lines = [self.np.from_delayed(one, (np.nan,), x.dtype) for one in ordered]
        return self.np.concatenate(lines, allow_unknown_chunksizes=True)

    def map_overlap(self, function: Callable[[Any], Any], x: Any, depth: int) -> Any:
        return self.np.map_overlap(function, x, depth=depth, boundary="none", dtype=x.dtype)

    def cut(self, chunks: tuple[int, ...]) -> dict[str, Any]:
        return {"chunks": chunks[0]}

    def cholesky(self, x: Any) -> Any:
        return self.np.linalg.cholesky(x, lower=True)

    def given(self, x: Any, chunks: tuple[int, ...]) -> Any:
        return self.np.from_array(x, chunks=chunks)

    def hold(self, arrays: Any) -> Any:
        return self.dask.persist(*arrays)

    def compute(self, value: Any) -> Any:
        return value.compute()


class Distributed(Dask):
    """dask.array on a local cluster of processes."""

    name = "distributed"

    def __init__(self) -> None:
        import dask
        import distributed

        super().__init__()
        dask.config.set({"scheduler": None, "distributed.admin.tick.limit": "60s"})
        self.cluster = distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, silence_logs=50
        )
        self.client = distributed.Client(self.cluster)

    def hold(self, arrays: Any) -> Any:
        import distributed

        held = self.client.persist(list(arrays))
        distributed.wait(held)
        return held

    def compute(self, value: Any) -> Any:
        return self.client.compute(value).result(timeout=600)

    def close(self) -> None:
        self.client.close()
        self.cluster.close()


class JmarsOnDask(Jmars):
    """Ours on a Dask cluster like that of `Distributed`: groups of operands are Dask's tasks."""

    name = "jmars-dask"

    def __init__(self) -> None:
        import distributed

        import jmars
        import jmars.tensor

        self.np = jmars.tensor
        self.dask = distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, silence_logs=50
        )
        self.client = distributed.Client(self.dask)
        self.cluster = jmars.Cluster.dask(self.client)

    def resident(self) -> int:
        return 0  # counted by processes, as Dask's own run is

    def close(self) -> None:
        self.cluster.close()
        self.client.close()
        self.dask.close()


class Xorbits(NumPy):
    """xorbits.numpy on its local cluster."""

    name = "xorbits"

    def __init__(self) -> None:
        import xorbits
        import xorbits.numpy

        xorbits.init(n_worker=1, n_cpu=WORKERS)
        self.xorbits, self.np = xorbits, xorbits.numpy

    def random(self, seed: int, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Any:
        return self.np.random.RandomState(seed).random_sample(shape, chunk_size=chunks)

    def rechunk(self, x: Any, chunks: tuple[int, ...]) -> Any:
        raise NoSuchFunctionError("xorbits.numpy has no rechunk")

    def sort(self, x: Any) -> Any:
        return self.np.sort(x)

    def map_overlap(self, function: Callable[[Any], Any], x: Any, depth: int) -> Any:
        raise NoSuchFunctionError("xorbits.numpy has no map_overlap")

    def hold(self, arrays: Any) -> Any:
        self.xorbits.run(*arrays)
        return arrays

    def compute(self, value: Any) -> Any:
        self.xorbits.run(value)
        return value.to_numpy() if hasattr(value, "to_numpy") else value.fetch()

    def close(self) -> None:
        self.xorbits.shutdown()


ENGINES: dict[str, type[NumPy]] = {one.name: one for one in (NumPy, Jmars, JmarsOnDask, Dask, Distributed, Xorbits)}


def _cut_at(block: Array, cuts: Array) -> list[Array]:
    block = np.sort(block)
    return np.split(block, np.searchsorted(block, cuts))


def _joined(pieces: list[Array]) -> Array:
    return np.sort(np.concatenate(pieces))


def run(engine: str, work: Work, scale: float, held: bool) -> dict[str, Any]:
    """Once small, then once as asked; `held`: the inputs are computed before, and not measured."""
    tools = ENGINES[engine]()
    tools.compute(work.result(tools, *work.inputs(tools, scale * WARM)))
    inputs = work.inputs(tools, scale)
    if held and not work.plain:
        inputs = tools.hold(inputs)
    with _peak(tools.resident) as most:
        used, start = cpu_by_process([os.getpid()]), time.perf_counter()
        if not held and not work.plain:  # NumPy draws at once
            inputs = work.inputs(tools, scale) if engine == "numpy" else inputs
        value = tools.compute(work.result(tools, *inputs))
        seconds = time.perf_counter() - start
        cpu = cpu_between(used, cpu_by_process([os.getpid()]))
    value = np.sum(value) if work.whole else value
    tools.close()
    return {"seconds": seconds, "cpu": cpu, "peak": most[0], "value": np.ravel(np.asarray(value)).tolist()}


@contextlib.contextmanager
def _peak(resident: Callable[[], int]) -> Iterator[list[int]]:
    """The most bytes of this process and its children, while the body runs."""
    ended, most, me = threading.Event(), [0], psutil.Process()

    def used() -> int:
        cluster = resident()  # all of the cluster, where it says so itself
        tree = [me] if cluster else [me, *me.children(recursive=True)]
        return cluster + sum(map(_pss, tree))

    def watch() -> None:
        pause = SAMPLE_SECONDS
        while not ended.wait(pause):
            start = time.perf_counter()
            most[0] = max(most[0], used())
            pause = max(SAMPLE_SECONDS, 20 * (time.perf_counter() - start))  # looking may take a twentieth

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()
        most[0] = max(most[0], used())


def _pss(process: psutil.Process) -> int:
    """Proportional set size of a process, in bytes; 0 when it is gone."""
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", "rb") as rollup:
            return next(int(line.split()[1]) * 1024 for line in rollup if line.startswith(b"Pss:"))
    except (OSError, StopIteration):
        return 0


def middle(values: list[float]) -> float:
    """The median."""
    return statistics.median(values)
