"""Fuses regions: operands with several inputs and a single output that run in one pass over the blocks of a chunk.

An operand joins its readers if all readers are in the same group and take its elements block by block: elementwise
operands and generators join elementwise operands and reductions of the same shape; so do slices, which are read where
they are, and functions, a few per group, since their chunks are held meanwhile. An elementwise operand also joins the
assignment that writes its elements to a slice, and the mask of a selection joins the selection. Only the output leaves
a group, so no path leaves a group and returns: the graph of groups has no cycle. A value with several readers is inside
with all its readers, or stays a chunk. Lines (chains.py) of the remaining operands are fused afterwards.
Source: Legate Diffuse (ASPLOS 2025); Mars `optimization/physical/numexpr.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars.graph import group_by
from jmars.kernels.fusing import Region, regions
from jmars.kernels.program import Call, Elementwise, Generate, Program, Reduce
from jmars.optimize.chains import lines, resolved
from jmars.optimize.fuse_groups import FusedGraph, fuse_groups
from jmars.optimize.rebuild import is_open, readers
from jmars.tensor.chunk import ChunkGraph

__all__ = ["FusionLimits", "flows", "fuse_regions", "grown", "joined_lines", "operations"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
ROUNDS = 32  # passes over rows with several readers; deeper nests are joined row by row


@dataclass(frozen=True)
class FusionLimits:
    """Limits of a fused operand."""

    ops: int = 32  # operations: numexpr's time to compile grows faster than their number
    inputs: int = 31  # chunks read: numexpr takes 63, the output and temporaries among them
    whole: int = 4  # chunks of functions, held until the end of the pass that reads them
    room: int | None = None  # bytes of inputs, output and chunks held between; None: no bound


def fuse_regions(
    graph: ChunkGraph,
    limits: FusionLimits | None = None,
    workers: int = 1,
    apart: NDArray[np.integer] | None = None,
) -> FusedGraph:
    """Fuses regions into single operands, then lines of the remaining operands.

    Parameters
    ----------
    graph
        Any chunk graph. Results and stored chunks are never inside a region; chunks of unknown size only in lines of
        functions.
    limits
        Limits of a region.
    workers
        Generators and functions of a tensor with fewer chunks stay separate operands, so that they can run at the same
        time, unless they are in a line.
    apart : shape (graph.n,)
        Rows with different numbers here (devices, requested workers) never join.
    """
    whole = np.array([*map(_is_held, graph.programs), False], np.bool_)[graph.program]
    joins = flows(graph, lambda program: _gives_blocks(program) or _gives_whole(program))
    heavy = np.array([*map(_is_heavy, graph.programs), False], np.bool_)[graph.program]
    few = np.bincount(graph.layer, minlength=len(graph.layers)) < workers
    joins &= ~(heavy & few[graph.layer])[graph.input_idx]
    if apart is not None:
        joins &= apart[graph.input_idx] == apart[readers(graph)]
    limits = limits or FusionLimits()
    inner, ops = is_open(graph, limits.room), operations(graph)
    root = grown(graph, joins, inner, ops, np.where(whole, graph.nbytes, 0), limits)
    copied = _copied(graph, root)
    if copied.any():
        root = grown(graph, joins, inner, ops, np.where(whole | copied, graph.nbytes, 0), limits)
    return fuse_groups(graph, joined_lines(graph, root, apart, limits.room))


def _copied(graph: ChunkGraph, root: Ints) -> Bools:
    """Flags of slices inside groups that cannot be read in place: a reduction or a function follows them."""
    kinds = [
        (_is_view(program), all(isinstance(step, Elementwise) for step in program.steps), _reduces(program))
        for program in graph.programs
    ]
    view, plain, reduces = np.array([*kinds, (False, False, False)], np.bool_)[graph.program].T
    repeats = np.array([*map(_repeats, graph.programs), False], np.bool_)[graph.program]
    copied = view & reduces[root] & ~repeats
    reader = readers(graph)
    copied[graph.input_idx[~(plain[reader] | (reduces[reader] & repeats[graph.input_idx]))]] = True
    found: Bools = copied & view & (root != np.arange(graph.n))
    return found


def joined_lines(
    graph: ChunkGraph, root: Ints, apart: NDArray[np.integer] | None = None, room: int | None = None
) -> Ints:
    """Joins lines of the groups `root`; `room` as in `is_open`."""
    src, dst = root[graph.input_idx], root[readers(graph)]
    between = src != dst
    edges = np.unique(src[between] * graph.n + dst[between])
    return lines(graph.n, edges // graph.n, edges % graph.n, is_open(graph, room), apart=apart)[root]


def grown(graph: ChunkGraph, joins: Bools, inner: Bools, ops: Ints, held: Ints, limits: FusionLimits) -> Ints:
    """Grows groups from readers to inputs; returns the last row of each row's group, shape (graph.n,).

    Parameters
    ----------
    graph
        Any chunk graph.
    joins : shape (edges,)
        Whether a row may join its reader along an edge; a row joins only if it may along all of its edges.
    inner : shape (n,)
        Whether a row may be inside a group.
    ops, held : shape (n,)
        Operations of each row, and bytes held if the row is inside: 0 if it runs block by block.
    limits
        Limits of a group. A group beyond its limits is grown again row by row, from the output backwards.
    """
    src, dst = graph.input_idx, readers(graph)
    out_degree = np.bincount(src, minlength=graph.n)
    inner = inner & (out_degree > 0) & (np.bincount(src[joins], minlength=graph.n) == out_degree)
    root = np.arange(graph.n)
    single = np.flatnonzero(inner[src] & (out_degree[src] == 1))
    root[src[single]] = dst[single]
    root = resolved(root)
    several = np.flatnonzero(inner[src] & (out_degree[src] > 1))
    several = several[np.argsort(src[several], kind="stable")]
    rounds = 0
    while len(several) and rounds < ROUNDS:
        rounds += 1
        ends, start = root[dst[several]], np.flatnonzero(np.diff(src[several], prepend=-1))
        low = np.minimum.reduceat(ends, start)
        agree = low == np.maximum.reduceat(ends, start)
        if not agree.any():
            break
        joining = src[several[start]]
        root[joining[agree]] = low[agree]
        root = resolved(root)
        several = several[~np.repeat(agree, np.diff(start, append=len(several)))]
    else:
        if len(several):
            return _one_by_one(graph, root, np.arange(graph.n), inner, ops, held, limits)
    size = np.bincount(root, minlength=graph.n)
    grouped = size > 1
    if not grouped.any():
        return root
    outside = np.flatnonzero((root[src] != root[dst]) & grouped[root[dst]])
    reads = np.unique(root[dst[outside]] * graph.n + src[outside])
    reader, source = reads // graph.n, reads % graph.n
    too_much = np.bincount(root, ops, graph.n) > limits.ops
    too_much |= np.bincount(reader, minlength=graph.n) > limits.inputs
    inside = root != np.arange(graph.n)
    too_much |= np.bincount(root[inside & (held > 0)], minlength=graph.n) > limits.whole
    if limits.room is not None:
        needed = np.bincount(reader, graph.nbytes[source], graph.n) + graph.nbytes
        too_much |= needed + np.bincount(root[inside], held[inside], graph.n) > limits.room
    again = np.flatnonzero((too_much & grouped)[root])
    return _one_by_one(graph, root, again, inner, ops, held, limits) if len(again) else root


def _one_by_one(
    graph: ChunkGraph, root: Ints, rows: Ints, inner: Bools, ops: Ints, held: Ints, limits: FusionLimits
) -> Ints:
    """Grows the groups of `rows` again, a row at a time within the limits; returns the new `root`.

    An input that two groups read alternately may be counted twice for a group, which then ends a little early.
    """
    reader_ptr, reader_idx = (x.tolist() for x in group_by(graph.input_idx, readers(graph), graph.n))
    ptr, idx, nbytes, own, kept = (x.tolist() for x in (graph.input_ptr, graph.input_idx, graph.nbytes, ops, held))
    ends, may_join = root.tolist(), inner.tolist()
    most_ops, most_inputs, room = limits.ops, limits.inputs, limits.room if limits.room is not None else np.inf
    count, inputs, whole, needed = ([0] * graph.n for _ in range(4))  # by root; `needed` in bytes
    counted = [-1] * graph.n  # the last group that counted this input
    for row in reversed(rows.tolist()):
        read = idx[ptr[row] : ptr[row + 1]]
        end = -1
        if may_join[row]:
            found = reader_idx[reader_ptr[row] : reader_ptr[row + 1]]
            end = ends[found[0]]
            for reader in found:
                if ends[reader] != end:
                    end = -1
                    break
        if end >= 0 and count[end] + own[row] <= most_ops:
            fresh, size = inputs[end] - 1, needed[end] - nbytes[row] + kept[row]
            for one in read:
                if counted[one] != end:
                    fresh += 1
                    size += nbytes[one]
            holds = whole[end] + (kept[row] > 0)
            if fresh <= most_inputs and size <= room and holds <= limits.whole:
                count[end] += own[row]
                whole[end] = holds
                inputs[end], needed[end] = fresh, size
                for one in read:
                    counted[one] = end
                ends[row] = end
                continue
        ends[row] = row
        count[row], inputs[row], needed[row] = own[row], len(read), nbytes[row]
        for one in read:
            counted[one] = row
            needed[row] += nbytes[one]
    return np.array(ends, np.int64)


def operations(graph: ChunkGraph) -> Ints:
    """Number of operations of all rows, shape (n,)."""
    counts = [
        sum(step.expression.ops if isinstance(step, Elementwise) else 1 for step in program.steps)
        for program in graph.programs
    ]
    return np.array([*counts, 0], np.int64)[graph.program]


def flows(graph: ChunkGraph, gives: Callable[[Program], bool] | None = None) -> Bools:
    """Whether elements pass along each edge block by block: the reader takes and the input gives blocks.

    `gives` decides for each program; by default, programs that are a single pass over blocks.
    """
    ptr = np.concatenate([[0], np.cumsum([len(program.inputs) for program in graph.programs])]).astype(np.int64)
    takes = np.concatenate([np.empty(0, np.bool_), *(_takes_blocks(program) for program in graph.programs)])
    from_row = np.array([*map(gives or _gives_blocks, graph.programs), False], np.bool_)[graph.program]
    reader = readers(graph)
    slot = np.arange(len(reader)) - graph.input_ptr[reader]
    flowing: Bools = from_row[graph.input_idx] & takes[ptr[graph.program[reader]] + slot]
    return flowing


def _gives_blocks(program: Program) -> bool:
    """Whether a program is a single pass over blocks that returns a chunk of the same shape."""
    found = regions(program.steps, len(program.inputs))
    return (
        len(found) == 1 and found[0].tail is None and isinstance(program.steps[found[0].last], Elementwise | Generate)
    )


def _gives_whole(program: Program) -> bool:
    """Whether a program is a single function; a pass can read its held chunk."""
    return len(program.steps) == 1 and isinstance(program.steps[0], Call) and not program.has_unsized


def _is_held(program: Program) -> bool:
    """Whether a program's chunk is held while a pass reads it."""
    return _gives_whole(program) and not _is_view(program)


