"""RayEngine: a Ray cluster that runs groups of operands as its tasks.

It works beside other people's tasks. `close` frees all tasks and results of the cluster, and ends a Ray that was
started here. Calls of Ray that block run in threads.

`RayConnection` connects this process to Ray; the functions on Ray's nodes, their versions and the autoscaler block.
Source: docs/explanation/seeds.md, "Execution control", "Architecture".
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import ray
from ray.autoscaler.sdk import request_resources
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jmars.engines.engine import START_SECONDS, EngineWorker, GroupTask, Promises, Result
from jmars.engines.groups import run_group
from jmars.engines.ray_tasks import RETRIES, RayTasks, cause_of, module_missing, settled
from jmars.engines.ray_worker import Board, Runner, cut_values, group_function, inspect_node
from jmars.errors import ChunkLostError, ClusterError, ClusterStartError, text_of
from jmars.model.versions import versions
from jmars.storage.chunks import ChunkElements

if TYPE_CHECKING:
    from jmars.engines.port import EngineWorkers

POLL = 1.0  # seconds between looks at Ray's nodes
SILENT = 20.0  # seconds without an answer after which Ray is considered gone; Ray itself ends this process after 60
HEAD_DIAL_SECONDS = 2.0  # seconds for a connection to the head of Ray
END = 10.0  # seconds for each step of the end
THREADS = 4  # threads for blocking calls, beside the submitting thread
PROCESSES = 5000  # processes that may wait at the actor
WHOLE_CHUNK_BYTES = 100 * 1024  # bytes of a chunk that is fetched whole: Ray keeps such a chunk in this process

Answer = TypeVar("Answer")
_logger = logging.getLogger(__name__)


class RayEngine:
    """TaskEngine over a Ray cluster; a worker is a node, with its CPUs as cores.

    Parameters
    ----------
    address
        None for the Ray of this process, else of $RAY_ADDRESS, else of `ray start` on this machine, else a new Ray;
        "auto" also for a Ray that another program started here; "local" for a new Ray; "host:port" for a cluster with
        this machine as a node; "ray://host:port" for a Ray client.
    name
        Unique among the clusters of jmars on that Ray cluster.
    runner
        Function that runs a group in a worker; workers import it.
    options
        More arguments of `ray.init`.
    """

    kind = "ray"
    task_seconds = 0.0017, 0.0014
    bundle = 0  # each chunk is a return value

    def __init__(self, address: str | None = None, name: str = "", runner: Runner = run_group, **options: Any) -> None:
        self.address = address or "auto"
        self._given, self._runner, self._options = address, runner, options
        self._name = name or uuid.uuid4().hex[:12]
        self._pool: ThreadPoolExecutor | None = None
        self._tasks: RayTasks | None = None
        self._board: Any = None
        self._workers: dict[str, EngineWorker] = {}
        self._refused: set[str] = set()  # nodes with other versions
        self._background: set[asyncio.Task[Any]] = set()
        self._is_connected = self._is_lost = self._is_closed = self._has_requested = False

    # ------------------------------------------------------------------ start and close

    async def start(self, events: EngineWorkers) -> Sequence[EngineWorker]:
        """Connect, check the versions of the nodes, and start the actor for stop flags."""
        self._events, self._loop = events, asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="jmars-ray")
        self._submitter = ThreadPoolExecutor(1, thread_name_prefix="jmars-ray-submit")
        try:
            self.address = await self._call(RayConnection.open, self._given, self._options)
            self._is_connected = True
            return await self._prepare(events)
        except BaseException as error:
            await self.close()
            if isinstance(error, ClusterError) or not isinstance(error, Exception):
                raise
            raise ClusterStartError(
                f"the Ray cluster at {self.address} could not be prepared: {type(error).__name__}: {text_of(error)}"
            ) from error

    async def _prepare(self, events: EngineWorkers) -> Sequence[EngineWorker]:
        nodes = nodes_of(await self._call(ray.nodes))
        self._board = await self._call(_start_board, self._name)
        wrong = await self._call(wrong_versions, list(nodes))  # while the actor starts
        if wrong:
            told = "; ".join(f"{nodes[key].name}: {why}" for key, why in wrong.items())
            raise ClusterStartError(
                f"the nodes of the Ray cluster at {self.address} differ from this process: {told}; "
                "use the same environment on all nodes"
            )
        async with asyncio.timeout(START_SECONDS):
            await settled(await self._call(self._board.resident.remote))
        function: Any = ray.remote(group_function(self._runner, self._board))
        self._cutter: Any = ray.remote(cut_values)
        self._tasks = RayTasks(function, self._submitter, events, self._lose)
        self._workers = nodes
        self._count()
        self._spawn(self._listen())
        self._spawn(self._poll())
        return list(nodes.values())

    async def close(self) -> None:
        """Free all results, end the actor and running tasks, and leave the connection."""
        if self._is_closed or self._pool is None:
            return
        self._is_closed = True
        for task in self._background:
            task.cancel()
        with suppress(Exception):
            async with asyncio.timeout(END):
                if self._has_requested and not self._is_lost:
                    await self._call(request_nodes, 1, 0)
                if self._board is not None and not self._is_lost:  # running groups notice that
                    await self._call(ray.kill, self._board)
                if self._tasks is not None:
                    await self._tasks.drop()
        self._board = self._cutter = None
        with suppress(Exception):
            async with asyncio.timeout(END):
                if self._is_connected:
                    await self._call(RayConnection.close)
        stuck = self._is_lost  # calls of a Ray that is gone may never return
        for pool in (self._submitter, self._pool):
            pool.shutdown(wait=not stuck, cancel_futures=True)

    # ------------------------------------------------------------------ tasks

    def submit(self, task: GroupTask) -> None:
        """Queue a task."""
        self._there.submit(task)

    def release(self, results: Sequence[Result]) -> None:
        """Free results."""
        self._there.release(results)

    def stop(self, job: int, tasks: Sequence[str]) -> None:
        """Cancel queued tasks; running tasks see the job's stop flag."""
        self._there.stop(job, tasks)
        self._submitter.submit(_tell_board, self._board, (job,))

    def kill(self, tasks: Sequence[str]) -> bool:
        """End the processes of tasks; a process of Ray runs a single task."""
        self._there.kill(tasks)
        return True

    @property
    def _there(self) -> RayTasks:
        assert self._tasks is not None, "not started"
        return self._tasks

    # ------------------------------------------------------------------ chunks

    async def put(self, name: str, data: bytes, worker: str) -> None:
        """Store bytes on the node of this process; Ray moves them to the tasks."""
        self._there.results[Result(name, 0)] = await self._call(ray.put, np.frombuffer(data, np.uint8))

    async def read(self, result: Result, wanted: ChunkElements) -> bytes:
        """Elements of a chunk; a small task cuts them out on the node of the chunk, this process if it is near."""
        reference = self._there.results.get(result)
        try:
            if reference is None:
                raise KeyError("it was released")
            if await self._call(_is_near, reference, wanted.nbytes):
                return await self._call(wanted.cut, await settled(reference))
            cutter = self._cutter.options(num_cpus=0, name=f"jmars-read-{result.task}")
            part = await self._call(cutter.remote, reference, *wanted)
            found: bytes = await settled(part)
            return found
        except Exception as error:
            cause = cause_of(error)
            raise ChunkLostError(
                f"chunk {result.number} of {result.task} cannot be read from the Ray cluster: "
                f"{type(cause).__name__}: {text_of(cause)}"
            ) from error

    # ------------------------------------------------------------------ workers

    async def memory(self) -> dict[str, dict[str, Any]]:
        """Resident bytes of the processes that run groups, by node with such processes.

        A node has no process of its own to name, and Ray does not tell what it spilled.
        """
        try:
            async with asyncio.timeout(POLL):
                found: dict[str, int] = await settled(await self._call(self._board.resident.remote))
        except Exception:  # the actor starts again elsewhere, or Ray is gone
            return {}
        return {key: {"resident": found[key]} if key in found else {} for key in self._workers}

    def bandwidth(self) -> float | None:
        """None: Ray's nodes do not tell their transfers."""
        return None

    async def scale(self, n: int) -> None:
        """Ask Ray's autoscaler for nodes like the largest one."""
        cores = max((worker.cores for worker in self._workers.values()), default=1)
        await self._call(request_nodes, cores, n)
        self._has_requested = True

    async def adapt(self, least: int, most: int) -> None:
        """Ask Ray's autoscaler for `least` nodes; the autoscaler starts more as tasks wait, up to its own limit."""
        await self.scale(least)

    def promises(self) -> Promises:
        """Promises of jmars's own workers that Ray does not keep."""
        return Promises(
            security(),
            (
                "a task that does not stop within a second is ended with its process, and what Ray had queued for "
                "this process starts again elsewhere",
                "spilled chunks have no checksum",
                "memory is what each group declares, and is not enforced; where a node runs out of memory, Ray's "
                "memory monitor ends processes, and runs their groups again",
                f"groups on a lost node or in a lost process run again, at most {RETRIES} times",
                "arrays of this process are uploaded to the node of this process, and are lost with it",
                "Ray notices a node that is gone after about 15 s, and runs its groups again then",
                f"when the head of Ray is gone this cluster ends after {SILENT:.0f} s; where you called ray.init "
                "yourself, Ray ends this process after 60 s",
                "the largest number of nodes is a setting of Ray's autoscaler; adapt() asks for the least number",
            ),
        )

    async def _poll(self) -> None:
        """Look at nodes every second."""
        heard = self._loop.time()
        while True:
            await asyncio.sleep(POLL)
            if not ray.is_initialized():
                return self._lose("ray.shutdown() was called in this process")
            try:
                # Not `ray.nodes` at once: without an answer Ray ends this process.
                if not RayConnection.is_client():
                    await _dial(self.address)
                async with asyncio.timeout(SILENT):
                    nodes = nodes_of(await self._call(ray.nodes))
            except Exception as error:
                if self._loop.time() - heard >= SILENT:
                    return self._lose(f"the head of Ray does not answer: {type(error).__name__}: {text_of(error)}")
                continue
            heard = self._loop.time()
            await self._look(nodes)

    async def _look(self, nodes: dict[str, EngineWorker]) -> None:
        for key in [key for key in self._workers if key not in nodes]:
            worker = self._workers.pop(key)
            self._count()
            self._events.left(key, f"{worker.name} left the Ray cluster")
        self._refused &= nodes.keys()
        new = [key for key in nodes if key not in self._workers and key not in self._refused]
        if not new:
            return
        wrong = await self._call(wrong_versions, new)
        for key, why in wrong.items():
            _logger.warning(
                "the Ray node %s differs from this process and its results cannot be trusted: %s", nodes[key].name, why
            )
        self._refused |= wrong.keys()
        for key in new:
            if key not in wrong:
                self._workers[key] = nodes[key]
                self._count()
                self._events.came(nodes[key])

    def _count(self) -> None:
        """Tell the tasks where they may run."""
        self._there.nodes = set(self._workers)
        self._there.memory = max((worker.memory for worker in self._workers.values()), default=0)

    async def _listen(self) -> None:
        """Receive starts of tasks; an actor that Ray restarted is sent the stopped jobs."""
        while True:
            try:
                for task, node in await settled(await self._call(self._board.heard.remote)):
                    self._there.started(task, node)
            except RayActorError:
                await asyncio.sleep(POLL)
                await self._call(_tell_board, self._board, self._there.stopped)

    # ------------------------------------------------------------------ own

    def _lose(self, why: str) -> None:
        if not self._is_lost and not self._is_closed:
            self._is_lost = True
            self._loop.call_soon(self._events.closed, why)

    async def _call(self, function: Callable[..., Answer], *args: Any) -> Answer:
        """Call a function that may block."""
        return await self._loop.run_in_executor(self._pool, partial(function, *args))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _dial(address: str) -> None:
    """Raise OSError or TimeoutError where no process listens."""
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(HEAD_DIAL_SECONDS):
        _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    writer.close()


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as error:
        _logger.debug("a call of the Ray cluster failed: %s", error)


