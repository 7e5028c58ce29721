"""From tensors to the chunk graph that runs: the passes in order, each a plain function.

merge equal -> tile -> prune -> fuse chains -> priority. `compile_graph` is what the scheduler calls; the graph as it
was before pruning and fusing is kept for the live view.
Source: seed 000, "Graph Preparation" and "Configuration"; seed 003, "准备执行图".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.graph.dag import Dag
from jmars.optimize.chains import fuse_chains
from jmars.optimize.merge import merge_equal
from jmars.optimize.priority import ranks
from jmars.optimize.prune import prune
from jmars.optimize.regions import fuse_regions
from jmars.optimize.tile import tile
from jmars.switches import TASK_DEFAULTS
from jmars.tensor.chunk import ChunkGraph
from jmars.tensor.graph import TensorGraph

__all__ = ["Compiled", "compile_graph"]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A graph before and after optimising.

    Attributes
    ----------
    before
        As it was tiled.
    after
        As it runs.
    dag
        The edges of `after`.
    group
        Row of `after` that computes each row of `before`, shape (before.n,); -1 where it was pruned.
    rank
        Order of preference, shape (after.n,), each of 0..n-1 once: of two ready operands the lower one runs first.
    """

    before: ChunkGraph
    after: ChunkGraph
    dag: Dag
    group: NDArray[np.int32]
    rank: NDArray[np.int64]


def compile_graph(graph: TensorGraph, config: Mapping[str, Any], check: Callable[[], None] | None = None) -> Compiled:
    """Compile a tensor graph.

    Parameters
    ----------
    graph
        What was submitted.
    config
        Seed 000's switches, each True if absent: `optimize_tileable_graph` (merge equal tensors),
        `optimize_chunk_graph` (prune), `fuse_enabled` (fuse chains); and `order`, "mars" or "dfs". None of them changes
        a value.
    check
        Called between passes and between tensor operands; may raise to stop (a cancelled job).
    """
    go_on = check or _always
    if config.get("optimize_tileable_graph", True):
        graph = merge_equal(graph)
    go_on()
    before = after = tile(graph, check)
    group = np.arange(before.n, dtype=np.int32)
    if config.get("optimize_chunk_graph", True):
        go_on()
        after, group = prune(before)
    if config.get("fuse_enabled", True):
        go_on()
        mode = config.get("fuse", TASK_DEFAULTS["fuse"])
        joined = fuse_regions(after) if mode == "region" else fuse_chains(after)
        after, group = joined.graph, np.append(joined.group, np.int32(-1))[group]  # -1, pruned, reads the end
    go_on()
    dag = Dag.from_inputs(after.input_ptr, after.input_idx)
    return Compiled(before, after, dag, group, ranks(dag, after.nbytes, config.get("order", "mars")))


def _always() -> None:
    """Nobody asks to stop."""
