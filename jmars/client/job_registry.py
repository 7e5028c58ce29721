"""JobRegistry: handles of a cluster's jobs by id; handles get the report of their job's end exactly once.

A report may come before `submit` has returned, from the jmars thread, or never, because the cluster is gone.
`JobRegistry` is the actor "jobs" for the cluster's news.

AttachedJob: a handle of a job that another client submitted, and the result descriptors that make it possible.

A descriptor is (key, dtype, chunks, packed): the dtype as text, or pickled; chunks None until the run tells them;
`packed` None for an array, else the outputs of a spawned function: a number, names, or -1 for a value per chunk.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.actors import remote_method
from jmars.client.job import Job
from jmars.errors import ClusterError, ClusterLostError, ClusterStoppedError
from jmars.tensor.operand import TensorData
from jmars.tensor.spawn import Handle, Mapped, Spawned, all_unpacked, unpacked, unpacked_each
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import Stored

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster

_EARLY = 100  # number of reports kept for jobs whose handle is not here yet


class JobRegistry:
    """Handles of a cluster's jobs, and reports that came before their handle.

    Parameters
    ----------
    scaled
        Called with the facts about workers and memory when their number has changed, on the jmars thread.
    """

    def __init__(self, scaled: Callable[[dict[str, Any]], None] = lambda facts: None) -> None:
        self._scaled = scaled
        self.reason = ""  # what the control process said of its own end
        self.is_stopped = False  # whether it said that somebody stopped the cluster
        self._lock = threading.Lock()
        self.jobs: weakref.WeakValueDictionary[str, Job] = weakref.WeakValueDictionary()  # by id
        self._running: set[Job] = set()  # keeps handles alive until the job's end
        self._early: dict[str, dict[str, Any]] = {}
        self._lines: deque[dict[str, Any]] = deque(maxlen=_EARLY)  # that functions of such jobs printed
        self._loop: asyncio.AbstractEventLoop | None = None  # of the jmars thread, from the first lines on
        self._gone: ClusterLostError | None = None  # why no report will come any more

    # -- what the cluster tells
    @remote_method
    def ended(self, report: dict[str, Any]) -> None:
        """A job has ended."""
        self._show_lines()  # those that came before the handle
        with self._lock:
            job = self._find_running(report["job"])
            if job is None:
                self._early[report["job"]] = report
                for old in list(self._early)[:-_EARLY]:
                    del self._early[old]
            else:
                self._running.discard(job)
        if job is not None:
            job.ended(report)

    @remote_method
    def stalled(self, told: dict[str, Any]) -> None:
        """A job has not moved for some time, or moves again."""
        job = self._find_running(told["job"])
        if job is not None:
            job.stalled(told)

    @remote_method
    def printed(self, told: dict[str, Any]) -> None:
        """Functions of a job printed lines."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._lines.append(told)
        self._show_lines()

    def _show_lines(self) -> None:
        """Show lines of jobs with a handle in this process; lines of other jobs wait for a handle."""
        with self._lock:
            found = [(self._find_running(told["job"]), told) for told in self._lines]
            self._lines = deque((told for job, told in found if job is None), _EARLY)
        for job, told in found:
            if job is not None:
                job.output.take(told)

    @remote_method
    def scaled(self, facts: dict[str, Any]) -> None:
        """The cluster has another number of workers."""
        self._scaled(facts)

    @remote_method
    def broken(self, why: str) -> None:
        """The control process ends, for this reason."""
        self.reason = why

    @remote_method
    def stopped(self, by: str) -> None:
        """The cluster was stopped; `by` is the asker in words, if known."""
        self.reason, self.is_stopped = by, True

    # -- for Cluster
    def loss(self, name: str) -> ClusterLostError:
        """The error of running jobs after the end of the cluster `name`."""
        if self.is_stopped:
            stopped = f"{name} was stopped {self.reason}".rstrip()
            return ClusterStoppedError(f"{stopped} before the job ended; run it again on a new cluster")
        because = f" ({self.reason})" if self.reason else ""
        gone = f"the control process of {name} went away{because} before the job ended"
        return ClusterLostError(f"{gone}; run it on a new cluster")

    @contextmanager
    def saying_why(self, name: str) -> Iterator[None]:
        """Adds the reason of the end of the cluster `name` to a ClusterLostError that is raised meanwhile."""
        try:
            yield
        except ClusterLostError as error:
            if self.is_stopped:
                raise ClusterStoppedError(f"{name} was stopped {self.reason}".rstrip()) from error
            if isinstance(self._gone, ClusterStoppedError):  # by this program
                raise ClusterStoppedError(str(self._gone)) from error
            if not self.reason:
                raise
            raise ClusterLostError(f"{error} ({self.reason})") from error

    @property
    def running(self) -> list[Job]:
        """Jobs that have not ended."""
        return list(self._running)

    def giving(self, keys: Callable[[], Set[str]]) -> list[Job]:
        """Jobs that have not ended and will leave a node with a key of `keys()`; without jobs `keys` is not called."""
        running = self.running
        wanted = keys() if running else set[str]()
        return [job for job in running if job.gives(wanted)]

    def send(self, job: Job, start: Callable[[], str]) -> None:
        """Begin a job without an id: `start` sends its graph, in a thread, and returns the id or raises."""
        with self._lock:
            gone = self._gone
            if gone is None:
                self._running.add(job)

        def send() -> None:
            try:
                job.named(start())
            except BaseException as error:
                with self._lock:
                    self._running.discard(job)
                job.unsent(error)
            else:
                self.expect(job)

        if gone is not None:
            raise gone
        threading.Thread(target=send, name=f"jmars-sends-{job.name}", daemon=True).start()

    def expect(self, job: Job) -> None:
        """Enter a handle, and give it a report that came early, or the news that none will come."""
        with self._lock:
            self.jobs[job.id] = job
            early = self._early.pop(job.id, None)
            gone = self._gone
            if early is None and gone is None and not job.wait(0):
                self._running.add(job)
            else:
                self._running.discard(job)
            mine = [told for told in self._lines if told["job"] == job.id]
            if early is not None:
                self._lines = deque((told for told in self._lines if told["job"] != job.id), _EARLY)
        if early is not None:
            for told in mine:
                job.output.take(told)
            job.ended(early)
        elif gone is not None:
            job.lost(gone)
        elif mine and self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the cluster is gone, which is told otherwise
                self._loop.call_soon_threadsafe(self._show_lines)

    def left(self, name: str, word: str) -> None:
        """This program closed or stopped (`word`) the cluster `name`; or, for "", only the connection."""
        if word:
            why = f"{name} was {word} before the job ended; start a new cluster and run it again"
            self.none_more(ClusterStoppedError(why))
        else:
            goes_on = f"this program closed its connection to {name}, where the job goes on"
            self.none_more(ClusterLostError(f"{goes_on}; connect again, and take the job with cluster.job(id)"))

    def none_more(self, why: ClusterLostError) -> None:
        """No report will come any more: all jobs are lost."""
        with self._lock:
            self._gone = self._gone or why
            gone, jobs = self._gone, list(self._running)
            self._running.clear()
        for job in jobs:
            job.lost(gone)

    def _find_running(self, job: str) -> Job | None:
        known = self.jobs.get(job)
        return known if known in self._running else None


