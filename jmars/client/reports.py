"""Who waits for the end of which job: every handle hears of it exactly once.

A report may come before `submit` has returned, from another thread, or never, because the cluster is gone. `Reports` is
the actor "jobs" to which the cluster tells all this. Used by `Cluster`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jmars.actors import remote_method
from jmars.client.job import Job
from jmars.errors import ClusterLostError

__all__ = ["Reports"]

_EARLY = 100  # reports of jobs that nobody waits for yet


class Reports:
    """The jobs of one cluster that have not ended, and reports that came before their job was known here."""

    def __init__(self) -> None:
        self.reason = ""  # what the control process said of its own end
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._early: dict[str, dict[str, Any]] = {}
        self._gone = ""  # why no report will come any more

    # -- what the cluster tells
    @remote_method
    def ended(self, report: dict[str, Any]) -> None:
        """A job has ended."""
        with self._lock:
            job = self._jobs.pop(report["job"], None)
            if job is None:
                self._early[report["job"]] = report
                for old in list(self._early)[:-_EARLY]:
                    del self._early[old]
        if job is not None:
            job.ended(report)

    @remote_method
    def stalled(self, told: dict[str, Any]) -> None:
        """A job has not moved for some time, or moves again."""
        job = self._jobs.get(told["job"])
        if job is not None:
            job.stalled(told)

    @remote_method
    def broken(self, why: str) -> None:
        """The control process ends, for a reason of its own."""
        self.reason = why

    # -- for Cluster
    @property
    def because(self) -> str:
        """Its reason in brackets, after a blank; empty where it gave none."""
        return f" ({self.reason})" if self.reason else ""

    @contextmanager
    def saying_why(self) -> Iterator[None]:
        """A ClusterLostError that is raised meanwhile has the reason that the control process gave."""
        try:
            yield
        except ClusterLostError as error:
            if not self.reason:
                raise
            raise ClusterLostError(f"{error}{self.because}") from error

    @property
    def running(self) -> list[Job]:
        """Jobs that have not ended."""
        return list(self._jobs.values())

    def expect(self, job: Job) -> None:
        """Tell `job` of its end, which may have come already, or never will."""
        with self._lock:
            early = self._early.pop(job.id, None)
            gone = self._gone
            if early is None and not gone:
                self._jobs[job.id] = job
        if early is not None:
            job.ended(early)
        elif gone:
            job.lost(gone)

    def none_more(self, why: str) -> None:
        """No report will come any more: all jobs are lost."""
        with self._lock:
            self._gone = self._gone or why
            jobs = list(self._jobs.values())
            self._jobs.clear()
        for job in jobs:
            job.lost(self._gone)
