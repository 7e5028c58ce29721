"""Cuts slices of a stencil anew, so that arrays are read where their chunks lie.

The chunks of `u[1:]` and `u[:-1]` begin at different places, so one of them is rechunked. `push_down_rechunks` pushes a
rechunk behind elementwise operands down to their slices and files. `cut_slices` cuts a slice that is rechunked by a few
elements from the sliced array anew: each of its chunks has most elements in one chunk, and slivers of its neighbours.
Source: docs/decisions/0061-shifted-slices.md, 0068-bytes-of-sources.md; predicate pushdown (Ullman 1988).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from jmars.tensor.operand import Operand, Splits
from jmars.tensor.ops.chunks import Rechunk
from jmars.tensor.ops.formula import ElementwiseOperand
from jmars.tensor.ops.indexing import CutSlice, Slice
from jmars.tensor.ops.npy import FromBlocks
from jmars.tensor.ops.random_draws import Doubles
from jmars.tensor.ops.reduction import Reduction, Scan, is_exact
from jmars.tensor.parts import pieces_read, whole
from jmars.tensor.splits import are_near
from jmars.tensor.tensor_graph import TensorGraph


def push_down_rechunks(graph: TensorGraph, workers: int = 1, slices: bool = True, files: bool = True) -> TensorGraph:
    """Pushes rechunks, also behind elementwise operands, down to `slices` and `files`; returns `graph` itself if there
    are none, or if operands are annotated.

    Cuts of slices move by a few elements; slices of random arrays may be cut anywhere, since they are generated. Files
    are read in other chunks where no piece of a file is read more often, and where there are as many chunks as before
    or two for each of `workers`. A rechunk between an expression and a sum of floats stays: fused, the sum would add
    other blocks.
    """
    if not any(map(is_rechunk, graph.operands)) or any(one.annotation is not None for one in graph.operands):
        return graph
    readers, asked, drawn = readers_of(graph), set(graph.results), drawings(graph)
    wanted: dict[int, Splits] = {}  # new chunks of tensors
    stands_for: dict[int, int] = {}  # removed rechunk: its input
    for k in range(len(graph.operands) - 1, -1, -1):
        if k in stands_for or not is_rechunk(graph.operands[k]):
            continue
        (first,), splits = graph.inputs[k], graph.metas[k].chunks
        chain = _chain(graph, readers, asked, first, splits, drawn if slices else None)
        if chain is None:
            continue
        if any(isinstance(graph.operands[one], FromBlocks) for one in chain) and not (
            files and math.prod(map(len, splits)) >= min(2 * workers, math.prod(graph.metas[first].grid))
        ):
            continue
        is_made = any(isinstance(graph.operands[one], ElementwiseOperand) for one in chain)
        if is_made and any(adds_blocks(graph.operands[one]) for one in readers[k]):
            continue
        for one in (k, *chain):
            if is_rechunk(graph.operands[one]):
                stands_for[one] = graph.inputs[one][0]
            else:
                wanted[one] = splits
    return _recut(graph, wanted, stands_for) if wanted else graph


def _chain(
    graph: TensorGraph,
    readers: Sequence[Sequence[int]],
    asked: set[int],
    first: int,
    chunks: Splits,
    drawn: list[bool] | None,
) -> list[int] | None:
    """Elementwise tensors, rechunks and files below `first`, down to slices unless `drawn` is None; None if the chunks
    `chunks` are not possible.
    """
    found: list[int] = []
    stack = [first]
    while stack:
        k = stack.pop()
        operand, meta = graph.operands[k], graph.metas[k]
        if found and drawn is not None and _sliced(graph, k) is not None:
            if not (drawn[k] or are_near(chunks, meta.chunks)):
                return None
            continue
        if k in asked or len(readers[k]) != 1 or meta.shape != graph.metas[first].shape:
            return None
        if isinstance(operand, FromBlocks):
            pieces, part = operand.pieces, whole(meta)
            if operand.takes == "chunks" or not pieces or 0 in meta.shape:
                return None
            if pieces_read(part, chunks, pieces) > pieces_read(part, meta.chunks, pieces):
                return None
        elif not (is_rechunk(operand) or type(operand) is ElementwiseOperand and graph.inputs[k]):
            return None
        found.append(k)
        stack += dict.fromkeys(graph.inputs[k])
    return found


def adds_blocks(operand: Operand) -> bool:
    """Whether an operand, fused with an expression, adds floats in other blocks than those of a stored chunk."""
    return isinstance(operand, Scan) or (isinstance(operand, Reduction) and not is_exact(operand.reducer))


def cut_slices(graph: TensorGraph) -> TensorGraph:
    """Cuts slices that are rechunked by a few elements from the sliced array; `graph` itself if there are none."""
    found: dict[int, int] = {}
    for k, operand in enumerate(graph.operands):
        sliced = _sliced(graph, k) if is_rechunk(operand) else None
        if sliced is None or operand.annotation != graph.operands[sliced].annotation:
            continue
        if are_near(graph.metas[k].chunks, graph.metas[sliced].chunks):
            found[k] = sliced
    if not found:
        return graph
    operands, inputs = list(graph.operands), list(graph.inputs)
    for k, sliced in found.items():
        inputs[k] = graph.inputs[sliced]
        shape, own = graph.metas[inputs[k][0]].shape, graph.operands[sliced]
        assert isinstance(own, Slice)
        begin = tuple(slice(*entry).indices(length)[0] for entry, length in zip(own.index, shape, strict=True))
        operands[k] = CutSlice(begin, graph.metas[k].chunks, line=own.line, annotation=own.annotation)
    return reached(TensorGraph(operands, inputs, graph.metas, graph.results))


def is_rechunk(operand: Operand) -> bool:
    """Whether an operand only moves cuts."""
    return type(operand) is Rechunk


def is_box(operand: Operand) -> bool:
    """Whether an operand is a slice that is a contiguous box of its input."""
    return isinstance(operand, Slice) and all(isinstance(e, tuple) and e[2] in (None, 1) for e in operand.index)


def readers_of(graph: TensorGraph) -> list[list[int]]:
    """Readers of each tensor."""
    readers: list[list[int]] = [[] for _ in graph.operands]
    for k, read in enumerate(graph.inputs):
        for i in dict.fromkeys(read):
            readers[i].append(k)
    return readers


def _sliced(graph: TensorGraph, k: int) -> int | None:
    """The slice that a tensor is, apart from its cuts; None if it is none, or of an array of unknown length."""
    while is_rechunk(graph.operands[k]):
        (k,) = graph.inputs[k]
    if not is_box(graph.operands[k]) or 0 in graph.metas[k].shape:
        return None
    return None if graph.metas[graph.inputs[k][0]].has_unknown_lengths else k


def drawings(graph: TensorGraph) -> list[bool]:
    """Whether each tensor is an array of uniform random numbers, or made of one by boxes and rechunks."""
    found: list[bool] = []
    for operand, read in zip(graph.operands, graph.inputs, strict=True):
        cuts = isinstance(operand, Rechunk) or is_box(operand)
        found.append(isinstance(operand, Doubles) or cuts and found[read[0]])
    return found


def _recut(graph: TensorGraph, wanted: dict[int, Splits], stands_for: dict[int, int]) -> TensorGraph:
    """Gives tensors the chunks of `wanted`, and rechunks the slices that they read."""
    made = TensorGraph()
    number: dict[int, int] = {}
    cut: dict[tuple[int, Splits], int] = {}  # a slice with other chunks
    asked = set(graph.results)
    for k, (operand, read, meta) in enumerate(zip(graph.operands, graph.inputs, graph.metas, strict=True)):
        if k in stands_for:
            number[k] = number[stands_for[k]]
            if k in asked:
                made.metas[number[k]] = meta
            continue
        own = [number[one] for one in read]
        if k in wanted:
            splits = wanted[k]
            for place, one in enumerate(read):
                if made.metas[own[place]].chunks != splits:
                    sliced = _sliced(graph, one)
                    assert sliced is not None
                    there, row = graph.metas[sliced], number[sliced]
                    if there.chunks != splits and (sliced, splits) not in cut:
                        there = structs.replace(there, key=f"{there.key}/{k}", chunks=splits)
                        cut[sliced, splits] = made.add(Rechunk(splits, line=graph.operands[one].line), (row,), there)
                    own[place] = cut.get((sliced, splits), row)
            meta = structs.replace(meta, chunks=splits)
            if isinstance(operand, ElementwiseOperand):
                operand = replace(operand, splits=splits)
        number[k] = made.add(operand, tuple(own), meta)
    made.results = [number[k] for k in graph.results]
    return reached(made)


def reached(graph: TensorGraph) -> TensorGraph:
    """Drops tensors that no result needs."""
    needed = set(graph.results)
    for k in range(len(graph.operands) - 1, -1, -1):
        if k in needed:
            needed.update(graph.inputs[k])
    kept = sorted(needed)
    number = {k: row for row, k in enumerate(kept)}
    return TensorGraph(
        [graph.operands[k] for k in kept],
        [tuple(number[one] for one in graph.inputs[k]) for k in kept],
        [graph.metas[k] for k in kept],
        [number[k] for k in graph.results],
    )
