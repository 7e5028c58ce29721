"""A cluster of workers, and the default one.

Source: the issue's Python interface; seed 003, "架构"; Mars's `new_cluster`.
"""

from __future__ import annotations

import atexit
import os
import select
import threading
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from jmars.actors import Mailbox
from jmars.client.connection import Connection
from jmars.client.job import Job
from jmars.client.reports import Reports
from jmars.client.sending import Sending
from jmars.client.shared import SharedMemory
from jmars.client.structures import Structures
from jmars.deploy import LocalHost
from jmars.deploy.memory import usable_cores
from jmars.errors import ClusterClosedError, ClusterLostError, ClusterStartError
from jmars.model.events import Event
from jmars.model.states import JobState
from jmars.tensor.from_array import FromArray
from jmars.tensor.graph import Outline
from jmars.tensor.operand import TensorData
from jmars.tensor.spawn import Output, Spawned
from jmars.tensor.tensor import Tensor

__all__ = ["Cluster", "default_cluster", "make_default", "open_clusters", "usable_cores"]

_open: list[Cluster] = []  # the default one last
_open_lock = threading.RLock()  # held for moments only: the thread that talks to clusters takes it too
_start_lock = threading.RLock()  # held while the default cluster starts


class Cluster:
    """Worker processes on this machine that share memory; a context manager.

    The newest open cluster is the default: tensors are computed there unless they are submitted elsewhere.

    Parameters
    ----------
    n_workers
        Worker processes, 1 or more; None for one per usable core.
    threads_per_worker
        Threads that BLAS and numexpr may use inside a worker, 1 or more.
    memory_limit
        Bytes, or a text such as "2GiB", for all processes of the cluster on this host together; None for half of the
        memory that the machine or container has available.
    spill_dir
        Folder for chunks that do not fit in memory; None for the system's temporary folder.
    name
        What lists of clusters show.

    Raises
    ------
    ValueError
        If a number is below 1 or a size cannot be read.
    MemoryLimitError
        If the limit leaves less than 64 MiB for arrays beside what the processes themselves take.
    ClusterStartError
        If the processes do not come up.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=2, memory_limit="1GiB") as cluster:
    ...     float(mt.arange(10, chunk_size=4).sum())
    45.0
    """

    def __init__(
        self,
        n_workers: int | None = None,
        threads_per_worker: int = 1,
        memory_limit: str | int | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
        name: str = "",
    ) -> None:
        self.n_workers = _at_least_one("n_workers", usable_cores() if n_workers is None else n_workers)
        threads = _at_least_one("threads_per_worker", threads_per_worker)
        self._pid = os.getpid()
        self._reports = Reports()
        self._held: set[str] = set()  # keys of tensors that lie on the cluster
        self._lock = threading.RLock()  # one submission at a time
        self._closed = False
        self._host = LocalHost(
            self.n_workers, threads, memory_limit, None if spill_dir is None else os.fspath(spill_dir), name
        )
        connection: Connection | None = None
        try:
            mailbox = Mailbox()
            mailbox.add("jobs", self._reports)
            connection = self._connection = _patient_connection(self._host, mailbox, self._lost)
            ready = self._connection.ask("host", "ready")
            self._capacity: int = ready["capacity"]
            self._shared = SharedMemory(self._connection, self._host.arena, ready["arena"], ready["capacity"])
            self.sending = Sending(self, self._shared)
            self._structures = Structures(self.ask)
        except BaseException as error:
            self._closed = True
            if connection is not None:
                connection.close()
            self._host.close()
            if not isinstance(error, ClusterLostError):
                raise
            raise ClusterStartError(f"the cluster did not come up; its last words:\n{self._host.words}") from error
        with _open_lock:
            _open.append(self)

    # -- what users call
    @property
    def id(self) -> str:
        """Eight hexadecimal digits."""
        return self._host.id

    @property
    def name(self) -> str:
        """What lists of clusters show."""
        return self._host.name

    @property
    def memory_limit(self) -> int:
        """Bytes for all processes of the cluster together."""
        return self._host.limit

    @property
    def capacity(self) -> int:
        """Bytes of them that chunks and scratch may take; the processes themselves take the rest."""
        return self._capacity

    @property
    def closed(self) -> bool:
        """Whether it can be used no more."""
        return self._closed

    def submit(self, *tensors: Tensor | Spawned | Output, name: str = "") -> Job:
        """Start computing tensors, and results of spawned functions; returns at once with a handle.

        NumPy arrays that the tensors were made from enter with the value that they have now.

        Raises
        ------
        ClusterClosedError
            If the cluster was closed.
        TypeError
            If something is no tensor.
        """
        for one in tensors:
            if not isinstance(one, Tensor | Spawned | Output):
                raise TypeError(f"cannot compute a {type(one).__name__}; make it a tensor with jmars.tensor.asarray")
        job = self.submit_data([one.data for one in tensors], name, single=len(tensors) == 1)
        job.opened = [None if isinstance(one, Tensor) else one.opened for one in tensors]
        return job

    def submit_data(self, data: Sequence[TensorData], name: str = "", single: bool = False) -> Job:
        """`submit` for nodes of the tensor graph."""
        self._check_open()
        ticket = os.urandom(8).hex()
        with self._lock:
            self._bring_here(data)
            self.sending.send(data)
            outline = Outline.of(data, self._held)
            keys = [node.key for node in outline.nodes]
            asked = set(outline.results)
            uploaded: list[str] = []
            results: list[str] = []  # arrays that are themselves results: they keep their names
            try:
                for number, operand in enumerate(outline.operands):
                    if isinstance(operand, FromArray):
                        operand.check()
                        key = keys[number]
                        if number in asked:
                            results.append(key)
                        else:
                            uploaded.append(key := f"{key}-{os.urandom(4).hex()}")
                            keys[number] = key
                        self._shared.upload(key, operand.array, outline.nodes[number].chunks)
                job = self._structures.start(outline, keys, name, ticket)
                handle = Job(self, job, name or job, data, single)
                if uploaded or results:  # the job holds them by now, and lets go of them when it ends
                    handle.when_done(lambda job: self._let_go(uploaded + results * (job.state != JobState.SUCCEEDED)))
                self._reports.expect(handle)
                self.sending.used_by(handle)
            except BaseException:  # an interrupt too: nobody would know the job
                self.tell("session", "withdraw", ticket)
                self._let_go(uploaded + results)
                raise
        return handle

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """The value of a node that lies here: owned; with `copy=False` read-only, a view if it is one chunk."""
        self._check_open()
        if not copy and all(len(axis) == 1 for axis in data.chunks):
            return self._shared.view(data.key, data.dtype, data.shape)
        value = self._shared.download(data.key, data.dtype, data.chunks)
        if not copy:
            value.flags.writeable = False
        return value if data.shape or not copy else value[()]

    def info(self) -> dict[str, Any]:
        """How the cluster stands.

        Returns
        -------
        dict
            `workers` (list) and `scheduler`, each with `pid`, `state` and `memory` (bytes); `memory` with `limit`,
            `resident`, `peak` and what was spilled, in bytes; `plans` with how many structures of graphs are kept,
            their bytes (`size`), and how often one was `found`, `missed` or `dropped`.
        """
        found: dict[str, Any] = self.ask("host", "info")
        return found | {"workers": list(found["workers"])}

    def jobs(self) -> list[dict[str, Any]]:
        """Jobs that the cluster remembers, oldest first."""
        return list(self.ask("session", "jobs"))

    def events(self, since: int = 0, job: str | None = None) -> tuple[list[Event], int]:
        """Events after number `since`, at most some thousands, and the number to read on from."""
        found, last = self.ask("events", "read", since, job or "")
        return list(found), last

    def close(self) -> None:
        """End all processes, and remove all memory and files; tensors that lie there are computed anew when needed."""
        if os.getpid() != self._pid:
            return
        with _open_lock:
            if self in _open:
                _open.remove(self)
            if self._closed:
                return
            self._closed = True
        self._connection.tell("host", "close")
        self._connection.close()
        self._shared.close()
        self._host.close()
        self._held.clear()
        self._reports.none_more(f"{self.name} was closed before the job ended; start a new cluster and run it again")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.n_workers} workers"
        return f"<Cluster {self.name}: {state}>"

    # -- for the rest of the client
    def ask(self, actor: str, method: str, *args: Any) -> Any:
        """Call an actor of the cluster and wait for its answer."""
        self._check_open()
        return self._connection.ask(actor, method, *args)

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Call an actor without waiting."""
        if not self._closed:
            self._connection.tell(actor, method, *args)

    def holds(self, data: TensorData) -> bool:
        """Whether the node's value lies here."""
        return not self._closed and data.key in self._held

    def held(self) -> frozenset[str]:
        """Keys of the nodes whose values lie here."""
        return frozenset() if self._closed else frozenset(self._held)

    def computing(self, data: Sequence[TensorData]) -> list[Job]:
        """Jobs that run now and will leave some of these nodes' values here."""
        keys = {one.key for one in data} - self._held
        return [job for job in self._reports.running if job.gives(keys)] if keys else []

    def hold(self, data: Sequence[TensorData]) -> None:
        """The values of these nodes lie here now; each is dropped when nobody refers to the node any more."""
        for one in data:
            if one.key not in self._held:
                self._held.add(one.key)
                weakref.finalize(one, self.drop, one.key).atexit = False

    def drop(self, key: str) -> None:
        """The value of that key need not lie here any more."""
        if key in self._held:
            self._held.discard(key)
            self.tell("session", "drop", [key])

    def _bring_here(self, data: Sequence[TensorData]) -> None:
        """Move what these nodes need and another open cluster holds."""
        with _open_lock:
            others = [cluster for cluster in _open if cluster is not self and cluster._held]
        if not others:
            return
        seen: set[int] = set()
        stack = list(data)
        while stack:
            node = stack.pop()
            if id(node) in seen or node.key in self._held:
                continue
            seen.add(id(node))
            owner = next((cluster for cluster in others if cluster.holds(node)), None)
            if owner is None:
                stack += node.op.inputs
            else:
                self._shared.move(node.key, owner._shared, node.dtype, node.chunks)
                self.hold([node])

    def _lost(self) -> None:
        """The connection is cut."""
        if not self._closed:
            with _open_lock:
                if self in _open:
                    _open.remove(self)
            reason = f" ({self._reports.reason})" if self._reports.reason else ""
            what = f"the control process of {self.name} went away{reason} before the job ended"
            self._reports.none_more(f"{what}; run it on a new cluster")

    def _let_go(self, keys: list[str]) -> None:
        """Drop arrays that were stored here for one job."""
        self.tell("session", "drop", [key for key in keys if key not in self._held])

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterClosedError(f"{self.name} is closed; start a new one with jmars.Cluster()")
        if os.getpid() != self._pid:
            raise ClusterClosedError(f"{self.name} belongs to process {self._pid}; start one in this process")


