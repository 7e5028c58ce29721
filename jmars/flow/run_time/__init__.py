"""Instances of a finished graph, and their runs.

unready        explains why a data is not ready
loans          mutable borrowing of values: one writer or many readers
activation     the state machine: active, ready, done; pure
value_channel  values that arrive in parts
processor      the code of a vertex
nodes          vertices, dependencies and data as a processor sees them
closure        the future of a run: finished, flushed, failed
executors      inline, threads, asyncio
instance       Graph
graph_pool     a pool of instances
"""

from jmars.flow.run_time.closure import Closure
from jmars.flow.run_time.executors import AsyncioExecutor, Executor, InlineExecutor, ThreadPoolExecutor
from jmars.flow.run_time.graph_pool import GraphPool
from jmars.flow.run_time.instance import Graph
from jmars.flow.run_time.nodes import GraphData, GraphDependency, GraphVertex
from jmars.flow.run_time.processor import GraphProcessor
from jmars.flow.run_time.value_channel import Channel

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
