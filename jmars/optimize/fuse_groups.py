"""Builds a graph with groups of operands as operands: new rows, inputs, arguments and programs.

Chains, regions and colors decide the groups, by the last row of each row's group. Equal groups share a program, found
by comparing flat descriptions of all groups at once, so a hundred thousand equal groups cost a few hundred nanoseconds
per operand and a single call of `kernels.fusing.compose`.
Source: docs/explanation/seeds.md, "Graph fusion"; `Fusion.compose` of Mars 0.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from jmars.graph import gather_rows, group_by
from jmars.kernels.fusing import compose
from jmars.kernels.program import Program
from jmars.optimize.rebuild import rebuilt
from jmars.tensor.chunk import ChunkGraph

__all__ = ["Composition", "FusedGraph", "fuse_groups"]

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
    of_member = np.repeat(np.arange(len(many)), n_members)  # which of `many` each member is in
    degree = np.diff(graph.input_ptr)[members]
    read = gather_rows(graph.input_ptr, graph.input_idx, members)
    of_edge = np.repeat(of_member, degree)
    source = group[read].astype(np.int64)
    is_inside = source == many[of_edge]

    # outside inputs, once per group, in the order in which members read them
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
    known: dict[bytes, int] = {}  # two kinds have one digest: compare them whole
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
