"""DaskEngine: a Dask cluster that runs groups of operands as its tasks.

It works beside other people's tasks: nothing is restarted, no worker is ended, and all that jmars made goes at the end.
The head and the user's client have loops in different threads; calls cross over and never wait in a loop.

The connection to a Dask scheduler is by address or scheduler file, with an error for every way to fail.

Workers are known by addresses, memory and versions, also workers that a nanny ended for memory.
Source: docs/explanation/seeds.md, "Execution control", "Architecture".
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import re
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import dask
import numpy as np
from distributed import Client, Security

from jmars.engines.dask_tasks import DaskTasks, Held
from jmars.engines.dask_worker import (
    MEGABYTE,
    RESOURCE,
    Runner,
    cleaner,
    cut_result,
    facts,
    inspect_worker,
    memory_plugin,
    placing_plugin,
    raise_flag,
    reviver,
)
from jmars.engines.engine import START_SECONDS, EngineWorker, GroupTask, Promises, Result
from jmars.engines.groups import run_group
from jmars.errors import ChunkLostError, ClusterError, ClusterStartError, text_of
from jmars.model.versions import versions
from jmars.storage.chunks import ChunkElements

if TYPE_CHECKING:
    from jmars.engines.port import EngineWorkers

POLL = 1.0  # seconds between looks at Dask's workers
PUT_SECONDS, PUT_SPEED = 3.0, 2e7  # seconds for a worker to answer, and least bytes a second that it accepts
WATCHED = 60  # looks at all results after a worker has left
READ_PRIORITY = 1  # before all waiting tasks

Answer = TypeVar("Answer")
_logger = logging.getLogger(__name__)


class DaskEngine:
    """TaskEngine over a Dask cluster.

    Parameters
    ----------
    client
        A `distributed.Client` that is connected and stays the user's, sync or async, an address such as
        "tcp://host:8786", or the path of a scheduler file.
    name
        Unique among the clusters of jmars on that Dask cluster.
    runner
        Function that runs a group in a worker; workers import it.
    """

    kind = "dask"
    task_seconds = 0.005, 0.003
    bundle = 2**25

    def __init__(self, client: Any, name: str = "", runner: Runner = run_group) -> None:
        self._given = os.fspath(client) if isinstance(client, os.PathLike) else client
        self._runner = runner
        self._name = name or uuid.uuid4().hex[:12]
        self._plugin = self._topic = f"jmars-{self._name}"
        self._client: Any = None
        self._facts: dict[str, Any] = {}  # of Dask's scheduler
        self._direct = False  # whether workers can be reached from here
        self._reads = 0
        self._watch = 0  # looks at all results that are still to do
        self._background: set[asyncio.Task[Any]] = set()
        self._is_lost = self._is_closed = False
        self.address = self._given if isinstance(self._given, str) else ""

    # ------------------------------------------------------------------ start and close

    async def start(self, events: EngineWorkers) -> Sequence[EngineWorker]:
        """Connect, check the versions of the workers, and set their memory as a resource of Dask."""
        self._events, self._loop = events, asyncio.get_running_loop()
        self._nudge = asyncio.Event()
        self._client = await self._connect()
        try:
            async with asyncio.timeout(START_SECONDS):
                return await self._prepare(events)
        except BaseException as error:
            await self.close()
            if isinstance(error, ClusterError) or not isinstance(error, Exception):
                raise
            raise ClusterStartError(
                f"the Dask cluster at {self.address} could not be prepared: {type(error).__name__}: {text_of(error)}"
            ) from error

    async def _connect(self) -> Any:
        client = self._given
        if isinstance(client, str):
            client = await connect(client)
        else:
            check_client(client)
        self.address = str(client.scheduler.address)
        return client

    async def _prepare(self, events: EngineWorkers) -> Sequence[EngineWorker]:
        client = self._client
        self._tasks = DaskTasks(client, self._name, self._topic, self._runner, events, self._lose, self._killed)
        self._workers = DaskWorkers(client)
        wrong = await self._workers.check()
        if wrong:
            raise ClusterStartError(
                f"the workers of the Dask cluster at {self.address} differ from this process: {'; '.join(wrong)}; "
                "use the same environment on all workers"
            )
        self._facts = await self._ask_scheduler(facts())
        if not self._facts["jmars"]:
            raise ClusterStartError(
                f"the scheduler of the Dask cluster at {self.address} has no jmars, and reads the graphs of groups; "
                "install jmars there too"
            )
        places = placing_plugin(self._name, self._topic, client.id)  # first: removes plugins of a killed client
        await self._cross(partial(client.register_plugin, places, name=self._plugin))
        await self._cross(partial(client.subscribe_topic, self._topic, self._heard))
        await self._cross(partial(client.register_plugin, memory_plugin(self._topic), name=self._plugin))
        known, _ = await self._workers.look()
        self._direct = bool(known) and await can_dial(known[0].key)
        self._spawn(self._poll)
        return known

    async def close(self) -> None:
        """Release all results, and take plugin, resource, topic and keys from the Dask cluster."""
        if self._is_closed or self._client is None:
            return
        self._is_closed = True
        for task in self._background:
            task.cancel()
        client = self._client
        tasks: DaskTasks | None = getattr(self, "_tasks", None)
        if tasks is not None:
            tasks.drop()
            with suppress(Exception):
                await self._cross(tasks.end_watchers)
        if client.status == "running" and tasks is not None:
            with suppress(Exception):
                async with asyncio.timeout(START_SECONDS):
                    await self._cross(partial(client.unregister_worker_plugin, self._plugin))
            with suppress(Exception):
                await self._cross(partial(client.unsubscribe_topic, self._topic))
            clean = cleaner(self._topic, self._name)
            with suppress(Exception):  # a scheduler that runs no functions keeps an empty topic
                for _ in range(40):
                    if not await self._ask_scheduler(clean):
                        break
                    await asyncio.sleep(0.05)
        if client is not self._given:
            await client.close()

    # ------------------------------------------------------------------ tasks

    def submit(self, task: GroupTask) -> None:
        """Queue a task."""
        self._tasks.submit(task)

    def release(self, results: Sequence[Result]) -> None:
        """Free results."""
        self._tasks.release(results)

    def stop(self, job: int, tasks: Sequence[str]) -> None:
        """Drop queued tasks; running tasks see the job's stop flag."""
        self._spawn(partial(self._raise_flag, job, self._tasks.stop(job, tasks)))

    async def _raise_flag(self, job: int, dropped: Sequence[Any]) -> None:
        running: dict[str, str] = {}
        try:
            told = await self._cross(partial(self._client.run, raise_flag(self._topic, job), on_error="ignore"))
            running = {task: worker for worker, tasks in told.items() for task in tasks}
        finally:
            self._tasks.flagged(dropped, running)

    def kill(self, tasks: Sequence[str]) -> bool:
        """Whether Dask ended tasks: never, since a worker also has other people's tasks and results."""
        return False

    # ------------------------------------------------------------------ chunks

    async def put(self, name: str, data: bytes, worker: str) -> None:
        """Store bytes on a worker; a worker that has left is replaced by any other worker."""
        is_there = worker in self._workers.present
        workers = [worker] if is_there else list(self._workers.present) or None
        key = f"jmars-put-{self._name}-{name}"
        array = np.frombuffer(data, np.uint8)
        scatter = partial(self._client.scatter, {key: array}, hash=False, direct=self._direct or None)
        patience = PUT_SECONDS + len(data) / PUT_SPEED if is_there else None  # Dask itself dials a dead worker for 30 s
        try:
            async with asyncio.timeout(patience):
                futures = await self._cross(partial(scatter, workers=workers))
        except (OSError, TimeoutError, ValueError, KeyError):
            if not is_there:
                raise
            others = [key for key in self._workers.present if key != worker] or None
            futures = await self._cross(partial(scatter, workers=others))
        self._tasks.results[Result(name, 0)] = Held(futures[key])

    async def read(self, result: Result, wanted: ChunkElements) -> bytes:
        """Elements of a chunk, cut out by a small task where the chunk lies."""
        held = self._tasks.results.get(result)
        if held is None:
            raise ChunkLostError(f"the Dask cluster does not have chunk {result.number} of {result.task}")
        self._reads += 1
        key = f"jmars-read-{self._name}-{self._reads}"

        def submit() -> Any:
            args = (cut_result, held.future, held.place, *wanted)
            return self._client.submit(*args, key=key, pure=False, priority=READ_PRIORITY)

        async def cut_out() -> bytes:
            part = submit()
            try:
                found: bytes = await self._client.gather(part, direct=self._direct or None)
                return found
            except Exception as error:  # Dask's cancellation too
                raise ChunkLostError(
                    f"chunk {result.number} of {result.task} cannot be read from the Dask cluster: "
                    f"{type(error).__name__}: {text_of(error)}"
                ) from error
            finally:
                part.release()

        data: bytes = await self._cross(cut_out)
        return data

    # ------------------------------------------------------------------ workers

    async def memory(self) -> dict[str, dict[str, Any]]:
        """Memory of the workers at their last heartbeat."""
        return await self._workers.told_memory()

    def bandwidth(self) -> float | None:
        """Bytes a second between two workers, from the transfers of at least 1 MB that the workers log."""
        return self._tasks.links.bandwidth

    async def scale(self, n: int) -> None:
        """Ask the Dask cluster for workers."""
        await self._resize("scale", n)

    async def adapt(self, least: int, most: int) -> None:
        """Let the Dask cluster choose the number of its workers."""
        await self._resize("adapt", minimum=least, maximum=most)

    async def _resize(self, how: str, *args: int, **limits: int) -> None:
        cluster: Any = getattr(self._client, "cluster", None)
        method = getattr(cluster, how, None)
        if method is None:
            raise ClusterError(
                f"this Dask client cannot {how} its cluster; give Cluster.dask() the client of a cluster object, such "
                "as LocalCluster(...).get_client(), or add workers where they are started"
            )
        try:
            if getattr(cluster, "asynchronous", False) or getattr(cluster, "_asynchronous", False):
                await cross(self._client, partial(method, *args, **limits), cluster.loop.asyncio_loop)
            else:
                answer = await asyncio.to_thread(method, *args, **limits)
                if inspect.isawaitable(answer):
                    await answer
        except Exception as error:
            raise ClusterError(f"the Dask cluster cannot {how}: {type(error).__name__}: {text_of(error)}") from error

    def promises(self) -> Promises:
        """What Dask does not do as our own workers do."""
        ttl = self._facts.get("ttl") or dask.config.get("distributed.scheduler.worker-ttl", None) or "never"
        when = f"{ttl:.0f} s" if isinstance(ttl, int | float) else str(ttl)
        silent = f"Dask notices a worker that is silent but connected after {when} (worker-ttl)"
        if when == "never":
            silent = "Dask never gives up a worker that is silent but connected (worker-ttl is off)"
        return Promises(
            security_at(self.address),
            (
                silent,
                "a user's function that runs cannot be ended before it returns; kernels stop at the next block",
                "spilled chunks have no checksum",
                "memory is what each group declares, up to 60 % of a worker's limit; beyond the limit the nanny, if "
                "there is one, ends the worker",
                "groups on a lost worker run again, at most as often as Dask's allowed-failures says "
                f"({self._facts.get('failures', dask.config.get('distributed.scheduler.allowed-failures', 3))})",
            ),
        )

    async def _poll(self) -> None:
        """Look at workers every second, and at once when one joins; a look may hang when the scheduler is lost."""
        looking: asyncio.Task[None] | None = None
        while self._client.status == "running":
            with suppress(TimeoutError):
                await asyncio.wait_for(self._nudge.wait(), POLL)
            self._nudge.clear()
            if looking is None or looking.done():
                looking = self._spawn(self._look)
        self._lose(f"the Dask client is {self._client.status}: its scheduler is gone")

    async def _look(self) -> None:
        came, left = await self._workers.look()
        for key, why in left.items():
            self._tasks.left(key)
            self._events.left(key, why)
            self._watch = WATCHED
        for worker in came:
            self._events.came(worker)
        if came or left:
            await self._ask_scheduler(reviver(self._plugin))
        if self._watch:
            self._watch = WATCHED if self._tasks.recovering() else self._watch - 1
            lost = self._tasks.gone()
            if lost:
                self._events.lost(lost, "their worker left the Dask cluster and nothing can make them again", "exit")

    # ------------------------------------------------------------------ called back

    def _heard(self, event: tuple[float, bytes]) -> None:
        """A message of a worker; an empty one comes from the plugin of a new worker. Runs in the client's loop."""
        if event[1]:
            self._tasks.heard(event[1])
        else:
            with suppress(RuntimeError):  # the head is closed
                self._loop.call_soon_threadsafe(self._nudge.set)

    def _killed(self, tasks: Sequence[str], address: str) -> None:
        """Workers died under tasks too often."""

        async def tell() -> None:
            memory = address in await self._workers.killed_for_memory()
            names = ", ".join(tasks[:3]) + (" and others" if len(tasks) > 3 else "")
            ended = "was ended by its nanny for memory" if memory else "died"
            why = f"{address}, which {ended} while it had {names}"
            deaths = int(self._facts["failures"]) + 1
            self._events.lost(tasks, why, "memory" if memory else "signal", deaths)

        self._spawn(tell)

    def _lose(self, why: str) -> None:
        if not self._is_lost and not self._is_closed:
            self._is_lost = True
            self._loop.call_soon(self._events.closed, why)

    # ------------------------------------------------------------------ between loops

    async def _cross(self, call: Callable[[], Any]) -> Any:
        return await cross(self._client, call)

    async def _ask_scheduler(self, function: Callable[..., Answer]) -> Answer:
        answer: Answer = await self._cross(partial(self._client.run_on_scheduler, function))
        return answer

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


