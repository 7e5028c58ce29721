"""From tensors to the chunk graph that runs: the passes in order, each a plain function.

merge equal -> draw parts -> fuse tensors -> tile -> prune -> fuse operands -> redraw -> mark for machine code ->
priority. `compile_graph` is what the scheduler calls; the graph as it would be without pruning and fusing can be had
from what it gives, for the live view and for errors.
Source: seed 000, "Graph Preparation" and "Configuration"; seed 003, "准备执行图".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.graph.dag import Dag
from jmars.kernels.worth import marked
from jmars.optimize.chains import fuse_chains
from jmars.optimize.colors import fuse_colors
from jmars.optimize.common_subexpressions import merge_equal
from jmars.optimize.fuse_groups import FusedGraph
from jmars.optimize.priority import ORDERS, ranks
from jmars.optimize.prune import prune
from jmars.optimize.regions import FusionLimits, fuse_regions
from jmars.optimize.rematerialise import Rematerialised, rematerialise
from jmars.optimize.slice_pushdown import push_down_slices
from jmars.optimize.tensor_fusion import fuse_tensors
from jmars.optimize.tile import tile
from jmars.switches import TASK_DEFAULTS, checked
from jmars.tensor.chunk import ChunkGraph
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["Compiled", "compile_graph"]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A graph before and after optimising.

    Attributes
    ----------
    tiled
        As it was tiled: elementwise tensors may have been one by then.
    after
        As it runs.
    dag
        The edges of `after`.
    tiled_group
        Row of `after` that computes each row of `tiled`, shape (tiled.n,); -1 where it was pruned. What several rows
        draw is here part of the first of them; `members` knows it of all.
    rank
        Order of preference, shape (after.n,), each of 0..n-1 once: of two ready operands the lower one runs first.
    unfused
        The tensor graph before its tensors were fused.
    fused
        Number of the tiled tensor that each tensor of `unfused` is part of.
    """

    tiled: ChunkGraph
    after: ChunkGraph
    dag: Dag
    tiled_group: NDArray[np.int32]
    rank: NDArray[np.int64]
    unfused: TensorGraph
    fused: list[int]
    _copied: tuple[NDArray[np.int32], Rematerialised] | None = None  # row of each of `tiled` before redrawing, and that

    def members(self, operand: int) -> list[int]:
        """Rows of `tiled` that a row of `after` is made of, in the order of its program's members."""
        if self._copied is None:
            return np.flatnonzero(self.tiled_group == operand).tolist()
        group, redrawn = self._copied
        parts = redrawn.origin[redrawn.group == operand]
        return [row for part in parts.tolist() for row in np.flatnonzero(group == part).tolist()]

    @cached_property
    def before(self) -> ChunkGraph:
        """As it would run if nothing was pruned or fused; made when first asked for."""
        return self.tiled if self._is_plain else tile(self.unfused)

    @cached_property
    def group(self) -> NDArray[np.int32]:
        """Row of `after` that computes each row of `before`, shape (before.n,); -1 where it was pruned."""
        if self._is_plain:
            return self.tiled_group
        before, tiled = self.before, self.tiled
        # tensors are layers, their rows stand together, and a tensor has as many as what it became
        count, sizes = (np.bincount(g.layer, minlength=len(g.layers)) for g in (before, tiled))
        place = np.arange(before.n) - np.repeat(np.cumsum(count) - count, count)
        start = (np.cumsum(sizes) - sizes)[np.array(self.fused, np.int64)]
        group: NDArray[np.int32] = self.tiled_group[start[before.layer] + place]
        return group

    @property
    def _is_plain(self) -> bool:
        return len(self.unfused.operands) == len(self.tiled.layers)


def compile_graph(
    graph: TensorGraph,
    config: Mapping[str, Any],
    check: Callable[[], None] | None = None,
    room: int | None = None,
    workers: int = 1,
    most: int | None = None,
) -> Compiled:
    """Compile a tensor graph.

    Parameters
    ----------
    graph
        What was submitted.
    config
        Switches of `jmars.switches`, each at its default if absent; other settings are not looked at. None of them
        changes a value.
    check
        Called between passes and between tensor operands; may raise to stop (a cancelled job).
    room
        Bytes that one fused operand may take: inputs, output and what is held between. None: no bound.
    workers
        Operands that can run at a time: where fewer would be left, less is fused.
    most
        Operands on chunks that there may be before they are fused; None: no bound.

    Raises
    ------
    TooManyOperandsError
        If there are more.
    """
    switch = TASK_DEFAULTS | checked({name: value for name, value in config.items() if name in TASK_DEFAULTS})
    go_on = check or _always
    limits = FusionLimits(room=room)
    if switch["optimize_tileable_graph"]:
        graph = merge_equal(graph)
    if switch["fuse_enabled"] and switch["redraw"]:
        graph = push_down_slices(graph)
    unfused, fused = graph, list(range(len(graph.operands)))
    if switch["fuse_enabled"] and switch["fuse_tileable"]:
        graph, fused = fuse_tensors(graph, limits)
    go_on()
    tiled = after = tile(graph, check, most)
    group = np.arange(tiled.n, dtype=np.int32)
    if switch["optimize_chunk_graph"]:
        go_on()
        after, group = prune(tiled)
    if switch["fuse_enabled"]:
        go_on()
        joined = _fused(after, switch["fuse"], limits, workers)
        after, group = joined.graph, np.append(joined.group, np.int32(-1))[group]  # -1, pruned, reads the end
    copied = None
    if switch["fuse_enabled"] and switch["redraw"]:
        redrawn = rematerialise(after, None if room is None else 2 * room * workers)  # `room` is half of a share
        if redrawn is not None:
            copied = group, redrawn
            after, group = redrawn.graph, np.append(redrawn.first, np.int32(-1))[group]
    counts = np.bincount(after.program[after.program >= 0], minlength=len(after.programs)).tolist()
    after = replace(after, programs=marked(after.programs, counts, switch["jit"], workers, room))
    go_on()
    dag = Dag.from_inputs(after.input_ptr, after.input_idx)
    order = switch["order"] if switch["order"] in ORDERS else "mars"  # others: plan/choice/one_host.py
    return Compiled(tiled, after, dag, group, ranks(dag, after.nbytes, order), unfused, fused, copied)


def _fused(graph: ChunkGraph, mode: str, limits: FusionLimits, workers: int) -> FusedGraph:
    """The graph fused by one of the switch's three rules."""
    if mode == "chain":
        return fuse_chains(graph)
    return fuse_regions(graph, limits, workers) if mode == "region" else fuse_colors(graph, limits, workers)


def _always() -> None:
    """Nobody asks to stop."""
