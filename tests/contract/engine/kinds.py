"""Ways to run operands, as the suite starts, kills and examines them; one more is a class here and a row of `KINDS`.

A kind keeps what its clusters run on: nothing, or an engine in a process of its own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import Any

import psutil
import pytest

from jmars.client import Cluster
from jmars.deploy.engine_host import EngineHost
from tests.engines.in_process import InProcessEngine

__all__ = ["CANNOT", "KINDS", "Kind", "until"]

# kind, test: why the kind does not promise what the test wants; a strict expected failure
CANNOT = {
    ("threads", "test_a_function_that_does_not_end_is_ended"): "a thread cannot be ended from outside",
    ("dask", "test_a_function_that_does_not_end_is_ended"): "Dask cannot end a task that runs",
    ("dask", "test_a_long_function_of_one_job_holds_up_no_other"): (
        "Dask leaves short tasks with the busy worker that it gave them to"
    ),
}


def until(true: Callable[[], Any], seconds: float = 20) -> None:
    """Wait for what no event tells."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, true
        time.sleep(0.01)


class Kind:
    """A way to run operands.

    Attributes
    ----------
    share
        Bytes, at least as many as a worker may fill with arrays.
    processes
        Whether each worker is a process of its own, which a user's function may end.
    workers
        Workers of a cluster.
    """

    share = 2**28
    processes = True
    workers = 2

    def cluster(self, name: str = "") -> AbstractContextManager[Cluster]:
        """A new cluster."""
        raise NotImplementedError

    def kill(self, cluster: Cluster, worker: int) -> None:
        """End a worker by SIGKILL, or what comes next to that."""
        os.kill(self.pids(cluster)[worker], signal.SIGKILL)

    def pids(self, cluster: Cluster) -> list[int]:
        """Processes of the workers, which may be starting anew."""
        found: list[int] = []

        def all_there() -> bool:
            found[:] = [row["pid"] for row in cluster.info()["workers"] if row["state"] != "lost" and row["pid"]]
            return len(found) == self.workers and all(map(psutil.pid_exists, found))

        until(all_there)
        return found

    def left(self) -> list[str]:
        """What is left of ours on the engine."""
        return []


class Own(Kind):
    """Processes that jmars starts."""

    def cluster(self, name: str = "") -> AbstractContextManager[Cluster]:
        return Cluster(n_workers=self.workers, memory_limit=2 * self.share, name=name)


class Threads(Kind):
    """Threads of this process."""

    processes = False

    def __init__(self) -> None:
        self.engines: list[InProcessEngine] = []

    @contextmanager
    def cluster(self, name: str = "") -> Iterator[Cluster]:
        engine = InProcessEngine(self.workers, self.share)
        with Cluster.of_host(EngineHost(engine, name)) as cluster:
            cluster.engine = engine  # type: ignore[attr-defined]
            self.engines.append(engine)
            yield cluster

    def kill(self, cluster: Cluster, worker: int) -> None:
        """Its task and its results are lost."""
        engine: InProcessEngine = cluster.engine  # type: ignore[attr-defined]

        def lose() -> None:
            name = engine.running.get(f"key-{worker}")
            if name in engine.tasks:
                engine.lose_task(name)
            tasks = sorted({result.task for result in engine.results})
            engine.lose_results(set(tasks[::2]))

        engine.call(lose)

    def pids(self, cluster: Cluster) -> list[int]:
        return [os.getpid()] * self.workers

    def left(self) -> list[str]:
        closed = [engine for engine in self.engines if engine.closed]
        return [str(name) for engine in closed for name in [*engine.results, *engine.tasks]]


class Dask(Kind):
    """Workers of a Dask cluster, beside the tasks of others."""

    share = 6 * 10**8

    def __init__(self, address: str) -> None:
        self.address = address

    def cluster(self, name: str = "") -> AbstractContextManager[Cluster]:
        return Cluster.dask(self.address, name=name)

    def left(self) -> list[str]:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            found = list(client.run_on_scheduler(_left_on_scheduler))
            for names in client.run(_left_on_worker).values():
                found += names
            return found


class Ray(Kind):
    """Workers of a Ray cluster."""

    share = 6 * 10**8

    def __init__(self, address: str) -> None:
        self.address = address

    def cluster(self, name: str = "") -> AbstractContextManager[Cluster]:
        return Cluster.ray(self.address, name=name)


def _left_on_scheduler(dask_scheduler: Any) -> list[str]:
    state = dask_scheduler
    names = [*state.tasks, *state.worker_plugins, *state.plugins, *state.resources, *state._broker._topics]
    ours = [str(name) for name in names if "jmars" in str(name)]
    return [f"{name} on the scheduler" for name in ours if not name.startswith("Client-")]  # Dask's log of clients


def _left_on_worker(dask_worker: Any) -> list[str]:
    state = dask_worker.state
    names = [*dask_worker.plugins, *state.tasks, *state.total_resources, *state.available_resources, *dask_worker.data]
    return [f"{name} on {dask_worker.name}" for name in names if "jmars" in str(name)]


@contextmanager
def own() -> Iterator[Kind]:
    yield Own()


@contextmanager
def threads() -> Iterator[Kind]:
    yield Threads()


@contextmanager
def dask() -> Iterator[Kind]:
    pytest.importorskip("distributed")
    from tests.engines.dask_groups import cluster_process

    with cluster_process(Dask.workers) as ask:
        yield Dask(ask(""))


@contextmanager
def ray() -> Iterator[Kind]:
    if find_spec("jmars.engines.ray") is None:
        pytest.skip("jmars.engines.ray is not there")
    pytest.importorskip("ray")
    pytest.skip("no Ray cluster is started for the suite")
    yield Ray("")


KINDS: dict[str, Callable[[], AbstractContextManager[Kind]]] = {
    "own": own,
    "threads": threads,
    "dask": dask,
    "ray": ray,
}
