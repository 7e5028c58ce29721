"""A dataflow engine: graphs of vertices and data that run once or many times.

Build a graph by names, finish it, run instances of it:

build_time  GraphBuilder: vertices, dependencies, conditions, formulas
run_time    Graph instances, closures, executors, channels, pools of instances

The same dependency counting without processors, for graphs of operands; the scheduler runs on it:

counters    a run: missing inputs and remaining readers

Source: docs/explanation/seeds.md, "A dataflow engine".
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jmars.flow.counters import Counters, FlowGraph, Pool

if TYPE_CHECKING:
    from jmars.flow.build_time import DependencyBuilder, GraphBuilder, VertexBuilder
    from jmars.flow.run_time import (
        AsyncioExecutor,
        Channel,
        Closure,
        Executor,
        Graph,
        GraphData,
        GraphDependency,
        GraphPool,
        GraphProcessor,
        GraphVertex,
        InlineExecutor,
        ThreadPoolExecutor,
    )

__all__ = [
    "AsyncioExecutor",
    "Channel",
    "Closure",
    "Counters",
    "DependencyBuilder",
    "Executor",
    "FlowGraph",
    "Graph",
    "GraphBuilder",
    "GraphData",
    "GraphDependency",
    "GraphPool",
    "GraphProcessor",
    "GraphVertex",
    "InlineExecutor",
    "Pool",
    "ThreadPoolExecutor",
    "VertexBuilder",
]


def __getattr__(name: str) -> Any:
    """Names of build_time and run_time, imported on first use: clusters need only the counters."""
    if name in __all__:
        for module in map(import_module, ("jmars.flow.build_time", "jmars.flow.run_time")):
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
