"""Graph to graph.

pipeline  the passes in order: `compile_graph`
merge     tensors that must be equal are computed once
sources   what is cut out of random doubles is drawn by itself
tileables  elementwise tensors cut alike become one
tile      tensors to chunks
prune     chunks that no result needs go
chains    operands in a single line become one
regions   operands that run in one pass over blocks become one
colors    operands of one of Mars's colours become one
joining   groups of operands made one operand each
redraw    cheap sources are drawn by each of their readers
drawing   what drawing costs
priority  which of two ready operands runs first
rebuild   what prune and joining have in common
decompose  a fused operand taken apart again
nodes     the nodes of a graph that unfolds while it runs
stages    which part of such a graph can run now
"""

from jmars.optimize.chains import fuse_chains
from jmars.optimize.colors import colors, fuse_colors
from jmars.optimize.merge import merge_equal
from jmars.optimize.pipeline import Compiled, compile_graph
from jmars.optimize.priority import ranks
from jmars.optimize.prune import prune
from jmars.optimize.regions import Limits, fuse_regions
from jmars.optimize.tile import TooManyOperandsError, tile
from jmars.optimize.tileables import fuse_tileables

__all__ = [
    "Compiled",
    "Limits",
    "TooManyOperandsError",
    "colors",
    "compile_graph",
    "fuse_chains",
    "fuse_colors",
    "fuse_regions",
    "fuse_tileables",
    "merge_equal",
    "prune",
    "ranks",
    "tile",
]
