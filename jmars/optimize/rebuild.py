"""Renumbers the flat arrays of a chunk graph after rows were dropped or fused, for `prune` and `fuse_groups`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, Program
from jmars.tensor.chunk import ChunkGraph

__all__ = ["is_open", "is_result", "readers", "rebuilt"]


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
    alone = np.array([program.is_alone for program in graph.programs] + [False], np.bool_)[graph.program]
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