def open_clusters() -> list[Cluster]:
    """The open clusters of this process, the default one last."""
    with _open_lock:
        return [cluster for cluster in _open if cluster._pid == os.getpid()]


def default_cluster(start: bool = True) -> Cluster | None:
    """The open cluster that is newest or was made the default since; with `start`, a new one where there is none."""
    mine = open_clusters()
    if mine or not start:
        return mine[-1] if mine else None
    with _start_lock:
        mine = open_clusters()  # another thread may have started one meanwhile
        return mine[-1] if mine else Cluster()


def make_default(cluster: Cluster) -> None:
    """Make an open cluster the default one."""
    with _open_lock:
        if cluster in _open:
            _open.remove(cluster)
            _open.append(cluster)


def _at_least_one(what: str, value: Any) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} must be a whole number of 1 or more, not {value!r}")
    return int(value)


def _patient_connection(host: LocalHost, mailbox: Mailbox, lost: Any) -> Connection:
    """Connect as soon as the control process listens."""
    while True:
        try:
            return Connection(host.folders.socket, host.token, mailbox, lost)
        except ClusterLostError:
            if not host.is_alive():
                raise
            select.poll().poll(2)  # ms; it listens as soon as its children are forked


@atexit.register
def _close_all() -> None:
    for cluster in list(_open):
        cluster.close()
