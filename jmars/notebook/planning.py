"""`%%jmars --plan` and `%jmars plan`: predicts what a cell would cost, without running it.

The cell's Python runs with an engine that plans instead of computing; afterwards all names are as before the cell.
`PlanEngine` replaces `CellEngine`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from jmars.client import plans
from jmars.client.cluster import Cluster, default_settings
from jmars.client.session import plan_on
from jmars.deploy.memory import available, room_for_chunks
from jmars.notebook.cell import run_cell
from jmars.notebook.cell_source import CellSource
from jmars.notebook.flags import CellFlags
from jmars.tensor.operand import TensorData
from jmars.tensor.tensor import Tensor

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jmars.client.plans import PlannedRun


class CellPlanned(BaseException):  # not an Exception, so that user code does not catch it
    """Ends a cell whose plan is complete, or that needs a value to go on."""

    def __init__(self, plan: PlannedRun, complete: bool) -> None:
        super().__init__("the cell is planned, not run")
        self.plan = plan
        self.complete = complete  # False: the cell needs a value to go on


class PlanEngine:
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

    def execute(self, data: Sequence[TensorData]) -> None:
        """Ends the cell with a plan unless the cluster has the values."""
        __tracebackhide__ = True
        missing = [one for one in data if not self.held(one)]
        if missing:
            raise CellPlanned(self.plan(missing), complete=False)

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

    def look(self, data: Sequence[TensorData]) -> None:
        """Ends the cell if a value is not stored."""
        self.execute(data)

    def shows(self, data: TensorData) -> bool:
        """Whether the cluster has the value."""
        return self.held(data)

    def small(self, data: TensorData, touched: int) -> None:
        """None: elements are planned."""

    def tries_on_worker(self) -> bool:
        """False: nothing is run."""
        return False

    def limits(self) -> tuple[int, int]:
        """Memory limit in bytes and number of workers of the cell's cluster."""
        return (self._cluster.memory_limit, self._cluster.n_workers) if self._cluster else (self._limit, self._workers)

    def free_memory(self) -> int:
        """Bytes of memory that this process's machine still has."""
        return available()

    def plan(self, data: Sequence[TensorData], policy: str | None = None) -> PlannedRun:
        """Predicts the cost of computing `data`."""
        if self._cluster is not None:
            return plan_on(self._cluster, data, policy)
        return plans.plan_for(data, self._workers, room_for_chunks(self._limit, self._workers), policy=policy)

    def finish(self, results: Sequence[Tensor]) -> NoReturn:
        """Plans the cell's results together, as a run would compute them."""
        raise CellPlanned(self.plan([tensor.data for tensor in results]), complete=True)


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
