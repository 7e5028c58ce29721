"""`compile_graph`: compiles a tensor graph to the chunk graph that runs, by passes that are plain functions.

merge equal tensors -> window later -> push down rechunks -> parts -> cut slices -> join writes -> fuse tensors -> tile
-> prune -> fuse operands -> rematerialise -> choose back ends -> rank. The result keeps the graph without pruning and
fusion too, for the live view and for errors. The small passes are here:

- Operands with equal tokens and equal inputs give equal values: `(x + 1) * (x + 1)` adds once. The pass works on
  tensors, so its cost does not grow with the number of chunks.
- `a[k] = v` in a loop copies a chunk once for many writes. A write makes a new tensor of all elements (setitem.py);
  where only the next write reads a tensor, both become a single operand.
- Windows are views of their input (apply.py) as long as a single fused operand reads them. Where several do, such as
  the sum and the deviations of a variance, storing the windows would take many times the input's bytes. So windows, and
  masks and the like computed of windows alone, are repeated for each reader.
- Elementwise functions of windows are computed of the elements before the windows are made. Reductions and
  products of matrices read windows in place.
- Elementwise tensors of equal shape and chunks are fused by the rule of regions.py: a tensor joins its readers if all
  readers are in the same group, are elementwise and have the tensor's shape and chunks. The pass costs microseconds per
  tensor, whatever the number of chunks, and later passes see fewer operands.
- `Operand.tile` divides an operand's work; tiling calls it in topological order with the chunks of the inputs. The
  operands on chunks of the same tensor operand are a layer.
- Operands that no result needs are dropped: tiling makes all chunks of every tensor, `x[:10].execute()` needs the first
  few.
- Rows are numbered by annotations and devices; rows with different numbers are never fused.
- Ranks are chosen so that few chunks are held at a time: `mars` is Mars's rule, `depth_first` an order computed in a
  single pass from the results back. Of two ready operands the lower rank runs first.

Source: docs/explanation/seeds.md, "Graph preparation", "Configuration", "Chunk graph", "Preparing the graph", "Choosing
operands"; Dask `cull`; Ershov 1958 (hash-consing); Hudak, Bloss 1985 (aggregate update problem); Briggs, Cooper,
Torczon 1992 (rematerialization); Mars `optimization/physical`, `_can_color_same`; Dask
`blockwise`; Cubed `multiple_inputs_optimize_dag`; Legate Diffuse (ASPLOS 2025).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from operator import itemgetter
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError, SettingError
from jmars.graph import Dag, ancestors, gather_rows, levels
from jmars.kernels.expression import Node
from jmars.kernels.float_errors import FloatError, expression_of
from jmars.kernels.fusing import joined_expression
from jmars.kernels.native_pipeline import marked
from jmars.kernels.numpy_backend import numexpr_there
from jmars.kernels.program import Program
from jmars.kernels.routines import llvm_there
from jmars.optimize.fuse_groups import FusedGraph, flags, is_result, rebuilt
from jmars.optimize.parts import push_down_parts
from jmars.optimize.regions import FusionLimits, fuse_chains, fuse_colors, fuse_regions
from jmars.optimize.rematerialise import Rematerialised, rematerialise
from jmars.optimize.slices import adds_blocks, cut_slices, is_rechunk, push_down_rechunks, reached, readers_of
from jmars.switches import TASK_DEFAULTS, checked
from jmars.tensor.chunk import ChunkGraph, ChunkGraphBuilder, ChunkGrid, GraphLayer
from jmars.tensor.operand import Annotation, Operand, TensorMeta
from jmars.tensor.ops.apply import SlidingWindows
from jmars.tensor.ops.formula import ElementwiseOperand
from jmars.tensor.ops.matrix_operands import Contraction
from jmars.tensor.ops.reduction import Reduction
from jmars.tensor.ops.setitem import SetSlice, SetSlices
from jmars.tensor.tensor_graph import TensorGraph


@dataclass(frozen=True, eq=False)
class FusedElementwise(ElementwiseOperand):
    """Fused elementwise operands; `function` names all of them, and the source line is the line of the last."""

    name: ClassVar[str] = "fused elementwise"


def fuse_tensors(graph: TensorGraph, limits: FusionLimits | None = None) -> tuple[TensorGraph, list[int]]:
    """Fuses groups of elementwise tensors.

    Parameters
    ----------
    graph
        Operands in topological order; results are never inside a group.
    limits
        Limits of a group; bytes are bytes of the largest chunks.

    Returns
    -------
    TensorGraph
        `graph` itself if no tensors are fused.
    list of int
        New number of each operand.
    """
    if not any(type(operand) is ElementwiseOperand for operand in graph.operands):
        return graph, list(range(len(graph.operands)))
    root = _roots(graph, limits or FusionLimits())
    members: dict[int, list[int]] = {}
    for k, end in enumerate(root):
        members.setdefault(end, []).append(k)
    kept = sorted(members)
    if len(kept) == len(root):
        return graph, list(range(len(root)))
    number = {end: row for row, end in enumerate(kept)}
    operands: list[Operand] = []
    inputs: list[tuple[int, ...]] = []
    for end in kept:
        operand, read = graph.operands[end], graph.inputs[end]
        if len(members[end]) > 1:
            operand, read = _fused_tensors(graph, members[end])
        operands.append(operand)
        inputs.append(tuple(number[i] for i in read))
    fused = TensorGraph(operands, inputs, [graph.metas[k] for k in kept], [number[k] for k in graph.results])
    return fused, [number[end] for end in root]


def _roots(graph: TensorGraph, limits: FusionLimits) -> list[int]:
    """Last operands of the operands' groups, the outputs of the groups."""
    readers = readers_of(graph)
    results = set(graph.results)
    root = list(range(len(graph.operands)))
    ops: dict[int, int] = {}  # by root
    inputs: dict[int, set[int]] = {}
    room = limits.room if limits.room is not None else math.inf
    for k in range(len(root) - 1, -1, -1):
        operand, own_inputs = graph.operands[k], set(graph.inputs[k])
        if type(operand) is not ElementwiseOperand:
            continue
        own = operand.expression.ops
        ends = {root[reader] for reader in readers[k]}
        end = ends.pop() if len(ends) == 1 else k
        if end in ops and end != k and k not in results and _alike(graph, k, end):
            both = (inputs[end] | own_inputs) - {k}
            size = sum(_largest(graph.metas[i]) for i in both) + _largest(graph.metas[end])
            if ops[end] + own <= limits.ops and len(both) <= limits.inputs and size <= room:
                root[k] = end
                ops[end] += own
                inputs[end] = both
                continue
        ops[k], inputs[k] = own, own_inputs
    return root


