"""Cluster: worker processes on this machine; and the default cluster.

`jmars.connect` connects to a running cluster, which another notebook or program started. A `WebGateway` serves a
cluster over HTTP from a child process; `Cluster.serve` makes the gateway.
Source: docs/explanation/seeds.md, "Architecture"; Mars `deploy/oscar/local.py`, `new_cluster`.
"""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from jmars.actors import Mailbox
from jmars.actors.registry import find_entry, refuse_twin
from jmars.client import cluster_registry
from jmars.client.arrays import BroughtValues, arrays_of, brought_value
from jmars.client.cluster_registry import open_clusters
from jmars.client.connection import Connection, patient_connection, reason, refuse_forked
from jmars.client.engine_clusters import LEASE, checked_lease, scheduler_processes, whole_number
from jmars.client.host_clusters import HostClusters
from jmars.client.job import FloatWarnings, Job, fetch_each, with_recovery
from jmars.client.job_registry import JobRegistry, attach, descriptors_of, outputs_of
from jmars.client.kept_values import KeptValues
from jmars.client.local_runs import LocalRuns, kept_bytes, load_local_runs
from jmars.client.notebook_views import ClusterFacts, Shown
from jmars.client.sent_graphs import Retained, SentGraphs, Uploads, move_here
from jmars.deploy.control_process import ClusterProcess, attached, local
from jmars.deploy.memory import default_limit, usable_cores
from jmars.devices.find import gpu_names
from jmars.errors import ClusterClosedError, ClusterLostError, ClusterStartError
from jmars.model.collector import free_in_child
from jmars.model.events import Event
from jmars.model.status import JobState
from jmars.tensor.operand import TensorData
from jmars.tensor.spawn import Handle
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import LinkedGraph

if TYPE_CHECKING:
    from jmars.plan import Workers

SENT_AT_ONCE = 3_000  # nodes of a graph that `submit` sends itself, in a tenth of a second; a thread sends larger ones

_settings: dict[str, Any] = {}  # of a default cluster that starts
_start_lock = free_in_child(threading.RLock())  # held while the default cluster starts


