"""Graph to graph.

pipeline  the passes in order: `compile_graph`
merge     tensors that must be equal are computed once
tile      tensors to chunks
prune     chunks that no result needs go
chains    operands in a single line become one
priority  which of two ready operands runs first
rebuild   what prune and chains have in common
stages    a graph that unfolds while it runs: which part can run now
"""

from jmars.optimize.chains import fuse_chains
from jmars.optimize.merge import merge_equal
from jmars.optimize.pipeline import Compiled, compile_graph
from jmars.optimize.priority import ranks
from jmars.optimize.prune import prune
from jmars.optimize.tile import tile

__all__ = ["Compiled", "compile_graph", "fuse_chains", "merge_equal", "prune", "ranks", "tile"]
