"""Graphs under construction, and their finished form.

blueprint        the structure, and the processor of each vertex
declare          dependencies and outputs of a vertex
builder          GraphBuilder
"""

from jmars.flow.build_time.builder import GraphBuilder
from jmars.flow.build_time.declare import DependencyBuilder, VertexBuilder

__all__ = ["DependencyBuilder", "GraphBuilder", "VertexBuilder"]
