"""`%load_ext jmars`: the cell magic `%%jmars` and the line magic `%jmars`.

Parses the flags, finds or starts the cluster, and runs the cell with its display. `%%jmars --on PLACE` takes the
cluster by its place: Dask, Ray, another machine, or a cluster by name. IPython loads this file through
`jmars.load_ipython_extension`.

`%%jmars --plan` and `%jmars plan` predict the cost of a cell without running it: the cell's Python runs with a
`PlanEngine` in place of the `CellEngine`; afterwards all names are as before the cell.
"""

from __future__ import annotations

import sys
import time
import traceback
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class

from jmars.client import plans
from jmars.client.cluster import Cluster, connect, default_cluster, default_settings, start_as
from jmars.client.cluster_registry import make_default, open_clusters, take_lost
from jmars.client.engine_clusters import MODES
from jmars.client.kept_values import Reused
from jmars.client.reporting import write_trace
from jmars.client.session import plan_on, warn_without_gpu
from jmars.config import config
from jmars.deploy.memory import available, default_limit, room_for_chunks
from jmars.errors import JmarsError
from jmars.model.status import JobState
from jmars.native import backend
from jmars.notebook import kernel_access
from jmars.notebook.cell import in_flags, run_cell, shorten_plain_tracebacks, show_as_one_line, show_syntax_error
from jmars.notebook.cell_engine import CellCancelled, CellEngine
from jmars.notebook.cell_source import CellSource
from jmars.notebook.display import CellDisplay, choose_display
from jmars.notebook.flags import USAGE, CellFlags, add_completion, remove_completion
from jmars.notebook.running_cell import RunningCell, handle_control_request
from jmars.notebook.widget import is_stale
from jmars.tensor.engine import Engine, get_engine
from jmars.tensor.operand import TensorData
from jmars.tensor.tensor import Tensor
from jmars.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jmars.client.plans import PlannedRun

_CELLS = 10  # newest cells of a cluster that `%jmars` lists


@magics_class
class JmarsMagics(Magics):
    """The magics `%%jmars` and `%jmars`."""

    @line_cell_magic
    def jmars(self, line: str, cell: str | None = None) -> Any:  # noqa: D102  (its docstring is USAGE, below)
        __tracebackhide__ = True
        shell = self.shell
        assert isinstance(shell, InteractiveShell)
        return run_magic_cell(shell, line, cell) if cell is not None else run_magic_line(shell, line)

    jmars.__doc__ = USAGE


def run_magic_cell(shell: InteractiveShell, line: str, cell: str) -> Any:
    """Runs `cell` under `%%jmars line`; returns the value that the cell shows.

    Raises
    ------
    UsageError
        If the line has unknown flags or wrong values.
    BaseException
        Any exception of the cell.
    """
    __tracebackhide__ = True
    flags = CellFlags.parse(line)
    try:
        source = CellSource.read(shell, line, cell)
    except SyntaxError as error:
        show_syntax_error(shell, error)
        raise
    if flags.plan:
        with config.using(**flags.settings()):
            plan = plan_cell(shell, source, _open_cluster(flags), flags)
        if flags.output:
            shell.user_ns[flags.output] = plan
        return plan
    running = RunningCell(source.code, len(source.lines))
    outcome = JobState.FAILED
    engine: CellEngine | None = None
    display: CellDisplay

    @contextmanager
    def shown() -> Iterator[None]:
        nonlocal display
        display = choose_display(running)
        try:
            yield
        finally:
            try:
                running.end()
                if engine is not None and (text := engine.reused):
                    display.reused(text)
                if flags.output and engine is not None and engine.job is not None:
                    shell.user_ns[flags.output] = engine.job
            finally:  # also where Cancel was clicked in the last moment
                display.close(outcome)

    with kernel_access.Whole(config.using(**flags.settings()), kernel_access.stays_busy(), shown()):
        try:
            display.cluster = cluster = _start(flags, display)
            if flags.gpu == "prefer":
                warn_without_gpu(cluster)
            engine = CellEngine(cluster, get_engine(), display, running, source.label, flags.background)
            with cluster.uploads.once():
                value = run_cell(shell, source, engine, flags.lazy, flags.background)
            outcome = JobState.SUCCEEDED
            return value
        except (CellCancelled, KeyboardInterrupt) as error:
            outcome = JobState.CANCELLED
            if isinstance(error, KeyboardInterrupt) and not running.cancelled:
                raise
            told = f"{source.label} was cancelled; names keep their old values"
            raise show_as_one_line(KeyboardInterrupt(told)) from None  # ends the queue of Run All, as an interrupt does