async def _quietly(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    try:
        await work()
    except Exception as error:
        _logger.debug("a call of the Dask cluster failed: %s", error)


CONNECT = 10.0  # seconds for a connection to a scheduler
FLUSHED = 10, 0.01  # readings of a file that a scheduler may be writing, and seconds between two readings
DIALLED = "tcp", "tls", "ws", "wss"  # protocols over TCP
GATEWAY = "gateway://"  # the protocol of Dask Gateway: TLS with a certificate of the cluster, through a proxy


async def connect(given: str, security: dict[str, str] | None = None) -> Any:
    """An asynchronous `distributed.Client` in this loop; a client's own thread would outlive a lost scheduler.

    Parameters
    ----------
    given
        Address of a scheduler, "HOST:PORT" or with a protocol, or path of a scheduler file.
    security
        Arguments of `distributed.Security`.

    Raises
    ------
    ClusterStartError
        If there is no such file, or it is no scheduler file; if the address has no port; if the port refuses; if no
        scheduler answers within CONNECT seconds.
    """
    address = await address_of(given)
    where = address if address == given else f"{address} (of {given})"
    make: Any = Client  # has no types
    secured = {"security": Security(**security)} if security else {}  # type: ignore[no-untyped-call]
    try:
        await _dial(address)
        client = make(address, asynchronous=True, set_as_default=False, timeout=CONNECT, name="jmars", **secured)
    except (OSError, ValueError) as error:
        raise ClusterStartError(_no_answer(where, text_of(error))) from error
    try:
        async with asyncio.timeout(CONNECT):  # Dask itself waits for ever for a greeting
            await client
    except BaseException as error:
        await client.close()
        if not isinstance(error, Exception):
            raise
        reason = text_of(error) or f"what listens there does not answer as a Dask scheduler within {CONNECT:.0f} s"
        raise ClusterStartError(_no_answer(where, reason)) from error
    return client


def way_to(given: Any) -> dict[str, Any]:
    """How a process reaches a Dask scheduler: `address`, and arguments of `distributed.Security`.

    Parameters
    ----------
    given
        A `distributed.Client` that is connected, an address, or the path of a scheduler file.

    Raises
    ------
    ClusterStartError
        If it is neither, a client that is not connected, of a Dask cluster within this process, or behind a gateway.
    """
    if isinstance(given, str | os.PathLike):
        return {"address": os.fspath(given), "security": None}
    check_client(given)
    if given.scheduler.address.startswith("inproc://"):
        raise ClusterStartError(
            "the workers of this Dask cluster are threads of the kernel, which no other process reaches; use "
            "LocalCluster(processes=True), or mode='tasks'"
        )
    if given.scheduler.address.startswith(GATEWAY):
        raise ClusterStartError(
            "the Dask cluster is behind a gateway, which lets no other process of this machine in; use mode='tasks'"
        )
    security = given.security.get_tls_config_for_role("client") if given.security is not None else {}
    names = {"ca_file": "tls_ca_file", "cert": "tls_client_cert", "key": "tls_client_key"}
    found = {ours: security[theirs] for theirs, ours in names.items() if security.get(theirs)}
    return {"address": str(given.scheduler.address), "security": found or None}


def check_client(given: Any) -> None:
    """Raise ClusterStartError for an object that is no Dask client, or a client that is not connected."""
    if not isinstance(given, Client):
        if callable(getattr(given, "get_client", None)):
            raise ClusterStartError(
                f"a {type(given).__name__} is a cluster of Dask; give its client: cluster.get_client(), or "
                "distributed.Client(cluster)"
            )
        raise ClusterStartError(
            f"a {type(given).__name__} is no Dask client; give a distributed.Client, the address of a scheduler, "
            "or the path of a scheduler file"
        )
    if given.status != "running":
        raise ClusterStartError(f"the Dask client is {given.status}; give one that is connected")


def security_at(address: str) -> str:
    """How Dask protects the connections to a scheduler, in a sentence."""
    if address.startswith(("tls://", "wss://", GATEWAY)):
        return "Dask's connections are encrypted and authenticated by TLS"
    return "Dask's connections are not encrypted: who reaches its scheduler or workers can run code there"


def _no_answer(where: str, reason: str) -> str:
    return (
        f"no Dask scheduler answers at {where}: {reason}; look whether the scheduler runs, and at port, protocol and "
        "firewall, or give a distributed.Client"
    )


async def _dial(address: str) -> None:
    """Raise OSError where no process listens: Dask itself would try again for CONNECT seconds."""
    protocol, _, place = address.rpartition("://")
    if (protocol or "tcp") not in DIALLED:
        return
    host, _, port = place.partition("/")[0].rpartition(":")
    try:
        async with asyncio.timeout(CONNECT):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except TimeoutError:
        raise OSError(f"no connection within {CONNECT:.0f} s") from None
    except OverflowError as error:
        raise OSError(text_of(error)) from error
    writer.close()


async def address_of(given: str) -> str:
    """Address of a scheduler; of a scheduler file, the address in it. Raises ClusterStartError.

    Examples
    --------
    >>> asyncio.run(address_of("tcp://10.0.0.7:8786"))
    'tcp://10.0.0.7:8786'
    """
    protocol, separator, place = given.rpartition("://")
    has_port = re.fullmatch(r".+:\d+(/.*)?", place) is not None
    if separator and protocol in DIALLED and not has_port:
        raise ClusterStartError(
            f"the address {given} has no port; give the port of Dask's scheduler too, as in {protocol}://HOST:8786"
        )
    if separator or (has_port and not os.path.exists(given)):
        return given
    if not os.path.exists(given):
        raise ClusterStartError(
            f"there is no scheduler file {given}, and it is no address with a port; start the scheduler with `dask "
            f"scheduler --scheduler-file {given}` on a disk that this machine shares, or give an address such as "
            "tcp://HOST:8786"
        )
    return await _address_in(given)


async def _address_in(file: str) -> str:
    tries, pause = FLUSHED
    while True:
        tries -= 1
        try:
            told = json.loads(Path(file).read_text())
            if not isinstance(told, dict) or not isinstance(told.get("address"), str):
                raise ValueError('it has no "address"')
            return str(told["address"])
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) or not tries:
                raise ClusterStartError(
                    f"{file} cannot be read as a scheduler file of Dask ({text_of(error)}); give the file that `dask "
                    "scheduler --scheduler-file FILE` has written, or an address such as tcp://HOST:8786"
                ) from error
        await asyncio.sleep(pause)


