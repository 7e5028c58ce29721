"""Instances of a finished graph, and their runs.

processor      the code of a vertex
nodes          vertices, dependencies and data as a processor sees them
executors      inline, threads, asyncio
instance       Graph
graph_pool     a pool of instances
"""

from jmars.flow.run_time.executors import AsyncioExecutor, Executor, InlineExecutor, ThreadPoolExecutor
from jmars.flow.run_time.graph_pool import GraphPool
from jmars.flow.run_time.instance import Closure, Graph
from jmars.flow.run_time.nodes import Channel, GraphData, GraphDependency, GraphVertex
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