def _start(flags: CellFlags, display: CellDisplay) -> Cluster:
    """Finds or starts the cluster; errors of the user's flags are shown as one line."""
    known, begun = open_clusters(), time.monotonic()
    try:
        cluster = find_cluster(flags)
        if cluster not in known:
            display.started(cluster.n_workers, time.monotonic() - begun)
        return cluster
    except (JmarsError, ValueError) as error:
        text = in_flags(str(error), flags.memory or default_limit(), config.chunk_size_limit)
        raise show_as_one_line(error, f"{type(error).__name__}: {text}") from None


def find_cluster(flags: CellFlags) -> Cluster:
    """Finds the newest open cluster with the flags' settings, or starts one, and makes it the default."""
    if flags.on is not None:
        return cluster_on(flags.on)
    cluster = _open_cluster(flags)
    gpus = "auto" if flags.gpu in ("prefer", "only") else 0
    has_flags = flags.workers is not None or flags.memory is not None or gpus
    if has_flags:
        start_as(flags.workers, flags.memory, gpus)
    if cluster is not None:
        make_default(cluster)
        return cluster
    lost, others = take_lost(), open_clusters()
    if not has_flags:
        started = default_cluster(start=True)
        assert started is not None
    else:
        started = Cluster(n_workers=flags.workers, memory_limit=flags.memory, gpus=gpus)
    if lost:
        told = f"{', '.join(lost)} {'is' if len(lost) == 1 else 'are'} gone"
        print(f"jmars: {told} (stopped, or its process ended); started {summary(started)}")  # noqa: T201
    if others:
        stays = f"{summary(others[-1])}, stays open" + (f", and {len(others) - 1} more" if len(others) > 1 else "")
        print(f"jmars: these flags started {summary(started)}; {stays} (%jmars lists them)")  # noqa: T201
    return started


def _open_cluster(flags: CellFlags) -> Cluster | None:
    """The newest open cluster with the flags' settings, or None."""
    if flags.on is not None:
        known = opened_on(flags.on)
        if known is None:
            raise UsageError(f"--plan --on {flags.on}: no cluster is open there; run a cell there first or omit --on")
        return known
    for cluster in reversed(open_clusters()):
        same_workers = flags.workers in (None, cluster.n_workers)
        if same_workers and flags.memory in (None, cluster.memory_limit):
            return cluster
    return None


_WITHOUT_LIBRARY = (
    "jmars: no compiled library here: plans are made in Python, the same ones, 20 to 50 times slower; "
    "wheels for Linux on x86_64 and aarch64 have it, and with a C compiler `python -m jmars.native` makes it"
)


def run_magic_line(shell: InteractiveShell, line: str) -> Any:
    """Runs `%jmars line`: status, why, stop, plan EXPRESSION, trace FILE or connect NAME (returns the cluster).

    Raises
    ------
    UsageError
        If the line has another form.
    """
    __tracebackhide__ = True
    word, _, rest = (line.strip() or "status").partition(" ")
    if word == "plan" and rest.strip():
        return run_magic_cell(shell, "--plan", rest)
    if word == "trace" and rest.strip():
        return trace_newest(rest.strip())
    if word == "connect":
        cluster = connect(rest.strip())
        print(f"jmars: {summary(cluster)}; begin a cell with %%jmars to compute on it")  # noqa: T201
        return cluster
    if word not in ("status", "why", "stop") or rest:
        usage = (
            "`%jmars status`, `%jmars why`, `%jmars stop`, `%jmars plan EXPRESSION`, `%jmars trace FILE`, "
            "`%jmars connect NAME`, or `%%jmars` above a cell"
        )
        raise UsageError(f"%jmars {line.strip()}: use {usage}")
    clusters = open_clusters()
    if not clusters:
        print("jmars: no cluster; the next %%jmars cell starts one")  # noqa: T201
    for cluster in clusters:
        if word == "stop":
            cluster.close()
            print(f"jmars: {cluster.name} is closed")  # noqa: T201
        elif word == "why":
            print(cluster.why())  # noqa: T201
        else:
            print(describe(cluster))  # noqa: T201
    if word == "status" and backend() == "python":
        print(_WITHOUT_LIBRARY)  # noqa: T201
    return None


def trace_newest(path: str) -> None:
    """Writes the newest job of the newest cluster that has one as a Chrome trace.

    Raises
    ------
    UsageError
        If there was no job.
    """
    for cluster in reversed(open_clusters()):
        jobs = cluster.jobs()
        if jobs:
            written = write_trace(cluster, jobs[-1]["id"], path)
            print(f"jmars: {jobs[-1]['name']} is in {written}; open it at https://ui.perfetto.dev")  # noqa: T201
            return
    raise UsageError("%jmars trace: there is no job yet; run a %%jmars cell first")


