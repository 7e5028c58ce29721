"""Instances of a finished graph, and their runs.

why         why a data is not ready, in words
loans       who may write into a value
activation  what is active, what is ready, what follows: pure, with the edge rule
channel     values that come in parts
processor   what a vertex does
nodes       vertices, dependencies and data as a processor sees them
closure     finished or flushed: what a run gives back
executor    who runs a vertex
instance    Graph
graph_pool  instances lent out
"""

from jmars.flow.run_time.channel import Channel
from jmars.flow.run_time.closure import Closure
from jmars.flow.run_time.executor import AsyncioExecutor, Executor, InlineExecutor, ThreadPoolExecutor
from jmars.flow.run_time.graph_pool import GraphPool
from jmars.flow.run_time.instance import Graph
from jmars.flow.run_time.nodes import GraphData, GraphDependency, GraphVertex
from jmars.flow.run_time.processor import GraphProcessor

__all__ = [
    "AsyncioExecutor",
    "Channel",
    "Closure",
    "Executor",
    "Graph",
    "GraphData",
    "GraphDependency",
    "GraphPool",
    "GraphProcessor",
    "GraphVertex",
    "InlineExecutor",
    "ThreadPoolExecutor",
]
