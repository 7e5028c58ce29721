"""Compiles a tensor graph to the chunk graph that runs: passes from graph to graph.

passes                 all passes in order: `compile_graph`
common_subexpressions  equal tensors are computed once
shifted_slices         slices of a stencil are read where the array's chunks lie
slice_pushdown         slices of random arrays are generated without the whole array
write_chains           joins writes to slices of an array, one after the other
tensor_fusion          fuses elementwise tensors with equal chunks
repeat_windows         gives each reader of windows its own windows, which are views
tile                   tensors to chunks
prune                  drops chunks that no result needs
chains                 fuses operands in a line without branches
regions                fuses operands that run in a single pass over blocks
colors                 fuses operands of the same colour, Mars's rule
fuse_groups            builds a graph with groups of operands as operands
rematerialise          generates cheap sources within their readers
generation_cost        seconds to generate a chunk
priority               ranks operands: the lower rank runs first
keep_apart             rows that are never fused, by their annotations
rebuild                renumbers the arrays of a chunk graph
decompose              the inverse of fusion
unfolding_nodes        nodes of a graph that unfolds while it runs
unfolding              stages of such a graph
"""

from jmars.optimize.chains import fuse_chains
from jmars.optimize.colors import colors, fuse_colors
from jmars.optimize.common_subexpressions import merge_equal
from jmars.optimize.passes import Compiled, compile_graph
from jmars.optimize.priority import ranks
from jmars.optimize.prune import prune
from jmars.optimize.regions import FusionLimits, fuse_regions
from jmars.optimize.tensor_fusion import fuse_tensors
from jmars.optimize.tile import TooManyOperandsError, tile

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
