"""Graphs under construction, and their finished form.

blueprint        the structure, and the processor of each vertex
builder          GraphBuilder, and declarations of a vertex
"""

from jmars.flow.build_time.builder import DependencyBuilder, GraphBuilder, VertexBuilder

__all__ = ["DependencyBuilder", "GraphBuilder", "VertexBuilder"]
