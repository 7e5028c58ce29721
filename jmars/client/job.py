"""Job: a handle of a submitted graph, to ask for the state, wait, cancel, and take the values.

A terminal has a line with the progress of a job while a program waits for the job. The line stands on standard error
from the second second on, is drawn twice a second and cleared at the end. Views of cells show more; a job with a view
has no line.

`FloatWarnings` tells floating point errors of a cluster's workers as NumPy does, by Python's warnings: once for each
tensor, however often a value is computed.

The scheduler recovers chunks of running jobs; only the client has the graph of tensors that were computed or sent
before. So a job that ends with ChunkLostError is submitted once more without the lost tensors, and a tensor whose chunk
is found to be lost at a fetch is computed again.
Source: docs/explanation/seeds.md, "Submitting a job", "Cancelling a job", "Future work"; NumPy reference, "Floating
point error handling".
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from jmars.client import plans
from jmars.client.arrays import Part, brought_value
from jmars.client.job_output import JobOutput, errors
from jmars.client.notebook_views import Shown, has_bar, wait_with_bar
from jmars.client.reporting import all_events, write_trace
from jmars.config import config
from jmars.errors import ChunkLostError, ClusterError, ClusterLostError, JobCancelledError, MemoryLimitError
from jmars.model.collector import without_collections
from jmars.model.events import Event
from jmars.model.messages import Failure
from jmars.model.status import STATE_NAMES, JobState
from jmars.reports.saved_run import RunReports, save_run
from jmars.tensor.operand import SourceLine, TensorData, raise_at, warn_user
from jmars.tensor.spawn import Mapped, unpacked
from jmars.tensor.structure import detach
from jmars.tensor.tensor_graph import LinkedGraph, Stored
from jmars.units import format_seconds

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster
    from jmars.client.plans import PlannedRun

log = logging.getLogger("jmars.client")


class Job(Shown, RunReports):
    """A run of a graph on a cluster.

    Attributes
    ----------
    name
        The name that people see.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1) as cluster:
    ...     job = cluster.submit(mt.ones(10, chunk_size=5).sum())
    ...     job.result()
    np.float64(10.0)
    """

    def __init__(self, cluster: Cluster, job: str, name: str, data: Sequence[TensorData], single: bool) -> None:
        self.name = name
        self.cluster = cluster
        self._id = job
        self._named = threading.Event()  # set when the cluster has the graph
        if job:
            self._named.set()
        self._begun = time.monotonic()
        self._data = list(data)  # the results live on the cluster at least as long as the job does here
        self._single = single
        self.opened: list[Callable[[Any], Any] | None] = []  # what makes values of what the cluster holds, where not it
        self.shown = False  # whether a view shows how it goes on, so that nobody need be told otherwise
        self.output = JobOutput()
        self._report: dict[str, Any] | None = None
        self._warned: list[Any] = []  # key, line and text of warnings for those who wait
        self._waiting = 0  # threads that wait for the end
        self._advice: str | None = None  # what to do after a refusal, once that was looked for
        self._recoveries = 0  # how often it was submitted again though no tensor that the client retains was lost
        self._again: list[Callable[[Job], None]] = []  # told of that
        self._cancelled = False  # somebody asked for that
        self._done = threading.Event()
        self._callbacks: list[Callable[[Job], None]] = []
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        """The id on the cluster, "job-<n>"; waits while a large graph is sent, and is "" if sending failed."""
        self._named.wait()
        return self._id

    @property
    def state(self) -> str:
        """preparing, running, cancelling, succeeded, failed or cancelled."""
        if self._report is not None:
            return str(self._report["state"])
        return str(self.describe()["state"])

    @property
    def error(self) -> BaseException | None:
        """Exception of a failed or cancelled job; None while the job runs and after success."""
        if self._report is None or self._report["state"] == JobState.SUCCEEDED:
            return None
        if self._report["state"] == JobState.CANCELLED:
            return JobCancelledError(f"{self.name} was cancelled; run it again for its result")
        error: BaseException = self._report["error"].exception()
        if isinstance(error, MemoryLimitError) and error.proposed:
            error.args = (self._proposing(error, str(error)),)
        return error

    def _proposing(self, error: MemoryLimitError, text: str) -> str:
        """The error's text with chunks that fit not only the operand in it; the client looks for them once."""
        if self._advice is None:
            held = self.cluster.retained() - {one.key for one in self._data}
            whole = self.cluster.machines is not None  # an engine's gathers read whole chunks
            self._advice = plans.suggest_chunk_sizes(error, self._data, held, self.cluster.n_workers, whole)
        return text.replace(error.proposed, self._advice)

    @property
    def line(self) -> SourceLine | None:
        """The user's line of the failed operand; None where no operand failed."""
        line = (self._report or {}).get("line")
        return SourceLine(*line) if line else None

    def describe(self) -> dict[str, Any]:
        """State, operands, counts by state, seconds, measured costs of an ended job and error, from the cluster."""
        if not self._named.is_set():
            return {
                "id": "",
                "name": self.name,
                "line": 0,
                "state": str(JobState.PREPARING),
                "error": None,
                "progress": 0.0,
                "eta": None,
                "elapsed": time.monotonic() - self._begun,
                "operands": 0,
                "counts": dict.fromkeys(STATE_NAMES, 0),
                "measured": None,
            }
        found: dict[str, Any] = self.cluster.ask("session", "describe", self.id)
        return found

    def why(self) -> str:
        """Reason for the job's state in a sentence: the awaited or running operands, or the end.

        Operands are named with the user's line, and with worker, seconds and bytes; docs/how-to/see-why.md says how to
        react.
        """
        if not self._named.is_set():
            return f"the large graph of {self.name or 'the job'} is on its way to the cluster"
        try:
            return self.cluster.why(self.id)
        except (ClusterError, ConnectionError) as error:
            if self._report is None:
                raise
            ended = f"{self.name} ({self.id}) {self._report['state']}"
            return f"{ended}: {self.error}" if self.error is not None else f"{ended}; {error}"

    @property
    def progress(self) -> float:
        """Share of the work that is done, from 0 to 1; never falls, and is 1 only when the job has succeeded."""
        if self._report is not None and self._report["state"] == JobState.SUCCEEDED:
            return 1.0
        return float(self.describe()["progress"])

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the job has ended; returns whether it has.

        In a terminal a line shows the progress meanwhile, and in a notebook a bar, unless a view shows the job. When it
        has ended, floating point errors are told by Python's warnings, as NumPy tells them; also those of earlier jobs
        that nobody waited for.

        Parameters
        ----------
        timeout
            Longest wait in seconds; None has no limit. With 0 no warning is given.
        """
        __tracebackhide__ = True
        if timeout == 0:
            return self._done.is_set()
        if not self._done.is_set():
            self.cluster.check_process()  # nobody would tell a forked child of the end
        with self._lock:
            self._waiting += 1
        try:
            if not self._done.is_set() and has_line(self.shown):
                ended = wait_with_line(self._done, timeout, self.describe)
            elif not self._done.is_set() and has_bar(self.shown):
                ended = wait_with_bar(self._done, timeout, self.describe)
            else:
                ended = self._done.wait(timeout)
        finally:
            with self._lock:
                self._waiting -= 1
        if ended:
            self._tell_warnings()
        return ended

    def _tell_warnings(self) -> None:
        """Warn of the floating point errors of the job, as NumPy does, once."""
        __tracebackhide__ = True
        with self._lock:
            found, self._warned = self._warned, []
        if found:
            self.cluster.float_warnings.tell(found)
        self.cluster.float_warnings.tell_owed()

    def result(self, timeout: float | None = None) -> Any:
        """The values, as NumPy arrays (or NumPy scalars): a single value for a single tensor, else a list.

        Raises
        ------
        TimeoutError
            If the job has not ended within `timeout` seconds; it runs on.
        JobCancelledError
            If it was cancelled.
        ExecutionError
            If the job failed for a reason of jmars; a user's own exception is raised unchanged, with a note.
        """
        if not self.wait(timeout):
            raise TimeoutError(
                f"{self.name} has not ended within {timeout} s; it runs on, ask again or cancel it ({self.why()})"
            )
        error = self.error
        if error is not None:
            raise error
        values = self.cluster.fetch_each(self._data)
        values = [one if opened is None else opened(one) for one, opened in zip_longest(values, self.opened)]
        return values[0] if self._single else values

    def as_completed(self) -> Iterator[tuple[int, Any]]:
        """Values as soon as they are there, while the job runs: pairs of a place among the results, and the value.

        The places of a single `jmars.remote.map` are the items' places. Raises as `result` when no more will come.

        Examples
        --------
        >>> import jmars, jmars.remote
        >>> with jmars.Cluster(n_workers=2) as cluster:
        ...     sorted(cluster.submit(jmars.remote.map(abs, [-1, -2, -3])).as_completed())
        [(0, 1), (1, 2), (2, 3)]
        """
        come = ComingResults(self._data, self.opened, self._single)
        seen = 0
        while come.waits and self._data and not self._done.is_set():
            told, rows = self.cluster.ask("session", "arrived", self.id, seen)
            if not rows:
                break  # the end of the job, or of the try to run it
            seen = told
            try:
                yield from come.values(rows, self.cluster.shared.read)
            except ChunkLostError:
                break  # the end of the job brings them
        left = self.result()
        yield from ((place, left[place] if come.several else left) for place in come.waits)

    def __iter__(self) -> Iterator[Any]:
        """Values in the order of `result`, as `as_completed` gives them."""
        early: dict[int, Any] = {}
        number = 0
        for place, value in self.as_completed():
            early[place] = value
            while number in early:
                yield early.pop(number)
                number += 1

    def finish(self) -> None:
        """Wait for the end; raises the job's error. An interrupt cancels the job."""
        __tracebackhide__ = True
        try:
            self.wait()
        except BaseException:
            self.cancel()
            self.wait(5)
            raise
        if self.error is not None:
            raise self.error

    def cancel(self) -> None:
        """Ask the cluster to stop the job; returns at once, from any thread, and may be called again."""
        if not self._done.is_set():
            self.cluster.check_process()
        self._cancelled = True
        if not self._done.is_set() and self._named.is_set():  # else it is cancelled as soon as the cluster has it
            self.cluster.tell("session", "cancel", self._id)

    def events(self, since: int = 0) -> list[Event]:
        """Events of the job after event number `since`, and of the cluster meanwhile.

        docs/reference/events.md lists the fields.
        """
        return all_events(self.cluster, self.id, since)

    def operand(self, number: int) -> dict[str, Any]:
        """An operand of the newest stage as a JSON document: its Fetch operands and itself.

        `jmars.kernels.run_executable(document, inputs)` runs the document on given chunks, and so does `python -m
        jmars operand`: to debug a single chunk without the rest. The document holds a pickle: run only your own.
        """
        found: dict[str, Any] = self.cluster.ask("why", "operand", self.id, number)
        return found

    def trace(self, path: str | os.PathLike[str]) -> Path:
        """Write the run so far as a Chrome trace, for https://ui.perfetto.dev; returns the path.

        Workers are threads, operands are slices with the four states of a worker, memory and spill are counters.
        """
        return write_trace(self.cluster, self.id, path)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the run so far to a file, which `jmars.replay(path)` reads on any machine; returns the path."""
        return save_run(path, *self._log())

    def _log(self) -> tuple[list[Event], str, str]:
        """All events that the log still has of the job, and of the cluster meanwhile; id and name of the job."""
        return all_events(self.cluster, self.id), self.id, self.name

    def plan(self) -> PlannedRun:
        """Predicted cost of the same run if it began now, in the order of the settings; starts nothing."""
        cluster = self.cluster
        held, known = cluster.retained() - {one.key for one in self._data}, cluster.ask("host", "profile")
        workers, room, machines = cluster.n_workers, cluster.capacity, cluster.machines
        return plans.plan_for(self._data, workers, room, held, known=known, machines=machines)

    def gives(self, keys: Set[str]) -> bool:
        """Whether the job still runs and will leave a node with a key of `keys` on the cluster."""
        return not self._done.is_set() and any(one.key in keys for one in self._data)

    def when_done(self, call: Callable[[Job], None]) -> None:
        """Call `call(job)` at the job's end, at once for an ended job; from another thread, which may not ask the
        cluster.
        """
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(call)
                return
        call(self)

    def stalled(self, told: dict[str, Any]) -> None:
        """Log that the job has not moved for some time, where no view shows it (called by the cluster)."""
        if told["text"] and not self.shown:
            text = f"nothing moved for {format_seconds(told['seconds'])}: {told['text']}"
            log.log(logging.INFO if told["calm"] else logging.WARNING, "%s", text)

    def ended(self, report: dict[str, Any]) -> None:
        """Take the report of the job's end (called by the cluster)."""
        self.output.end(self._id)
        with self._lock:
            if self._done.is_set() or self._runs_again(report):
                return
            self._report = report
            found = [
                (str(key), None if line is None else SourceLine(*line), str(text))
                for key, line, text in report.get("warned", ())
            ]
            if self._waiting:
                self._warned = found
            elif found:
                self.cluster.float_warnings.owe(found)
            if report["state"] == JobState.SUCCEEDED:
                self._take_values(report.get("settled") or {}, bool(found), report.pop("values", {}))
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
            self._again = []
        for call in callbacks:
            try:
                call(self)
            except Exception:  # of who asked to be called: the others, and other jobs, are called all the same
                log.exception("what was to be done at the end of %s failed", self.name)

    @without_collections()
    def _take_values(self, settled: dict[str, Any], warned: bool, values: dict[str, list[bytes]]) -> None:
        """The cluster has all values: retain them, with the lengths that the run told, and small values, by key."""
        for one in self._data:
            one.resolve_lengths(settled.get(one.key))
        self.cluster.computed(self._data, warned, values)
        try:
            detach(self._data)
        except Exception:  # who waits must hear of the end
            log.exception("%s still refers to what its results were made of", self.name)

    def _runs_again(self, report: dict[str, Any]) -> bool:
        """Whether the job ended because inputs were lost, and is submitted once more."""
        failure: Failure | None = report["error"]
        if failure is None or failure.name != ChunkLostError.__name__:
            return False
        keys = list(getattr(failure.exception(), "keys", ()))
        if self._cancelled:
            return False
        if self.cluster.retained().isdisjoint(keys):  # else it goes on without them: each tensor is found lost once
            if self._recoveries == RECOVERIES:
                return False
            self._recoveries += 1
        name = f"jmars-again-{self.id}"
        threading.Thread(target=self._submit_again, args=(keys, report), name=name, daemon=True).start()
        return True

    def when_again(self, call: Callable[[Job], None]) -> None:
        """Call `call(job)`, from another thread, each time the job is submitted again after a loss of inputs."""
        if not self._done.is_set():
            self._again.append(call)

    def resubmitted(self, job: str) -> None:
        """Take a new id, after the job was submitted again (called by the cluster)."""
        self.named(job)
        for call in self._again:
            call(self)

    def named(self, job: str) -> None:
        """Take the id that the cluster gave (called by the cluster)."""
        self._id, self.name = job, self.name or job
        self._named.set()
        if self._cancelled:
            self.cluster.tell("session", "cancel", job)

    def unsent(self, error: BaseException) -> None:
        """End as failed, because the graph could not be sent (called by the cluster)."""
        self._named.set()
        self.ended({"state": str(JobState.FAILED), "error": Failure.of(error)})

    def _submit_again(self, keys: Sequence[str], report: dict[str, Any]) -> None:
        """Submit the job again without the lost tensors; where that fails, the job ends as reported."""
        try:
            if can_recover(self.cluster, self._data, keys):
                for key in keys:
                    self.cluster.lose(key)
                self.cluster.submit_data(self._data, self.name, again=self)
                return
        except Exception as problem:  # a user's object that cannot be sent once more too: the user must hear
            log.warning("%s lost chunks and could not be submitted again: %s", self.name, problem)
            lost = ChunkLostError(f"{report['error'].text}; it could not be submitted again: {problem}", keys)
            report = report | {"error": Failure.of(lost)}
        self._recoveries = RECOVERIES
        self.ended(report)

    def lost(self, why: ClusterLostError) -> None:
        """The cluster is gone before the job has ended (called by the cluster)."""
        self.ended({"state": str(JobState.FAILED), "error": Failure.of(why)})

    def __repr__(self) -> str:
        state = self._report["state"] if self._report else "running"
        return f"<Job {self._id or self.name} {state}>"