def _start_board(name: str) -> Any:
    """The actor of a cluster, near this process where that is a node of Ray."""
    options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": PROCESSES}
    with suppress(Exception):  # a Ray client is no node
        here = ray.get_runtime_context().get_node_id()
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(here, soft=True)
    kind: Any = ray.remote(Board)
    return kind.options(name=f"jmars-{name}", **options).remote()


def _tell_board(board: Any, jobs: Sequence[int]) -> None:
    if jobs:
        board.stop.remote(tuple(jobs))


def _is_near(reference: Any, wanted: int) -> bool:
    """Whether a chunk lies in this process or on its node, or is at most twice as large as the wanted part."""
    try:
        found = ray.experimental.get_object_locations([reference]).get(reference) or {}
        if found.get("object_size", 0) > max(WHOLE_CHUNK_BYTES, 2 * wanted):
            return ray.get_runtime_context().get_node_id() in found["node_ids"]
        return bool(found)
    except Exception:  # a Ray client is no node
        return False


SHARE = 0.6  # of a node's memory resource: other tasks and the processes themselves take the rest
CONNECT = 10.0  # seconds for a connection to the head of Ray
SETTINGS = b"\x04"  # type of HTTP/2's first frame, RFC 9113, 3.4
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + SETTINGS + bytes(5)  # an empty frame of settings
STATUS = b"__autoscaling_status"  # key of the report of Ray's autoscaler


