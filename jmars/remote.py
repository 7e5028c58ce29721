"""Any Python function on the cluster: `spawn`, and graphs of tasks that stand in a file: `load_tasks`."""

from typing import TYPE_CHECKING, Any

from jmars.tensor.spawn import Output, Spawned, spawn

if TYPE_CHECKING:
    from jmars.client.tasks import TaskGraph, load_tasks

__all__ = ["Output", "Spawned", "TaskGraph", "load_tasks", "spawn"]


def __getattr__(name: str) -> Any:
    if name in ("TaskGraph", "load_tasks"):
        from jmars.client import tasks  # planners with it, which few need at once

        return getattr(tasks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
