"""A graph as data.

dag    the vertices and edges, frozen arrays
order  levels, topological order, ancestors
dot    text for Graphviz
"""

from jmars.graph.dag import Dag, gather_rows, group_by
from jmars.graph.dot import to_dot
from jmars.graph.order import ancestors, is_topological, levels, topological

__all__ = [
    "Dag",
    "ancestors",
    "gather_rows",
    "group_by",
    "is_topological",
    "levels",
    "to_dot",
    "topological",
]