class ComingResults:
    """Results that are put together of chunks while their job runs.

    Attributes
    ----------
    waits
        Places of values that are not there yet.
    several
        Whether `Job.result` gives a list.
    """

    def __init__(self, data: Sequence[TensorData], opened: Sequence[Callable[[Any], Any] | None], single: bool) -> None:
        self._data, self._opened = data, opened
        is_map = single and len(opened) == 1 and isinstance(getattr(opened[0], "__self__", None), Mapped)
        self._each = unpacked if is_map else None
        self.several = is_map or not single
        self.waits = dict.fromkeys(range(len(data[0].chunks[0]) if is_map else len(data)))
        self._chunks: list[dict[int, Any]] = [{} for _ in data]  # of each node, by place

    def values(self, rows: Sequence[Any], read: Callable[[Sequence[Part]], list[Any]]) -> Iterator[tuple[int, Any]]:
        """Values that are complete with the chunks in `rows` of `GraphActor.arrived`."""
        nodes: dict[str, list[int]] = {}
        for place, node in enumerate(self._data):
            nodes.setdefault(node.key, []).append(place)
        asked = []
        for key, place, chunk, shape in rows:
            node = self._data[nodes[key][0]]
            if shape is None:
                index = np.unravel_index(place, [len(axis) for axis in node.chunks])
                shape = [axis[k] for axis, k in zip(node.chunks, index, strict=True)]
            asked.append((chunk, node.dtype, tuple(shape)))
        for (key, place, _, _), array in zip(rows, read(asked), strict=True):
            for number in nodes[key]:
                yield from self._one(number, place, array)

    def _one(self, number: int, place: int, array: Any) -> Iterator[tuple[int, Any]]:
        """The value that is complete with a chunk of node `number`."""
        if self._each is not None:
            if place in self.waits:
                del self.waits[place]
                yield place, self._each(array, 0)
            return
        node, chunks = self._data[number], self._chunks[number]
        chunks[place] = array
        if number in self.waits and len(chunks) == math.prod(map(len, node.chunks)):
            del self.waits[number]
            grid = np.empty([len(axis) for axis in node.chunks], object)
            for k, index in enumerate(np.ndindex(grid.shape)):
                grid[index] = chunks[k]
            value = np.block(grid.tolist()).astype(node.dtype, copy=False) if grid.ndim else chunks[0][()]
            chunks.clear()
            opened = self._opened[number] if self._opened else None
            yield number, value if opened is None else opened(value)


