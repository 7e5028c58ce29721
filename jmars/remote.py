"""Runs any Python function on the cluster: `spawn`, `map`, and `load_tasks` for graphs of tasks in a file."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jmars.tensor.spawn import Mapped, Output, Spawned, map_items, spawn

if TYPE_CHECKING:
    from jmars.annex.tasks import TaskGraph, load_tasks

__all__ = ["Mapped", "Output", "Spawned", "TaskGraph", "load_tasks", "map", "spawn"]

map = map_items  # as the built-in function of that name


def __getattr__(name: str) -> Any:
    if name in ("TaskGraph", "load_tasks"):
        return getattr(import_module("jmars.annex.tasks"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
