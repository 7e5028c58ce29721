"""A graph that runs: seed 002's engine in arrays.

graph     what all runs of a graph share, frozen
counters  one run: missing inputs, readers left
pool      runs lent out, reset and used again

Conditional dependencies, mutable data and `GraphBuilder` come on top of these.
"""

from jmars.flow.counters import Counters
from jmars.flow.graph import FlowGraph
from jmars.flow.pool import Pool

__all__ = ["Counters", "FlowGraph", "Pool"]