class RayConnection:
    """Connection of this process to Ray. Clusters share the connection, and the last cluster closes it.

    A process can have a single connection; where the user has opened it, clusters use it and leave it open.
    """

    _lock = threading.Lock()
    _users = 0  # clusters on a connection that was made here

    @classmethod
    def open(cls, address: str | None, options: Mapping[str, Any]) -> str:
        """Connect; returns the address. Raises ClusterStartError.

        Parameters
        ----------
        address
            None for the Ray of this process, else of $RAY_ADDRESS, else of `ray start` on this machine, else a new
            Ray; "auto" also for a Ray that another program started on this machine; "local" for a new Ray.
        options
            More arguments of `ray.init`.
        """
        is_any = address in (None, "auto", "local")
        with cls._lock:
            if ray.is_initialized():
                there = _address()
                is_same = cls.is_client() if str(address).startswith("ray://") else address == there
                if not is_any and not is_same:
                    raise ClusterStartError(
                        f"this process is connected to Ray at {there} already, and can have one connection only; "
                        "call ray.shutdown() before you connect to another Ray, or leave the address out"
                    )
                cls._users += bool(cls._users)
                return there
            quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, **options}
            where = address or os.environ.get("RAY_ADDRESS") or "this machine"
            try:
                with _quiet():
                    found = _found(address) if is_any else address
                    where = found or where
                    if found is None:
                        _start(quiet)
                    else:
                        _greet(found)  # Ray itself would try for minutes
                        _ask(found, is_any)
                        ray.init(found, **{name: one for name, one in quiet.items() if name not in _OF_START})
                there = str(address) if cls.is_client() else _address()
            except Exception as error:
                ray.shutdown()
                raise _refusal(where, error) from error
            cls._users = 1
            return there

    @classmethod
    def way(cls, address: str | None) -> tuple[str, Callable[[], None] | None]:
        """How another process of this machine reaches a Ray.

        Without an address this process connects first, and stays connected as long as the other process.

        Parameters
        ----------
        address
            As `open` takes it.

        Returns
        -------
        tuple of str and function
            An address; a function that leaves the connection of this process, None where there is none.

        Raises
        ------
        ClusterStartError
            If no Ray answers, or the connection of this process is a Ray client of unknown address.
        """
        if address not in (None, "auto", "local"):
            assert address is not None
            return address, None
        found = cls.open(address, {})
        if not cls.is_client():
            return found, cls.close
        cls.close()
        raise ClusterStartError(
            "this process is connected to Ray as a client, and does not know the client's address; give it: "
            'Cluster.ray("ray://host:10001")'
        )

    @classmethod
    def is_client(cls) -> bool:
        """Whether the connection is a Ray client, whose driver is a process of the Ray cluster."""
        client: Any = ray.util.client.ray  # has no types
        return bool(client.is_connected())

    @classmethod
    def close(cls) -> None:
        """Leave the connection; the last cluster closes the connection and ends a Ray that was started here."""
        with cls._lock:
            if cls._users:
                cls._users -= 1
                if not cls._users:
                    ray.shutdown()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Ray's warnings that a thread cannot handle SIGTERM, and that authentication is on."""
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _refusal(where: str, error: Exception) -> ClusterStartError:
    """The error of a connection that failed, with its reason and remedy."""
    reason = " ".join(text_of(error).split())
    if reason.startswith("Version mismatch"):
        return ClusterStartError(
            f"the Ray at {where} has another version than this process ({reason}); use the same versions of Ray and "
            "Python in both places"
        )
    if isinstance(error, getattr(ray.exceptions, "AuthenticationError", ())):
        return ClusterStartError(
            f"the Ray at {where} refuses the token of this process ({reason.partition(' Ensure that')[0]}); give this "
            "process the token of that Ray, in ~/.ray/auth_token or in a file that RAY_AUTH_TOKEN_PATH names, set "
            "RAY_AUTH_MODE=token, and start the kernel again"
        )
    if "ray[client]" in reason:
        return ClusterStartError(
            f"{where} is the address of a Ray client, which is not installed; install it with: pip install "
            "'ray[client]', or give \"host:port\" on a machine that is a node of that Ray"
        )
    return ClusterStartError(
        f"no Ray answers at {where} ({type(error).__name__}: {reason}); look whether Ray runs there, and at port and "
        'firewall: give "host:6379" (the port of `ray start --head`), "ray://host:10001" for a Ray client, or no '
        "address for a Ray of this machine"
    )


