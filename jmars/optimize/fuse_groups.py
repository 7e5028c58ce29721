"""Builds a graph with groups of operands as operands: new rows, inputs, arguments and programs.

Chains, regions and colors decide the groups, by the last row of each row's group. Equal groups share a program, found
by comparing flat descriptions of all groups at once, so a hundred thousand equal groups cost a few hundred nanoseconds
per operand and a single call of `kernels.fusing.compose`. The flat arrays are renumbered after rows were dropped or
fused, for `prune` too.

The inverse splits fused operands into their members. No run needs it; it shows that fusion loses no operand, argument
or input.
Source: docs/explanation/seeds.md, "Graph fusion"; `Fusion.compose` and `Fusion.decompose` of Mars 0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.graph import gather_rows, group_by
from jmars.kernels.fusing import compose
from jmars.kernels.program import Call, Program
from jmars.tensor.chunk import ChunkGraph

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Composition:
    """The member programs of a fused program, and what they read: arguments of `kernels.fusing.compose`."""

    programs: tuple[Program, ...]
    reads: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class FusedGraph:
    """A graph after fusion, with the origin of its rows.

    Attributes
    ----------
    graph
        The fused graph.
    group
        New row of each original row, shape (original rows,).
    parts
        Members of each fused program of `graph`, by program number.
    layer
        GraphLayer of each row before.
    """

    graph: ChunkGraph
    group: NDArray[np.int32]
    parts: dict[int, Composition]
    layer: NDArray[np.int32]


def fuse_groups(graph: ChunkGraph, root: Ints) -> FusedGraph:
    """Fuses groups into single operands.

    Parameters
    ----------
    graph
        Any chunk graph.
    root : shape (graph.n,)
        The member of each row's group that gives the group's output: it has the largest number, and no other member is
        read outside, is (part of) a result or a stored chunk. A row without group is its own root.

    Returns
    -------
    FusedGraph
        `graph` itself if all groups are single rows. Members of a group keep their order, and so do their arguments.
    """
    rows = np.flatnonzero(root == np.arange(graph.n))
    number = np.empty(graph.n, np.int32)
    number[rows] = np.arange(len(rows), dtype=np.int32)
    group = number[root]
    if len(rows) == graph.n:
        return FusedGraph(graph, group, {}, graph.layer)
    size = np.bincount(group, minlength=len(rows))
    inside = np.flatnonzero(size[group] > 1)
    _, members = group_by(group[inside].astype(np.int64), inside, len(rows))
    many = np.flatnonzero(size > 1)  # new rows of several members
    start = np.concatenate([[0], np.cumsum(size[many])])
    outside, which, described = _described(graph, group, members, many, start)
    first, same = _alike(described)
    made = [_composition(graph, described, k, members[start[k] : start[k + 1]]) for k in first.tolist()]

    degree = np.diff(graph.input_ptr)[rows]
    degree[many] = np.bincount(which, minlength=len(many))
    ptr = np.concatenate([[0], np.cumsum(degree)])
    idx = np.empty(ptr[-1], np.int64)
    fused = np.zeros(len(rows), np.bool_)
    fused[many] = True
    of_fused = np.repeat(fused, degree)
    idx[of_fused] = outside
    idx[~of_fused] = group[gather_rows(graph.input_ptr, graph.input_idx, rows[~fused])]

    program = graph.program[rows].copy()
    program[many] = len(graph.programs) + same
    programs = [*graph.programs, *(compose(one.programs, one.reads) for one in made)]
    args = None
    if graph.args is not None:
        args = _joined_args(graph.args, rows, many.tolist(), start.tolist(), members.tolist())
    after = rebuilt(graph, group, rows, ptr, idx, programs, program, args)
    parts = {int(after.program[many[k]]): one for k, one in zip(first.tolist(), made, strict=True)}
    return FusedGraph(after, group, parts, graph.layer)


@dataclass(frozen=True, eq=False)
class _Described:
    """Flat descriptions of groups: programs and inputs of the members."""

    ptr: Ints  # (groups + 1,)
    token: (
        Ints  # a program's number; of a value read, 2 * place among the outside inputs, or 2 * place of the member + 1
    )
    degree: Ints  # inputs of each member, in the order of `members`


def _described(
    graph: ChunkGraph, group: NDArray[np.int32], members: Ints, many: Ints, start: Ints
) -> tuple[Ints, Ints, _Described]:
    """Describes groups: new rows read from outside, the index in `many` of their readers, the flat description."""
    n_members = np.diff(start)
    of_member = np.repeat(np.arange(len(many)), n_members)  # index in `many` of each member's group
    degree = np.diff(graph.input_ptr)[members]
    read = gather_rows(graph.input_ptr, graph.input_idx, members)
    of_edge = np.repeat(of_member, degree)
    source = group[read].astype(np.int64)
    is_inside = source == many[of_edge]

    # outside inputs, once per group, in the members' reading order
    out_edges = np.flatnonzero(~is_inside)
    key = of_edge[out_edges] * len(group) + source[out_edges]
    unique, seen, back = np.unique(key, return_index=True, return_inverse=True)
    by_place = np.argsort(seen)
    place = np.empty(len(unique), np.int64)
    place[by_place] = np.arange(len(unique))
    which = unique[by_place] // len(group)
    before = np.concatenate(
        [[0], np.cumsum(np.bincount(which, minlength=len(many)))]
    )  # outside inputs of earlier groups

    member_place = np.zeros(len(group), np.int64)
    member_place[members] = np.arange(len(members)) - np.repeat(start[:-1], n_members)
    code = np.empty(len(read), np.int64)
    code[is_inside] = 2 * member_place[read[is_inside]] + 1
    code[out_edges] = 2 * (place[back] - before[of_edge[out_edges]])
    token = np.empty(len(members) + len(read), np.int64)
    at = np.arange(len(members)) + np.cumsum(degree) - degree
    is_program = np.zeros(len(token), np.bool_)
    is_program[at] = True
    token[at] = graph.program[members]
    token[~is_program] = code
    ptr = np.concatenate([[0], np.cumsum(n_members + np.bincount(of_edge, minlength=len(many)))])
    return unique[by_place] % len(group), which, _Described(ptr, token, degree)


def _alike(described: _Described) -> tuple[Ints, Ints]:
    """The first groups of all kinds, and the kinds of all groups."""
    ptr, token = described.ptr, described.token
    length = np.diff(ptr)
    at = np.arange(len(token)) - np.repeat(ptr[:-1], length)
    _, first, kind = np.unique(_digests(ptr, token, at), return_index=True, return_inverse=True)
    model = first[kind]  # a group that each should equal
    if np.array_equal(length, length[model]) and np.array_equal(token, token[np.repeat(ptr[model], length) + at]):
        return first, kind.reshape(-1)
    known: dict[bytes, int] = {}  # digests collide: compare whole descriptions
    found = [known.setdefault(token[a:b].tobytes(), len(known)) for a, b in pairwise(ptr.tolist())]
    _, first, kind = np.unique(np.array(found), return_index=True, return_inverse=True)
    return first, kind.reshape(-1)


def _digests(ptr: Ints, token: Ints, at: Ints) -> NDArray[np.uint64]:
    """Hashes of rows; `at` holds the positions of entries in their rows."""
    mixed = (token.astype(np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= (at.astype(np.uint64) + 1) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return np.add.reduceat(mixed, ptr[:-1]) + np.diff(ptr).astype(np.uint64)


def _composition(graph: ChunkGraph, described: _Described, k: int, members: Ints) -> Composition:
    """Programs and inputs of the members of group `k`."""
    row = iter(described.token[described.ptr[k] : described.ptr[k + 1]].tolist())
    programs, reads = [], []
    for _ in members:
        program = graph.programs[next(row)]
        codes = [next(row) for _ in program.inputs]
        programs.append(program)
        reads.append(tuple(-1 - code // 2 if code % 2 else code // 2 for code in codes))
    return Composition(tuple(programs), tuple(reads))


def _joined_args(
    args: Sequence[tuple[object, ...]], rows: Ints, many: list[int], start: list[int], members: list[int]
) -> list[tuple[object, ...]]:
    """Arguments of new rows: the concatenated arguments of their members."""
    joined = [args[k] for k in rows.tolist()]
    for row, (begin, end) in zip(many, pairwise(start), strict=True):
        if end - begin == 2:
            joined[row] = args[members[begin]] + args[members[begin + 1]]
        else:
            joined[row] = tuple(chain.from_iterable(args[k] for k in members[begin:end]))
    return joined


def rebuilt(
    graph: ChunkGraph,
    group: NDArray[np.int32],
    tails: NDArray[np.int64],
    input_ptr: NDArray[np.int64],
    input_idx: NDArray[np.int64],
    programs: Sequence[Program],
    program: NDArray[np.int32],
    args: list[tuple[object, ...]] | None,
) -> ChunkGraph:
    """Builds a graph of `len(tails)` rows, each made from a group of rows of `graph`.

    Parameters
    ----------
    graph
        The original graph.
    group
        New row of each row, shape (graph.n,), -1 for dropped rows; ascending along `tails`.
    tails
        The member of each new row that gives its output and layer, shape (rows,).
    input_ptr, input_idx
        Inputs of each new row, as new rows.
    programs, program
        Programs, used or not, and the program of each new row, shape (rows,); -1 for a stored chunk.
    args
        Arguments of each new row, or None if no row takes any.
    """
    used = np.zeros(len(programs) + 1, np.bool_)  # the last entry stands for -1
    used[program] = True
    number = np.cumsum(used, dtype=np.int32) - 1
    number[-1] = -1
    kept_programs = [programs[k] for k in np.flatnonzero(used[:-1]).tolist()]
    work = np.array([p.work for p in kept_programs] + [0], np.int64)
    new_program = number[program]
    rows = group.tolist() if graph.stored else []
    return ChunkGraph(
        n=len(tails),
        programs=kept_programs,
        program=new_program,
        input_ptr=input_ptr,
        input_idx=input_idx,
        args=args,
        layer=graph.layer[tails],
        layers=graph.layers,
        nbytes=graph.nbytes[tails],
        work=work[new_program],
        stored={rows[k]: where for k, where in graph.stored.items() if rows[k] >= 0},
        results={key: group[ids].astype(np.int64) for key, ids in graph.results.items()},
    )


def is_result(graph: ChunkGraph) -> NDArray[np.bool_]:
    """Flags of rows that are chunks of a result, shape (n,)."""
    kept = np.zeros(graph.n, np.bool_)
    for ids in graph.results.values():
        kept[ids.ravel()] = True
    return kept


def flags(graph: ChunkGraph, has: Callable[[Program], bool]) -> NDArray[np.bool_]:
    """Flags of rows with a property of the program, shape (n,); False for stored chunks."""
    found: NDArray[np.bool_] = np.array([*map(has, graph.programs), False], np.bool_)[graph.program]
    return found


def is_open(graph: ChunkGraph, room: int | None = None) -> NDArray[np.bool_]:
    """Flags of rows that may be inside a fused operand, shape (n,): computed, no result, and of known size.

    Rows of unknown size may be inside between two functions of ours that read whole chunks, if their bound is at most
    the bytes of their inputs and at most half of `room` bytes (None: any).
    """
    unsized = graph.unsized
    if unsized.any():
        function, bounded = np.array([*map(_is_function, graph.programs), (False, False)], np.bool_)[graph.program].T
        read_otherwise = np.zeros(graph.n, np.bool_)
        read_otherwise[graph.input_idx[~function[readers(graph)]]] = True
        read = np.bincount(readers(graph), graph.nbytes[graph.input_idx], graph.n)
        large = graph.nbytes > (read if room is None else np.minimum(read, room / 2))
        unsized &= read_otherwise | ~bounded | large
    found = ~is_result(graph) & (graph.program >= 0) & ~unsized
    alone = flags(graph, lambda program: program.is_alone)
    if alone.any():
        found[alone] = False
        found[graph.input_idx[alone[readers(graph)]]] = False
    return found


def _is_function(program: Program) -> tuple[bool, bool]:
    """Whether a program is a single function of ours that reads whole chunks, and whether its chunk has a bound."""
    step = program.steps[0]
    plain = len(program.steps) == 1 and isinstance(step, Call) and not (step.gathers or step.runs_user_code)
    return plain, plain and program.output.most is not None


def readers(graph: ChunkGraph) -> NDArray[np.int64]:
    """Reading rows of the entries of `graph.input_idx`."""
    return np.repeat(np.arange(graph.n), np.diff(graph.input_ptr))


def decompose(joined: FusedGraph) -> ChunkGraph:
    """Returns the graph before fusion, row for row; programs are numbered in the order of their first use."""
    fused, n = joined.graph, len(joined.group)
    ptr, idx = group_by(joined.group.astype(np.int64), np.arange(n), fused.n)
    members = [idx[a:b].tolist() for a, b in pairwise(ptr.tolist())]
    last = [own[-1] for own in members]  # the member that gives the row's output
    programs: list[Program | None] = [None] * n
    inputs: list[list[int]] = [[]] * n
    args: list[tuple[Any, ...]] = [()] * n
    nbytes, work = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for row, own in enumerate(members):
        number = int(fused.program[row])
        read = [last[source] for source in fused.inputs(row).tolist()]
        given = list(fused.args[row]) if fused.args is not None else []
        nbytes[last[row]] = fused.nbytes[row]
        if number < 0:
            continue
        whole = fused.programs[number]
        composition = joined.parts.get(number) if len(own) > 1 else None
        parts = composition or Composition((whole,), (tuple(range(len(read))),))
        for one, program, reads in zip(own, parts.programs, parts.reads, strict=True):
            programs[one] = program
            inputs[one] = [read[v] if v >= 0 else own[-1 - v] for v in reads]
            taken = sum(step.takes_args for step in program.steps)
            args[one], given = tuple(given[:taken]), given[taken:]
            work[one] = program.work
            if one != last[row]:
                nbytes[one] = program.output.nbytes
    known: dict[Program, int] = {}
    which = [known.setdefault(program, len(known)) if program is not None else -1 for program in programs]
    return ChunkGraph(
        n=n,
        programs=list(known),
        program=np.array(which, np.int32),
        input_ptr=np.concatenate([[0], np.cumsum([len(read) for read in inputs])]).astype(np.int64),
        input_idx=np.array([v for read in inputs for v in read], np.int64),
        args=args if fused.args is not None else None,
        layer=joined.layer,
        layers=fused.layers,
        nbytes=nbytes,
        work=work,
        stored={last[row]: where for row, where in fused.stored.items()},
        results={key: np.array(last, np.int64)[ids] for key, ids in fused.results.items()},
    )
