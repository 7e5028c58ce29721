"""A graph under construction, and what is left of it when it is finished.

structure   the frozen rows that all instances share
plan        the structure, and how each vertex is made
declare     what a vertex declares: dependencies and outputs
library     vertices that come ready made: const, alias, select
expression  formulas as vertices
checks      what is refused as a graph is finished
builder     GraphBuilder
"""

from jmars.flow.build_time.builder import GraphBuilder
from jmars.flow.build_time.declare import DependencyBuilder, VertexBuilder

__all__ = ["DependencyBuilder", "GraphBuilder", "VertexBuilder"]
