"""Splits fused operands into their members: the inverse of fuse_groups.py.

No run needs this inverse; it shows that fusion loses no operand, argument or input, as the documents demand.
Source: docs/explanation/seeds.md, "Graph fusion"; `Fusion.decompose` of Mars 0.1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from jmars.graph import group_by
from jmars.kernels.program import Program
from jmars.optimize.fuse_groups import Composition, FusedGraph
from jmars.tensor.chunk import ChunkGraph

__all__ = ["decompose"]


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