def summary(cluster: Cluster) -> str:
    """A cluster's name, workers and memory limit."""
    workers = f"{cluster.n_workers} worker{'s' * (cluster.n_workers != 1)}"
    return f"{cluster.name}, {workers}, memory limit {format_bytes(cluster.memory_limit)}"


def describe(cluster: Cluster) -> str:
    """Describes a cluster and its newest cells, a line each: state, seconds, operands, memory and bytes on disk."""
    used = f", {format_bytes(cluster.info()['memory']['resident'])} in use"
    default = "; cells without flags run here" if default_cluster(start=False) is cluster else ""
    cells = [list(jobs) for _, jobs in groupby(cluster.jobs(), lambda job: job["name"] or job["id"])]
    return "\n".join([f"jmars: {summary(cluster)}{used}{default}", *map(_costs, cells[-_CELLS:])])


def _costs(jobs: Sequence[dict[str, Any]]) -> str:
    """Jobs of a cell and what they cost: "  In [3], lines 2 to 5: 3 jobs succeeded, 0.84 s, 12 operands"."""
    lines = sorted({job["line"] for job in jobs if job["line"]})
    where = (
        f", line{'s' * (len(lines) > 1)} {' to '.join(map(str, dict.fromkeys((lines[0], lines[-1]))))}" if lines else ""
    )
    n, took = sum(job["operands"] for job in jobs), [job["measured"] or {} for job in jobs]
    peak, spilled = max(one.get("peak", 0) for one in took), sum(one.get("spilled", 0) for one in took)
    costs = [f"{len(jobs)} jobs {jobs[-1]['state']}" if len(jobs) > 1 else str(jobs[0]["state"])]
    costs += [format_seconds(sum(job["elapsed"] for job in jobs)), f"{n} operand{'' if n == 1 else 's'}"]
    costs += [f"peak of chunks {format_bytes(peak)}"] if peak else []
    costs += [f"{format_bytes(spilled)} on disk"] if spilled else []
    return f"  {jobs[0]['name'] or jobs[0]['id']}{where}: {', '.join(costs)}"


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Registers the magics: `%load_ext jmars`."""
    shell.register_magics(JmarsMagics)
    add_completion(shell)
    shorten_plain_tracebacks(shell)
    kernel_access.serve_control(handle_control_request)
    if is_stale():
        print("jmars: the built front end is of other sources than labextension/; run `jlpm build:prod` there")  # noqa: T201


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Removes the magics and keeps the clusters open: `%unload_ext jmars`."""
    remove_completion(shell)
    for magics in (shell.magics_manager.magics["line"], shell.magics_manager.magics["cell"]):
        magics.pop("jmars", None)


_opened: weakref.WeakValueDictionary[str, Cluster] = weakref.WeakValueDictionary()  # by place


def opened_on(place: str) -> Cluster | None:
    """The open cluster of a place, None if no cell has run there since it was closed."""
    known = _opened.get(place)
    if known is not None and not known.closed:
        return known
    return next((one for one in reversed(open_clusters()) if place in (one.name, one.id)), None)


def cluster_on(place: str) -> Cluster:
    """The cluster of a place, opened where no cell has run there before; becomes the default cluster.

    Parameters
    ----------
    place
        `dask://HOST:PORT`, `dask:///PATH` of a scheduler file, `dask://` for the newest Dask client of this process;
        `ray://HOST:PORT`, `ray://` for the Ray of this process or a new one; `ssh://USER@HOST/NAME` for a cluster of
        another machine; else the name or id of a cluster. A place of Dask or Ray may end with `?mode=inside` or
        `?mode=auto`, as of `Cluster.dask`.

    Raises
    ------
    UsageError
        If the place is another URL or has another mode, or `dask://` is asked for and this process has no Dask client.
    ClusterStartError, ClusterLostError
        If no cluster answers there.
    """
    known = opened_on(place)
    if known is not None:
        make_default(known)
        return known
    where, _, mode = place.partition("?mode=")
    kind, separator, rest = where.partition("://")
    mode = mode or "tasks"
    if kind in ("dask", "ray") and mode not in MODES:
        raise UsageError(f"--on {place}: no mode {mode!r} is known; give {', '.join(MODES)}")
    if not separator or kind == "ssh":
        found = connect(place)
    elif kind == "dask":
        client = _dask_client() if not rest else rest if rest.startswith("/") else f"tcp://{rest}"
        found = Cluster.dask(client, mode)
    elif kind == "ray":
        found = Cluster.ray(where if rest else None, mode)
    else:
        raise UsageError(
            f"--on {place}: no {kind!r} is known; give dask://HOST:PORT, ray://HOST:PORT, ssh://HOST/NAME or a "
            "cluster's name"
        )
    _opened[place] = found
    return found


