"""Reports of jobs: `Job.report`, `Job.save`, figures and drawings, and `jmars.performance_report`.

`jmars.reports` makes figures and pages of events; the module is imported on first use.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jmars.client.cluster_link import ClusterLink
from jmars.client.cluster_registry import everywhere
from jmars.client.trace import all_events
from jmars.errors import ClusterError
from jmars.tensor.atomic_file import atomic_file

if TYPE_CHECKING:
    from jmars.reports.drawing import Drawing
    from jmars.reports.run_record import RunRecord

__all__ = ["draw_job", "job_figure", "performance_report", "save_job", "write_report"]

READ_SECONDS = 0.5  # between two looks at the log, which is bounded


def write_report(cluster: ClusterLink, job: str, title: str, path: str | os.PathLike[str]) -> Path:
    """Write the report of a job to a file, atomically; returns the path."""
    return _write(_record(cluster, job), title, path)


def job_figure(cluster: ClusterLink, job: str, name: str) -> Any:
    """A Bokeh figure of a job: "timeline" or "memory"."""
    from jmars.reports import figures

    return getattr(figures, name)(_record(cluster, job))


def save_job(cluster: ClusterLink, job: str, name: str, path: str | os.PathLike[str]) -> Path:
    """Write the events of a job to a file; returns the path."""
    from jmars.reports.saved_run import save_run

    return save_run(path, all_events(cluster, job), job, name)


def draw_job(cluster: ClusterLink, job: str, fusion: str, colour: str) -> Drawing:
    """The graph of a job's newest stage, coloured by "kind", "state", "worker" or "seconds"."""
    from jmars.reports.drawing import Drawing
    from jmars.reports.graph_dot import graph_dot
    from jmars.reports.operand_facts import OperandFacts

    facts = OperandFacts.of(all_events(cluster, job), job)
    if facts.graph is None:
        raise ClusterError(f"{job} has no graph yet: it is prepared, or ended before; wait for its first operands")
    return Drawing(graph_dot(facts.graph, fusion, facts.colours(colour)))


@contextmanager
def performance_report(path: str | os.PathLike[str], cluster: Any = None) -> Iterator[None]:
    """Within the block, record all jobs of a cluster; at the end, write the report to a file.

    The file is an HTML page that needs no server and no network: jobs with predicted and measured figures, operands by
    worker, memory, transfers between hosts, seconds by kind of operand and by line. After an error in the block the
    report is written too.

    Parameters
    ----------
    path
        File to write.
    cluster
        The default cluster by default: the newest open cluster, at the beginning of the block or else at its end.

    Raises
    ------
    ClusterError
        If no cluster is open at the end of the block.
    FileNotFoundError
        If the folder of `path` is not there; before the block runs.
    JmarsError
        If Bokeh is not installed; before the block runs.

    Examples
    --------
    >>> import os, tempfile
    >>> import jmars, jmars.tensor as mt
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "report.html")
    >>> with jmars.Cluster(n_workers=1), jmars.performance_report(path):
    ...     float(mt.ones((100, 100), chunk_size=50).sum())
    10000.0
    >>> "100 % of" in open(path).read() or os.path.getsize(path) > 10_000
    True
    >>> folder.cleanup()
    """
    from jmars.reports import figures
    from jmars.reports.run_record import RunRecord

    figures.bokeh("plotting")
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"no folder {Path(path).absolute().parent} for the report; make the folder first")
    found = cluster or _default()
    recorder = None if found is None else _Recorder(found)
    try:
        yield
    finally:
        if recorder is None:
            found = _default()
            if found is None:
                raise ClusterError("no cluster ran in the block of performance_report; start one with jmars.Cluster()")
            record = RunRecord.of(all_events(found, ""))
        else:
            record = recorder.close()
        _write(record, f"jmars: {Path(path).stem}", path)


class _Recorder:
    """Reads the log of a cluster while a block runs, from now on."""

    def __init__(self, cluster: Any) -> None:
        from jmars.reports.run_record import RunRecord

        self._cluster, self._record = cluster, RunRecord()
        self._known: set[str] = {job["id"] for job in cluster.jobs() if job["state"] not in ("preparing", "running")}
        self._since = 0
        self._read()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jmars-report", daemon=True)
        self._thread.start()

    def close(self) -> RunRecord:
        """The record, with the last events."""
        self._end.set()
        self._thread.join()
        if not self._cluster.closed:
            self._read()
        return self._record

    def _run(self) -> None:
        while not self._end.wait(READ_SECONDS) and not self._cluster.closed:
            try:
                self._read()
            except ClusterError:  # it was closed meanwhile: the record ends here
                return

    def _read(self) -> None:
        while True:
            found, upto = self._cluster.events(self._since)
            for event in found:
                if event[3] not in self._known:  # of jobs that ended before the block
                    self._record.take(event)
            if upto <= self._since:
                return
            self._since = upto


def _default() -> Any:
    """The newest open cluster of this process, None without one."""
    mine = [one for one in everywhere() if not getattr(one, "closed", True)]
    return mine[-1] if mine else None


def _record(cluster: ClusterLink, job: str) -> RunRecord:
    from jmars.reports.run_record import RunRecord

    return RunRecord.of(all_events(cluster, job), [job])


def _write(record: RunRecord, title: str, path: str | os.PathLike[str]) -> Path:
    from jmars.reports.page import report_page

    target = Path(path)
    page = report_page(record, title)
    with atomic_file(os.path.abspath(target)) as part:
        Path(part).write_text(page)
    return target