def _alike(graph: TensorGraph, one: int, other: int) -> bool:
    """Whether two tensors have the same shape and chunks, and annotations that let them become one."""
    (a, b), annotation = (graph.metas[one], graph.metas[other]), graph.operands[one].annotation
    if annotation != graph.operands[other].annotation or (annotation is not None and not annotation.fuse):
        return False
    return a.shape == b.shape and a.chunks == b.chunks


def _largest(meta: TensorMeta) -> int:
    """Bytes of the largest chunk."""
    elements: int = math.prod(max(axis, default=0) for axis in meta.chunks)
    return elements * meta.dtype.itemsize


def _fused_tensors(graph: TensorGraph, members: list[int]) -> tuple[FusedElementwise, tuple[int, ...]]:
    """The fused operand of a group, and the numbers of its inputs."""
    parts = [graph.operands[k] for k in members]
    expression, read = joined_expression(
        [part.expression for part in parts if isinstance(part, ElementwiseOperand)],
        [graph.inputs[k] for k in members],
        members,
    )
    last = parts[-1]
    assert isinstance(last, ElementwiseOperand)
    name = "+".join(part.label for part in parts)
    return FusedElementwise(name, expression, last.splits, line=last.line, annotation=last.annotation), read


ORDERS = ("mars", "dfs")


def ranks(dag: Dag, nbytes: NDArray[np.int64], order: str = "mars") -> NDArray[np.int64]:
    """Ranks operands by the order named `order`, a member of `ORDERS`; shape (n,), a permutation of 0..n-1.

    Raises
    ------
    GraphError
        If the order is unknown, or the graph has a cycle.
    """
    if order not in ORDERS:
        raise GraphError(f"no order {order!r} for operands; choose one of {', '.join(ORDERS)}")
    return mars(dag, nbytes) if order == "mars" else depth_first(dag, nbytes)