def _dask_client() -> object:
    """The newest Dask client of this process."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError) as error:
        raise UsageError(
            f"--on dask://: this process has no Dask client ({error}); make one with distributed.Client(), or give "
            "dask://HOST:PORT"
        ) from None


class CellPlanned(BaseException):  # not an Exception, so that user code does not catch it
    """Ends a cell whose plan is complete, or that needs a value to go on."""

    def __init__(self, plan: PlannedRun, complete: bool) -> None:
        super().__init__("the cell is planned, not run")
        self.plan = plan
        self.complete = complete  # False: the cell needs a value to go on


class PlanEngine(Engine):
    """The engine (`jmars.tensor.engine.Engine`) of a cell that is planned.

    Parameters
    ----------
    cluster
        The cluster that would run the cell; None for a new cluster.
    workers, limit
        Worker processes and memory limit in bytes of the cluster that would be started.
    """

    job = None  # as of a cell's engine: the newest job

    def __init__(self, cluster: Cluster | None, workers: int, limit: int) -> None:
        self._cluster = cluster
        self._workers, self._limit = workers, limit
        if cluster is not None:
            cluster.kept.reused = Reused()

    def execute(self, data: Sequence[TensorData]) -> None:
        """Ends the cell with a plan unless the cluster has the values, perhaps of an earlier run."""
        __tracebackhide__ = True
        missing = self._missing(data)
        if missing:
            raise CellPlanned(self.plan(missing), complete=False)

    def _missing(self, data: Sequence[TensorData]) -> list[TensorData]:
        """The nodes that a run would compute: the others, and nodes below, take over values of earlier runs."""
        return list(data) if self._cluster is None else self._cluster.missing(data)

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """Fetches a stored value."""
        __tracebackhide__ = True
        self.execute([data])
        assert self._cluster is not None
        return self._cluster.fetch(data, copy)

    def fetch_each(self, data: Sequence[TensorData]) -> list[Any]:
        """Fetches stored values."""
        return [self.fetch(one) for one in data]

    def held(self, data: TensorData) -> bool:
        """Whether the cluster has the value."""
        return self._cluster is not None and self._cluster.retains(data)

    def limits(self) -> tuple[int, int]:
        """Memory limit in bytes and number of workers of the cell's cluster."""
        return (self._cluster.memory_limit, self._cluster.n_workers) if self._cluster else (self._limit, self._workers)

    def free_memory(self) -> int:
        """Bytes of memory that this process's machine still has."""
        return available()

    def plan(self, data: Sequence[TensorData], policy: str | None = None) -> PlannedRun:
        """Predicts the cost of computing `data`."""
        if self._cluster is None:
            return plans.plan_for(data, self._workers, room_for_chunks(self._limit, self._workers), policy=policy)
        return replace(plan_on(self._cluster, data, policy), reused=self._cluster.kept.reused.text(0))

    def finish(self, results: Sequence[Tensor]) -> NoReturn:
        """Plans the cell's results together, as a run would compute them."""
        raise CellPlanned(self.plan(self._missing([tensor.data for tensor in results])), complete=True)


def plan_cell(shell: InteractiveShell, source: CellSource, cluster: Cluster | None, flags: CellFlags) -> PlannedRun:
    """Plans a cell; names and tensors are then as before the cell.

    Raises
    ------
    BaseException
        Any exception of the cell's Python.
    """
    __tracebackhide__ = True
    limit, workers = default_settings()
    planner = PlanEngine(cluster, flags.workers or workers, limit if flags.memory is None else flags.memory)
    try:
        run_cell(shell, source, planner, flags.lazy)
    except CellPlanned as end:
        if not end.complete:
            print(_where(source, end), file=sys.stderr)  # noqa: T201
        return end.plan
    raise AssertionError("finish() always raises")


def _where(source: CellSource, end: CellPlanned) -> str:
    """Names the line that needs a value."""
    lines = [frame.lineno for frame in traceback.extract_tb(end.__traceback__) if frame.filename == source.filename]
    line = f"line {lines[-1]} of {source.label}" if lines else source.label
    return f"{line} needs a value to go on; this is the plan up to that value"