LINE_SECONDS = 1.0
STEP_SECONDS = 0.5
_BAR = 24  # characters


def has_line(shown: bool) -> bool:
    """Whether a line is drawn: in a terminal, by the main thread, for a job without a view."""
    if shown or config.display == "none" or threading.current_thread() is not threading.main_thread():
        return False
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def wait_with_line(done: threading.Event, timeout: float | None, describe: Callable[[], Mapping[str, Any]]) -> bool:
    """Wait for `done`, at most `timeout` seconds, and draw the line meanwhile; returns whether the job has ended."""
    end = None if timeout is None else time.monotonic() + timeout
    step, drawn = LINE_SECONDS, False
    try:
        while True:
            left = step if end is None else min(step, end - time.monotonic())
            if done.wait(max(0.0, left)):
                return True
            if end is not None and time.monotonic() >= end:
                return False
            width = shutil.get_terminal_size().columns - 1
            text = "  ".join(filter(None, (progress_text(describe(), width), errors.live)))[:width]
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            step, drawn = STEP_SECONDS, True
    except ClusterError:  # the cluster is gone, and the end of the job says so
        return done.wait(None if end is None else max(0.0, end - time.monotonic()))
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def progress_text(job: Mapping[str, Any], width: int = 79) -> str:
    """The line of a job.

    Parameters
    ----------
    job
        `Job.describe()`.
    width
        Characters, at most.

    Examples
    --------
    >>> progress_text({"name": "sum", "state": "running", "progress": 0.5, "elapsed": 4.0})
    'sum ████████████░░░░░░░░░░░░  50 % after 4.00 s'
    >>> progress_text({"name": "sum", "state": "preparing", "progress": 0.0, "elapsed": 2.0})
    'sum is prepared, for 2.00 s'
    """
    name, took = "".join(c for c in str(job["name"]) if c.isprintable())[:30], format_seconds(job["elapsed"])
    if job["state"] == "preparing":
        return f"{name} is prepared, for {took}"[:width]
    full = round(_BAR * job["progress"])
    bar = "█" * full + "░" * (_BAR - full)
    return f"{name} {bar} {100 * job['progress']:3.0f} % after {took}"[:width]