class Cluster(HostClusters, Shown):
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
    detach
        Whether the cluster goes on when this process ends: others find it with `jmars.connect`, and its jobs run on.
        Then `close()` only hangs up, and `stop()` ends it.
    lease
        Seconds that a detached cluster lives on without a client and without a job; math.inf for ever.
    schedulers
        Scheduler processes, 0 to 16. With 0 the control process schedules, and the cluster ends with that process; with
        1 or more a scheduler may die, and the jobs go on. None for `jmars.config.schedulers`; at least 1 with `detach`.
    gpus
        GPUs that get a worker each: "auto" for all that this process sees, a number, or names such as "cuda:0".

    Raises
    ------
    ValueError
        If a number is below 1, a size cannot be read, or there are fewer GPUs.
    MemoryLimitError
        If the limit leaves less than 64 MiB for arrays beside what the processes themselves take.
    ClusterError
        If it is to be detached and a cluster of that name runs; ClusterStartError if the processes do not come up.

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
        detach: bool = False,
        lease: float = LEASE,
        schedulers: int | None = None,
        gpus: str | int | Sequence[str] = 0,
    ) -> None:
        apart = scheduler_processes(schedulers, detach)
        workers = whole_number("n_workers", usable_cores() if n_workers is None else n_workers)
        threads = whole_number("threads_per_worker", threads_per_worker)
        if detach and name:
            refuse_twin(name)
        spill, names, lives = None if spill_dir is None else os.fspath(spill_dir), gpu_names(gpus), checked_lease(lease)
        self._use(local(workers, threads, memory_limit, spill, name, detach, lives, load_local_runs, apart, names))

    @classmethod
    def of_host(cls, host: ClusterProcess) -> Self:
        """The cluster that runs there already; see `jmars.connect`."""
        cluster = cls.__new__(cls)
        cluster._use(host)
        return cluster

    def _use(self, host: ClusterProcess) -> None:
        """Connect to the cluster of `host`; close the host where that fails."""
        self._pid = os.getpid()
        self._facts: dict[str, Any] = {}
        self._jobs = JobRegistry(self._facts.update)
        self.float_warnings = FloatWarnings()
        self._held = Retained(self._drop)
        self._brought = BroughtValues()
        self.kept = KeptValues(self._held, partial(self.ask, "session"))
        self._lock = threading.RLock()  # one submission at a time
        self._closed = False
        self._host = host
        connection: Connection | None = None
        try:
            mailbox = Mailbox()
            mailbox.add("jobs", self._jobs)
            connection = self._connection = patient_connection(host, mailbox, self._lost)
            ready: dict[str, Any] = self._connection.ask("host", "ready")
            self._facts.update(ready)
            self.detached, host.limit = bool(ready["detached"]), ready["limit"]
            if not host.far:
                host.pid, host.janitor = ready["pid"], ready["janitor"]
            connection.watch(host.name, host.pid, lambda: bool(self._jobs.running))
            arena, host.arena = host.arena, -1
            self.shared = arrays_of(self._connection, arena, ready["arena"], ready["capacity"])
            self.uploads = Uploads(self)
            self.local = LocalRuns(self)
            self._sent_graphs = SentGraphs(self.ask)
        except BaseException as error:
            self._closed = True
            if connection is not None:
                connection.close()
            self._host.close()
            if not isinstance(error, ClusterLostError) or not host.words:
                raise
            raise ClusterStartError(f"the cluster did not come up; its last words:\n{host.words}") from error
        cluster_registry.add(self)

    # -- what users call
    @property
    def id(self) -> str:
        """Eight hexadecimal digits."""
        return self._host.id

    @property
    def name(self) -> str:
        """Name in lists of clusters."""
        return self._host.name

    @property
    def closed(self) -> bool:
        """Whether the cluster was closed."""
        return self._closed

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.n_workers} workers"
        return f"<Cluster {self.name}: {state}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """In IPython: workers, memory and running jobs, as the cluster tells them now."""
        told = repr(self) if self.closed or cycle else f"<Cluster {ClusterFacts.of(self.info(), self.jobs()).text()}>"
        printer.text(told)

    @property
    def n_workers(self) -> int:
        """Number of worker processes; on an engine, of the workers that it has now."""
        return int(self._ready()["workers"])

    @property
    def memory_limit(self) -> int:
        """Bytes for all processes of the cluster together; on an engine, for our tasks on its present workers."""
        return int(self._ready()["limit"])

    @property
    def capacity(self) -> int:
        """Bytes of them that chunks and scratch may take; the processes themselves take the rest."""
        return int(self._ready()["capacity"])

    @property
    def threads(self) -> int:
        """Threads that BLAS may use inside a worker."""
        return int(self._ready()["threads"])

    @property
    def machines(self) -> Workers | None:
        """Workers of an engine as planners see them; None for a cluster on one host."""
        from jmars.plan import Workers

        rows = self._ready()["machines"]
        return None if rows is None else Workers.build(**rows)

    def scale(self, n: int | Sequence[str]) -> None:
        """Have so many workers on this machine, or hosts, or further hosts at new places; or ask an engine for workers.

        Workers of a local cluster come in some milliseconds; leaving workers finish the running operands.
        An engine's workers come when the engine has them. On several hosts the call returns when the hosts have come
        or left: a host runs at each place at most, hosts come at the places that have none, in the order in which the
        places were named, and the hosts that hold least leave, as by `evacuate`. It ends `adapt`.

        Parameters
        ----------
        n
            A number, or new places as of `Cluster.hosts`: ["node-9"].

        Raises
        ------
        ClusterError
            If the number of workers is fixed, as on a local cluster with GPUs; or there are not so many places, or a
            host cannot leave.
        ClusterStartError
            If hosts or processes do not come up; the cluster goes on with the others.
        MemoryLimitError
            If the memory limit leaves no room for so many processes.

        Examples
        --------
        >>> with jmars.Cluster(n_workers=1) as cluster:
        ...     cluster.scale(3)
        ...     cluster.n_workers
        3
        """
        if isinstance(n, Sequence) and not isinstance(n, str) and n and all(isinstance(one, str) for one in n):
            self.ask("host", "scale", list(n))
        else:
            if isinstance(n, str):
                raise ValueError(f"n is {n!r}; give a number, or a list of new places: [{n!r}]")
            self.ask("host", "scale", whole_number("n", n, 0))

    def adapt(self, least: int, most: int) -> None:
        """Have between `least` and `most` workers of an engine, or hosts, as there is work; raises as `scale`, and on
        a local cluster.

        A host comes when there are 5 s of work for each of its executors, and leaves when fewer hosts were enough for
        30 s.
        """
        bounds = whole_number("least", least, 0), whole_number("most", most)
        if bounds[0] > bounds[1]:
            raise ValueError(f"least is {least} and most is {most}; give a most that is not below it")
        self.ask("host", "adapt", *bounds)

    def _ready(self) -> dict[str, Any]:
        """Facts about workers and memory; an engine is asked, as its workers come and go."""
        if self._facts["machines"] is not None and not self.closed:
            self._facts.update(self.ask("host", "ready"))
        return self._facts

    def submit(self, *tensors: Tensor | Handle, name: str = "") -> Job:
        """Start computing tensors, and results of spawned functions; returns at once with a handle.

        NumPy arrays that the tensors were made from enter with the value that they have now. A graph of thousands of
        operands is sent by a thread: an error on that way is the job's. Raises TypeError for other arguments,
        ClusterClosedError where the cluster was closed.
        """
        for one in tensors:
            if not isinstance(one, Tensor | Handle):
                raise TypeError(f"cannot compute a {type(one).__name__}; make it a tensor with jmars.tensor.asarray")
        packed = [None if isinstance(one, Tensor) else outputs_of(one) for one in tensors]
        job = self.submit_data([one.data for one in tensors], name, single=len(tensors) == 1, packed=packed)
        job.opened = [None if isinstance(one, Tensor) else one.decode for one in tensors]
        return job

    def submit_data(
        self,
        data: Sequence[TensorData],
        name: str = "",
        single: bool = False,
        packed: Sequence[Any] = (),
        again: Job | None = None,
    ) -> Job:
        """`submit` for nodes; `packed` tells which are objects (job_registry.py), `again` is a job to submit again."""
        self._check_open()
        ticket = os.urandom(8).hex()
        self.local.release()
        with self._lock:
            move_here(self, data)
            values = self.kept.submitted(data)
            linked = LinkedGraph.of(data, self._held)
            uploaded: list[str] = []
            results: list[str] = []  # arrays that are themselves results: they keep their names
            try:
                linked, keys = self.uploads.upload(linked, uploaded, results)
                start = partial(
                    self._sent_graphs.start, linked, keys, name, ticket, descriptors_of(data, single, packed), values
                )
                is_large = again is None and len(linked.nodes) > SENT_AT_ONCE
                job = "" if is_large else start()
                handle = again or Job(self, job, name or job, data, single)
                if again is not None:
                    again.resubmitted(job)
                if uploaded or results:  # the job holds them by now, and lets go of them when it ends
                    handle.when_done(lambda job: self._let_go(uploaded + results * (job.state != JobState.SUCCEEDED)))
                self._jobs.send(handle, partial(self._send, start, ticket)) if is_large else self._jobs.expect(handle)
                self.uploads.used_by(handle)
            except BaseException:  # an interrupt too: nobody would know the job
                self.tell("session", "withdraw", ticket)
                self._let_go(uploaded + results)
                raise
        return handle

    def _send(self, start: Callable[[], str], ticket: str) -> str:
        """Send a large graph, in a thread; returns the job's id."""
        try:
            return start()
        except BaseException:
            self.tell("session", "withdraw", ticket)
            raise

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """The value of a node that the cluster has: owned; with `copy=False` read-only, a view of a single chunk."""
        self._check_open()
        self.float_warnings.tell_owed()
        if (value := brought_value(data, copy)) is not None:
            return value
        return with_recovery(self, data, lambda: self.shared.fetch(data.key, data.dtype, data.chunks, copy))

    def fetch_each(self, data: Sequence[TensorData]) -> list[Any]:
        """Owned values of nodes that the cluster has; those of small nodes travel together."""
        self._check_open()
        self.float_warnings.tell_owed()
        return fetch_each(self, data)

    def info(self) -> dict[str, Any]:
        """Status of the cluster's processes and memory.

        `workers` (list) and `scheduler` have `pid`, `state` and `memory` (bytes); `memory` has `limit`, `resident`,
        `peak`, spilled bytes, and `kernel`: arrays that jmars keeps in this process, beside the limit; `plans` counts
        kept graph structures: their bytes (`size`) and how often a submission `found`, `missed` or `dropped` one. A
        cluster on Dask or Ray has `engine` (kind, address, mode), and says what the engine promises: `security`, and
        `promises` that it does not keep; `pid` and `memory` of a worker are absent while the engine does not tell them.
        The `pid` of a worker that starts, or starts again after its death, is None.
        """
        found: dict[str, Any] = self.ask("host", "info")
        return found | {"workers": list(found["workers"]), "memory": {**found["memory"], "kernel": kept_bytes()}}

    def why(self, job: str = "") -> str:
        """Why a job stands as it does; of "", all running jobs, and workers that ended of late."""
        return reason(self.ask, self.name, self._host.pid, *(("job", job) if job else ("cluster",)))

    def jobs(self) -> list[dict[str, Any]]:
        """Jobs that the cluster remembers, oldest first."""
        return list(self.ask("session", "jobs"))

    def job(self, job: str) -> Job:
        """A handle of any job that the cluster remembers: wait for the job, cancel it, take its values.

        Raises
        ------
        UnknownTaskError
            If there is none of that id.
        """
        if (known := self._jobs.jobs.get(job)) is None:
            known = attach(self, job)
            self._jobs.expect(known)
        return known

    def events(self, since: int = 0, job: str | None = None) -> tuple[list[Event], int]:
        """Events after number `since`, at most some thousands, and the number to read on from."""
        found, last = self.ask("session", "read", since, job or "")
        return list(found), last

    def forget(self) -> None:
        """Drop values that are kept for later runs (docs/how-to/reuse.md), those of other kernels of the cluster, too;
        tensors under names keep their values.
        """
        self.ask("session", "forget_values")

    def serve(self, port: int = 0, allow_functions: bool = False) -> WebGateway:
        """Serve the cluster over HTTP on 127.0.0.1 until either is closed; see docs/reference/rest.md.

        With `allow_functions` graphs may hold functions: whoever has the token may run any code as you.
        """
        return WebGateway(self.id, port, allow_functions)

    def close(self) -> None:
        """End all processes, and remove all memory and files; tensors there are computed anew when needed.

        A cluster that is detached, or that another process started, goes on: this only hangs up.
        """
        self._end(not self._host.detached, "closed")

    def stop(self) -> None:
        """End the cluster for all clients, detached or not, and remove all memory and files."""
        self._end(True, "stopped")

    def _end(self, stop: bool, word: str) -> None:
        if os.getpid() != self._pid:
            return
        with cluster_registry.lock:
            cluster_registry.remove(self)
            if self._closed:
                return
            self._closed = True
        close_gateways(self.id)
        self.local.release()
        if stop:
            self._connection.tell("host", "close")
        self._jobs.left(self.name, word if stop else "")  # first: a call under way ends with the same reason
        self._connection.close()
        self.shared.close()
        self._host.close() if stop else self._host.hang_up()
        self._held.clear()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- for the rest of the client
    def ask(self, actor: str, method: str, *args: Any, timeout: float | None = None) -> Any:
        """Call an actor of the cluster and wait for the answer, at most `timeout` seconds."""
        self._check_open()
        with self._jobs.saying_why(self.name):
            return self._connection.ask(actor, method, *args, timeout=timeout)

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Call an actor without waiting."""
        if not self._closed:
            self._connection.tell(actor, method, *args)

    def retains(self, data: TensorData) -> bool:
        """Whether this client retains the node's value on the cluster."""
        return not self._closed and data.key in self._held

    def missing(self, data: Sequence[TensorData]) -> list[TensorData]:
        """The nodes without a value on the cluster, after nodes have taken over equal values there."""
        self._check_open()
        with self._lock:
            self.kept.find([one for one in data if not self.retains(one)])
        return [one for one in data if not self.retains(one)]

    def retained(self) -> frozenset[str]:
        """Keys of nodes that this client retains."""
        return frozenset() if self._closed else frozenset(self._held)

    def computing(self, data: Sequence[TensorData]) -> list[Job]:
        """Running jobs that will leave values of these nodes, or of nodes that these are made of, on the cluster."""
        held = self._held
        return self._jobs.giving(lambda: {one.key for one in LinkedGraph.of(data, held).nodes} - held.keys())

    def retain(self, data: Sequence[TensorData]) -> None:
        """Retain values that the cluster has, each until no Python object refers to the node any more."""
        self._held.add(data)

    def computed(self, data: Sequence[TensorData], warned: bool, values: Mapping[str, list[bytes]]) -> None:
        """Retain values that a job computed, with value keys unless `warned`; small values came along, by key."""
        self._held.add(data)
        self.kept.computed(data, warned)
        self._brought.add(data, values)

    def release(self, keys: Sequence[str]) -> None:
        """Release the values of keys, retained or not."""
        for key in keys:
            self._held.pop(key, None)
            self._drop(key)

    def lose(self, key: str) -> None:
        """Release a value with lost chunks, retained or not."""
        self.kept.lost(key)
        self._held.pop(key, None)
        self.local.forget(key)
        self.tell("session", "lost", [key])

    def _drop(self, key: str) -> None:
        """Release a value, of which the last node is gone."""
        self.local.forget(key)
        self._connection.tell_together("session", "drop", key)

    def _lost(self) -> None:
        """The connection is cut."""
        if not self._closed:
            cluster_registry.lose(self, self.name)
            self._jobs.none_more(self._jobs.loss(self.name))
            self.shared.close()

    def _let_go(self, keys: list[str]) -> None:
        """Drop arrays that were stored for a single job."""
        self.tell("session", "drop", [key for key in keys if key not in self._held])

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterClosedError(f"{self.name} is closed; start a new one with jmars.Cluster()")
        self.check_process()

    def check_process(self) -> None:
        """Raise ClusterClosedError in a forked child: the connection is of the process that was forked."""
        refuse_forked(self._pid, self.id)