def _is_view(program: Program) -> bool:
    return any(isinstance(step, Call) and (step.view is not None or step.joins) for step in program.steps[:1])


def _repeats(program: Program) -> bool:
    return any(isinstance(step, Call) and step.repeats for step in program.steps[:1])


def _reduces(program: Program) -> bool:
    return any(isinstance(step, Reduce) for step in program.steps)


def _is_heavy(program: Program) -> bool:
    """Whether a program may take longer than a pass over its output."""
    return any(isinstance(step, Call | Generate) for step in program.steps) and not _is_view(program)


def _takes_blocks(program: Program) -> Bools:
    """Flags of inputs that may come block by block: read by a pass of the same shape and by no other step."""
    n = len(program.inputs)
    passes = [region for region in regions(program.steps, n) if _is_pass(program, region)]
    takes = np.zeros(n, np.bool_)
    only = program.steps[0]
    if len(program.steps) == 1 and isinstance(only, Call) and only.target is not None:
        takes[only.inputs[-1]] = only.inputs[-1] not in only.inputs[:-1]
    if len(program.steps) == 1 and isinstance(only, Call):
        for value in [only.inputs[place] for place in only.holds]:
            takes[value] = only.inputs.count(value) == 1
    if not passes:
        return takes
    last = passes[-1]  # only the last of several passes takes blocks, so that no block is held for two passes
    inside = {step for step in (*last.heads, last.middle, last.tail) if step is not None}
    first = program.steps[last.middle if last.middle is not None else last.last]
    shape = first.output.shape if isinstance(first, Elementwise) else program.inputs[first.inputs[0]].shape
    for i, chunk in enumerate(program.inputs):
        reading = {k for k, step in enumerate(program.steps) if i in step.inputs}
        takes[i] = bool(reading) and reading <= inside and chunk.shape == shape
    return takes


def _is_pass(program: Program, region: Region) -> bool:
    """Whether a region is a pass over elements that may come block by block."""
    step = program.steps[region.last]
    reads_input = not region.heads and step.inputs[:1] < (len(program.inputs),)
    return region.middle is not None or (isinstance(step, Reduce) and step.reducer.blocked and reads_input)
