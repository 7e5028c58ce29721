"""A graph that runs: seed 002's engine.

Build a graph by names, finish it, run instances of it:

build_time  GraphBuilder: vertices, dependencies, conditions, formulas
run_time    Graph instances, closures, executors, channels, pools of instances

The same counting without processors, for graphs of which only the order matters; the scheduler runs on it:

graph       what all runs of a graph share, frozen
counters    one run: missing inputs, readers left
lending     instances lent to one run at a time
pool        counters lent out, reset and used again
"""

from jmars.flow.build_time import DependencyBuilder, GraphBuilder, VertexBuilder
from jmars.flow.counters import Counters
from jmars.flow.graph import FlowGraph
from jmars.flow.pool import Pool
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