def default_cluster(start: bool = True) -> Cluster | None:
    """The open cluster that is newest or was made the default since; with `start`, a new cluster where there is
    none, with the settings of `start_as`.
    """
    mine = open_clusters()
    if mine or not start:
        return mine[-1] if mine else None
    with _start_lock:
        mine = open_clusters()  # another thread may have started one meanwhile
        return mine[-1] if mine else Cluster(**_settings)


def start_as(n_workers: int | None, memory_limit: int | None, gpus: str | int = 0) -> None:
    """Start later default clusters with the settings of a notebook's last cell that had flags."""
    _settings.update(n_workers=n_workers, memory_limit=memory_limit, gpus=gpus)


def default_settings() -> tuple[int, int]:
    """Memory limit in bytes and workers of the default cluster; of the one that would start where none is open."""
    cluster = default_cluster(start=False)
    if cluster is not None:
        return cluster.memory_limit, cluster.n_workers
    return _settings.get("memory_limit") or default_limit(), _settings.get("n_workers") or usable_cores()


@atexit.register
def _close_all() -> None:
    for cluster in open_clusters():
        cluster.close()


def connect(name: str = "", *, python: str | None = None) -> Cluster:
    """A running cluster of this user, of this process or another; becomes the default cluster.

    Parameters
    ----------
    name
        Its name or id, as `python -m jmars status` lists them; "" for the newest one. "ssh://user@host:port/name" for
        a cluster of another machine, which ssh reaches without a question; user, port and name may be missing.
    python
        Interpreter on that machine, with jmars installed; None for `python3`.

    Raises
    ------
    ClusterLostError
        If there is none of that name, several, it does not answer, or it has other versions of jmars, NumPy or Python.
    ClusterStartError
        If ssh cannot be used: no asyncssh, or a text that is no place.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1, name="shared") as mine, jmars.connect("shared") as same:
    ...     job = mine.submit(mt.arange(10, chunk_size=4).sum())
    ...     int(same.job(job.id).result())
    45
    """
    scheme, separator, _ = name.partition("://")
    if separator and scheme == "ssh":
        from jmars.deploy.far_host import FarHost

        return Cluster.of_host(FarHost(name, python))
    if separator:
        raise ClusterLostError(f'{name!r} is no place of a cluster; give a name, an id, or "ssh://user@host/name"')
    return Cluster.of_host(attached(find_entry(name)))


