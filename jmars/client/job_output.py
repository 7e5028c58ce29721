"""Shows lines that functions print on the cluster: below the cell that submitted their job, or on standard error.

The jobs of a cell share an output, `CellOutput`, drawn at most four times a second: the first and the last lines with
the number of omitted lines between, then the incomplete line of each worker. A program writes each line to standard
error; the progress line of a terminal (client/job.py) shows the newest incomplete line. `jmars.config.output` switches
both off.
Source: Ray's `worker.print_worker_logs`, for the idea.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jmars.client.notebook_views import cell_header
from jmars.config import config
from jmars.model import upper_floors
from jmars.model.messages import LEFT_OUT, OUT, PrintedLine

log = logging.getLogger("jmars.client")

FIRST_LINES, LAST_LINES = 50, 100  # of a cell that are shown
DRAW_SECONDS = 0.25  # between two pictures of an output


class ShownLine(NamedTuple):
    """A line with its worker.

    Examples
    --------
    >>> ShownLine("worker-1", False, "train.py", 12, "UserWarning: no").text
    '(worker-1, train.py:12) UserWarning: no'
    """

    worker: str
    is_error: bool  # of standard error
    file: str
    line: int
    words: str

    @property
    def place(self) -> str:
        """File and line of the user's code; "" where unknown."""
        if not self.file:
            return ""
        return f"line {self.line}" if "ipykernel_" in self.file else f"{self.file.rpartition('/')[2]}:{self.line}"

    @property
    def label(self) -> str:
        """Worker, and place."""
        return f"({', '.join(filter(None, (self.worker, self.place)))})"

    @property
    def text(self) -> str:
        """All in a line."""
        return f"{self.label} {self.words}"


class Lines:
    """The first and the last lines of a cell.

    Examples
    --------
    >>> lines = Lines()
    >>> for k in range(1_000):
    ...     lines.add(ShownLine("worker-0", False, "", 0, str(k)))
    >>> shown = list(lines.texts())
    >>> shown[49:52], len(shown)
    (['(worker-0) 49', '… 850 lines left out …', '(worker-0) 900'], 151)
    >>> lines.leave_out("worker-0", 10)
    >>> list(lines.texts())[50:]
    ['… 960 lines left out …']
    """

    def __init__(self) -> None:
        self.first: list[ShownLine] = []
        self.last: deque[ShownLine] = deque(maxlen=LAST_LINES)
        self.left_out = 0
        self.live: dict[tuple[str, str], ShownLine] = {}  # by job and worker

    def add(self, line: ShownLine) -> None:
        """Add a line; of too many the middle ones are only counted."""
        if not self.left_out and len(self.first) < FIRST_LINES:
            self.first.append(line)
            return
        self.left_out += len(self.last) == LAST_LINES
        self.last.append(line)

    def leave_out(self, worker: str, lines: int) -> None:
        """Count lines that the cluster omitted: earlier lines of the worker are no last lines any more."""
        kept = [one for one in self.last if one.worker != worker]
        self.left_out += lines + len(self.last) - len(kept)
        self.last = deque(kept, LAST_LINES)

    def texts(self) -> Iterator[str]:
        """All lines as text."""
        yield from (one.text for one in self.first)
        if self.left_out:
            yield left_out_text(self.left_out)
        yield from (one.text for one in (*self.last, *sorted(self.live.values())))


def left_out_text(lines: int) -> str:
    """Text for lines that are not shown."""
    return f"… {lines:,} {'line' if lines == 1 else 'lines'} left out …"