def _dial_cluster(address: str) -> socket.socket:
    """A connection to an address; raises OSError where no process listens, ValueError for no address."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdigit()):
        raise ValueError("it has no port")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT)


def _greet(address: str) -> None:
    """Raise OSError where no process listens, or a process that does not speak gRPC, as Ray does."""
    if not address.startswith("ray://") and "://" in address:
        return  # an address of another module, called by Ray
    with _dial_cluster(address) as connection:
        if os.environ.get("RAY_USE_TLS") == "1":
            return
        connection.sendall(GREETING)
        try:
            answer = connection.recv(4, socket.MSG_WAITALL)
        except TimeoutError:
            raise OSError(f"what listens there has not greeted within {CONNECT:.0f} s, and is no Ray") from None
        if answer[3:4] != SETTINGS:
            raise OSError("what listens there does not speak gRPC, and is no Ray")


def _ask(address: str, is_found: bool) -> None:
    """Ask Ray's head once, and raise its refusal: `ray.init` would ask for 20 s and hide the reason.

    For a Ray that was found on this machine a token of this user is used, as `ray.init("auto")` does.
    """
    if "://" in address:
        return  # a Ray client asks its server
    try:
        from ray._private.authentication import authentication_token_setup
    except ImportError:  # of versions before 2.52
        return
    tokens: Any = authentication_token_setup
    if is_found and hasattr(tokens, "maybe_enable_token_auth_if_token_available"):
        tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    tokens.ensure_token_if_auth_enabled(None, create_token_if_missing=False)  # Ray's C++ ends a process without
    private: Any = ray._raylet
    private.GcsClient(address=address)


def _found(address: str | None) -> str | None:
    """Address of the Ray of $RAY_ADDRESS, of the last `ray start` here, or, for "auto", of a Ray that runs here."""
    if address == "local":
        return None
    services: Any = ray._private.services
    try:
        found = services.get_ray_address_from_environment(address, None)
        if found is not None and "RAY_ADDRESS" not in os.environ:
            _dial_cluster(found).close()  # a crashed Ray leaves an address without a listener
    except OSError:
        return None
    return None if found is None else str(found)


_OF_START = {"num_cpus", "num_gpus", "resources", "object_store_memory", "include_dashboard", "_temp_dir", "_memory"}


def _start(options: Mapping[str, Any]) -> None:
    """Start a Ray on this machine, without Ray's usage reports."""
    name = "RAY_USAGE_STATS_ENABLED"
    before = os.environ.get(name)
    os.environ[name] = before or "0"
    try:
        ray.init("local", **({"include_dashboard": False} | dict(options)))
    finally:
        if before is None:
            del os.environ[name]