START_SECONDS = 30.0
END_SECONDS = 5.0
_open: dict[str, list[WebGateway]] = {}  # by cluster


class WebGateway:
    """A process that serves a cluster on 127.0.0.1; ends with `close`, and with the cluster.

    Parameters
    ----------
    cluster
        Its id or name.
    port
        Where to listen; 0 for any free port.
    allow_functions
        Whether graphs may hold functions: then whoever has the token may run any code as you.

    Raises
    ------
    ClusterStartError
        If the cluster has a gateway already, or the port is taken.

    Attributes
    ----------
    url
        "http://127.0.0.1:PORT".
    header
        A file, readable for this user alone, with the header that every request needs: for `curl -H @FILE`, and for
        `WebTaskAPI(None, url, token=header)`.
    """

    def __init__(self, cluster: str, port: int = 0, allow_functions: bool = False) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-P", "-m", "jmars", "web", "--cluster", cluster, "--port", str(port)]
        command += ["--allow-functions"] * allow_functions
        self._log = Path(find_entry(cluster).folder) / "web.log"  # goes with the cluster
        fd = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=fd,
                env=env,
                start_new_session=True,  # an interrupt of a cell goes to the kernel's whole group
            )
        finally:
            os.close(fd)
        try:
            self.url, header = self._two_lines()
        except BaseException:
            self.close()
            raise
        self.header = Path(header)
        _open.setdefault(cluster, []).append(self)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def close(self) -> None:
        """End the process; sessions and their results stay on the cluster for the next gateway."""
        process = self._process
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def __enter__(self) -> WebGateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<WebGateway {self.url}>"

    def _two_lines(self) -> list[str]:
        """The first two lines of output, when the gateway listens."""
        assert self._process.stdout is not None
        fd, said, end = self._process.stdout.fileno(), b"", time.monotonic() + START_SECONDS
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while said.count(b"\n") < 2:
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                raise ClusterStartError(f"the gateway said nothing for {START_SECONDS:.0f} s; try again")
            data = os.read(fd, 4096)
            if not data:
                why = self._log.read_text(errors="replace")[-2000:].strip()
                raise ClusterStartError(f"the gateway did not open: {why or 'it said nothing'}")
            said += data
        return said.decode().split("\n")[:2]


def close_gateways(cluster: str) -> None:
    """Close the gateways that this process opened for a cluster."""
    for gateway in _open.pop(cluster, ()):
        gateway.close()
