"""Directed acyclic graphs as flat arrays.

dag    vertices and edges, frozen
order  levels, topological order, ancestors
"""

from jmars.graph.dag import Dag, gather_rows, group_by
from jmars.graph.order import ancestors, levels, topological

__all__ = [
    "Dag",
    "ancestors",
    "gather_rows",
    "group_by",
    "levels",
    "topological",
]