Found = tuple[str, SourceLine | None, str]  # key of the tensor, the user's line, NumPy's text
MOST = 10_000  # (tensor, text) that are remembered; the oldest is forgotten first


class FloatWarnings:
    """Warnings that a client was told of a cluster's tensors.

    Examples
    --------
    >>> told = FloatWarnings()
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     for _ in range(2):
    ...         told.tell([("t-1", SourceLine("cell.py", 3, "1 / x"), "divide by zero encountered in divide")])
    >>> [(str(one.message), one.filename, one.lineno) for one in seen]
    [('divide by zero encountered in divide', 'cell.py', 3)]
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], None] = {}  # tensor, text; oldest first
        self._owed: list[Found] = []
        self._lock = threading.Lock()

    def owe(self, found: Iterable[Found]) -> None:
        """Note errors of a job that nobody waited for, as `tell` takes them; the next use of a value tells them."""
        with self._lock:
            self._owed += found

    def tell_owed(self) -> None:
        """Warn of errors that were noted; as `tell`."""
        __tracebackhide__ = True
        if not self._owed:
            return
        with self._lock:
            found, self._owed = self._owed, []
        self.tell(found)

    def tell(self, found: Iterable[Found]) -> None:
        """Warn of errors, by line, in the thread of the user.

        Raises
        ------
        RuntimeWarning
            If a filter of the user's makes an error of it, at that line; the others are told before.
        """
        __tracebackhide__ = True
        raised: tuple[RuntimeWarning, SourceLine | None] | None = None
        here: set[tuple[str, int, str]] = set()  # a line is told once, however many operations it has
        for key, line, text in sorted(found, key=_place):
            if self._is_new(key, text) and (place := (*_place((key, line, text)), text)) not in here:
                here.add(place)
                try:
                    warn_at_line(line, text)
                except RuntimeWarning as error:
                    raised = raised or (error, line)
        if raised is None:
            return
        first, where = raised
        if where is None:
            raise first
        raise_at(first.with_traceback(None), where.filename, where.lineno)

    def _is_new(self, key: str, text: str) -> bool:
        with self._lock:
            if (key, text) in self._told:
                return False
            self._told[key, text] = None
            if len(self._told) > MOST:
                del self._told[next(iter(self._told))]
            return True


def _place(found: Found) -> tuple[str, int]:
    line = found[1]
    return ("", 0) if line is None else (line.filename, line.lineno)


def warn_at_line(line: SourceLine | None, text: str) -> None:
    """Give a RuntimeWarning as if the user's line had called `warnings.warn`."""
    if line is None:
        warn_user(text, RuntimeWarning)
        return
    names = _names_of(line.filename)
    registry: dict[Any, Any] = names.setdefault("__warningregistry__", {})
    module = str(names.get("__name__") or "<unknown>")
    warnings.warn_explicit(text, RuntimeWarning, line.filename, line.lineno, module, registry)


