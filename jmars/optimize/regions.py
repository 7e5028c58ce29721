"""Decides which operands are fused: regions that run in one pass over the blocks of a chunk, chains, colours.

An operand joins its readers if all readers are in the same group and take its elements block by block: elementwise
operands and generators join elementwise operands and reductions of the same shape; so do slices, which are read where
they are, and functions, a few per group, since their chunks are held meanwhile. An elementwise operand also joins the
assignment that writes its elements to a slice; the mask of a selection, the factors of a product and what is transposed
join the function that reads them whole, and are held, too. Only the output leaves a group, so no path leaves a group
and returns: the graph of groups has no cycle. A value with several readers is inside with all its readers, or stays a
chunk.

Chains, lines of operands without branches, are fused afterwards: an edge joins two operands if no other edge leaves the
first operand and no other edge enters the second. The setting `fuse: chain` applies this rule alone.

`colors` is Mars's newer rule: sources get colours in pairs, a colour passes on to readers whose inputs all have it, and
is taken back where the colours would form a cycle. A subtask of Mars may have several outputs; an operand here has a
single output, so `fuse_colors` joins an operand to its readers if all readers are in the same group and colour. Chunks
passed on block by block need no memory; other chunks inside a group are held until they are read.
Source: Legate Diffuse (ASPLOS 2025); Mars `optimization/physical/numexpr.py`; docs/explanation/seeds.md, "Graph
fusion", "Preparing the graph"; mars-project/mars issue 2435 and pull request 2719, `Coloring` of Mars and Xorbits
(`services/task/analyzer/fusion.py`), whose pull request 609 halves the pairs where workers would be idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray

from jmars.graph import Dag, group_by
from jmars.kernels.fusing import Region, regions
from jmars.kernels.program import Call, Elementwise, Generate, Program, Reduce
from jmars.optimize.fuse_groups import FusedGraph, flags, fuse_groups, is_open, readers
from jmars.tensor.chunk import ChunkGraph

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
    whole, heavy = flags(graph, _is_held), flags(graph, _is_heavy)
    whole[graph.input_idx[flags(graph, _holds)[readers(graph)]]] = True
    whole &= ~flags(graph, _is_view)  # read in place, or counted below
    joins = flows(graph, lambda program: _gives_blocks(program) or _gives_whole(program))
    few = np.bincount(graph.layer, minlength=len(graph.layers)) < workers
    joins &= ~(heavy & few[graph.layer])[graph.input_idx]
    joins |= flags(graph, _repeats)[graph.input_idx] & flags(graph, _reads_windows)[readers(graph)]
    if apart is not None:
        joins &= apart[graph.input_idx] == apart[readers(graph)]
    limits = limits or FusionLimits()
    inner, ops = is_open(graph, limits.room), operations(graph)
    root = grown(graph, joins, inner, ops, np.where(whole, graph.nbytes, 0), limits)
    copied = _copied(graph, root)
    if copied.any():
        root = grown(graph, joins, inner, ops, np.where(whole | copied, graph.nbytes, 0), limits)
    src, dst = root[graph.input_idx], root[readers(graph)]
    edges = np.unique(src[src != dst] * graph.n + dst[src != dst])
    ends = lines(graph.n, edges // graph.n, edges % graph.n, is_open(graph, limits.room), apart=apart)
    return fuse_groups(graph, ends[root])


def _copied(graph: ChunkGraph, root: Ints) -> Bools:
    """Flags of slices inside groups that cannot be read in place: a reduction or a function follows them."""
    view, reduces, repeats = flags(graph, _is_view), flags(graph, _reduces), flags(graph, _repeats)
    plain = flags(graph, lambda program: all(isinstance(step, Elementwise) for step in program.steps))
    copied = view & reduces[root] & ~repeats
    reader = readers(graph)
    in_place = reduces | flags(graph, _reads_windows)
    copied[graph.input_idx[~(plain[reader] | (in_place[reader] & repeats[graph.input_idx]))]] = True
    found: Bools = copied & view & (root != np.arange(graph.n))
    return found


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
    from_row = flags(graph, gives or _gives_blocks)
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


def _holds(program: Program) -> bool:
    """Whether a program reads whole chunks that may be computed in the same operand."""
    return any(isinstance(step, Call) and step.holds for step in program.steps[:1])


def _is_view(program: Program) -> bool:
    return any(isinstance(step, Call) and (step.view is not None or step.joins) for step in program.steps[:1])


def _repeats(program: Program) -> bool:
    return any(isinstance(step, Call) and step.repeats for step in program.steps[:1])


def _reads_windows(program: Program) -> bool:
    return any(isinstance(step, Call) and step.copies > 0 for step in program.steps)


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
        for value in {only.inputs[place] for place in only.holds}:
            takes[value] = all(k in only.holds for k, one in enumerate(only.inputs) if one == value)
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


MAX_CHAIN_OPERANDS = 1000  # operands; a longer kernel saves less than a thousandth, and notices a cancel later


def fuse_chains(
    graph: ChunkGraph,
    longest: int = MAX_CHAIN_OPERANDS,
    apart: NDArray[np.integer] | None = None,
    room: int | None = None,
) -> FusedGraph:
    """Fuses lines of operands into single operands.

    An operand of a result may end a line and is never inside, so its chunk stays. A stored chunk joins no line. A
    chunk of unknown size is inside only between two functions, since a function takes the size from the chunk.

    Parameters
    ----------
    graph
        Any chunk graph.
    longest
        Most operands in a line, 2 or more; longer lines are cut.
    apart : shape (graph.n,)
        Rows with different numbers here (devices, requested workers) never join.
    room
        Bytes of an operand's chunks, for chunks of unknown size (`is_open`).
    """
    return fuse_groups(graph, lines(graph.n, graph.input_idx, readers(graph), is_open(graph, room), longest, apart))


def lines(
    n: int,
    src: Ints,
    dst: Ints,
    may_lead: NDArray[np.bool_],
    longest: int = MAX_CHAIN_OPERANDS,
    apart: NDArray[np.integer] | None = None,
) -> Ints:
    """Last vertices of the vertices' lines, the vertex itself if alone, shape (n,).

    Parameters
    ----------
    n
        Number of vertices; their numbers are a topological order.
    src, dst
        Edges, without repetition.
    may_lead : shape (n,)
        Whether a vertex may have a successor in its line.
    longest
        Most vertices in a line.
    apart : shape (n,)
        Vertices with different numbers here are in different lines.
    """
    alone = (np.bincount(src, minlength=n)[src] == 1) & (np.bincount(dst, minlength=n)[dst] == 1) & may_lead[src]
    if apart is not None:
        alone &= apart[src] == apart[dst]
    first, second = src[alone], dst[alone]
    follower = np.arange(n)
    follower[first] = second
    end = resolved(follower)
    if np.bincount(end, minlength=1).max(initial=0) > longest:
        order = np.argsort(end, kind="stable")  # rows line by line, in the order of each line
        lengths = np.unique(end, return_counts=True)[1]
        place = np.empty(n, np.int64)
        place[order] = np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        uncut = place[second] % longest != 0
        follower = np.arange(n)
        follower[first[uncut]] = second[uncut]
        end = resolved(follower)
    return end


def resolved(follower: Ints) -> Ints:
    """Last vertices reached by following `follower`; each pass doubles the distance."""
    end = follower[follower]
    while not np.array_equal(end, further := end[end]):
        end = further
    return end


SAME = 2  # sources of the same colour: half of Mars's combine_size
BROADCASTER = 8  # readers; beyond, each reader gets a new colour: twice Mars's combine_size


def fuse_colors(
    graph: ChunkGraph, limits: FusionLimits | None = None, workers: int = 1, apart: NDArray[np.integer] | None = None
) -> FusedGraph:
    """Fuses operands of the same colour that have a single output.

    Parameters
    ----------
    graph
        Any chunk graph. Results and stored chunks are never inside a group; chunks of unknown size only between
        functions.
    limits
        Limits of a group.
    workers
        Least number of colours of sources.
    apart : shape (graph.n,)
        Rows with different numbers here (devices, requested workers) never join.
    """
    dag = Dag.from_inputs(graph.input_ptr, graph.input_idx)
    color = colors(dag, workers=workers, apart=apart)
    src, dst = graph.input_idx, readers(graph)
    through = np.bincount(src[flows(graph)], minlength=graph.n) == np.bincount(src, minlength=graph.n)
    held = np.where(through, 0, graph.nbytes)
    joins = color[src] == color[dst]
    if apart is not None:
        joins &= apart[src] == apart[dst]
    limits = limits or FusionLimits()
    limits = replace(limits, whole=limits.ops)  # held until read, as in a subtask of Mars
    return fuse_groups(graph, grown(graph, joins, is_open(graph, limits.room), operations(graph), held, limits))


def colors(
    dag: Dag,
    bands: Sequence[int] | None = None,
    same: int = SAME,
    broadcaster: int = BROADCASTER,
    workers: int = 1,
    apart: NDArray[np.integer] | None = None,
) -> Ints:
    """Colours vertices, shape (n,); the graph of colours has no cycle.

    Parameters
    ----------
    dag
        Vertices whose numbers are a topological order.
    bands
        Worker of each source, in the order of `dag.sources()`; sources on different workers have different colours.
        None: all on the same worker.
    same
        Most sources of a colour; reduced until sources have `workers` colours, if possible.
    broadcaster
        A vertex with more readers passes its colour to no reader.
    apart : shape (n,)
        A vertex takes its inputs' colour only if all of them have the vertex's number here.

    Examples
    --------
    Two trees of two sources, a colour for each tree:

    >>> colors(Dag.from_edges(6, [0, 1, 2, 3], [4, 4, 5, 5])).tolist()
    [0, 0, 1, 1, 0, 1]
    """
    preds = [dag.pred_idx[a:b].tolist() for a, b in pairwise(dag.pred_ptr.tolist())]
    succs = [dag.succ_idx[a:b].tolist() for a, b in pairwise(dag.succ_ptr.tolist())]
    label = None if apart is None else apart.tolist()
    color, fresh = _first(dag, succs, bands, same, workers)

    for v in range(dag.n):  # readers take the common colour of all their inputs
        if color[v] >= 0:
            continue
        above = {color[p] for p in preds[v]}
        alike = label is None or all(label[p] == label[v] for p in preds[v])
        lone = len(preds[v]) == 1 and len(succs[preds[v][0]]) > broadcaster
        color[v] = above.pop() if len(above) == 1 and alike and not lone else next(fresh)

    for v in range(dag.n - 1, -1, -1):  # a path that leaves a colour must not enter the colour again
        below = {color[s] for s in succs[v]}
        if color[v] not in below or len(below) == 1:
            continue
        mine = color[v]
        stack: list[int] = []
        for s in succs[v]:
            if color[s] == mine:
                color[s] = next(fresh)
                stack += succs[s]
        while stack:
            x = stack.pop()
            if color[x] == mine:
                above = {color[p] for p in preds[x]}
                color[x] = above.pop() if len(above) == 1 else next(fresh)
                stack += succs[x]
    return np.array(color, np.int64)


def _first(
    dag: Dag, succs: list[list[int]], bands: Sequence[int] | None, same: int, workers: int
) -> tuple[list[int], count[int]]:
    """Colours of the sources, -1 for other vertices, and a counter of unused colours.

    Sources with the nearest common reader share a colour, as in Mars's depth-first order.
    """
    sources = dag.sources().tolist()
    band = dict(zip(sources, bands if bands is not None else [0] * len(sources), strict=True))
    sources.sort(key=lambda v: (min(succs[v], default=dag.n), v))
    color: list[int] = []
    while True:
        fresh = count()
        color = [-1] * dag.n
        last: dict[int, tuple[int, int]] = {}  # by band: the colour in use and its number of sources
        for v in sources:
            used, size = last.get(band[v], (-1, same))
            used, size = (next(fresh), 0) if size >= same else (used, size)
            color[v] = used
            last[band[v]] = used, size + 1
        if same == 1 or max(color, default=0) + 1 >= workers:
            return color, fresh
        same -= 1
