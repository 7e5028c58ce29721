"""`compile_graph`: compiles a tensor graph to the chunk graph that runs, by passes that are plain functions.

merge equal tensors -> push down rechunks and slices -> join writes -> fuse tensors -> tile -> prune -> fuse operands ->
rematerialise -> mark for machine code -> rank. The result keeps the graph without pruning and fusion too, for the live
view and for errors.
Source: docs/explanation/seeds.md, "Graph preparation", "Configuration", "Preparing the graph".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.graph import Dag
from jmars.kernels.expression import Node
from jmars.kernels.float_errors import FloatError, expression_of
from jmars.kernels.program import Program
from jmars.kernels.worth import marked
from jmars.optimize.chains import fuse_chains
from jmars.optimize.colors import fuse_colors
from jmars.optimize.common_subexpressions import merge_equal
from jmars.optimize.fuse_groups import FusedGraph
from jmars.optimize.keep_apart import Apart, keep_apart
from jmars.optimize.priority import ORDERS, ranks
from jmars.optimize.prune import prune
from jmars.optimize.regions import FusionLimits, fuse_regions
from jmars.optimize.rematerialise import Rematerialised, rematerialise
from jmars.optimize.repeat_windows import repeat_windows
from jmars.optimize.shifted_slices import cut_slices, push_down_rechunks
from jmars.optimize.slice_pushdown import push_down_slices
from jmars.optimize.tensor_fusion import fuse_tensors
from jmars.optimize.tile import tile
from jmars.optimize.write_chains import join_writes
from jmars.switches import TASK_DEFAULTS, checked
from jmars.tensor.chunk import ChunkGraph
from jmars.tensor.operand import Operand
from jmars.tensor.ops.elementwise.formula import ElementwiseOperand
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["Compiled", "compile_graph"]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled graph, with its form before pruning and fusion.

    Attributes
    ----------
    tiled
        The chunk graph after tiling; elementwise tensors may have been fused before.
    after
        The chunk graph that runs.
    dag
        The edges of `after`.
    tiled_group
        Row of `after` that computes each row of `tiled`, shape (tiled.n,); -1 for pruned rows. Of a rematerialised row
        only the first copy counts here; `members` covers all copies.
    rank
        Order of preference, shape (after.n,), a permutation of 0..n-1: of two ready operands the lower rank runs first.
    unfused
        The tensor graph before tensors were fused.
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
    _copied: tuple[NDArray[np.int32], Rematerialised] | None = None  # tiled row: row before copies

    def members(self, operand: int) -> list[int]:
        """Rows of `tiled` that a row of `after` was fused from, in the order of the program's members."""
        if self._copied is None:
            return list(self._rows_of[operand].tolist())
        return [row for part in self._copies_of[operand].tolist() for row in self._rows_of[part].tolist()]

    @cached_property
    def _rows_of(self) -> _Rows:
        """Rows of `tiled` by the row that they were fused into, before copies."""
        return _Rows(self.tiled_group if self._copied is None else self._copied[0])

    @cached_property
    def _copies_of(self) -> _Rows:
        """Rows before copies by row of `after`."""
        assert self._copied is not None
        redrawn = self._copied[1]
        return _Rows(redrawn.group, redrawn.origin)

    def source(self, operand: int, error: FloatError) -> tuple[Operand, Node]:
        """The user's operation that had a floating point error, an operand of `unfused`, and its node.

        Parameters
        ----------
        operand
            Row of `after`.
        error
            What its program reported.
        """
        program = self.after.programs[self.after.program[operand]]
        expression = expression_of(program.steps[error.step])
        assert expression is not None
        whose = program.node_members[error.step] if program.node_members else ()
        member = whose[error.node] if whose else program.members[error.step] if program.members else 0
        place = error.node - (whose.index(member) if whose else 0)  # among the nodes of that operand
        layer = int(self.tiled.layer[self.members(operand)[member]])
        for number in np.flatnonzero(self._fused_into == layer).tolist():
            one = self.unfused.operands[number]
            if not isinstance(one, ElementwiseOperand) or place < len(one.expression.nodes):
                return one, expression.nodes[error.node]
            place -= len(one.expression.nodes)
        raise AssertionError(f"node {error.node} of step {error.step} belongs to no operand of the graph")

    @cached_property
    def _fused_into(self) -> NDArray[np.int64]:
        return np.array(self.fused, np.int64)

    @cached_property
    def before(self) -> ChunkGraph:
        """The chunk graph without pruning and fusion; made on first use."""
        return self.tiled if self._is_plain else tile(self.unfused)

    @cached_property
    def group(self) -> NDArray[np.int32]:
        """Row of `after` that computes each row of `before`, shape (before.n,); -1 for pruned rows."""
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
        same = self.fused == list(range(len(self.fused)))
        return same and len(self.unfused.operands) == len(self.tiled.layers)


