"""Compiles a tensor graph to the chunk graph that runs: passes from graph to graph.

passes                 all passes in order, and ranks of operands: `compile_graph`
parts                  only the parts are computed that results need
slices                 slices are read, or drawn, where they lie in the sliced array
regions                fuses operands that run in a single pass over blocks
fuse_groups            builds a graph with groups of operands as operands
sources                what a graph reads of its sources, and why some bytes are read more than once
rematerialise          generates cheap sources within their readers
unfolding              stages of such a graph
"""

from jmars.optimize.passes import (
    Compiled,
    TooManyOperandsError,
    compile_graph,
    fuse_tensors,
    merge_equal,
    prune,
    ranks,
    tile,
)
from jmars.optimize.regions import FusionLimits, colors, fuse_chains, fuse_colors, fuse_regions

__all__ = [
    "Compiled",
    "FusionLimits",
    "TooManyOperandsError",
    "colors",
    "compile_graph",
    "fuse_chains",
    "fuse_colors",
    "fuse_regions",
    "fuse_tensors",
    "merge_equal",
    "prune",
    "ranks",
    "tile",
]