def _names_of(filename: str) -> dict[str, Any]:
    """Global names of the module of a file; of `__main__`, where cells run, for other files."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == filename:
            return vars(module)
    return vars(sys.modules["__main__"])


RECOVERIES = 3  # times that a job is submitted again with the same tensors, or one is computed again for one fetch

SMALL = 2**16  # bytes of a tensor that is fetched together with others

Value = TypeVar("Value")


def can_recover(cluster: Cluster, data: Sequence[TensorData], keys: Sequence[str]) -> bool:
    """Whether the lineage of nodes is here, as far as the cluster has lost (`keys`) or does not have them."""
    held = cluster.retained() - set(keys) - {one.key for one in data}
    linked = LinkedGraph.of(data, held)
    return not any(
        isinstance(operand, Stored) and node.key not in held
        for operand, node in zip(linked.operands, linked.nodes, strict=True)
    )


def with_recovery(cluster: Cluster, data: TensorData, fetch: Callable[[], Value]) -> Value:
    """Result of `fetch`; lost chunks of `data` are computed again first."""
    for left in reversed(range(RECOVERIES + 1)):
        try:
            return fetch()
        except ChunkLostError as error:
            if not left or not can_recover(cluster, [data], [data.key, *error.keys]):
                raise
            for key in {data.key, *error.keys}:
                cluster.lose(key)
            run_job(cluster, [data])
    raise AssertionError("the last try returns or raises")


def fetch_each(cluster: Cluster, data: Sequence[TensorData]) -> list[Any]:
    """Values of nodes that the cluster has; those of small nodes travel together, unless a chunk is lost."""
    found = {k: value for k, one in enumerate(data) if (value := brought_value(one)) is not None}
    if len(found) == len(data):
        return list(found.values())
    left = [k for k in range(len(data)) if k not in found]
    small = [k for k in left if _size(data[k]) <= SMALL] if len(left) > 1 else []
    try:
        values = cluster.shared.fetch_each([(data[k].key, data[k].dtype, data[k].chunks) for k in small])
        found |= zip(small, values, strict=True)
    except ChunkLostError:
        pass  # `cluster.fetch` computes it again
    return [found[k] if k in found else cluster.fetch(one) for k, one in enumerate(data)]


def _size(node: TensorData) -> int:
    """Bytes of a node of known lengths."""
    return math.prod(map(sum, node.chunks)) * node.dtype.itemsize


def run_job(cluster: Cluster, data: Sequence[TensorData]) -> None:
    """Compute nodes by a job and wait for its end; an interrupt cancels the job. Raises the job's error."""
    cluster.submit_data(data).finish()
