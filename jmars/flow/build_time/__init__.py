"""Graphs under construction, and their finished form.

graph_structure  the frozen rows that all instances share
blueprint        the structure, and the processor of each vertex
declare          dependencies and outputs of a vertex
library          ready-made vertices: const, alias, select
expressions      formulas as vertices
checks           errors found when a graph is finished
builder          GraphBuilder
"""

from jmars.flow.build_time.builder import GraphBuilder
from jmars.flow.build_time.declare import DependencyBuilder, VertexBuilder

__all__ = ["DependencyBuilder", "GraphBuilder", "VertexBuilder"]