MEMORY_EVENTS = "worker-restart-memory"  # topic of Dask's nannies
ANSWER = 3.0  # seconds for a new worker to answer; otherwise the next poll asks again
WORKER_DIAL_SECONDS = 1.0  # seconds to reach a worker from here, if it can be reached


async def cross(client: Any, call: Callable[[], Any], loop: asyncio.AbstractEventLoop | None = None) -> Any:
    """Call a function in the loop of a Dask client, or in any loop, and wait for the answer in this loop."""

    async def run() -> Any:
        answer = call()
        return await answer if inspect.isawaitable(answer) else answer

    there = loop or client.loop.asyncio_loop
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), there))


async def can_dial(address: str) -> bool:
    """Whether this machine can reach a worker; where not, data go through Dask's scheduler."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        async with asyncio.timeout(WORKER_DIAL_SECONDS):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, ValueError):
        return False
    writer.close()
    return True


async def identities(client: Any) -> Mapping[str, Any]:
    """Dask's facts about all workers, by address."""
    # Versions that lack n_workers tell all workers.
    is_new = "n_workers" in inspect.signature(client.scheduler_info).parameters
    identity = partial(client.scheduler.identity, **({"n_workers": -1} if is_new else {}))
    workers: Mapping[str, Any] = (await cross(client, identity))["workers"]
    return workers