def _address() -> str:
    return "ray://" if RayConnection.is_client() else str(ray.get_runtime_context().gcs_address)


def nodes_of(told: Iterable[Mapping[str, Any]]) -> dict[str, EngineWorker]:
    """Nodes that run tasks, by id, from the answer of `ray.nodes()`.

    Examples
    --------
    >>> node = {"NodeID": "3f9a", "Alive": True, "NodeManagerAddress": "10.0.0.7"}
    >>> nodes_of([node | {"Resources": {"CPU": 4.0, "memory": 1e9}}])["3f9a"]
    EngineWorker(key='3f9a', name='node-10.0.0.7', host='10.0.0.7', cores=4, memory=600000000)
    """
    found: dict[str, EngineWorker] = {}
    names: set[str] = set()
    for node in told:
        cores = int(node["Resources"].get("CPU", 0))
        if not node["Alive"] or not cores:
            continue
        key, host = str(node["NodeID"]), str(node["NodeManagerAddress"])
        name = f"node-{host}"
        if name in names:  # several nodes on a machine
            name = f"node-{key[:6]}"
        names.add(name)
        memory = int(node["Resources"].get("memory", 0) * SHARE)
        found[key] = EngineWorker(key, name, host, cores, memory or 2**30)
    return found


def wrong_versions(keys: Iterable[str]) -> dict[str, str]:
    """Nodes with other versions than this process or without jmars, with a sentence about the difference."""
    task: Any = ray.remote(inspect_node)
    asked = {}
    for key in keys:
        where = NodeAffinitySchedulingStrategy(key, soft=False)
        options = {"num_cpus": 0, "max_retries": 1, "name": "jmars-versions", "scheduling_strategy": where}
        asked[key] = task.options(**options).remote()
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=START_SECONDS)
    here, wrong = versions(), {}
    for key, reference in asked.items():
        try:
            told = ray.get(reference, timeout=0.1)
        except Exception as error:
            module, cause = module_missing(error), cause_of(error)
            wrong[key] = f"it has no module {module!r}" if module else f"{type(cause).__name__}: {text_of(cause)}"
            continue
        names = [name for name in here if told[name] != here[name]]
        if names:
            wrong[key] = f"it has {', '.join(f'{name} {told[name]}, not {here[name]}' for name in names)}"
    return wrong


