"""`RayConnection` connects this process to Ray; the nodes of a Ray cluster, their versions and the autoscaler.

All functions block and belong in a thread, except `settled`.
Source: docs/explanation/seeds.md, "Execution control", "Architecture".
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.autoscaler.sdk import request_resources
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jmars.engines.engine import START_SECONDS, EngineWorker
from jmars.engines.ray_worker import inspect_node
from jmars.errors import ClusterError, ClusterStartError, text_of
from jmars.model.versions import differences

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
    wrong = {}
    for key, reference in asked.items():
        try:
            told = ray.get(reference, timeout=0.1)
        except Exception as error:
            module, cause = module_missing(error), cause_of(error)
            wrong[key] = f"it has no module {module!r}" if module else f"{type(cause).__name__}: {text_of(cause)}"
            continue
        if other := differences(told):
            wrong[key] = f"it has {other}"
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


def settled(reference: Any) -> asyncio.Future[Any]:
    """The value of a reference, in this loop; Ray's own future may not be cancelled."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Any] = loop.create_future()

    def settle(answer: Future[Any]) -> None:
        if found.done():
            answer.exception()
        elif (error := answer.exception()) is not None:
            found.set_exception(error)
        else:
            found.set_result(answer.result())

    def post(answer: Future[Any]) -> None:
        with suppress(RuntimeError):  # the head is closed
            loop.call_soon_threadsafe(settle, answer)

    reference.future().add_done_callback(post)
    return found


def cause_of(error: BaseException) -> BaseException:
    """The exception of a task, in place of Ray's error about the task."""
    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException) and error.cause is not error:
        error = error.cause
    return error


def module_missing(error: BaseException) -> str:
    """Name of the module that a worker lacks; "" for other errors.

    Examples
    --------
    >>> module_missing(ModuleNotFoundError("No module named 'mine'", name="mine"))
    'mine'
    """
    cause = cause_of(error)
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        return cause.name
    found = re.search(r"ModuleNotFoundError: No module named '([^']+)'", str(error))
    return found[1] if found else ""
