"""Ways to run operands, as the suite starts, kills and examines them; one more is a class here and a row of `KINDS`.

A kind keeps what its clusters run on: nothing, or an engine in a process of its own.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import psutil
import pytest

from jmars.client import Cluster
from jmars.deploy.engine_head import EngineHost
from tests.engines.in_process import InProcessEngine

__all__ = ["CANNOT", "KINDS", "Kind", "until"]

# kind, test: why the kind does not promise what the test wants; a strict expected failure
CANNOT = {
    ("threads", "test_a_function_that_does_not_end_is_ended"): "a thread cannot be ended from outside",
    ("dask", "test_a_function_that_does_not_end_is_ended"): "Dask cannot end a task that runs",
    ("ray-inside", "test_clusters_beside_each_other_do_not_mix"): "a node's CPUs belong to one cluster",
    ("ray-inside", "test_a_name_of_a_cluster_is_only_a_name"): "a node's CPUs belong to one cluster",
    ("ray-inside", "test_a_client_that_connects_is_warned"): "a node's CPUs belong to one cluster",
}

RAYS_OWN = "ray::Dash", "ray::Runtime"  # agents, whose end is the end of their node


def until(true: Callable[[], Any], seconds: float = 60) -> None:
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
    scale
        Size of array works, 1 for workers of half a gigabyte.
    notices, notices_nodes
        Seconds until a dead worker, a dead node, is noticed.
    """

    share = 2**28
    processes = True
    workers = 2
    scale = 1.0
    notices, notices_nodes = 2.0, 2.0

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
            found[:] = [row["pid"] for row in cluster.info()["workers"] if row["state"] != "lost" and row.get("pid")]
            return len(found) == self.workers and all(map(psutil.pid_exists, found))

        until(all_there, 60)
        return found

    def left(self) -> list[str]:
        """What is left of ours on the engine."""
        return []

    def nodes(self) -> AbstractContextManager[tuple[Cluster, Callable[[], None]]]:
        """A cluster on several nodes, and a function that ends a node by SIGKILL."""
        pytest.skip("all its workers are on this machine")


class Own(Kind):
    """Processes that jmars starts."""

    scale = 0.7

    def cluster(self, name: str = "") -> AbstractContextManager[Cluster]:
        return Cluster(n_workers=self.workers, memory_limit=2 * self.share, name=name)


class Hosts(Own):
    """Hosts of one worker each, on this machine."""

    scale = 0.4
    notices_nodes = 10.0

    def cluster(self, name: str = "") -> AbstractContextManager[Cluster]:
        return Cluster.hosts(["local"] * self.workers, n_workers=1, memory_limit=self.share, name=name)

    @contextmanager
    def nodes(self) -> Iterator[tuple[Cluster, Callable[[], None]]]:
        with self.cluster() as cluster:
            control = cluster.info()["hosts"][0]["pid"]
            yield cluster, lambda: os.kill(control, signal.SIGKILL)


class Threads(Kind):
    """Threads of this process."""

    processes = False
    scale = 0.4

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

    mode = "tasks"

    def cluster(self, name: str = "") -> AbstractContextManager[Cluster]:
        return Cluster.dask(self.address, mode=self.mode, name=name)

    @contextmanager
    def nodes(self) -> Iterator[tuple[Cluster, Callable[[], None]]]:
        with dask_nodes(["<b>1</b>/../x", "two\nlines"]) as (file, nodes):
            with Cluster.dask(file, mode=self.mode) as cluster:
                yield cluster, lambda: _end_node(nodes[0])
            until(lambda: not _left_on_dask(scheduler_file=file))

    def left(self) -> list[str]:
        return _left_on_dask(self.address)


class DaskInside(Dask):
    """Hosts inside the workers of a Dask cluster."""

    share = 8 * 10**8
    scale = 0.4
    mode = "inside"
    notices_nodes = 10.0


class Ray(Kind):
    """Workers of a Ray of two nodes that this process has joined; see `test_ray.py`."""

    share = 10**8
    notices_nodes = 25.0  # 15 s of health checks; a pull from the node that was under way is repeated after 10 s

    def __init__(self, ray: Any) -> None:
        self.ray = ray

    def cluster(self, name: str = "") -> AbstractContextManager[Cluster]:
        return Cluster.ray(name=name)

    def kill(self, cluster: Cluster, worker: int) -> None:
        """End all processes that run tasks of the node without the driver; those that read and write files stay."""
        node = self.ray.list_all_nodes()[1].all_processes["raylet"][0].process.pid
        for process in psutil.Process(node).children(recursive=True):
            name = process.name()
            if name.startswith("ray::") and not name.startswith(RAYS_OWN) and "Worker" not in name:
                process.kill()

    def pids(self, cluster: Cluster) -> list[int]:
        until(lambda: len(cluster.info()["workers"]) == self.workers)
        return [0] * self.workers

    def left(self) -> list[str]:
        import ray
        from ray._private.worker import global_worker

        gc.collect()  # a future and its reference hold each other
        actors = [f"actor {one['name']}" for one in ray.util.list_named_actors(all_namespaces=True)]
        counts = global_worker.core_worker.get_all_reference_counts()
        references = [f"reference {one.decode()} {told}" for one, told in counts.items()]
        there, free = ray.cluster_resources(), ray.available_resources()
        least = {"CPU": 1e-3, "object_store_memory": 100}  # Ray counts a byte too many after some deaths of nodes
        taken = [f"{name} taken" for name, some in least.items() if there[name] - free.get(name, 0) >= some]
        return actors + references + taken

    @contextmanager
    def nodes(self) -> Iterator[tuple[Cluster, Callable[[], None]]]:
        third = self.ray.add_node(num_cpus=1, object_store_memory=2 * 10**8)
        with self.cluster() as cluster:
            until(lambda: len(cluster.info()["workers"]) == 3)
            yield cluster, lambda: self.ray.remove_node(third, allow_graceful=False)


