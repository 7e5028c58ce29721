"""Turns events into frames for the page: at most ten a second, bounded in size, the newest data first.

`FrameRate` decides when to send, `FrameBuilder` chooses traits; both are plain. `Sampler`, below, is the thread that
reads the event log, folds and shows. A frame holds whole traits, not differences, so a lost or skipped frame loses no
data. Decision 0008 gives the reasons.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jmars.errors import JmarsError
from jmars.model.events import Event
from jmars.model.status import TERMINAL, JobState
from jmars.notebook.kernel_access import end_of_sender
from jmars.notebook.run_state import PARTS, RunState
from jmars.notebook.running_cell import RunningCell
from jmars.notebook.view import TRAITS, Picture

log = logging.getLogger("jmars.notebook")

Frame = dict[str, Any]  # some fields of Picture

FRAME_LIMIT = 32 * 1024  # bytes of a frame without its graphs
_FAST, _MEDIUM, _LARGE, _SLOW = 0.1, 0.25, 0.4, 1.0  # seconds between frames
_REVEAL_SECONDS = 0.25  # seconds before a cell without a job is shown
_LOOK = 0.05  # seconds between two looks at the line of the cell
_TICK = 1.0  # seconds between updates of the elapsed time without events
_NEVER = -math.inf
_LONG = 10.0  # seconds of a job before advice is computed; advice takes a fiftieth of the job's time
_PER_OPERAND = 2.5e-3  # seconds of the job per operand before advice, which plans the graph again
_ADVICE_WAIT_SECONDS = 1.0  # seconds that the last picture waits for advice
_READS = 200  # parts of the log read at most between two frames to reach the newest job
_RATE = 16e3  # bytes a second of each table or curve: a larger table is updated less often


@dataclass
class FrameRate:
    """Chooses seconds between frames: few while the page answers promptly, more when it is slow or hidden.

    The page answers about once a second with the number of the frame it has drawn. A page that cannot answer (its
    kernel is busy and nothing serves the comm) gets four frames a second. A page that shows a large graph gets five
    frames in two seconds: a frame of 20,000 operands takes milliseconds from the workers.

    Examples
    --------
    >>> pace = FrameRate()
    >>> pace.interval(now=0.0)
    0.25
    >>> pace.sent(1, now=0.0)
    >>> pace.answered(1, hidden=False, now=0.1)
    >>> pace.interval(now=0.2), pace.interval(now=0.2, large=True)
    (0.1, 0.4)
    """

    last_answer: float | None = None
    delay: float = 0.0  # seconds that the newest answer took
    hidden: bool = False
    out: dict[int, float] = field(default_factory=dict)  # number of a frame: time when it was sent

    def sent(self, number: int, now: float) -> None:
        """Notes that frame `number` was sent."""
        self.out[number] = now
        if len(self.out) > 100:
            del self.out[min(self.out)]

    def answered(self, number: int, hidden: bool, now: float) -> None:
        """Notes that the page has drawn frame `number`."""
        self.hidden, self.last_answer = hidden, now
        if number in self.out:
            self.delay = now - self.out[number]
        self.out = {other: at for other, at in self.out.items() if other > number}

    def interval(self, now: float, large: bool = False) -> float:
        """Seconds until the next frame; `large`: the graph has too many operands to be drawn one by one."""
        if self.hidden or (self.delay > 1.0 and self.last_answer is not None and now - self.last_answer < 5.0):
            return _SLOW
        if large:
            return _LARGE
        if self.last_answer is None or now - self.last_answer > 3.0:
            return _MEDIUM
        return _FAST


@dataclass
class FrameBuilder:
    """Builds the frames of a page: traits that changed since they were last sent."""

    revision: dict[str, int] = field(default_factory=dict)  # of each trait as sent
    at: dict[str, float] = field(default_factory=dict)  # when each trait was sent
    rest: dict[str, float] = field(default_factory=dict)  # seconds until each trait may be sent again

    def frame(self, run: RunState, now: float, last: bool = False) -> Frame | None:
        """The traits that have changed, or None if none has.

        Parameters
        ----------
        run
            The run to show.
        now
            Seconds since the epoch.
        last
            Whether this is the last frame, so that no trait is held back.
        """
        names = [name for name in TRAITS if run.revision[name] != self.revision.get(name)]
        if run.live and "snap" not in names and now - self.at.get("snap", _NEVER) >= _TICK:
            names.append("snap")
        if not last:
            names = [name for name in names if now - self.at.get(name, _NEVER) >= self.rest.get(name, 0.0)]
        names.sort(key=lambda name: (PARTS[name].rest > 0, self.at.get(name, _NEVER)))
        frame: Frame = {}
        size = 0
        for name in names:
            value = run.trait(name, now)
            taken = 0 if name in ("graph", "earlier", "code") else _size(value)
            size += taken
            if size > FRAME_LIMIT and frame and not last:
                break  # sent first in the next frame, as the oldest
            frame[name] = value
            self.revision[name], self.at[name] = run.revision[name], now
            if PARTS[name].rest:
                self.rest[name] = max(PARTS[name].rest, taken / _RATE)
        return frame or None


def _size(value: Any) -> int:
    """Bytes of a trait in a message."""
    return len(value) if isinstance(value, bytes) else len(json.dumps(value))


def catch_up(read: Callable[[int, str], tuple[list[Event], int]], run: RunState) -> None:
    """Folds all logged events of the newest job of `run`; `read` as for `Sampler`."""
    if run.job is None:
        return
    since = run.since
    while True:
        events, upto = read(since, run.job.id)
        run.fold(events)
        if upto <= since:
            return
        since = upto


class Sampler:
    """The thread that shows a run while it goes on.

    Parameters
    ----------
    read
        Returns events after a number, of a job and of the cluster: `cluster.events`. Called on the thread.
    show
        Draws a frame: `JobView.show`. Called on the thread.
    run
        The state to fold into; `RunState(open=True, attached=True)` for a cell.
    on_end
        Called once on the thread, with the last picture, when the run has ended.
    advise
        Returns advice for a job by its id, as `RunState.advise` takes it, shown in the Plan tab. Called once for each
        job that runs longer than ten seconds, and than 2.5 ms for each operand, on a thread of its own.
    cell
        The running cell. The thread asks for its line every 50 ms, and so measures the seconds of each line in the
        kernel.
    on_begin
        Called once on the thread, before the first frame; not called for a run that ends without a frame.

    Examples
    --------
    >>> def read(since, job):
    ...     return [[1, 0.0, "JobMoved", job, {"state": "succeeded", "error": None, "elapsed": 0.1}]], 1
    >>> frames = []
    >>> sampler = Sampler(read, frames.append, RunState())
    >>> sampler.follow("job-1")
    >>> sampler.done.wait(timeout=5)
    True
    >>> frames[-1]["snap"]["state"]
    'succeeded'
    """

    def __init__(
        self,
        read: Callable[[int, str], tuple[list[Event], int]],
        show: Callable[[Frame], None],
        run: RunState,
        on_end: Callable[[Picture], None] | None = None,
        advise: Callable[[str], list[tuple[str, float]]] | None = None,
        cell: RunningCell | None = None,
        on_begin: Callable[[], None] | None = None,
    ) -> None:
        self.run = run
        self._cell, self._on_begin = cell, on_begin
        self._looked = time.monotonic()  # at the cell's line
        self._read, self._show, self._on_end, self._advise = read, show, on_end, advise
        self._advised: dict[str, threading.Thread] = {}  # by job: the thread that computes advice
        self._rate, self._frames = FrameRate(), FrameBuilder()
        self._next: deque[tuple[str, str]] = deque()  # jobs to follow
        self._since, self._sent = 0, 0
        self._lock = threading.Lock()  # over `run` and `_pace`
        self._wake, self.done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="jmars-sampler", daemon=True)

    def begin(self) -> None:
        """Starts the thread, which shows a cell without a job after a quarter of a second."""
        if not self._thread.is_alive() and not self.done.is_set():
            self._thread.start()

    def follow(self, job: str, name: str = "") -> None:
        """Shows `job` from now on; starts the thread if it does not run.

        The first job is shown at once, further jobs with the next frame: many short jobs do not send many frames.
        """
        with self._lock:
            self._next.append((job, name))
            if self.run.job is None:
                self._wake.set()
        self.begin()

    def close(self, outcome: JobState = JobState.SUCCEEDED) -> None:
        """Notes that the cell has ended; the thread ends when the newest job has ended."""
        with self._lock:
            self.run.close(outcome, time.time())
        self._wake.set()
        if not self._thread.is_alive():
            self.done.set()

    def explain(self, job: str, error: str) -> None:
        """Shows `error` as the error of `job`."""
        with self._lock:
            self.run.explain(job, error)
        self._wake.set()

    def detach(self) -> None:
        """Notes that the cell no longer waits for the job."""
        with self._lock:
            self.run.detach()
        self._wake.set()

    def answered(self, number: int, hidden: bool) -> None:
        """Notes that the page has drawn frame `number`; `hidden` says that its browser tab is hidden."""
        with self._lock:
            self._rate.answered(number, hidden, time.monotonic())

    def picture(self) -> Picture:
        """All data of the view now."""
        with self._lock:
            return self.run.picture(time.time())

    def _work(self) -> None:
        """Reads, folds and shows until the run has ended."""
        try:
            self._rest(_REVEAL_SECONDS)
            with self._lock:
                if not (self.run.live or self.run.job or self._next):
                    return  # a cell of milliseconds without a job shows no view
            if self._on_begin is not None:
                self._on_begin()
            while self._step():
                self._take_advice()
                with self._lock:
                    large = self.run.job is not None and self.run.job.large
                    interval = self._rate.interval(time.monotonic(), large)
                self._rest(interval)
            for asking in self._advised.values():
                asking.join(_ADVICE_WAIT_SECONDS)
            if self._on_end is not None:
                self._on_end(self.picture())
        finally:
            del self._read, self._show, self._on_end, self._advise, self._cell, self._on_begin  # they hold the view
            end_of_sender()
            self.done.set()

    def _rest(self, interval: float) -> None:
        """Waits for the next frame and looks at the line of the cell meanwhile."""
        until = time.monotonic() + interval
        while not self._wake.wait(max(0.0, min(_LOOK, until - time.monotonic()))) and time.monotonic() < until:
            with self._lock:
                self._look()
        self._wake.clear()

    def _look(self) -> None:
        """Notes the line of the cell that runs now, and the seconds since the last look as seconds of that line."""
        if self._cell is None:
            return
        now, line = time.monotonic(), self._cell.line() if self.run.open else 0
        self.run.at(line, 0.0 if self._cell.waits else now - self._looked)
        self._looked = now

    def _step(self) -> bool:
        """Sends a frame if due; False after the last frame."""
        try:
            self._advance()
            self._read_on()
        except (JmarsError, OSError) as error:
            with self._lock:
                while self._next:
                    self.run.follow(*self._next.popleft())
                self.run.lose(error, time.time())
        with self._lock:
            self._look()
            live = self.run.live or (bool(self._next) and self.run.failure is None)
            frame = self._frames.frame(self.run, time.time(), last=not live)
            if frame is not None:
                self._sent += 1
                self._rate.sent(self._sent, time.monotonic())
        if frame is not None:
            self._show(frame | {"frame": self._sent})
        return live

    def _take_advice(self) -> None:
        """Starts the computation of advice, once per long job."""
        with self._lock:
            job = self.run.job
            if self._advise is None or job is None or job.state != JobState.RUNNING or job.id in self._advised:
                return
            if job.elapsed(time.time()) < max(_LONG, _PER_OPERAND * job.n):
                return
        asking = threading.Thread(target=self._ask, args=(self._advise, job.id), name="jmars-advice", daemon=True)
        self._advised[job.id] = asking
        asking.start()

    def _ask(self, advise: Callable[[str], list[tuple[str, float]]], job: str) -> None:
        """Computes advice for a job on a thread of its own."""
        try:
            found = advise(job)
        except Exception:  # the view does without
            log.exception("no advice for %s", job)
            return
        with self._lock:
            self.run.advise(job, found)

    def _advance(self) -> None:
        """Goes on to the newest job; of each job before, the logged events are read first."""
        while self._next:
            for _ in range(_READS):
                if not self._read_on() or (self.run.job and self.run.job.state in TERMINAL):
                    break
            with self._lock:
                self.run.follow(*self._next.popleft())
                self._since = self.run.since  # earlier reads may have skipped this job's first events

    def _read_on(self) -> bool:
        """Reads and folds a part of the log; False if there were no new events."""
        with self._lock:
            since, job = self._since, self.run.job
        if job is None:
            return False
        events, upto = self._read(since, job.id)
        with self._lock:
            self.run.fold(events)
            self._since = max(since, upto)
        return upto > since
