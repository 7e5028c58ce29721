"""`%load_ext jmars`: the cell magic `%%jmars` and the line magic `%jmars`.

Reads the flags, finds or starts the cluster, and runs the cell (`jmars.notebook.cell`) with its display. Loaded by
IPython through `jmars.load_ipython_extension`.
Source: shared design, "The cell".
"""

from __future__ import annotations

import sys
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class

from jmars.client.cluster import Cluster, default_cluster, make_default, open_clusters
from jmars.client.connecting import connect
from jmars.client.trace import write_trace
from jmars.config import config
from jmars.notebook import kernel_access
from jmars.notebook.cell import run_cell
from jmars.notebook.cell_error import show_alone
from jmars.notebook.cell_source import CellSource
from jmars.notebook.display import choose_display
from jmars.notebook.flags import USAGE, Flags
from jmars.notebook.live import CellCancelled, CellEngine, answer_control
from jmars.notebook.planning import plan_cell
from jmars.tensor.engine import get_engine
from jmars.units import format_bytes

__all__ = ["JmarsMagics", "load_ipython_extension", "unload_ipython_extension"]


@magics_class
class JmarsMagics(Magics):
    """`%%jmars` and `%jmars`."""

    @line_cell_magic
    def jmars(self, line: str, cell: str | None = None) -> Any:  # noqa: D102  (its docstring is USAGE, below)
        __tracebackhide__ = True
        shell = self.shell
        assert isinstance(shell, InteractiveShell)
        return run_magic_cell(shell, line, cell) if cell is not None else run_magic_line(shell, line)

    jmars.__doc__ = USAGE


def run_magic_cell(shell: InteractiveShell, line: str, cell: str) -> Any:
    """Run `cell` under `%%jmars line`; what the cell shows.

    Raises
    ------
    UsageError
        If the line is not understood.
    BaseException
        What the cell raises.
    """
    __tracebackhide__ = True
    flags = Flags.parse(line)
    try:
        source = CellSource.read(shell, line, cell)
    except SyntaxError as error:
        show_alone(shell, error)
        raise
    if flags.plan:
        with config.using(**flags.settings()):
            plan = plan_cell(shell, source, _open_cluster(flags), flags)
        if flags.output:
            shell.user_ns[flags.output] = plan
        return plan
    cluster = find_cluster(flags)
    display = choose_display(cluster)
    engine = CellEngine(cluster, get_engine(), display, source.label, flags.background)
    try:
        with config.using(**flags.settings()), cluster.sending.once():
            return run_cell(shell, source, engine, flags.lazy)
    except CellCancelled:
        print(f"{source.label} was cancelled; names keep their old values", file=sys.stderr)  # noqa: T201
        return None
    finally:
        if flags.output and engine.job is not None:
            shell.user_ns[flags.output] = engine.job
        display.close()


def find_cluster(flags: Flags) -> Cluster:
    """The newest open cluster that is as the flags ask, or a new one; it is the default from then on."""
    cluster = _open_cluster(flags)
    if cluster is not None:
        make_default(cluster)
        return cluster
    if flags.workers is None and flags.memory is None:
        started = default_cluster(start=True)
        assert started is not None
        return started
    return Cluster(n_workers=flags.workers, memory_limit=flags.memory)


def _open_cluster(flags: Flags) -> Cluster | None:
    """The newest open cluster that is as the flags ask."""
    for cluster in reversed(open_clusters()):
        same_workers = flags.workers in (None, cluster.n_workers)
        if same_workers and flags.memory in (None, cluster.memory_limit):
            return cluster
    return None


def run_magic_line(shell: InteractiveShell, line: str) -> Any:
    """`%jmars` or `%jmars status` shows the clusters of this process, `%jmars why` says what their jobs wait for,
    `%jmars trace FILE` writes what the newest job did, `%jmars stop` closes them, `%jmars plan` plans, and
    `%jmars connect NAME` uses a cluster that another notebook or program started.

    Raises
    ------
    UsageError
        If it asks for something else.
    """
    __tracebackhide__ = True
    word, _, rest = (line.strip() or "status").partition(" ")
    if word == "plan" and rest.strip():
        return run_magic_cell(shell, "--plan", rest)
    if word == "trace" and rest.strip():
        return trace_newest(rest.strip())
    if word == "connect":
        print(describe(connect(rest.strip())))  # noqa: T201
        return None
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
    return None


def trace_newest(path: str) -> None:
    """Write the newest job of the newest cluster that had one as a Chrome trace.

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


def describe(cluster: Cluster) -> str:
    """A cluster and its newest jobs, line by line."""
    workers = f"{cluster.n_workers} worker{'s' * (cluster.n_workers != 1)}"
    jobs = [f"  {job['name']} {job['state']}" for job in cluster.jobs()[-10:]]
    return "\n".join([f"jmars: {cluster.name}, {workers}, memory limit {format_bytes(cluster.memory_limit)}", *jobs])


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext jmars`."""
    shell.register_magics(JmarsMagics)
    kernel_access.serve_control(answer_control)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext jmars`: the magics go, the clusters stay."""
    for magics in (shell.magics_manager.magics["line"], shell.magics_manager.magics["cell"]):
        magics.pop("jmars", None)