class CellOutput:
    """The output of a cell; called on the jmars thread, and at the end of jobs on any."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self._header, self._display = header, secrets.token_hex(16)
        self._lines = Lines()
        self._lock = threading.Lock()
        self._drawn = 0.0  # when
        self._is_placed = self._is_due = self._is_timed = False

    def take(self, job: str, worker: str, lines: Sequence[PrintedLine], live: str) -> None:
        """Add lines of a worker; `live` replaces the worker's incomplete line."""
        with self._lock:
            for line in lines:
                if line.kind == LEFT_OUT:
                    self._lines.leave_out(worker, line.line)
                else:
                    self._lines.add(_shown(worker, line))
            self._lines.live.pop((job, worker), None)
            if live:
                self._lines.live[job, worker] = ShownLine(worker, False, "", 0, live)
            self._is_due = True
            wait = self._drawn + DRAW_SECONDS - time.monotonic()
            if wait > 0 and not self._is_timed and (loop := _running_loop()) is not None:
                self._is_timed = True
                loop.call_later(wait, self._timed)
        if wait <= 0:
            self.draw()

    def end(self, job: str) -> None:
        """Draw the last picture of an ended job; incomplete lines of lost workers are complete now."""
        with self._lock:
            for key in [key for key in self._lines.live if key[0] == job]:
                self._lines.add(self._lines.live.pop(key))
        self.draw()

    def draw(self) -> None:
        """Draw the lines if there are new ones."""
        with self._lock:
            if not self._is_due:
                return
            self._is_due, self._drawn = False, time.monotonic()
            notebook = upper_floors.notebook[0]()
            notebook.draw_output(self._header, self._display, self._lines, self._is_placed)
            self._is_placed = True

    def _timed(self) -> None:
        self._is_timed = False
        self.draw()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop of the jmars thread; None on other threads, for lines of an ended job."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class ErrorOutput:
    """Standard error of a program.

    Attributes
    ----------
    live
        The newest incomplete line; "" for none.
    """

    def __init__(self) -> None:
        self.live = ""
        self._live: dict[tuple[str, str], str] = {}  # by job and worker

    def take(self, job: str, worker: str, lines: Sequence[PrintedLine], live: str) -> None:
        """Write lines of a worker."""
        self._live.pop((job, worker), None)
        if live:
            self._live[job, worker] = f"({worker}) {live}"
        self.live = next(reversed(self._live.values()), "")
        self._write(
            f"({worker}) {left_out_text(line.line)}" if line.kind == LEFT_OUT else _shown(worker, line).text
            for line in lines
        )

    def end(self, job: str) -> None:
        """Write incomplete lines of lost workers."""
        self._write([self._live.pop(key) for key in list(self._live) if key[0] == job])
        self.live = next(reversed(self._live.values()), "")

    def _write(self, texts: Any) -> None:
        text = "".join(f"{one}\n" for one in texts)
        if text and sys.stderr is not None and not sys.stderr.closed:
            sys.stderr.write("\r\x1b[K" + text if sys.stderr.isatty() else text)
            sys.stderr.flush()


def _shown(worker: str, line: PrintedLine) -> ShownLine:
    return ShownLine(worker, line.kind != OUT, line.file, line.line, line.text)


errors = ErrorOutput()
_cells: weakref.WeakValueDictionary[str, CellOutput] = weakref.WeakValueDictionary()  # by id of the cell's message
_newest: CellOutput | None = None  # stays for further jobs of the cell


class JobOutput:
    """Where the lines of a job go; a job that prints nothing has no part in it."""

    __slots__ = ("_header", "_output")

    def __init__(self) -> None:
        self._header = cell_header() if config.output == "show" else None  # {}: no cell; None: switched off
        self._output: CellOutput | ErrorOutput | None = None

    def take(self, told: Mapping[str, Any]) -> None:
        """Show lines that the cluster tells."""
        global _newest
        if self._header is None:
            return
        if self._output is None and self._header:
            self._output = _newest = _cells.setdefault(self._header["msg_id"], CellOutput(self._header))
        self._output = self._output or errors
        lines = [PrintedLine(*line) for line in told["lines"]]
        self._show(self._output.take, told["job"], told["worker"], lines, told["live"])

    def end(self, job: str) -> None:
        """The job has ended: show the rest now."""
        if self._output is not None:
            self._show(self._output.end, job)

    def _show(self, show: Callable[..., None], *args: Any) -> None:
        """Show; standard error may be closed, and the job ends all the same."""
        try:
            show(*args)
        except Exception:
            log.exception("lines of functions could not be shown")
            self._header = self._output = None
