"""Runs any Python function on the cluster: `spawn`, and `load_tasks` for graphs of tasks in a file."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jmars.tensor.spawn import Output, Spawned, spawn

if TYPE_CHECKING:
    from jmars.annex.tasks import TaskGraph, load_tasks

__all__ = ["Output", "Spawned", "TaskGraph", "load_tasks", "spawn"]


def __getattr__(name: str) -> Any:
    if name in ("TaskGraph", "load_tasks"):
        return getattr(import_module("jmars.annex.tasks"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