class RayInside(Ray):
    """Hosts inside actors of a Ray of two nodes; the first cluster has all CPUs, of nodes that come later too."""

    share = 6 * 10**8
    scale = 0.4
    notices_nodes = 10.0

    def __init__(self, ray: Any) -> None:
        super().__init__(ray)
        self._open: Cluster | None = None

    @contextmanager
    def cluster(self, name: str = "") -> Iterator[Cluster]:
        with Cluster.ray(mode="inside", name=name) as cluster:
            first, self._open = self._open, self._open or cluster
            try:
                yield cluster
            finally:
                self._open = first

    def kill(self, cluster: Cluster, worker: int) -> None:
        Kind.kill(self, cluster, worker)

    def pids(self, cluster: Cluster) -> list[int]:
        return Kind.pids(self, cluster)

    @contextmanager
    def nodes(self) -> Iterator[tuple[Cluster, Callable[[], None]]]:
        third = self.ray.add_node(num_cpus=1, object_store_memory=10**8, memory=10**9)
        with ExitStack() as stack:
            cluster = self._open or stack.enter_context(self.cluster())
            until(lambda: cluster.n_workers == 3, 60)
            yield cluster, lambda: self.ray.remove_node(third, allow_graceful=False)


def _left_on_dask(address: str | None = None, **where: str) -> list[str]:
    from distributed import Client

    with Client(address, set_as_default=False, **where) as client:
        found = list(client.run_on_scheduler(_left_on_scheduler))
        for names in client.run(_left_on_worker).values():
            found += names
        return found


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
def dask_nodes(names: Sequence[str]) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler and nannies with a worker each, all by Dask's commands; gives a scheduler file, and nannies."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        file = f"{folder}/scheduler.json"
        common = ["--scheduler-file", file, "--no-dashboard"]
        env = os.environ | {"DASK_TEMPORARY_DIRECTORY": folder}

        def start(command: str, *args: str) -> subprocess.Popen[bytes]:
            asked = [sys.executable, "-m", f"distributed.cli.dask_{command}", *common, *args]
            process = subprocess.Popen(asked, env=env, stderr=subprocess.DEVNULL, start_new_session=True)
            stack.callback(process.wait)
            stack.callback(_end_node, process)
            return process

        start("scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", ":0")
        until(lambda: os.path.exists(file), 60)
        limits = ["--nthreads", "1", "--memory-limit", "1GB", "--local-directory", folder]
        nodes = [start("worker", "--name", name, *limits) for name in names]
        from distributed import Client

        with Client(scheduler_file=file, set_as_default=False) as client:
            client.wait_for_workers(len(names), timeout=60)
        yield file, nodes


def _end_node(process: subprocess.Popen[bytes]) -> None:
    """End a nanny and its workers; what tracks their semaphores removes them and ends by itself, and so do guests."""
    with suppress(psutil.NoSuchProcess):
        node = psutil.Process(process.pid)
        for one in [node, *node.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                words = " ".join(one.cmdline())
                if "resource_tracker" not in words and "jmars host" not in words:
                    one.kill()


@contextmanager
def own() -> Iterator[Kind]:
    yield Own()


@contextmanager
def hosts() -> Iterator[Kind]:
    yield Hosts()


@contextmanager
def threads() -> Iterator[Kind]:
    yield Threads()


@contextmanager
def dask(kind: type[Dask] = Dask) -> Iterator[Kind]:
    distributed = pytest.importorskip("distributed")
    from tests.engines.dask_groups import cluster_process

    with (
        cluster_process(kind.workers) as ask,
        pytest.MonkeyPatch.context() as patch,
        ThreadPoolExecutor(1, thread_name_prefix="Dask-Offload") as executor,  # Dask's own would outlive the suite
    ):
        patch.setattr(distributed.utils, "_offload_executor", executor)
        yield kind(ask(""))


@contextmanager
def ray(kind: type[Ray] = Ray) -> Iterator[Kind]:
    """In a process of its own, without the leak check: a process can join one Ray, whose threads stay."""
    import ray
    from ray.cluster_utils import Cluster as Nodes

    common = {"num_cpus": 1, "object_store_memory": 2 * 10**8} | ({"memory": 10**9} if kind is RayInside else {})
    settings = common | {"include_dashboard": False}
    made = Nodes(initialize_head=True, head_node_args=settings)
    try:
        made.add_node(**common)
        ray.init(made.address, logging_level="ERROR", log_to_driver=False)
        yield kind(made)
    finally:
        ray.shutdown()
        made.shutdown()


ALL: dict[str, Callable[[], AbstractContextManager[Kind]]] = {
    "own": own,
    "hosts": hosts,
    "threads": threads,
    "dask": dask,
    "dask-inside": partial(dask, DaskInside),
    "ray": ray,
    "ray-inside": partial(ray, RayInside),
}
USUAL = "own hosts threads dask dask-inside"
KINDS = {name: ALL[name] for name in os.environ.get("JMARS_CONTRACT_KINDS", USUAL).split()}