@dataclass(eq=False)
class DaskWorkers:
    """Table of the workers that group tasks may use.

    Attributes
    ----------
    client
        A `distributed.Client` that runs.
    present
        Workers by address.
    refused
        Addresses of workers with other versions.
    """

    client: Any
    present: dict[str, EngineWorker] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    _pids: dict[str, int] = field(default_factory=dict)

    async def check(self) -> list[str]:
        """Refuses new workers with other versions; returns a sentence for each refused worker."""
        keys = [key for key in await self._addresses() if key not in self._pids]
        if not keys:
            return []
        here, wrong = versions(), []
        for key, told in zip(keys, await asyncio.gather(*map(self._inspect, keys)), strict=True):
            if isinstance(told, OSError):  # TimeoutError, too
                continue  # the worker dies, or is about to answer: the next look asks again
            if isinstance(told, BaseException):
                wrong.append(f"{key}: {type(told).__name__}: {text_of(told)}")
            elif told["versions"] != here:
                there = told["versions"]
                names = [name for name in here if there[name] != here[name]]
                wrong.append(f"{key} has {', '.join(f'{name} {there[name]}, not {here[name]}' for name in names)}")
            else:
                self._pids[key] = told["pid"]
                continue
            self.refused.add(key)
        return wrong

    async def look(self) -> tuple[list[EngineWorker], dict[str, str]]:
        """Workers that joined since the last look, and workers that left, with reasons."""
        there = set(await self._addresses())
        gone = [key for key in self.present if key not in there]
        killed = await self.killed_for_memory() if gone else set()
        left = {}
        for key in gone:
            del self.present[key]
            self._pids.pop(key, None)
            why = "its nanny ended it for memory" if key in killed else "it left the Dask cluster"
            left[key] = f"worker {key}: {why}"
        self.refused &= there
        came: list[EngineWorker] = []
        if there - set(self.present) - self.refused:
            for wrong in await self.check():
                _logger.warning("a Dask worker differs from this process and its results cannot be trusted: %s", wrong)
            came = await self._describe(there)
            self.present |= {worker.key: worker for worker in came}
        return came, left

    async def told_memory(self) -> dict[str, dict[str, Any]]:
        """Memory of the workers at their last heartbeat."""
        found: dict[str, dict[str, Any]] = {}
        for key, told in (await identities(self.client)).items():
            if key in self.present:
                metrics = told.get("metrics", {})
                spilled = metrics.get("spilled_bytes", {}).get("disk", 0)
                told_now = {"pid": self._pids.get(key), "resident": metrics.get("memory"), "spilled": spilled}
                found[key] = {name: figure for name, figure in told_now.items() if figure is not None}
        return found

    async def killed_for_memory(self) -> set[str]:
        """Workers that their nannies ended for memory."""
        with suppress(Exception):
            events = await cross(self.client, partial(self.client.get_events, MEMORY_EVENTS))
            return {event["worker"] for _, event in events}
        return set()

    async def _inspect(self, key: str) -> Any:
        """The answer of `inspect_worker` in a worker, or the error; one that is stopped holds up no other."""
        ask = partial(self.client.run, inspect_worker, workers=[key], on_error="return")
        try:
            async with asyncio.timeout(ANSWER):
                return (await cross(self.client, ask))[key]
        except OSError as error:
            return error

    async def _addresses(self) -> list[str]:
        return list(await cross(self.client, self.client.nthreads))

    async def _describe(self, there: set[str]) -> list[EngineWorker]:
        """New workers with declared memory; workers without are described at a later look."""
        found = []
        for key, told in (await identities(self.client)).items():
            memory = int(told.get("resources", {}).get(RESOURCE, 0)) * MEGABYTE
            if memory and key in there and key in self._pids and key not in self.present:
                host, name = str(told.get("host", "")), str(told.get("name", key))
                found.append(EngineWorker(key, name, host, int(told["nthreads"]), memory))
        return found
