"""Reports the output of functions to the scheduler: by job and worker, bounded in rate and size.

A job may print a thousand lines at once and a hundred more in each second. Of further lines the last of each worker
are kept, and reported with the number of omitted lines as soon as there is room, or at the end of the job. Lines are
reported ten times a second, and before the end of the job. Text of no function goes to the cluster's log alone.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from jmars.dispatch.workers import OpenJobs, Worker
from jmars.model.messages import LEFT_OUT, JobTable, Printed, PrintedLine, Report
from jmars.processes.output import OutputReader, Source, text_of

REPORT_SECONDS = 0.1  # between two reports of a job
LINES_AT_ONCE, LINES_PER_SECOND = 1_000, 100  # of a job on this host
LAST_LINES = 20  # of a worker, kept beyond that


class _WorkerLines:
    """Lines of a job by a worker that are not reported yet."""

    def __init__(self) -> None:
        self.ready: list[PrintedLine] = []
        self.held: deque[tuple[Source, bytes]] = deque(maxlen=LAST_LINES)
        self.left_out = 0
        self.live = self.reported_live = ""  # the line that is not complete


class JobLines:
    """Output of a job: decides which lines are reported.

    Examples
    --------
    >>> lines = JobLines(now=0.0)
    >>> lines.add(0, Source(0, "o", "", 0), [b"%d" % k for k in range(10_000)])
    >>> reported = lines.take(0, now=0.0, ends=True)
    >>> len(reported), reported[1_000].line, reported[-1].text
    (1021, 8980, '9999')
    """

    def __init__(self, now: float) -> None:
        self._room, self._since = float(LINES_AT_ONCE), now
        self._of: dict[int, _WorkerLines] = {}

    @property
    def workers(self) -> list[int]:
        """Workers with output."""
        return list(self._of)

    @property
    def holds(self) -> bool:
        """Whether lines wait for room."""
        return any(one.held for one in self._of.values())

    def add(self, worker: int, source: Source, lines: Sequence[bytes]) -> None:
        """Add lines of a worker, in order."""
        mine = self._of.setdefault(worker, _WorkerLines())
        n = 0 if mine.held else min(len(lines), int(self._room))
        self._room -= n
        mine.ready += [PrintedLine(source.kind, source.file, source.line, text_of(line)) for line in lines[:n]]
        beyond = len(lines) - n
        mine.left_out += max(0, len(mine.held) + beyond - LAST_LINES)
        mine.held.extend((source, line) for line in lines[max(n, len(lines) - LAST_LINES) :])

    def take(self, worker: int, now: float, ends: bool = False) -> list[PrintedLine]:
        """Lines of a worker to report now; at the job's end all that are kept."""
        self._room = min(LINES_AT_ONCE, self._room + (now - self._since) * LINES_PER_SECOND)
        self._since = now
        mine = self._of[worker]
        found, mine.ready = mine.ready, []
        if mine.held and (ends or self._room >= len(mine.held)):
            self._room -= len(mine.held)
            if mine.left_out:
                found.append(PrintedLine(LEFT_OUT, "", mine.left_out, ""))
            found += [PrintedLine(one.kind, one.file, one.line, text_of(line)) for one, line in mine.held]
            mine.held.clear()
            mine.left_out = 0
        return found

    def set_live(self, worker: int, live: str) -> None:
        """Note a worker's incomplete line; "" for none."""
        if live or worker in self._of:
            self._of.setdefault(worker, _WorkerLines()).live = live

    def news(self, worker: int, now: float, ends: bool = False) -> tuple[list[PrintedLine], str] | None:
        """Lines of `take`, and the incomplete line; None without news."""
        lines, mine = self.take(worker, now, ends), self._of[worker]
        if not lines and mine.live == mine.reported_live:
            return None
        mine.reported_live = mine.live
        return lines, mine.live


class OutputReports:
    """Reads the pipes of executors, and reports.

    Parameters
    ----------
    workers
        All workers that have a process, by number.
    report
        Sends a report to the scheduler.
    """

    def __init__(self, jobs: OpenJobs, workers: Sequence[Worker], report: Callable[[Report], None]) -> None:
        self._jobs, self._workers, self._report = jobs, workers, report
        self._readers: dict[int, OutputReader] = {}  # by worker
        self._lines: dict[int, JobLines] = {}  # by number of the job
        self._live: dict[int, int] = {}  # by worker: number of the job whose line is not complete
        self._timer: asyncio.TimerHandle | None = None

    def read(self, worker: int, data: bytes) -> None:
        """Take bytes of a worker's pipe, before its newer reports are handled."""
        reader = self._readers.setdefault(worker, OutputReader())
        self._add(worker, reader.feed(data))
        self._set_live(worker, reader)
        if self._timer is None and self._lines:
            self._timer = asyncio.get_running_loop().call_later(REPORT_SECONDS, self._tick)

    def ended(self, worker: int) -> None:
        """A worker's process has ended."""
        reader = self._readers.pop(worker, None)
        if reader is not None:
            self._add(worker, reader.end())
            self._set_live(worker, reader)
            self._tell_all()

    def close_job(self, table: JobTable) -> None:
        """Report the rest of a job; the job's last report follows."""
        flag = self._jobs.flags.index(table.number)
        for worker, reader in self._readers.items():
            self._add(worker, reader.end(flag))
            self._set_live(worker, reader)
        lines = self._lines.pop(table.number, None)
        if lines is not None:
            self._tell(table, lines, ends=True)

    def close(self) -> None:
        """Report no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _add(self, worker: int, found: Iterable[tuple[Source, list[bytes]]]) -> None:
        for source, lines in found:
            table = self._table(worker, source.flag)
            if table is None:
                _log(line.decode(errors="replace") for line in lines)
            else:
                self._of(table).add(worker, source, lines)

    def _set_live(self, worker: int, reader: OutputReader) -> None:
        for lines in self._lines.values():
            lines.set_live(worker, "")
        table = self._table(worker, reader.live_flag) if reader.live else None
        if table is not None:
            self._of(table).set_live(worker, reader.live)

    def _of(self, table: JobTable) -> JobLines:
        return self._lines.setdefault(table.number, JobLines(monotonic()))

    def _table(self, worker: int, flag: int) -> JobTable | None:
        """The job of a text: the marked job if the worker runs its functions, else the job that it runs."""
        running = [batch.table for batch in self._workers[worker].batches if batch.capped]
        marked = self._jobs.flags.job_at(flag)
        if marked is not None and (not running or any(table.number == marked for table in running)):
            return self._jobs.by_number.get(marked)
        return running[0] if running else None

    def _tick(self) -> None:
        self._timer = None
        self._tell_all()
        if any(lines.holds for lines in self._lines.values()):
            self._timer = asyncio.get_running_loop().call_later(REPORT_SECONDS, self._tick)

    def _tell_all(self) -> None:
        for number, lines in self._lines.items():
            self._tell(self._jobs.by_number[number], lines)

    def _tell(self, table: JobTable, lines: JobLines, ends: bool = False) -> None:
        now = monotonic()
        for worker in lines.workers:
            news = lines.news(worker, now, ends)
            if news is not None:
                _log(line.text for line in news[0])
                self._report(Printed(table.job, worker, *news))


def _log(lines: Iterable[str]) -> None:
    """Write lines to the cluster's log."""
    os.write(2, "".join(f"{line}\n" for line in lines).encode(errors="replace"))