def mars(dag: Dag, nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Mars's three rules: deeper operands first, then operands with a deeper reader, then smaller outputs.

    Parameters
    ----------
    dag
        The operands.
    nbytes
        Bytes of each output, shape (n,).

    Returns
    -------
    ndarray of int64, shape (n,)
        Rank among operands that are ready at the same time; ties stay in order of creation. Not a topological order: an
        operand ranks before its inputs.

    Examples
    --------
    Of two ready leaves the leaf with the deeper reader goes first:

    >>> mars(Dag.from_edges(4, [0, 2, 1], [2, 3, 3]), np.array([8, 8, 8, 8])).tolist()
    [3, 2, 1, 0]
    """
    depth = levels(dag)
    demand = np.zeros(dag.n, np.int64)  # depth of the deepest direct reader
    read = dag.out_degree > 0
    if dag.m:
        demand[read] = np.maximum.reduceat(depth[dag.succ_idx], dag.succ_ptr[:-1][read])
    return _positions(np.lexsort((nbytes, -demand, -depth)))


def depth_first(dag: Dag, nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Depth-first rank from the deepest sink back: inputs with the largest output first, then ready readers.

    Parameters and result as `mars`; this rank is a topological order. A few µs an operand.
    """
    depth, size = levels(dag).tolist(), nbytes.tolist()
    preds, succs = tuple(dag.pred_idx.tolist()), tuple(dag.succ_idx.tolist())
    inputs = [preds[a:b] for a, b in pairwise(dag.pred_ptr.tolist())]
    readers = [succs[a:b] for a, b in pairwise(dag.succ_ptr.tolist())]
    missing = dag.in_degree.tolist()
    placed = bytearray(dag.n)
    met = bytearray(dag.n)
    order: list[int] = []
    for sink in sorted(dag.sinks().tolist(), key=lambda v: (-depth[v], v)):
        stack = [sink]
        while stack:
            operand = stack[-1]
            if placed[operand]:
                stack.pop()
            elif not met[operand] and missing[operand]:
                met[operand] = 1
                needed = [p for p in reversed(inputs[operand]) if not placed[p]]
                stack += sorted(needed, key=size.__getitem__)  # ties: the first operand is on top of the stack
            else:
                stack.pop()
                ready = [operand]
                while ready:
                    now = ready.pop()
                    placed[now] = 1
                    order.append(now)
                    able = []
                    for reader in reversed(readers[now]):
                        missing[reader] -= 1
                        if not missing[reader]:
                            able.append(reader)
                    if len(able) > 1:
                        able.sort(key=size.__getitem__, reverse=True)  # the smallest is taken first
                    ready += able
    return _positions(np.array(order, np.int64))


def _positions(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of operands in `order`."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


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
        for one in (one for one, number in zip(self.unfused.operands, self.fused, strict=True) if number == layer):
            if not isinstance(one, ElementwiseOperand) or place < len(one.expression.nodes):
                return one, expression.nodes[error.node]
            place -= len(one.expression.nodes)
        raise AssertionError(f"node {error.node} of step {error.step} belongs to no operand of the graph")

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
        # layers are tensors, rows of a layer are contiguous, and a rewritten tensor has as many rows as before
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
    SettingError
        If a switch has a value that it cannot have, contradicts another, or needs a library that is not installed.
    """
    switch = TASK_DEFAULTS | checked({name: value for name, value in config.items() if name in TASK_DEFAULTS})
    _refuse_kernels(switch["kernels"], switch["jit"])
    go_on = check or (lambda: None)
    limits = FusionLimits(room=room)
    if switch["optimize_tileable_graph"]:
        graph = merge_equal(graph)
    fuses_tensors = switch["fuse_enabled"] and switch["fuse_tileable"]
    graph = window_later(graph) if fuses_tensors else graph
    graph = push_down_rechunks(graph, workers, slices=fuses_tensors, files=switch["parts"])
    graph = push_down_parts(graph) if switch["parts"] else graph
    if fuses_tensors:
        graph = join_writes(cut_slices(graph))
    unfused, fused = graph, list(range(len(graph.operands)))
    if fuses_tensors:
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
    after = replace(after, programs=marked(after.programs, counts, switch["kernels"], switch["jit"], workers, room))
    go_on()
    dag = Dag.from_inputs(after.input_ptr, after.input_idx)
    order = switch["order"] if switch["order"] in ORDERS else "mars"  # other orders: plan/choice.py
    return Compiled(tiled, after, dag, group, ranks(dag, after.nbytes, order), unfused, fused, copied)


def _refuse_kernels(kernels: str, jit: str) -> None:
    """Raise SettingError where the switches `kernels` and `jit` contradict each other, or the library is missing."""
    clash = {"numpy": ("on", "fast"), "numexpr": ("on", "fast"), "jit": ("off",)}
    if jit in clash.get(kernels, ()):
        raise SettingError(f"kernels={kernels!r} and jit={jit!r} contradict each other; leave out one of the two")
    is_there = {"numexpr": numexpr_there, "jit": llvm_there}
    if kernels in is_there and not is_there[kernels]():
        raise SettingError(
            f"kernels={kernels!r} needs a library that is not installed where jobs are planned; "
            f"pip install jmars[{kernels}], there and on all workers"
        )


def _fused(graph: ChunkGraph, mode: str, limits: FusionLimits, workers: int, apart: Apart) -> FusedGraph:
    """Fuses the graph by the rule that the switch `fuse` names."""
    if mode == "chain":
        return fuse_chains(graph, apart=apart, room=limits.room)
    fuse = fuse_regions if mode == "region" else fuse_colors
    return fuse(graph, limits, workers, apart)


def prune(graph: ChunkGraph) -> tuple[ChunkGraph, NDArray[np.int32]]:
    """Drops rows that lead to no result.

    Returns
    -------
    ChunkGraph
        The remaining rows, in the same order; `graph` itself if no row is dropped.
    ndarray of int32, shape (graph.n,)
        New row of each row, -1 for dropped rows.
    """
    kept = is_result(graph)
    last = np.ones(graph.n, np.bool_)
    last[graph.input_idx] = False
    if np.all(kept[last]):  # every row leads to a result
        return graph, np.arange(graph.n, dtype=np.int32)
    needed = ancestors(Dag.from_inputs(graph.input_ptr, graph.input_idx), np.flatnonzero(kept))
    rows = np.flatnonzero(needed)
    group = np.full(graph.n, -1, np.int32)
    group[rows] = np.arange(len(rows), dtype=np.int32)
    args = None if graph.args is None else [graph.args[k] for k in rows.tolist()]
    ptr = np.concatenate([[0], np.cumsum(np.diff(graph.input_ptr)[rows])])
    idx = group[gather_rows(graph.input_ptr, graph.input_idx, rows)].astype(np.int64)
    return rebuilt(graph, group, rows, ptr, idx, graph.programs, graph.program[rows], args), group


def merge_equal(graph: TensorGraph) -> TensorGraph:
    """Merges operands of equal (token, annotation, inputs, chunks); returns `graph` itself if all differ.

    Of equal operands the first stays, with its source line; if a merged operand is a result, the remaining operand
    takes the result's key. Two equal results both stay, since clients retain and release them separately, but readers
    of either read the first.

    Operands whose token is None (random numbers without a seed, user functions) are never merged.
    """
    results = set(graph.results)
    first: dict[Hashable, int] = {}  # (token, annotation, inputs, shape, dtype, chunks): the operand that stays
    stands_for = list(range(len(graph.operands)))
    metas = list(graph.metas)
    gone: set[int] = set()
    for k, (operand, inputs, meta) in enumerate(zip(graph.operands, graph.inputs, graph.metas, strict=True)):
        token = operand.token()
        if token is None:
            continue
        read = tuple(stands_for[i] for i in inputs)
        known = (token, operand.annotation, read, meta.shape, meta.dtype, meta.chunks)
        stays = first.setdefault(known, k)
        stands_for[k] = stays
        if stays == k or (k in results and stays in results):
            continue
        gone.add(k)
        if k in results:
            metas[stays] = meta
            results = results - {k} | {stays}
    if not gone and stands_for == list(range(len(stands_for))):
        return graph
    links = [tuple(stands_for[i] for i in read) for read in graph.inputs]
    asked = [stands_for[k] if k in gone else k for k in graph.results]
    return reached(TensorGraph(graph.operands, links, metas, asked))


class TooManyOperandsError(Exception):
    """A graph has more operands on chunks than its limit.

    Attributes
    ----------
    n
        Number of operands, at least.
    layer
        The tensor operand that most of them compute.
    """

    def __init__(self, n: int, layer: GraphLayer) -> None:
        super().__init__(n, layer)
        self.n, self.layer = n, layer


def tile(graph: TensorGraph, check: Callable[[], None] | None = None, most: int | None = None) -> ChunkGraph:
    """Tiles a tensor graph to a chunk graph.

    Parameters
    ----------
    graph
        Operands in topological order.
    check
        Called before each operand; may raise to stop.
    most
        Most operands on chunks; None: no bound.

    Raises
    ------
    TooManyOperandsError
        If tiling makes more than `most` operands.
    """
    builder = ChunkGraphBuilder()
    grids: list[ChunkGrid] = []
    largest = GraphLayer(""), 0
    for operand, inputs, meta in zip(graph.operands, graph.inputs, graph.metas, strict=True):
        if check is not None:
            check()
        layer, before = GraphLayer(operand.label, operand.line, operand.annotation), builder.n
        chunks = prod(map(len, meta.chunks))
        if most is not None and chunks > most:
            raise TooManyOperandsError(chunks, layer)
        builder.begin(layer)
        ids = operand.tile(builder, [grids[k] for k in inputs], meta)
        largest = max(largest, (layer, builder.n - before), key=itemgetter(1))
        if most is not None and builder.n > most:
            raise TooManyOperandsError(builder.n, largest[0])
        grids.append(ChunkGrid(ids, meta.chunks, meta.dtype))
    results = {graph.metas[k].key: grids[k].ids for k in graph.results}
    return builder.finish(results, [grid.ids for grid in grids])


Apart: TypeAlias = NDArray[np.int64] | None


def keep_apart(graph: ChunkGraph, runs_on_gpu: Callable[[Program], bool] | None = None) -> Apart:
    """A number for each row, shape (graph.n,): equal for rows that may be fused; None without annotations.

    `runs_on_gpu` keeps rows whose program a GPU can run apart from others.
    """
    if runs_on_gpu is None and all(layer.annotation is None for layer in graph.layers):
        return None
    kinds: dict[Annotation | None, int] = {}
    of_layer = np.array([kinds.setdefault(layer.annotation, len(kinds)) for layer in graph.layers], np.int64)
    alone = np.array([layer.annotation is not None and not layer.annotation.fuse for layer in graph.layers])
    numbers = np.where(alone[graph.layer], len(kinds) + np.arange(graph.n), of_layer[graph.layer])
    if runs_on_gpu is None:
        return numbers
    return 2 * numbers + flags(graph, runs_on_gpu)


SHORTEST = 8  # writes of a chain; shorter chains are fused with the computation of the values (regions.py)
MAX_WRITES = 256  # writes of an operand, which reads all their values at once


def join_writes(graph: TensorGraph) -> TensorGraph:
    """Joins chains of writes; returns `graph` itself if there are none."""
    if sum(type(operand) is SetSlice for operand in graph.operands) < SHORTEST:
        return graph
    inside = _read_by_next_write(graph)
    chains: dict[int, list[int]] = {}  # by the last write
    for k, operand in enumerate(graph.operands):
        if type(operand) is SetSlice:
            before = graph.inputs[k][0]
            chain = chains.pop(before) if before in inside and len(chains[before]) < MAX_WRITES else []
            chains[k] = [*chain, k]
    chains = {last: chain for last, chain in chains.items() if len(chain) >= SHORTEST}
    if not chains:
        return graph
    gone = {k for chain in chains.values() for k in chain[:-1]}
    number: dict[int, int] = {}
    joined = TensorGraph()
    for k, (operand, read, meta) in enumerate(zip(graph.operands, graph.inputs, graph.metas, strict=True)):
        if k in gone:
            continue
        if k in chains:
            writes = [graph.operands[one] for one in chains[k]]
            parts = tuple((one.index, one.number) for one in writes if isinstance(one, SetSlice))
            values = [i for one in chains[k] for i in graph.inputs[one][1:]]
            read = (graph.inputs[chains[k][0]][0], *values)
            operand = SetSlices(parts, line=operand.line, annotation=operand.annotation)
        number[k] = joined.add(operand, tuple(number[i] for i in read), meta)
    joined.results = [number[k] for k in graph.results]
    return joined


def _read_by_next_write(graph: TensorGraph) -> set[int]:
    """Writes that are no results, and that only the target of another write with the same annotation reads."""
    found: set[int] = set()
    read: set[int] = set(graph.results)
    for k in range(len(graph.operands) - 1, -1, -1):
        operand, inputs = graph.operands[k], graph.inputs[k]
        target = inputs[0] if type(operand) is SetSlice else -1
        for place, i in enumerate(inputs):
            is_next = place == 0 and i == target and i not in read and target not in inputs[1:]
            if is_next and type(graph.operands[i]) is SetSlice and graph.operands[i].annotation == operand.annotation:
                found.add(i)
            else:
                found.discard(i)
            read.add(i)
    return found


def window_later(graph: TensorGraph) -> TensorGraph:
    """Computes elementwise functions of equal windows before the windows: `f(windows(x))` becomes `windows(f(x))`.

    All inputs of the function are equal windows or numbers. Windows are made in the chunks that their reader asks
    for. Sums of floats keep their inputs, since they add elements in the order of the memory. Returns `graph`
    itself if it has no windows.
    """
    if not any(isinstance(operand, SlidingWindows) for operand in graph.operands):
        return graph
    readers, made, number = readers_of(graph), TensorGraph(), list[int]()
    for k, (operand, own_inputs, meta) in enumerate(zip(graph.operands, graph.inputs, graph.metas, strict=True)):
        read = tuple(number[i] for i in own_inputs)
        windows = [i for i in read if isinstance(made.operands[i], SlidingWindows)]
        if windows and not any(adds_blocks(graph.operands[one]) for one in readers[k]):
            own = made.operands[windows[0]]
            assert isinstance(own, SlidingWindows)
            sources = tuple(made.inputs[i][0] if i in windows else i for i in read)
            alike: set[Any] = {(made.operands[i].token(), made.metas[i].chunks) for i in windows}
            shapes = {(made.metas[i].shape, made.metas[i].chunks) for i in sources if made.metas[i].shape}
            alike |= {i for i in read if i not in windows and made.metas[i].shape}  # an array is like no windows
            if type(operand) is ElementwiseOperand and len(alike) == len(shapes) == 1:
                ((shape, chunks),) = shapes
                elements = TensorMeta(f"{meta.key}/elements", shape, meta.dtype, chunks)
                row = made.add(replace(operand, splits=chunks), sources, elements)
                operand, read = replace(own, line=operand.line, annotation=operand.annotation), (row,)
            elif is_rechunk(operand) and all(len(cut) == 1 for cut in meta.chunks[len(own.sizes) :]):
                operand, read = replace(own, annotation=operand.annotation), sources
        number.append(made.add(operand, read, meta))
    made.results = [number[k] for k in graph.results]
    return made


def repeat_windows(graph: TensorGraph) -> tuple[TensorGraph, list[int]]:
    """Repeats windows for each reader.

    Returns
    -------
    TensorGraph
        `graph` itself if no windows have several readers.
    list of int
        New numbers of the operands; of repeated operands, of the first copy.
    """
    number = list(range(len(graph.operands)))
    repeated = _repeated(graph) if any(isinstance(one, SlidingWindows) for one in graph.operands) else set()
    if not repeated:
        return graph, number
    made = TensorGraph()
    copies: dict[int, int] = {}  # of repeated operands

    def add(k: int, own: dict[int, int]) -> int:
        """Adds an operand; `own` holds the copies of the reader."""
        read = []
        for i in graph.inputs[k]:
            if i in repeated and i not in own:
                own[i] = add(i, own)
            read.append(own[i] if i in repeated else number[i])
        meta = graph.metas[k]
        if k in repeated:
            meta = meta.renamed(f"{meta.key}/{copies.get(k, 0)}")
            copies[k] = copies.get(k, 0) + 1
        row = made.add(graph.operands[k], tuple(read), meta)
        if k not in repeated or copies[k] == 1:
            number[k] = row
        return row

    for k in range(len(graph.operands)):
        if k not in repeated:
            add(k, {})
    made.results = [number[k] for k in graph.results]
    return made, number


def _repeated(graph: TensorGraph) -> set[int]:
    """Windows, and elementwise tensors of windows alone, that are no results and that several operands read, directly
    or through repeated tensors.
    """
    readers = readers_of(graph)
    asked, cheap, found = set(graph.results), set[int](), set[int]()
    for k, operand in enumerate(graph.operands):
        read = graph.inputs[k]
        is_cheap = isinstance(operand, SlidingWindows)
        is_cheap |= isinstance(operand, ElementwiseOperand) and bool(read) and all(i in cheap for i in read)
        reading = [graph.operands[one] for one in readers[k]]
        plain = [one for one in reading if not (isinstance(one, Contraction) and one.reads_in_place)]
        in_place = all(isinstance(one, ElementwiseOperand | Reduction) for one in plain)
        if is_cheap and in_place and k not in asked:
            cheap.add(k)
    for k in range(len(graph.operands) - 1, -1, -1):
        if k in cheap and (len(readers[k]) > 1 or not found.isdisjoint(readers[k])):
            found.add(k)
    return found
