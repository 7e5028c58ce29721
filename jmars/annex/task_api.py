"""TaskAPI: jobs as Mars's task service shows them.

A task is a job, with the job's id. Answers are plain values; the live view and `Job` tell more.
Source: docs/explanation/seeds.md, "APIs"; Mars `services/task/api/core.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from jmars.client.cluster import Cluster, default_cluster
from jmars.client.job import Job
from jmars.config import config
from jmars.errors import JobCancelledError, UnknownTaskError
from jmars.model.limits import REMEMBERED_JOBS
from jmars.model.status import TERMINAL, JobState
from jmars.switches import with_extra
from jmars.tensor.spawn import Output, Spawned
from jmars.tensor.tensor import Tensor

Tileable = Tensor | Spawned | Output


class TaskStatus(IntEnum):
    """Where a task stands, numbered as in Mars."""

    pending = 0
    running = 1
    terminated = 2


@dataclass(frozen=True)
class TaskResult:
    """State of a task.

    Attributes
    ----------
    task_id, session_id
        The job, and the cluster.
    status
        Pending, running or terminated; `error` tells whether it ended well.
    start_time, end_time
        Seconds since the epoch; `end_time` is None while it runs.
    progress
        From 0 to 1.
    error
        Why it failed or was cancelled; None otherwise.
    """

    task_id: str
    session_id: str
    status: TaskStatus
    start_time: float
    end_time: float | None
    progress: float
    error: BaseException | None = None


class TaskAPI:
    """The tasks of a cluster.

    Parameters
    ----------
    session_id
        What results are marked with; None for the cluster's id.
    task_manager_ref
        The cluster; None for the default one, which is started where there is none.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1) as cluster:
    ...     api = jmars.client.TaskAPI(cluster.id, cluster)
    ...     task = api.submit_tileable_graph([mt.ones(10, chunk_size=5).sum()])
    ...     result = api.wait_task(task)
    ...     result.status.name, result.progress, [t.fetch() for t in api.get_fetch_tileables(task)]
    ('terminated', 1.0, [np.float64(10.0)])

    An id that the cluster does not know raises `errors.UnknownTaskError`. The last 50 tasks that ended are known.
    """

    def __init__(self, session_id: str | None = None, task_manager_ref: Cluster | None = None) -> None:
        cluster = task_manager_ref or default_cluster()
        assert cluster is not None
        self._cluster = cluster
        self.session_id = session_id or cluster.id
        self._tasks: dict[str, tuple[Job, list[Tileable]]] = {}  # what was submitted here

    def submit_tileable_graph(
        self,
        graph: Tileable | Sequence[Tileable],
        fuse_enabled: bool = True,
        extra_config: Mapping[str, Any] | None = None,
    ) -> str:
        """Start computing the graph of tensors; returns the task's id.

        Parameters
        ----------
        graph
            Its results: one or several tensors, or results of spawned functions.
        fuse_enabled, extra_config
            Switches for this task, over those of `jmars.config`.

        Raises
        ------
        SettingError
            If there is no such switch.
        """
        results = [graph] if isinstance(graph, Tileable) else list(graph)
        with config.using(task=with_extra(config.task, extra_config, fuse_enabled)):
            job = self._cluster.submit(*results)
        ended = [task for task, (one, _) in self._tasks.items() if one.wait(0)]
        for task in ended[:-REMEMBERED_JOBS]:
            del self._tasks[task]
        self._tasks[job.id] = job, results
        return job.id

    def get_task_results(self, progress: bool = False) -> list[TaskResult]:
        """All remembered tasks, oldest first; with `progress` running tasks have theirs, else 0."""
        found = [self._result(one) for one in self._ask("results")]
        if progress:
            return found
        return [one if one.status is TaskStatus.terminated else replace(one, progress=0.0) for one in found]

    def wait_task(self, task_id: str, timeout: float | None = None) -> TaskResult:
        """State of the task when it has ended, or when `timeout` seconds have passed."""
        return self._result(self._ask("wait", task_id, timeout))

    def get_task_result(self, task_id: str) -> TaskResult:
        """How the task stands now."""
        return self._result(self._ask("result", task_id))

    def get_task_progress(self, task_id: str) -> float:
        """Progress from 0 to 1; never falls, and is 1 only when the task has succeeded."""
        return self.get_task_result(task_id).progress

    def cancel_task(self, task_id: str) -> None:
        """Stop a task; no effect on an ended task."""
        self._ask("cancel", task_id)

    def get_fetch_tileables(self, task_id: str) -> list[Any]:
        """Results of a task that was submitted here, in the order of the submission: each with `fetch`."""
        self.get_task_result(task_id)
        if task_id not in self._tasks:
            raise UnknownTaskError(f"{task_id} was not submitted by this TaskAPI; ask the one that did, or the Job")
        return list(self._tasks[task_id][1])

    def get_last_idle_time(self) -> float | None:
        """When the cluster became idle, in seconds since the epoch; None while a task runs."""
        found = self._ask("last_idle_time")
        return None if found is None else float(found)

    def get_tileable_graph_as_json(self, task_id: str) -> dict[str, Any]:
        """Tensor operands and dependencies: `{"tileables": […], "dependencies": […]}`."""
        return dict(self._ask("tileable_graph", task_id))

    def get_tileable_details(self, task_id: str) -> dict[str, Any]:
        """Progress, number of subtasks, status and the user's line of all tileables."""
        return dict(self._ask("tileable_details", task_id))

    def get_tileable_subtasks(self, task_id: str, tileable_id: str, with_input_output: bool = False) -> dict[str, Any]:
        """The operands on chunks of a tileable: `{"subtasks": […], "dependencies": […]}`.

        Parameters
        ----------
        with_input_output
            Whether subtasks of other tileables that these read, or that read these, are told too.
        """
        return dict(self._ask("tileable_subtasks", task_id, tileable_id, with_input_output))

    def _ask(self, method: str, *args: Any) -> Any:
        """The answer of a method of TaskManagerActor, or of "cancel", in plain values."""
        return _plain(self._cluster.ask("session" if method == "cancel" else "tasks", method, *args))

    def _result(self, told: Mapping[str, Any]) -> TaskResult:
        ended, started = told["state"] in TERMINAL, float(told["started"])
        status = TaskStatus.pending if told["state"] == JobState.PREPARING else TaskStatus.running
        return TaskResult(
            told["id"],
            self.session_id,
            TaskStatus.terminated if ended else status,
            started,
            started + float(told["elapsed"] or 0.0) if ended else None,
            float(told["progress"]),
            self._error(told),
        )

    def _error(self, told: Mapping[str, Any]) -> BaseException | None:
        if told["state"] == JobState.CANCELLED:
            return JobCancelledError(f"{told['id']} was cancelled; run it again for its result")
        return None if told["error"] is None else told["error"].exception()


def _plain(value: Any) -> Any:
    """Lists where messages have tuples, as JSON has them."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value
