"""Instances of a finished graph, and their runs.

vertex         processors, and vertices, dependencies and data as a processor sees them
executors      inline, threads, asyncio
instance       Graph, GraphPool
"""

from jmars.flow.run_time.executors import AsyncioExecutor, Executor, InlineExecutor, ThreadPoolExecutor
from jmars.flow.run_time.instance import Closure, Graph, GraphPool
from jmars.flow.run_time.vertex import Channel, GraphData, GraphDependency, GraphProcessor, GraphVertex

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
