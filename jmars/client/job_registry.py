"""JobRegistry: handles of a cluster's jobs by id; handles get the report of their job's end exactly once.

A report may come before `submit` has returned, from the jmars thread, or never, because the cluster is gone.
`JobRegistry` is the actor "jobs" for the cluster's news.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Any

from jmars.actors import remote_method
from jmars.client.job import Job
from jmars.errors import ClusterLostError, ClusterStoppedError

__all__ = ["JobRegistry"]

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
        self._jobs: weakref.WeakValueDictionary[str, Job] = weakref.WeakValueDictionary()  # by id
        self._running: set[Job] = set()  # keeps handles alive until the job's end
        self._early: dict[str, dict[str, Any]] = {}
        self._gone: ClusterLostError | None = None  # why no report will come any more

    # -- what the cluster tells
    @remote_method
    def ended(self, report: dict[str, Any]) -> None:
        """A job has ended."""
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
    def find(self, job: str) -> Job | None:
        """The handle of a job, as long as the program refers to the handle or the job runs."""
        return self._jobs.get(job)

    def loss(self, name: str) -> ClusterLostError:
        """The error of running jobs after the end of the cluster `name`."""
        if self.is_stopped:
            by = f" {self.reason}" if self.reason else ""
            return ClusterStoppedError(f"{name} was stopped{by} before the job ended; run it again on a new cluster")
        because = f" ({self.reason})" if self.reason else ""
        gone = f"the control process of {name} went away{because} before the job ended"
        return ClusterLostError(f"{gone}; run it on a new cluster")

    @contextmanager
    def saying_why(self) -> Iterator[None]:
        """Adds the control process's reason to a ClusterLostError that is raised meanwhile."""
        try:
            yield
        except ClusterLostError as error:
            if self.is_stopped:
                raise ClusterStoppedError(f"the cluster was stopped {self.reason}".rstrip()) from error
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
            self._jobs[job.id] = job
            early = self._early.pop(job.id, None)
            gone = self._gone
            if early is None and gone is None and not job.wait(0):
                self._running.add(job)
            else:
                self._running.discard(job)
        if early is not None:
            job.ended(early)
        elif gone is not None:
            job.lost(gone)

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
        known = self._jobs.get(job)
        return known if known in self._running else None