def outputs_of(handle: Handle) -> Any:
    """Outputs of a spawned function that a handle stands for: a number, the names of all, or -1 for many calls."""
    if isinstance(handle, Mapped):
        return -1
    return handle.outputs if isinstance(handle, Spawned) and handle.outputs is not None else handle.number


def descriptors_of(data: Sequence[TensorData], single: bool, packed: Sequence[Any] = ()) -> tuple[bool, list[Any]]:
    """Descriptors of a job's results, as plain data for other clients."""
    told = [
        (one.key, _dtype_told(one.dtype), None if one.has_unknown_lengths else one.chunks, how)
        for one, how in zip_longest(data, packed)
    ]
    return single, told


class AttachedJob(Job):
    """A job that another client submitted.

    Attributes
    ----------
    tensors
        Its results as tensors to go on with, once it has succeeded.
    """

    def __init__(self, cluster: Cluster, job: str, name: str, single: bool, told: Sequence[Any] | None) -> None:
        super().__init__(cluster, job, name, [], single)
        self._told = told
        self.opened = [None if one[3] is None else _opener(one[3]) for one in told or ()]

    @property
    def tensors(self) -> list[Tensor]:
        """Results as tensors; raises the job's error."""
        self.wait()
        if self.error is not None:
            raise self.error
        return [Tensor(one) for one in self._data]

    def forget(self) -> None:
        """Tell the cluster not to keep the results for later clients; present holders keep them."""
        self.cluster.tell("session", "forget", self.id)

    def result(self, timeout: float | None = None) -> Any:
        """As `Job.result`."""
        if self._told is None:
            raise ClusterError(f"who submitted {self.name} did not say what its results are; they are its own")
        return super().result(timeout)

    def ended(self, report: dict[str, Any]) -> None:
        """Take the report of the job's end (called by the cluster)."""
        if self.wait(0):
            return  # told twice
        settled = report.get("settled") or {}
        self._data = [_node(one, settled) for one in self._told or ()]
        super().ended(report)


def attach(cluster: Cluster, job: str) -> AttachedJob:
    """A handle of a job that the cluster remembers."""
    found = cluster.ask("session", "attach", job)
    handle = AttachedJob(cluster, job, found["name"], found["single"], found["results"])
    if found["report"] is not None:
        handle.ended(found["report"])
    return handle


def _node(told: Any, settled: dict[str, Any]) -> TensorData:
    key, dtype, chunks, _ = told
    splits = tuple(tuple(axis) for axis in (settled.get(key, chunks) or ()))
    kind = np.dtype(dtype) if isinstance(dtype, str) else pickle.loads(dtype)
    data = TensorData(Stored(), tuple(map(sum, splits)), kind, splits)
    data.key = key
    return data


def _dtype_told(dtype: np.dtype[Any]) -> str | bytes:
    return dtype.str if dtype.names is None and dtype.subdtype is None else pickle.dumps(dtype)


def _opener(packed: Any) -> Any:
    if packed == -1:
        return unpacked_each
    if isinstance(packed, int):
        return lambda chunk: unpacked(chunk, packed)
    return lambda chunk: all_unpacked(chunk, tuple(packed))
