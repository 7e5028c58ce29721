"""A dataflow engine: graphs of vertices and data that run once or many times; the public name is `jmars.flow`.

vertex      a finished graph as rows; vertices, dependencies and data as a processor sees them; executors
instance    Graph, an instance of a finished graph, and its runs; GraphPool
builder     GraphBuilder, and declarations of a vertex

Source: docs/explanation/seeds.md, "A dataflow engine".
"""

from jmars.annex.flow.builder import DependencyBuilder, GraphBuilder, VertexBuilder
from jmars.annex.flow.instance import Closure, Graph, GraphPool
from jmars.annex.flow.vertex import (
    AsyncioExecutor,
    Channel,
    Executor,
    GraphData,
    GraphDependency,
    GraphProcessor,
    GraphVertex,
    InlineExecutor,
    ThreadPoolExecutor,
)

__all__ = [
    "AsyncioExecutor",
    "Channel",
    "Closure",
    "DependencyBuilder",
    "Executor",
    "Graph",
    "GraphBuilder",
    "GraphData",
    "GraphDependency",
    "GraphPool",
    "GraphProcessor",
    "GraphVertex",
    "InlineExecutor",
    "ThreadPoolExecutor",
    "VertexBuilder",
]