def request_nodes(cores: int, count: int) -> None:
    """Ask Ray's autoscaler for nodes; raises ClusterError where no autoscaler runs."""
    try:
        if not _has_autoscaler():
            raise ClusterError("no autoscaler")
        request_resources(bundles=[{"CPU": cores}] * count)
    except Exception as error:
        raise ClusterError(
            f"this Ray cluster has no autoscaler that answers here ({text_of(error)}); add nodes where they are "
            "started, with `ray start --address=...`, or use a cluster of `ray up` or KubeRay"
        ) from error


def _has_autoscaler() -> bool:
    """Whether Ray can start nodes; without a provider the autoscaler reports node types with the names of nodes."""
    from ray.autoscaler.v2.utils import is_autoscaler_v2
    from ray.experimental.internal_kv import _internal_kv_get

    if is_autoscaler_v2():
        return True
    report = json.loads(_internal_kv_get(STATUS) or b"{}").get("autoscaler_report", {})
    nodes: Any = ray.nodes  # has no types
    kinds = {f"node_{node['NodeID']}" for node in nodes()}
    return bool(set(report.get("active_nodes") or ()) - kinds) or bool(report.get("pending_launches"))


def security() -> str:
    """How Ray protects its connections, in a sentence."""
    if os.environ.get("RAY_USE_TLS") == "1":
        return "Ray's connections are encrypted and authenticated by TLS"
    try:
        from ray._private.authentication.authentication_utils import is_token_auth_enabled

        has_token = is_token_auth_enabled()
    except ImportError:  # of versions before 2.52
        has_token = False
    if has_token:
        return "Ray's connections are not encrypted; its control messages carry a token, its data do not"
    return "Ray's connections are not encrypted: who reaches its ports can run code there"