class _Rows:
    """Rows by group: `[k]` are those whose group is `k`, in order."""

    def __init__(self, group: NDArray[np.integer[Any]], rows: NDArray[np.integer[Any]] | None = None) -> None:
        order = np.argsort(group, kind="stable")
        self._group, self._rows = group[order], order if rows is None else rows[order]

    def __getitem__(self, group: int) -> NDArray[np.integer[Any]]:
        low, high = np.searchsorted(self._group, [group, group + 1]).tolist()
        return self._rows[low:high]


def compile_graph(
    graph: TensorGraph,
    config: Mapping[str, Any],
    check: Callable[[], None] | None = None,
    room: int | None = None,
    workers: int = 1,
    most: int | None = None,
    runs_on_gpu: Callable[[Program], bool] | None = None,
) -> Compiled:
    """Compiles a tensor graph.

    Parameters
    ----------
    graph
        The submitted graph.
    config
        Switches of `jmars.switches`, with defaults for absent switches; other settings are ignored. No switch changes
        a value.
    check
        Called between passes and between tensor operands; may raise to stop (a cancelled job).
    room
        Most bytes of a fused operand: inputs, output and chunks held between. None: no bound.
    workers
        Operands that can run at a time; fusion stops where fewer operands would be left.
    most
        Most chunk-level operands before fusion; None: no bound.
    runs_on_gpu
        Keeps operands whose program a GPU can run apart from others, so that these do not keep it from the GPU.

    Raises
    ------
    TooManyOperandsError
        If tiling makes more than `most` operands.
    """
    switch = TASK_DEFAULTS | checked({name: value for name, value in config.items() if name in TASK_DEFAULTS})
    go_on = check or _always
    limits = FusionLimits(room=room)
    if switch["optimize_tileable_graph"]:
        graph = merge_equal(graph)
    if switch["fuse_enabled"] and switch["fuse_tileable"]:
        graph = push_down_rechunks(graph)
    if switch["fuse_enabled"] and switch["redraw"]:
        graph = push_down_slices(graph)
    if switch["fuse_enabled"] and switch["fuse_tileable"]:
        graph = cut_slices(graph)
    if switch["fuse_enabled"] and switch["fuse_tileable"]:
        graph = join_writes(graph)
    unfused, fused = graph, list(range(len(graph.operands)))
    if switch["fuse_enabled"] and switch["fuse_tileable"]:
        graph, fused = fuse_tensors(graph, limits)
        graph, number = repeat_windows(graph)
        fused = [number[k] for k in fused]
    go_on()
    tiled = after = tile(graph, check, most)
    group = np.arange(tiled.n, dtype=np.int32)
    if switch["optimize_chunk_graph"]:
        go_on()
        after, group = prune(tiled)
    if switch["fuse_enabled"]:
        go_on()
        joined = _fused(after, switch["fuse"], limits, workers, keep_apart(after, runs_on_gpu))
        after, group = joined.graph, np.append(joined.group, np.int32(-1))[group]  # -1, pruned, reads the end
    copied = None
    if switch["fuse_enabled"] and switch["redraw"]:
        memory = None if room is None else 2 * room * workers  # `room` is half of a share
        redrawn = rematerialise(after, memory, keep_apart(after, runs_on_gpu))
        if redrawn is not None:
            copied = group, redrawn
            after, group = redrawn.graph, np.append(redrawn.first, np.int32(-1))[group]
    counts = np.bincount(after.program[after.program >= 0], minlength=len(after.programs)).tolist()
    after = replace(after, programs=marked(after.programs, counts, switch["jit"], workers, room))
    go_on()
    dag = Dag.from_inputs(after.input_ptr, after.input_idx)
    order = switch["order"] if switch["order"] in ORDERS else "mars"  # others: plan/choice.py
    return Compiled(tiled, after, dag, group, ranks(dag, after.nbytes, order), unfused, fused, copied)


def _fused(graph: ChunkGraph, mode: str, limits: FusionLimits, workers: int, apart: Apart) -> FusedGraph:
    """Fuses the graph by the rule that the switch `fuse` names."""
    if mode == "chain":
        return fuse_chains(graph, apart=apart, room=limits.room)
    fuse = fuse_regions if mode == "region" else fuse_colors
    return fuse(graph, limits, workers, apart)


def _always() -> None:
    """Default for `check`: never stops."""
